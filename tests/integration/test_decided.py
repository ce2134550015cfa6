"""Two people answer one question; a decision that nobody has gone on with is told everywhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeline.agent.campaign import notify
from ridgeline.agent.campaign.approvals import LATE, ApprovalFiles
from tests.builders import make_history, make_round
from tests.web_campaigns import ask, write_ledger

RACES = 12
RACER = """
import sys, time
from pathlib import Path
from ridgeline.agent.campaign.decisions import Answer, find_question, store_decision
from ridgeline.agent.errors import UserError
from ridgeline.agent.campaign.approvals import DecidedAlready

campaigns, by = [Path(name) for name in sys.argv[2:]], sys.argv[1]
for campaign in campaigns:
    one = find_question(campaign, None)
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        store_decision(campaign, one, Answer(yes=True, reason=f"words of {by}", by=by))
        print("stored", flush=True)
    except DecidedAlready as error:
        print(f"refused {error}", flush=True)
"""


@pytest.fixture
def campaign(tmp_path) -> Path:
    folder = write_ledger(tmp_path / "toy", make_history(make_round(2)))
    (folder / "status.json").write_text(json.dumps({"status": "waiting", "phase": "approve_change", "round": 3}))
    return folder


@pytest.mark.slow
def test_of_two_processes_that_answer_at_once_one_decides_and_the_other_is_told(tmp_path):
    folders = [write_ledger(tmp_path / f"c{number}", make_history(make_round(2))) for number in range(RACES)]
    for folder in folders:
        ask(folder)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    argv = [sys.executable, "-c", RACER]
    racers = {by: subprocess.Popen([*argv, by, *map(str, folders)], **pipes) for by in ("Ada", "Bela")}
    for folder in folders:
        for racer in racers.values():
            assert racer.stdout.readline() == "ready\n"
        for racer in racers.values():
            racer.stdin.write("go\n")
            racer.stdin.flush()
        said = {by: racer.stdout.readline() for by, racer in racers.items()}
        (winner,) = (by for by, line in said.items() if line == "stored\n")
        (loser,) = (by for by in said if by != winner)
        done = ApprovalFiles(folder).find_unused_decision()
        assert done is not None
        assert done.decision.by == winner
        assert f"was decided already: approve by {winner} at {done.decision.at}: words of {winner}" in said[loser]
        assert [(late.by, late.reason) for late in done.late] == [(loser, f"words of {loser}")]
    for racer in racers.values():
        racer.communicate()
        assert racer.returncode == 0


def test_whoever_comes_late_is_told_who_decided_and_keeps_his_words(cli, campaign):
    request = ask(campaign)
    assert cli("approve", campaign, "--yes", "--by", "Ada").code == 0
    late = cli("approve", campaign, "--reject", "it spills", "--by", "Bela")
    assert late.code == 2
    assert f"{request.key}: was decided already: approve by Ada at 20" in late.err
    assert "your answer (reject by Bela at 20" in late.err
    kept = (campaign / "approvals" / f"{request.key}{LATE}").read_text()
    assert json.loads(kept)["reason"] == "it spills"
    shown = cli("approve", campaign)
    assert shown.code == 2
    assert "was decided already: approve by Ada" in shown.err, "and is not first shown the evidence"


def test_status_queue_and_watch_tell_of_a_decision_that_nobody_resumed(cli, campaign):
    request = ask(campaign)
    assert cli("status", campaign, "--json").json["status"] == "waiting"
    cli("approve", campaign, "--yes", "--by", "Ada", "--reason", "fine")
    status = cli("status", campaign, "--json").json
    assert (status["status"], status["request"]) == ("decided", None)
    assert status["decision"].startswith("change: approve by Ada at 20")
    queue = cli("queue", campaign)
    assert "decided, not resumed: change of round 3: approve by Ada at 20" in queue.out
    assert f"go on with `ridgeline resume {campaign}`" in queue.out
    (one,) = cli("queue", campaign, "--json").json["decided"]
    assert (one["request"]["key"], one["decision"]["by"]) == (request.key, "Ada")
    assert "decided, not resumed: change: approve by Ada" in cli("watch", campaign).err
    ApprovalFiles(campaign).decision(request)  # a resumed campaign takes it
    assert cli("status", campaign, "--json").json["status"] == "waiting"
    assert "not resumed" not in cli("queue", campaign).out


def test_a_decision_is_notified(cli, campaign, tmp_path):
    script = tmp_path / "hook"
    script.write_text("#!/bin/sh\ncat >> told\n")
    script.chmod(0o755)
    notify.store_command(campaign, (str(script),))
    notify.allow((str(script),))
    ask(campaign)
    cli("approve", campaign, "--reject", "it spills", "--by", "Ada")
    (line,) = (campaign / "told").read_text().splitlines()
    event = json.loads(line)
    assert (event["event"], event["round"], event["next"]) == ("decided", 3, f"ridgeline resume {campaign}")
    assert event["said"].startswith("change of round 3: reject by Ada at 20")
    assert event["said"].endswith(": it spills")


def test_the_pages_tell_of_a_decision_that_nobody_resumed(cli, campaign):
    pytest.importorskip("fastapi")
    from ridgeline.agent.web.catalogue import Catalogue
    from ridgeline.agent.web.gatekeeper import Access
    from ridgeline.agent.web.server import application
    from tests.web_calls import TOKEN, call

    ask(campaign)
    cli("approve", campaign, "--yes", "--by", "Ada <b>")
    web = application((campaign,), Access(token=TOKEN))
    (name,) = Catalogue((campaign,)).find_campaigns()
    for page in ("/", "/queue", f"/c/{name}"):
        text = call(web, page).text
        assert "ot resumed: change" in text
        assert "approve by Ada &lt;b&gt;" in text
    assert "was decided already: approve by Ada" in call(web, f"/queue/{name}/round-3-change-0123456789ab").text
