"""Candidates of one round on several devices: real commands that note when they begin and end, stand-ins for the devices."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path, PurePosixPath

import psutil
import pytest

from ridgeline.agent.campaign.device_host import THREADS
from ridgeline.agent.campaign.wiring import Place, connect
from ridgeline.agent.contract_file import load
from ridgeline.graph.errors import DeviceLost
from ridgeline.graph.limits import PRESETS
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.isolation.commands import has_own_table
from tests import projects
from tests.rooms import OUTSIDE
from tests.standins_smi import UUID, cards, h100, stand_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_own_table(), reason="commands that share a table of processes run one after the other"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core nothing runs side by side"),
]
NOTES, HOLD = f"${OUTSIDE}/notes", f"${OUTSIDE}/STEP"
STEP = f"""#!/bin/sh
# Notes its beginning and its end; in between it waits until as many as the kernel says have begun, for a minute at most,
# and one that is to be held as long as there is a file of that name.
name=$(head -n 1 kernel.c); company=$(sed -n 's/^STEP needs //p' kernel.c)
echo "STEP begins $name $CUDA_VISIBLE_DEVICES" >> {NOTES}
tries=0
while [ "$(grep -c 'STEP begins' {NOTES})" -lt "${{company:-0}}" ] && [ $tries -lt 1200 ]; do tries=$((tries + 1)); sleep 0.05; done
while grep -q held kernel.c && [ -e {HOLD} ]; do sleep 0.02; done
echo "STEP ends $name" >> {NOTES}
grep -q "STEP is wrong" kernel.c && exit 1
exit 0
"""
FAULTS = {"a": "", "b": "test is wrong\n", "c": "build is wrong\n"}
LIMITS = PRESETS["evidence"].model_copy(update={"candidates": 3})


@pytest.fixture
def open_campaign(make_repository, tmp_path, monkeypatch):
    """`open_campaign(**contract)` -> ports of a campaign of that contract; the notes of its commands are at `notes`."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv(OUTSIDE, str(tmp_path / "outside"))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "notes").touch()

    def make(**contract):
        files = {
            **projects.files(
                test=STEP.replace("STEP", "test"),
                rebuild={"required": True, "command": "./build.sh"},
                pass_environment=[OUTSIDE],
                **contract,
            ),
            "build.sh": STEP.replace("STEP", "build"),
        }
        (tmp_path / "campaign").mkdir()
        (tmp_path / "campaign" / "request.json").write_text("{}")
        return connect_campaign(make_repository(files), tmp_path / "campaign")

    return make


@pytest.fixture
def ssh_log(tmp_path):
    """Host and process of every line to one; all are cut at the end."""
    log = tmp_path / "ssh.log"
    yield log
    for line in log.read_text().splitlines():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line.split()[1]), signal.SIGKILL)
    for thread in threading.enumerate():
        if thread.name == THREADS:
            thread.join(60)


def connect_campaign(repository, campaign):
    """Ports of a campaign of that repository, begun or gone on with."""
    place = Place(repository=repository, contract_dir=PurePosixPath(), campaign_dir=campaign)
    return connect(place, load(repository).contract, "catalog", LIMITS)


def wait_until(is_true):
    """Whatever is waited for comes within five minutes, on a machine that is busy too, or the test fails."""
    until = time.monotonic() + 300
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.02)


def list_commits(ports, *kernels):
    """A candidate for each text of the kernel, from its base."""
    base = ports.workspace.open("none").commit
    return tuple(
        ports.workspace.apply(
            round=number, parent=base, edits=(FileEdit(path="kernel.c", text=text),), at="2026-11-21T10:00:00Z"
        ).commit
        for number, text in enumerate(kernels, start=2)
    )


def read_notes(tmp_path):
    return (tmp_path / "outside" / "notes").read_text().splitlines()


def list_overlaps(notes, step):
    """How many had begun, and not ended, whenever one of them began."""
    running, most = 0, []
    for line in notes:
        if line.startswith(f"{step} begins"):
            running += 1
            most.append(running)
        elif line.startswith(f"{step} ends"):
            running -= 1
    return most


def test_on_two_cards_two_candidates_are_tested_at_a_time_and_the_loop_is_answered_in_order(
    open_campaign, tmp_path, monkeypatch
):
    """Each test waits for a second one: one after the other they would never end in time."""
    monkeypatch.setenv("RIDGELINE_GATE", "samples=1 interval_s=0 repeat_samples=1 repeat_interval_s=0.01 settle_s=0")
    tools = stand_in(tmp_path / "smi", "nvidia-smi", [cards(h100(0), h100(1))])
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    ports = open_campaign(target_backend="TRITON", target_gpu="H100")
    commits = list_commits(ports, *(f"{name}\nbuild needs 2\ntest needs 2\n{fault}" for name, fault in FAULTS.items()))
    purposes = ("round-2", "round-3", "round-4")
    ports.preparer.prepare(commits, purposes)
    notes = read_notes(tmp_path)
    assert max(list_overlaps(notes, "build")) >= 2, notes
    assert list_overlaps(notes, "test") == [1, 2], notes
    begun = [line.split()[-1] for line in notes if line.startswith("test begins")]
    assert {*begun} == {UUID.format(0), UUID.format(1)}

    builds = [ports.builder.build(commit) for commit in commits]
    assert [build.ok for build in builds] == [True, True, False]
    tests = [
        ports.checker.check(commit, purpose=purpose) for commit, purpose in zip(commits[:2], purposes, strict=False)
    ]
    assert [(test.kind, test.gpu_s > 0) for test in tests[:1]] == [("pass", True)]
    assert len(read_notes(tmp_path)) == len(notes) + 2, "only a test that ended with a mere exit code was asked again"
    tape = (tmp_path / "campaign" / "tape.jsonl").read_text().splitlines()
    assert ["build" in line.partition('"about"')[0] for line in tape] == [True, False, True, True, False]


def test_on_one_card_builds_go_side_by_side_and_tests_one_after_the_other(open_campaign, tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_GATE", "samples=1 interval_s=0 repeat_samples=1 repeat_interval_s=0.01 settle_s=0")
    tools = stand_in(tmp_path / "smi", "nvidia-smi", [cards(h100(0))])
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    ports = open_campaign(target_backend="TRITON", target_gpu="H100")
    commits = list_commits(ports, *(f"{name}\nbuild needs 2\n" for name in "abc"))
    ports.preparer.prepare(commits, ("round-2", "round-3", "round-4"))
    notes = read_notes(tmp_path)
    assert max(list_overlaps(notes, "build")) >= 2, notes
    assert list_overlaps(notes, "test") == [1, 1, 1]


def test_of_two_device_hosts_a_lost_helper_is_replaced_and_the_campaign_s_own_is_lost_as_ever(
    open_campaign, tmp_path, monkeypatch, ssh_log
):
    log = ssh_log
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
while :; do case "$1" in -o|-p) shift 2;; -T) shift;; *) break;; esac; done
echo "$1 $$" >> {log}
exec env RIDGELINE_CACHE={tmp_path}/there-$1 {sys.executable} -m ridgeline device-host
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    ports = open_campaign(device_host=["ssh://own", "ssh://helper"])
    held = list_commits(ports, "d\n0\nheld\n", "e\n0\nheld\n", "f\n0\nheld\n", "g\n0\nheld\n")
    prepare_and_kill(ports, held[:2], "helper", log, tmp_path)
    assert [ports.checker.check(commit, purpose="lost").passed for commit in held[:2]] == [True, True]
    begun = [line.split()[2] for line in read_notes(tmp_path) if line.startswith("test begins")]
    assert sorted(begun.count(name) for name in "de") == [1, 2], (
        "the other device took over, and nothing else was asked"
    )

    prepare_and_kill(ports, held[2:], "own", log, tmp_path)
    answers = [catch_loss(ports, commit) for commit in held[2:]]
    assert sorted(answers) == ["lost", "pass"], "the device's loss is that of one question"
    assert [catch_loss(ports, commit) for commit in held[2:]] == ["pass", "pass"], "which is asked anew, and no verdict"


def prepare_and_kill(ports, commits, host, log, tmp_path):
    """Prepare two versions, and cut a host's line while both are tested."""
    hold, before = tmp_path / "outside" / "test", len(read_notes(tmp_path))
    hold.touch()

    def kill():
        try:
            wait_until(lambda: sum("test begins" in line for line in read_notes(tmp_path)[before:]) == 2)
            pid = [line.split()[1] for line in log.read_text().splitlines() if line.split()[0] == host][-1]
            os.kill(int(pid), signal.SIGKILL)
        finally:
            hold.unlink()

    thread = threading.Thread(target=kill)
    thread.start()
    ports.preparer.prepare(commits, ("lost", "lost"))
    thread.join()


def catch_loss(ports, commit):
    try:
        return ports.checker.check(commit, purpose="lost").kind
    except DeviceLost:
        return "lost"


def test_a_killed_campaign_s_tests_end_with_it_and_what_was_built_is_not_built_again(open_campaign, tmp_path):
    """The process that prepares is killed while two candidates are tested; another one goes on in the same folder."""
    ports = open_campaign()
    commits = list_commits(ports, "a\n0\nheld\n", "b\n0\nheld\n")
    (tmp_path / "outside" / "test").touch()
    campaign = tmp_path / "campaign"
    (repository,) = (folder.parent for folder in tmp_path.glob("*/.git"))
    words = (
        f"connect_campaign(Path({str(repository)!r}), Path({str(campaign)!r})).preparer.prepare({commits}, ('x', 'x'))"
    )
    program = f"from pathlib import Path; from tests.integration.test_candidates_devices import *; {words}"
    process = subprocess.Popen((sys.executable, "-c", program), cwd=Path(__file__).parents[2])
    wait_until(lambda: sum("test begins" in line for line in read_notes(tmp_path)) == 2)
    process.kill()
    process.wait()
    wait_until(lambda: not list_running(campaign))
    (tmp_path / "outside" / "test").unlink()

    before = read_notes(tmp_path)
    ports = connect_campaign(repository, campaign)
    ports.preparer.prepare(commits, ("x", "x"))
    later = [line.split()[:2] for line in read_notes(tmp_path)[len(before) :]]
    assert sorted(later) == [["test", "begins"]] * 2 + [["test", "ends"]] * 2, later
    assert [ports.checker.check(commit, purpose="x").passed for commit in commits] == [True, True]


def list_running(campaign):
    """Processes that work in a campaign's checkouts."""
    running = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            running += [process.pid] if Path(process.cwd()).is_relative_to(campaign / "trees") else []
    return running
