"""Whole campaigns through the command line, on a project whose benchmark is a shell script."""

import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ridgeline.agent.campaign.progress import Outcome
from ridgeline.agent.cli.application import run
from ridgeline.sandbox.devices.lease import lease
from tests.projects import files

pytestmark = pytest.mark.slow
QUICK = (
    "--max-rounds",
    "1",
    "--set",
    "looks=2",
    "--set",
    "calibration_pairs=2",
    "--set",
    "blocks=2",
    "--set",
    "final_pairs=3",
)
SLOW_BENCH = '#!/bin/sh\ncommand -v hurry || sleep 0.15\ncp canned.csv "$2"\n'


@pytest.fixture
def done(cli, make_repository):
    """A finished campaign and its repository."""
    root = make_repository(files())
    return cli("run", root, *QUICK, "--json"), root


@pytest.mark.feature("F017")
def test_a_campaign_from_run_to_report(cli, done, git):
    said, root = done
    assert said.code == 0, said.err
    found = Outcome.model_validate(said.json)
    assert found.status == "concluded"
    assert found.stop_reason
    assert found.metric == "GFLOPS"
    assert (found.speedup, found.result.final, found.result.kept) == (None, None, ()), "the canned numbers never change"
    assert (found.accepted, found.rounds) == (0, found.rolled_back)
    assert (found.preset, found.planner) == ("evidence", "catalog")
    campaign = Path(found.dir)
    assert Path(found.report).is_file()
    assert campaign.parent == root / "agent" / "workspace"
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "branch", "--show-current") == "main"
    measured = sorted(campaign.glob("rounds/round-*/artifacts/benchmark.csv"))
    assert [path.parts[-3] for path in measured] == ["round-1", "round-2"]
    assert len({path.read_bytes().splitlines()[0] for path in measured}) == 1
    assert "[00:" in said.err, "progress is on standard error"

    status = cli("status", campaign, "--json").json
    assert (status["status"], status["chain_ok"], status["problem"]) == ("concluded", True, "")
    again = cli("resume", campaign, "--json")
    assert again.code == 0
    assert "has concluded; nothing to resume" in again.err
    assert again.json == said.json
    assert "has concluded already" in cli("stop", campaign).complaint
    assert cli("report", campaign).out.strip()
    assert cli("watch", campaign).code == 0
    assert cli("memory", "list", "--dir", campaign).out.split()[0] == "v0"

    before = {path: path.read_bytes() for path in campaign.glob("*.jsonl")}
    assert cli("run", root, *QUICK, "--dir", campaign).code == 2, "a campaign is never overwritten"
    assert {path: path.read_bytes() for path in campaign.glob("*.jsonl")} == before


def test_a_schema_of_another_version_is_not_resumed(cli, done):
    said, _ = done
    campaign = Path(said.json["dir"])
    for name in ("ledger.jsonl", "request.json"):
        path = campaign / name
        kept = path.read_text()
        path.write_text(kept.replace('"schema_version":1', '"schema_version":7').replace('"schema": 1', '"schema": 7'))
        refused = cli("resume", campaign)
        assert refused.code == 2
        assert "7" in refused.complaint
        path.write_text(kept)


def test_an_interrupted_campaign_says_how_to_go_on_and_goes_on(cli, make_repository, tmp_path, monkeypatch):
    hurry = tmp_path / "programs" / "hurry"
    hurry.parent.mkdir()
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{hurry.parent}")  # what a command may look into
    root = make_repository({**files(), "bench.sh": SLOW_BENCH})
    argv = (sys.executable, "-m", "ridgeline", "run", str(root), *QUICK, "--json")
    with subprocess.Popen(
        argv,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a test run in the background of a shell inherits an ignored SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        limit = time.monotonic() + 60
        while not [*root.glob("agent/workspace/*/ledger.jsonl")] and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["exit_code"] == 130
    assert "Traceback" not in err
    assert err.splitlines()[-1] == "ridgeline: interrupted; nothing is lost: go on with `ridgeline resume`"
    (campaign,) = root.glob("agent/workspace/*")
    assert cli("status", campaign, "--json").json["status"] == "interrupted"
    hurry.touch(mode=0o755)
    resumed = cli("resume", campaign, "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["status"] == "concluded"


def test_two_starts_at_once_are_two_campaigns_and_of_two_resumes_one_goes_on(
    cli, make_repository, tmp_path, monkeypatch
):
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    root = make_repository(files())
    words = ["run", str(root), *QUICK, "--approve", "target"]
    naming = f"start-{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"
    copies = multiprocessing.get_context("fork")  # of this process: it has imported everything
    go = copies.Event()
    starts = [copies.Process(target=lambda: go.wait() and sys.exit(run(words))) for _ in range(2)]
    for start in starts:  # before the lease is held here: a copy would hold it, too
        start.start()
    with lease(naming, wait_s=0):  # until both are about to find a name
        go.set()
        for start in starts:
            wait_until_open(start, f"{naming}.lock")
    for start in starts:
        start.join(100)
        assert start.exitcode == 3
    campaign, other = sorted(root.glob("agent/workspace/*"))
    assert other.name == f"{campaign.name}_2"
    assert [json.loads((place / "request.json").read_text())["request"]["campaign"] for place in (campaign, other)] == [
        campaign.name,
        other.name,
    ]
    with lease("running", wait_s=0, folder=campaign):
        second = cli("resume", campaign)
    assert second.code == 4
    assert f"running (campaign {campaign.name}): process {os.getpid()} since 20" in second.complaint
    assert second.complaint.endswith("holds the lease; wait for it or stop it")


def wait_until_open(process, name):
    """Wait until it has opened a file of that name."""
    until = time.monotonic() + 60
    while not any(path.name == name for path in open_files(process.pid)):
        assert process.is_alive()
        assert time.monotonic() < until
        time.sleep(0.02)


def open_files(number):
    for descriptor in Path(f"/proc/{number}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            yield descriptor.readlink()
