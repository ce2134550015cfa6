"""kill -9 while a person is asked, everything moved, decided there, gone on: verdicts and decisions of a calm run."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ridgeline.agent.campaign import wiring
from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.agent.campaign.folders import history
from ridgeline.graph.standing import History
from ridgeline.sandbox.store.ledger import verify
from tests.drive import SCRIPTS, TextPlanner
from tests.repositories import git, make_repository
from tests.text_project import files

pytestmark = [pytest.mark.slow, pytest.mark.feature("F121")]
ROOT = Path(__file__).parents[2]
LIMITS = ("max_restarts=0", "looks=1,2,3,4,5,6", "calibration_pairs=2", "blocks=2", "final_pairs=3")
RUN = ("--planner", "scripted", "--approve", "hypothesis,change", "--max-rounds", "2")
DECISIONS = {
    (2, "hypothesis"): ("--yes", "--by", "Ada"),
    (2, "change"): ("--yes", "--by", "Bela", "--reason", "as predicted"),
    (3, "hypothesis"): ("--yes", "--by", "Ada"),
    (3, "change"): ("--reject", "reads worse than it runs", "--by", "Cleo"),
}
"""Answers to the four questions, by round and gate. Round 3 is repaired once before it is asked about."""


def begin(folder: Path) -> tuple[object, ...]:
    """The command that begins the campaign, in a new repository."""
    repository = make_repository(folder / "kernels", files())
    (repository / "harness.py").chmod(0o755)
    git(repository, "commit", "-qam", "runs")
    return ("run", repository, *RUN, *(word for limit in LIMITS for word in ("--set", limit)))


def campaign_of(folder: Path) -> Path:
    (found,) = (folder / "kernels" / "agent" / "workspace").glob("*/request.json")
    return found.parent


def decide(cli, campaign: Path) -> tuple[int, str]:
    """Answer the one open question as the script says; which it was."""
    (waits,) = cli("queue", campaign, "--json").json["waiting"]
    asked = (waits["request"]["round"], waits["request"]["gate"])
    assert waits["dir"] == str(campaign)
    assert Path(waits["page"]).is_relative_to(campaign), "the page is the copy's own"
    told = cli("approve", campaign, *DECISIONS[asked], "--json")
    assert told.code == 0, told.err
    return asked


def said(known: History) -> list[tuple[object, ...]]:
    """What must not depend on kills and moves: verdicts, and who decided what."""
    return [
        (
            closed.round,
            closed.accepted,
            closed.judged.verdict.reason,
            [(one.choice, one.reason, one.by) for one in closed.decisions],
        )
        for closed in known.rounds
    ]


def killed_when_it_asks(words: tuple[object, ...], folder: Path, known: int) -> int:
    """Run the command until the next question lies in a folder of campaigns, then kill -9; its exit status."""
    argv = (sys.executable, "-m", "tests.drive_cli", *map(str, words))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, cwd=ROOT, **quiet) as process:
        while (
            process.poll() is None
            and len([*folder.glob("kernels/agent/workspace/*/approvals/*.request.json")]) <= known
        ):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        return process.wait(60)


def moved(folder: Path, target: Path) -> Path:
    """The repository with its campaign at another place, and nowhere else."""
    shutil.copytree(folder, target, symlinks=True)
    shutil.rmtree(folder)
    return campaign_of(target)


@pytest.fixture
def calm(cli, tmp_path, monkeypatch) -> History:
    """The same answers in a campaign that is left in peace."""
    monkeypatch.setitem(wiring.PLANNERS, "scripted", lambda contract: TextPlanner(*SCRIPTS))
    asked = cli(*begin(tmp_path / "calm"))
    campaign = campaign_of(tmp_path / "calm")
    for _ in DECISIONS:
        assert asked.code == 3, asked.err
        (one,) = ApprovalFiles(campaign).waiting()
        asked = cli("approve", campaign, *DECISIONS[(one.request.round, one.request.gate)], "--resume", "--json")
    assert asked.code == 0, asked.err
    assert asked.json["status"] == "concluded"
    return history(campaign)


def test_killed_while_it_waits_moved_approved_there_and_resumed(calm, cli, tmp_path):
    folder, exits, decided = tmp_path / "place-0", [], []
    words = begin(folder)
    for number in range(len(DECISIONS)):
        exits.append(killed_when_it_asks(words, folder, number))
        campaign = moved(folder, folder := tmp_path / f"place-{number + 1}")
        decided.append(decide(cli, campaign))
        words = ("resume", campaign)
    done = cli("resume", campaign, "--json")
    assert done.code == 0, done.err
    assert -signal.SIGKILL in exits, "none was killed before it had left by itself"
    assert decided == list(DECISIONS)
    found = history(campaign)
    assert said(found) == said(calm)
    assert [closed.judged.verdict.reason for closed in found.rounds] == ["faster", "rejected"]
    assert all(one.at for closed in found.rounds for one in closed.decisions)
    assert found.concluded is not None
    assert verify(campaign / "ledger.jsonl").ok
    branch = git(folder / "kernels", "log", "--format=%s", "main..optimize/" + campaign.name)
    assert len(branch.splitlines()) == 1, "what was approved is on the copy's branch"
    assert "Ada" in (campaign / "ledger.jsonl").read_text()
    assert json.loads((campaign / "status.json").read_text())["status"] == "concluded"
