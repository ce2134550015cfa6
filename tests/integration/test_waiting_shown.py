"""What terminals and reports say of a campaign that waits for a person, and of what people decided."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

from ridgeline.agent.campaign.evidence_pack import page
from ridgeline.agent.providers.base import Ask, Message
from ridgeline.agent.providers.mailbox import Mailbox
from ridgeline.graph.approval import Decision
from ridgeline.graph.reports.final_report import render_final_report
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.builders import make_history, make_round
from tests.document_builders import make_concluded
from tests.web_campaigns import ask, write_ledger

DECIDED = Decision(
    key="round-2-change-0123456789ab", choice="approve", by="Ada | Bela", at="2026-11-22T09:00:00+00:00", reason="fine"
)


@pytest.fixture
def campaign(tmp_path) -> Path:
    folder = write_ledger(tmp_path / "toy", make_history(make_round(2)))
    stand(folder, "waiting")
    return folder


def stand(folder: Path, status: str) -> None:
    told = {"status": status, "phase": "approve_change", "round": 3, "pid": os.getpid()}
    (folder / "status.json").write_text(json.dumps(told))


@pytest.mark.parametrize("status", ["waiting", "interrupted", "stopped"])
def test_status_and_watch_name_the_page_and_the_command(cli, campaign, status):
    stand(campaign, status)  # a kill while it asks leaves no other word than that it was interrupted
    request = ask(campaign)
    wanted = str(campaign / "approvals" / f"{request.key}.md")
    assert cli("status", campaign, "--json").json["request"] == wanted
    seen = cli("watch", campaign)
    assert seen.code == 0
    assert f"waits for a person: read {wanted}" in seen.err
    assert "ridgeline approve" in seen.err


def test_a_running_campaign_is_asked_for_nothing(cli, campaign):
    ask(campaign)
    stand(campaign, "running")
    assert cli("status", campaign, "--json").json["request"] is None


def test_who_stays_sees_it_wait_and_conclude(cli, campaign):
    ask(campaign)

    def conclude() -> None:
        time.sleep(0.5)
        JsonlLedger(campaign / "ledger.jsonl").append(make_concluded())

    later = threading.Thread(target=conclude)
    later.start()
    seen = cli("watch", campaign, "--stay", "--every", "0.1")
    later.join()
    assert seen.err.count("waits for a person") == 1, "said once, not at every look"
    assert "read the report" in seen.err


def test_no_text_of_a_change_reaches_the_terminal_as_a_command(cli, campaign):
    ask(campaign, "faster \x1b]0;owned\x07\x1b[2J")
    for command in (("queue", campaign), ("approve", campaign)):
        done = cli(*command)
        assert "\x1b" not in done.out + done.err


def test_the_queue_says_what_happens_when_nobody_decides(cli, campaign):
    request = ask(campaign)
    path = campaign / "approvals" / f"{request.key}.request.json"
    path.write_text(request.model_copy(update={"hours": 8.0, "late": "reject"}).model_dump_json())
    assert "(reject after 8 h)" in cli("queue", campaign).out


def test_the_queue_names_the_page_of_a_mailbox_that_waits(cli, campaign):
    assert cli("queue", campaign).out == "nothing waits for a person\n"
    question = Ask(purpose="hypothesis", messages=(Message(role="user", text="what is slow?"),))
    asked = Mailbox(campaign).path(Mailbox(campaign).post(question).number, "request.md")
    assert asked.is_file()
    assert f"read {asked}, then `ridgeline answer {campaign} FILE --resume`" in cli("queue", campaign).out
    (told,) = cli("queue", campaign, "--json").json["mailbox"]
    assert told == {"dir": str(campaign), "purpose": "hypothesis", "page": str(asked)}
    stand(campaign, "concluded")
    assert cli("queue", campaign).out == "nothing waits for a person\n"


def test_a_question_that_was_damaged_is_named(cli, campaign):
    request = ask(campaign)
    path = campaign / "approvals" / f"{request.key}.request.json"
    path.write_text("{}")
    done = cli("queue", campaign)
    assert done.code == 2
    assert done.complaint.startswith(f"{path}: cannot be read")


def test_reports_say_who_decided_what(tmp_path):
    closed = make_round(2).model_copy(update={"decisions": (DECIDED,)})
    folder = write_ledger(tmp_path / "toy", make_history(closed))
    text = render_final_report(make_history(closed))
    assert "| round-2-change | approve | Ada \\| Bela | 2026-11-22 09:00 | fine |" in text
    assert "What people decided" in page(folder)
    assert "## Decisions" not in render_final_report(make_history(make_round(2)))
    assert "What people decided" not in page(write_ledger(tmp_path / "other", make_history(make_round(2))))
