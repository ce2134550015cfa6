"""The pages over real ledgers: what they show, how an answer becomes a decision, and how a campaign is followed."""

import asyncio
import json
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest

pytest.importorskip("fastapi")

from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.agent.campaign.folders import history
from ridgeline.agent.providers.base import Ask, Message
from ridgeline.agent.providers.mailbox import Mailbox
from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.agent.web.gatekeeper import Access
from ridgeline.agent.web.live import STREAMS, Streams, beat
from ridgeline.agent.web.server import ServeOptions, access_of, application, is_loopback
from ridgeline.graph.approval import Decision
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.builders import make_history, make_round
from tests.document_builders import complete, make_concluded
from tests.web_calls import TOKEN, Answer, call, seen
from tests.web_campaigns import ask, write_ledger

KEY = "round-3-change-0123456789ab"


@pytest.fixture
def campaign(tmp_path) -> Path:
    return write_ledger(tmp_path / "kernels" / "agent" / "workspace" / "toy", make_history(make_round(2)))


@pytest.fixture
def web(campaign):
    return application((campaign,), Access(token=TOKEN))


def id_of(campaign: Path) -> str:
    (found,) = Catalogue((campaign,)).find_campaigns()
    return found


def post(web, target: str, **form: str) -> Answer:
    headers = (
        ("host", "127.0.0.1:8765"),
        ("origin", "http://127.0.0.1:8765"),
        ("content-type", "application/x-www-form-urlencoded"),
    )
    return call(web, target, method="POST", headers=headers, body=[urlencode(form).encode()])


def text(answer: Answer) -> str:
    return "".join(seen(answer.text).words)


def decided(campaign: Path) -> Decision:
    (path,) = (campaign / "approvals").glob("*.decision.json")
    return Decision.model_validate_json(path.read_bytes())


def test_the_list_shows_every_campaign_as_soon_as_it_is_read(tmp_path):
    folders = tuple(write_ledger(tmp_path / name, complete()) for name in ("one", "two"))
    catalogue = Catalogue(folders)
    assert [row.record for row in catalogue.rows()] == [None, None]
    for name in catalogue.find_campaigns():
        catalogue.row(name)
    assert [
        (row.status, len(row.record.result.kept), row.record.claim.speedup) for row in catalogue.rows() if row.record
    ] == [("concluded", 2, 1.2)] * 2
    assert "being read" in text(call(application(folders, Access(token=TOKEN)), "/"))


def test_a_campaign_shows_its_rounds_plots_and_costs(tmp_path):
    folder = write_ledger(tmp_path / "toy", complete())
    web = application((folder,), Access(token=TOKEN))
    page = call(web, f"/c/{id_of(folder)}")
    for expected in ("change number 3", "at least 1.170x", "refuted" if "refuted" in page.text else "unclear"):
        assert expected in text(page)
    assert page.text.count("<svg") >= 1
    assert f"/c/{id_of(folder)}/r/4" in seen(page.text).links
    failed = text(call(web, f"/c/{id_of(folder)}/r/4"))
    assert "build_failed" in failed
    assert "expected `;`" in failed
    assert "Reproduce" in text(call(web, f"/c/{id_of(folder)}/report"))


def test_what_is_appended_is_seen(web, campaign):
    name = id_of(campaign)
    assert "from round 3 on, is not counted" in text(call(web, f"/c/{name}"))
    before = beat(campaign).stamp
    JsonlLedger(campaign / "ledger.jsonl").append(make_round(3, "rolled_back"))
    assert beat(campaign).stamp != before
    assert "from round 4 on, is not counted" in text(call(web, f"/c/{name}"))
    JsonlLedger(campaign / "ledger.jsonl").append(make_concluded())
    assert "concluded" in text(call(web, f"/c/{name}"))


def test_a_damaged_ledger_is_said_and_hurts_no_other(tmp_path):
    good, bad = (write_ledger(tmp_path / name, complete()) for name in ("good", "bad"))
    (bad / "ledger.jsonl").write_bytes(
        (bad / "ledger.jsonl").read_bytes().replace(b"change number 3", b"change number 4")
    )
    catalogue = Catalogue((good, bad))
    rows = {catalogue.row(name).name: catalogue.row(name) for name in catalogue.find_campaigns()}
    assert "was changed after it was written" in rows["bad"].problem
    web = application((good, bad), Access(token=TOKEN))
    pages = {name: text(call(web, f"/c/{name}")) for name in catalogue.find_campaigns()}
    assert sum("was changed after it was written" in page for page in pages.values()) == 1
    assert sum("at least 1.170x" in page for page in pages.values()) == 1


def test_a_campaign_that_has_only_begun(tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "status.json").write_text("{}")
    web = application((tmp_path / "new",), Access(token=TOKEN))
    found = call(web, f"/c/{id_of(tmp_path / 'new')}")
    assert found.status == 200
    assert "nothing has closed yet" in text(found)


def test_a_campaign_that_asks_its_mailbox_says_which_page_and_how_it_is_answered(web, campaign):
    posted = Mailbox(campaign).post(
        Ask(purpose="round-2 propose 1", messages=(Message(role="user", text="Which way?"),))
    )
    (campaign / "status.json").write_text(json.dumps({"status": "waiting", "updated": time.time()}))
    page = str(Mailbox(campaign).path(posted.number, "request.md"))
    for target in (f"/c/{id_of(campaign)}", "/morning"):
        shown = text(call(web, target))
        assert page in shown, target
        assert "ridgeline answer matmul_fp32_c_x86_64_20261121 FILE --resume" in shown, target


def test_the_question_is_shown_with_its_evidence(web, campaign):
    ask(campaign)
    listed = call(web, "/queue")
    assert f"/queue/{id_of(campaign)}/{KEY}" in seen(listed.text).links
    page = text(call(web, f"/queue/{id_of(campaign)}/{KEY}"))
    for expected in ("faster by 12 %", "Shape", "-int y;", "int x;"):
        assert expected in page


def test_approve(web, campaign):
    ask(campaign)
    done = post(web, f"/queue/{id_of(campaign)}/{KEY}", action="approve", by="Ada", reason="fine")
    assert (done.status, done.headers["location"]) == (303, f"/queue?done=approve&of={id_of(campaign)}")
    assert "ridgeline resume" in text(call(web, "/queue?done=approve"))
    found = decided(campaign)
    assert (found.choice, found.by, found.reason) == ("approve", "Ada", "fine")
    late = post(web, f"/queue/{id_of(campaign)}/{KEY}", action="reject", by="Eve", reason="late")
    assert late.status == 400
    assert decided(campaign).choice == "approve"


def test_reject_with_words_that_would_disturb_a_terminal(web, campaign):
    ask(campaign)
    post(web, f"/queue/{id_of(campaign)}/{KEY}", action="reject", by="Ada", reason="tried\r\nin \x1b[31mJune")
    assert decided(campaign).reason == "tried in [31mJune"


@pytest.mark.parametrize("source", ["int x;\n", "\nint x;\n", "int x;\r\nint y;\r\n", "\tint \u00e9;\n\n"])
def test_an_edit_keeps_what_was_not_edited(web, campaign, source, monkeypatch):
    monkeypatch.setattr("ridgeline.agent.campaign.decisions.try_edit", lambda *about: None)  # nothing here can be built
    ask(campaign, source=source)
    page = call(web, f"/queue/{id_of(campaign)}/{KEY}")
    assert '<textarea class="code"' in page.text
    sent = source.replace("\r\n", "\n").replace("\n", "\r\n") + "int added;\r\n"
    done = post(web, f"/queue/{id_of(campaign)}/{KEY}", **{"action": "edit", "by": "Ada", "file-0": sent})
    assert done.status == 303
    (edit,) = decided(campaign).edits
    end = "\r\n" if "\r\n" in source else "\n"
    assert (edit.path, edit.text) == ("kernel.c", f"{source}int added;{end}")


def test_defer(web, campaign):
    ask(campaign)
    assert post(web, f"/queue/{id_of(campaign)}/{KEY}", action="defer", by="Ada", reason="after lunch").status == 303
    assert "after lunch" in text(call(web, "/queue"))
    assert len(ApprovalFiles(campaign).waiting()) == 1


def test_a_change_of_other_files_is_not_edited_here(web, campaign):
    request = ask(campaign)
    path = campaign / "approvals" / f"{request.key}.request.json"
    told = json.loads(path.read_text())
    told["snapshot"] = []
    path.write_text(json.dumps(told))
    page = call(web, f"/queue/{id_of(campaign)}/{KEY}")
    assert 'class="code"' not in page.text
    assert "ridgeline approve --edit" in text(page)


def test_following_tells_what_changed_and_nothing_else(campaign, monkeypatch):
    monkeypatch.setattr("ridgeline.agent.web.live.EVERY_S", 0.01)

    async def followed() -> list[dict]:
        stream = Streams().follow(lambda: beat(campaign))
        first = await anext(stream)
        (campaign / "status.json").write_text(json.dumps({"status": "stopped", "phase": "measure", "round": 3}))
        second = await anext(stream)
        await stream.aclose()
        return [json.loads(event.partition("data: ")[2]) for event in (first, second)]

    first, second = asyncio.run(followed())
    assert first["phase"] == ""
    assert (second["status"], second["phase"], second["round"]) == ("stopped", "measure", 3)


def test_streams_end_when_the_server_does(campaign, monkeypatch):
    monkeypatch.setattr("ridgeline.agent.web.live.EVERY_S", 0.01)

    async def ended() -> list[str]:
        streams = Streams()
        stream = streams.follow(lambda: beat(campaign))
        first = await anext(stream)
        streams.end()
        return [first, *[event async for event in stream]]

    assert len(asyncio.run(ended())) == 1


def test_streams_are_counted(campaign):
    async def opened() -> bool:
        streams = Streams()
        every = [streams.follow(lambda: beat(campaign)) for _ in range(STREAMS)]
        for stream in every:
            await anext(stream)
        full = streams.full
        for stream in every:
            await stream.aclose()
        return full and not streams.full

    assert asyncio.run(opened())


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.0.0.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("box", False)],
)
def test_every_server_asks_for_this_users_own_token(host, loopback, tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path / "cache"))
    asked = ServeOptions(folders=(), host=host, port=0, token=None)
    assert is_loopback(host) == loopback
    access, file = access_of(asked)
    assert len(access.token) >= 32
    assert file.read_text() == access.token
    assert file.stat().st_mode & 0o777 == 0o600
    assert access_of(asked)[0].token == access.token, "a browser stays known when the server starts again"


def test_a_token_that_others_could_know_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path / "cache"))
    asked = ServeOptions(folders=(), host="localhost", port=0, token=None)
    access, file = access_of(asked)
    file.chmod(0o644)
    renewed, _ = access_of(asked)
    assert renewed.token != access.token
    assert file.stat().st_mode & 0o777 == 0o600
    (tmp_path / "theirs").write_text(access.token)
    file.unlink()
    file.symlink_to(tmp_path / "theirs")
    assert access_of(asked)[0].token not in (access.token, renewed.token)
    assert not file.is_symlink()


@pytest.mark.parametrize(("damage", "said"), [("approvals/x.request.json", True), ("status.json", False)])
def test_a_damaged_file_hurts_no_page(web, campaign, damage, said):
    ask(campaign)
    (campaign / damage).write_bytes(b"\xff{")
    page = call(web, f"/c/{id_of(campaign)}")
    assert (page.status, "cannot be read" in text(page)) == (200, said)
    assert call(web, "/").status == call(web, "/queue").status == 200


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nowhere",), "no such folder"),
        (("--token", "short"), "shorter than 16"),
        (("--port", "70000"), "--port"),
    ],
)
def test_what_cannot_be_served(cli, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    found = cli("serve", *arguments)
    assert found.code == 2
    assert complaint in found.complaint


def test_the_ids_are_the_same_after_a_restart(campaign):
    assert id_of(campaign) == id_of(campaign)
    assert history(campaign).rounds
