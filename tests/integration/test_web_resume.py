"""A decision on a page sets its campaign going: real processes, never two for one, and nothing of it by default."""

import os
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

pytest.importorskip("fastapi")

from ridgeline.agent.campaign.approvals import ApprovalFiles, is_overdue
from ridgeline.agent.campaign.folders import history
from ridgeline.agent.web import resume
from ridgeline.agent.web.catalogue import Catalogue
from ridgeline.agent.web.gatekeeper import Access
from ridgeline.agent.web.live import beat
from ridgeline.agent.web.resume import Resumer, read_log_tail
from ridgeline.agent.web.server import application
from ridgeline.graph.approval import ApprovalRequest, Decision
from ridgeline.sandbox.devices.lease import lease
from tests.builders import make_history, make_round
from tests.text_project import files
from tests.web_calls import TOKEN, Answer, call, seen
from tests.web_campaigns import ask, write_ledger

KEY = "round-3-change-0123456789ab"
SECRET = "a-secret-token-of-the-server"


@pytest.fixture
def campaign(tmp_path) -> Path:
    return write_ledger(tmp_path / "toy", make_history(make_round(2)))


@pytest.fixture
def resumes(tmp_path):
    """`resumes("exit 3")` -> what starts that script in place of `ridgeline resume`."""

    def make(script: str, patience_s: float = 5.0) -> Resumer:
        path = tmp_path / "resume"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return Resumer((str(path),), patience_s=patience_s)

    return make


def post(web, campaign: Path, *, key: str = KEY, **form: str) -> Answer:
    (name,) = Catalogue((campaign,)).find_campaigns()
    headers = (
        ("host", "127.0.0.1:8765"),
        ("origin", "http://127.0.0.1:8765"),
        ("content-type", "application/x-www-form-urlencoded"),
    )
    return call(web, f"/queue/{name}/{key}", method="POST", headers=headers, body=[urlencode(form).encode()])


def until(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def decided(campaign: Path) -> Path:
    """A question that a person has answered somewhere else."""
    ask(campaign)
    decision = Decision(key=KEY, choice="approve", by="Ada", at="2026-11-22T10:00:00+00:00")
    ApprovalFiles(campaign).decide(decision)
    return campaign


def text(answer: Answer) -> str:
    return " ".join("".join(seen(answer.text).words).split())


def test_a_decision_starts_it_and_the_pages_say_so(campaign, resumes, monkeypatch):
    monkeypatch.setenv("RIDGELINE_TOKEN", SECRET)
    ask(campaign)
    before = beat(campaign).stamp
    web = application((campaign,), Access(token=TOKEN), going=resumes('echo "resumed $1"; env; exit 3'))
    done = post(web, campaign, action="approve", by="Ada \x1b[31m", reason="fine")
    assert done.status == 303
    until(lambda: "waits for the next answer" in read_log_tail(campaign))
    log = (campaign / resume.LOG).read_text()
    assert f"goes on: approve by Ada [31m ({KEY})" in log
    assert f"resumed {campaign}" in log
    assert SECRET not in log
    assert beat(campaign).stamp != before, "who follows the page is told"
    (name,) = Catalogue((campaign,)).find_campaigns()
    assert f"resumed {campaign}" in text(call(web, f"/c/{name}"))
    assert "toy goes on now" in text(call(web, done.headers["location"]))


@pytest.mark.parametrize("form", [{"action": "defer", "reason": "later"}, {"action": "reject"}, {"action": "steal"}])
def test_what_is_no_decision_starts_nothing(campaign, resumes, form):
    ask(campaign)
    going = resumes("echo started")
    post(application((campaign,), Access(token=TOKEN), going=going), campaign, by="Ada", **form)
    time.sleep(0.2)
    assert read_log_tail(campaign) == ""
    assert going._next_reasons == {}


def test_a_decision_made_elsewhere_starts_it_once(campaign, resumes):
    decided(campaign)
    going = resumes("echo started")
    for _ in range(3):
        going.look(Catalogue((campaign,)))
        until(lambda: going._next_reasons == {})
    assert read_log_tail(campaign).count("started") == 1
    assert f"goes on: approve by Ada at 2026-11-22T10:00:00+00:00 ({KEY})" in read_log_tail(campaign)


def test_what_somebody_else_has_gone_on_with_is_not_started_again(campaign, resumes):
    decided(campaign)
    going = resumes("echo started")
    with lease("running", wait_s=0, folder=campaign):
        going.look(Catalogue((campaign,)))
        (one,) = (path for path in (campaign / "approvals").glob("*.request.json"))
        ApprovalFiles(campaign).decision(ApprovalRequest.model_validate_json(one.read_bytes()))  # the other resumed it
    until(lambda: going._next_reasons == {})
    assert "started" not in read_log_tail(campaign)
    assert "somebody has gone on with it already" in read_log_tail(campaign)


def test_by_default_nothing_is_started_and_the_page_says_how(campaign):
    ask(campaign)
    web = application((campaign,), Access(token=TOKEN))
    done = post(web, campaign, action="approve", by="Ada")
    assert "ridgeline serve --resume" in text(call(web, done.headers["location"]))
    assert not (campaign / resume.LOG).exists()


def test_never_two_for_one_campaign_and_none_is_forgotten(campaign, resumes):
    decided(campaign)
    going = resumes("mkdir running || echo TWO; echo begun >> runs; sleep 0.5; rmdir running")
    for number in range(8):
        going.go_on(campaign, f"decision {number}")
    until(lambda: going._next_reasons == {})
    assert "TWO" not in read_log_tail(campaign)
    assert (campaign / "runs").read_text().count("begun") == 2, "once at once, and once for all that came meanwhile"
    going.go_on(campaign, "later")
    until(lambda: going._next_reasons == {})
    assert (campaign / "runs").read_text().count("begun") == 3


def test_it_waits_for_the_process_that_asked(campaign, resumes):
    decided(campaign)
    going = resumes("echo started")
    with lease("running", wait_s=0, folder=campaign):
        going.go_on(campaign, "approve")
        time.sleep(0.3)
        assert "started" not in read_log_tail(campaign)
    until(lambda: "started" in read_log_tail(campaign))


def test_a_campaign_that_somebody_else_keeps_is_left_to_them(campaign, resumes):
    going = resumes("echo started", patience_s=0.1)
    with lease("running", wait_s=0, folder=campaign):
        going.go_on(campaign, "approve")
        until(lambda: going._next_reasons == {})
    assert "another process works on this campaign" in read_log_tail(campaign)
    assert "started" not in read_log_tail(campaign)


def test_what_cannot_be_started_is_said(campaign, tmp_path, caplog):
    going = Resumer((str(tmp_path / "nowhere"),))
    going.go_on(decided(campaign), "approve")
    until(lambda: going._next_reasons == {})
    assert "cannot go on: program" in read_log_tail(campaign)
    assert "cannot go on" in caplog.text


def test_a_process_of_its_own_that_outlives_the_server(campaign, resumes):
    resumes("echo $$ > pid; sleep 5").go_on(decided(campaign), "approve")
    until(lambda: (campaign / "pid").is_file() and (campaign / "pid").read_text().strip() != "")
    pid = int((campaign / "pid").read_text())
    assert os.getsid(pid) == pid != os.getsid(0)
    os.kill(pid, 15)
    until(lambda: "left with exit code -15" in read_log_tail(campaign))


def test_only_the_end_of_a_long_log_is_shown(campaign):
    (campaign / resume.LOG).write_text("".join(f"line {number} \x1b[2J<b>\n" for number in range(10_000)))
    end = read_log_tail(campaign)
    assert len(end) <= resume.SHOWN
    assert end.startswith("line ")
    assert end.endswith("line 9999 [2J<b>")


@pytest.mark.parametrize(
    ("hours", "late", "waited_h", "expected"),
    [(0, "accept", 99, False), (8, "hold", 99, False), (8, "accept", 7.9, False), (8, "reject", 8, True)],
)
def test_when_nobody_decides_in_time_the_server_lets_the_policy(campaign, resumes, hours, late, waited_h, expected):
    asked = datetime.now(UTC) - timedelta(hours=waited_h, seconds=1)
    request = ask(campaign).model_copy(update={"hours": hours, "late": late, "asked_at": asked.isoformat()})
    ApprovalFiles(campaign).decision(request.model_copy(update={"asked_at": datetime.now(UTC).isoformat()}))
    path = campaign / "approvals" / f"{KEY}.request.json"
    path.write_text(request.model_dump_json())
    assert is_overdue(request, datetime.now(UTC)) == expected
    going = resumes("echo started")
    for _ in range(3):
        going.look(Catalogue((campaign,)))
    until(lambda: going._next_reasons == {})
    assert read_log_tail(campaign).count("started") == int(expected)


@pytest.mark.slow
def test_a_real_campaign_approved_on_the_page_runs_to_its_end(cli, make_repository):
    project = make_repository(files())
    assert cli("run", project, "--approve", "target", "--max-rounds", "1", "--set", "calibration_pairs=2").code == 3
    (kept,) = (project / "agent" / "workspace").glob("*/request.json")
    ((_, one),) = Catalogue((kept.parent,)).questions()
    web = application((kept.parent,), Access(token=TOKEN), going=Resumer())
    done = post(web, kept.parent, key=one.request.key, action="approve", by="Ada")
    assert done.status == 303
    until(lambda: "UTC ended" in read_log_tail(kept.parent), seconds=120)
    known = history(kept.parent)
    assert known.concluded is not None
    assert [(told.choice, told.by) for told in known.opened.decisions] == [("approve", "Ada")]
    assert cli("status", kept.parent, "--json").json["status"] == "concluded"
