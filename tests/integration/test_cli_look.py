"""Looking at campaigns whose ledger was written here: status, report, stop, resume of a finished one, damage."""

import json
import os
import time
from pathlib import Path

import pytest

from ridgeline.agent.campaign.folders import name_process
from ridgeline.agent.campaign.progress import read_worked_s
from ridgeline.agent.campaign.state_files import Manifest, write_manifest
from ridgeline.graph.ports import Base
from ridgeline.graph.state import Request
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests import builders
from tests.document_builders import complete
from tests.web_campaigns import write_ledger


@pytest.fixture
def campaign(tmp_path, make_repository) -> Path:
    """A campaign with a baseline, one kept and one rolled back round; nothing is missing that `fsck` looks for."""
    root = make_repository({"kernel.c": "int x;\n"})
    folder = root / "agent" / "workspace" / "toy_c_cpu_20261121"
    folder.mkdir(parents=True)
    ledger = JsonlLedger(folder / "ledger.jsonl")
    for body in bodies():
        ledger.append(body)
    (folder / "status.json").write_text(
        json.dumps({"status": "running", "phase": "measure", "round": 4, "pid": 2**22 + 1})
    )
    write_start(folder)
    (folder / "recording.json").write_text("{}")  # its rounds name blobs that were never stored
    return folder


def write_start(folder: Path) -> None:
    """What `run` leaves before the first line of the ledger: `request.json`, and `base.json`."""
    opened = builders.make_history().opened
    request = Request(
        contract=opened.contract,
        contract_path=opened.contract_path,
        instruction="",
        overrides=(),
        limits=opened.limits,
        planner=opened.planner,
        created=opened.target.created,
        version=opened.version,
    )
    manifest = Manifest(repository=str(folder), contract_dir="", contract_file="ridgeline.yaml", request=request)
    write_manifest(folder, manifest)
    base = Base(
        commit=opened.base_commit,
        tree=opened.base_tree,
        branch=opened.branch,
        repository=opened.repository,
        contract_path=opened.contract_path,
    )
    (folder / "base.json").write_text(base.model_dump_json())


def bodies():
    history = builders.make_history(builders.make_round(2), builders.make_round(3))
    return [body for body in (history.opened, history.roofline, history.baseline, *history.rounds) if body is not None]


def test_status_by_name_by_path_and_by_nothing(cli, campaign, monkeypatch):
    monkeypatch.chdir(campaign.parents[2])
    said = [cli("status", *given, "--json") for given in ((), (campaign.name,), (campaign,), (".",))]
    assert {done.code for done in said} == {0}
    assert len({done.out for done in said}) == 1
    found = said[0].json
    assert found["status"] == "interrupted", "the process that wrote the status is gone"
    assert (found["phase"], found["round"]) == ("measure", 4)
    assert found["accepted"] + found["rolled_back"] == 2
    assert found["ledger_lines"] == len(bodies())
    assert found["chain_ok"] is True
    assert found["speedup"] > 1
    assert not {"baseline", "best"} & set(found), "two readings are an invitation to divide them"
    assert found["dir"] == str(campaign)
    so_far = {name: found[f"speedup{name}"] for name in ("", "_lower", "_level", "_final")}
    assert so_far == {"": pytest.approx(1.08**2), "_lower": None, "_level": None, "_final": False}
    assert found["speedup_basis"] == "product of kept rounds, not tested yet"
    assert found["stop_reason"] == ""


@pytest.mark.parametrize(("number", "verdict"), [(4, "Round 4: ACCEPTED - avg +8.0%"), (3, "")])
def test_the_status_tells_the_verdict_of_a_round_that_is_decided_and_not_closed(cli, campaign, number, verdict):
    waiting = {"status": "waiting", "phase": "accept", "round": number, "measured": "Round 4: ACCEPTED - avg +8.0%"}
    (campaign / "status.json").write_text(json.dumps(waiting))
    found = cli("status", campaign, "--json").json
    assert (found["open_verdict"], found["accepted"], found["rolled_back"]) == (verdict, 2, 0)


def test_the_status_of_a_concluded_campaign_tells_the_final_tests_speedup_and_why_it_ended(cli, tmp_path):
    folder = write_ledger(tmp_path / "toy", complete())
    found = cli("status", folder, "--json").json
    assert (found["speedup"], found["speedup_lower"], found["speedup_final"]) == (1.2, 1.17, True)
    assert found["speedup_basis"] == "final test"
    assert found["stop_reason"] == "T3 5 of 5 rounds"


@pytest.mark.parametrize(("at_work", "since"), [(False, "[11:40]"), (True, "[11:4")])
def test_the_time_of_a_campaign_that_waited_for_days_is_what_was_worked_on_it(cli, campaign, at_work, since):
    """Seen: `watch` told the minutes since the baseline, and so no time left; `resume` began to count anew."""
    now = time.time()
    if at_work:
        seen, status = (600.0, now - 101.0, now - 2.0), {"status": "running", "phase": "measure", "pid": os.getpid()}
    else:
        seen, status = (600.0, now - 90_100.0, now - 90_000.0), {"status": "waiting"}
    (campaign / "sessions.json").write_text(json.dumps(seen))
    (campaign / "status.json").write_text(json.dumps(status))
    history = builders.make_history(builders.make_round(2), builders.make_round(3))
    write_ledger(campaign, history)
    assert read_worked_s(campaign) > 1000, "campaigns of old count the calendar"
    write_ledger(
        campaign, history.model_copy(update={"opened": history.opened.model_copy(update={"counts_work": True})})
    )
    assert 700 <= read_worked_s(campaign) < 720
    if not at_work:
        assert f"{since} campaign " in cli("watch", campaign).err


def test_a_number_that_another_process_has_since_is_no_campaign_at_work(cli, campaign):
    """Seen: after the machine's restart another process had the number, and `watch` followed it for ever."""
    own = {"status": "running", "phase": "measure", "round": 4, "pid": os.getpid()}
    for process, status in ((name_process(os.getpid()), "running"), ("another boot 4711", "interrupted")):
        (campaign / "status.json").write_text(json.dumps({**own, "process": process}))
        assert cli("status", campaign, "--json").json["status"] == status
    assert name_process(2**22 + 1) == ""


def test_a_tampered_line_is_named(cli, campaign):
    path = campaign / "ledger.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[1] = lines[1].replace('"round":1', '"round":9') if '"round":1' in lines[1] else lines[1].replace("1", "2", 1)
    path.write_text("".join(lines))
    done = cli("status", campaign, "--json")
    assert done.code == 2
    assert "ledger.jsonl: line 2: " in done.complaint
    assert done.json["chain_ok"] is False
    for command in ("report", "resume", "watch"):
        again = cli(command, campaign)
        assert again.code == 2
        assert "line 2: " in again.complaint


def test_another_schema_version_is_refused(cli, campaign):
    path = campaign / "ledger.jsonl"
    path.write_text(path.read_text().replace('"schema_version":1', '"schema_version":99'))
    for command in ("status", "report", "resume"):
        done = cli(command, campaign)
        assert done.code == 2
        assert "schema_version is 99, this Ridgeline reads 1" in done.complaint


def test_a_torn_last_line_breaks_no_chain_and_is_told(cli, campaign):
    with (campaign / "ledger.jsonl").open("a") as file:
        file.write('{"half": ')
    done = cli("status", campaign, "--json")
    assert done.code == 2
    assert done.json["chain_ok"] is True
    assert "its last line is torn; `ridgeline fsck" in done.json["problem"]


def test_a_stop_is_written_and_said(cli, campaign):
    done = cli("stop", campaign, "--json")
    assert done.code == 0
    assert done.json["stop_requested"] is True
    assert (campaign / "stop.request").is_file()
    assert cli("stop", campaign).code == 0


def test_the_report_in_the_middle_and_as_a_page(cli, campaign):
    text = cli("report", campaign)
    assert text.code == 0
    assert text.out.strip()
    page = cli("report", campaign, "--html", campaign / "report.html")
    assert page.code == 0
    html = Path(page.out.strip()).read_text()
    assert html.startswith("<!doctype html>")
    assert "Not final" in html
    assert "src=" not in html


def test_watching_one_that_does_not_run_ends_at_once(cli, campaign):
    done = cli("watch", campaign)
    assert done.code == 0
    assert "go on with `ridgeline resume" in done.err


def test_a_campaign_that_has_only_begun(cli, tmp_path):
    write_start(tmp_path)
    (tmp_path / "status.json").write_text("{}")
    done = cli("status", tmp_path, "--json")
    assert done.code == 0
    assert (done.json["ledger_lines"], done.json["speedup"]) == (0, None)
    assert "no closed event yet" in cli("report", tmp_path).complaint


def test_a_shipped_recording_is_whole(cli):
    recording = Path(__file__).parents[2] / "evals" / "campaigns" / "matmul_c_mailbox"
    assert cli("status", recording).code == 0
    assert cli("report", recording).code == 0
