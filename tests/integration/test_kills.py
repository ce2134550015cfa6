"""kill -9 at random system calls, then resume: the ledger of an uninterrupted run on the same recorded answers."""

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.soak.kills import ALL, KILL_AFTER, KILL_BEFORE, TEAR, Control, make_preloaded, map_control
from tests.text_project import files

ROOT = Path(__file__).parents[2]
KILLS = 21 if os.environ.get("RIDGELINE_SUITE") == "all" else 3
"""More are asked for by `make adversarial`, and hundreds by `make soak`."""


def drive(*words: object, **variables: str) -> subprocess.Popen:
    argv = [sys.executable, "-m", "tests.drive", *map(str, words)]
    environment = {**os.environ, **variables}
    return subprocess.Popen(
        argv, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen) -> None:
    _, problem = process.communicate(timeout=300)
    assert process.returncode == 0, problem


def kill_with_children(process: subprocess.Popen) -> None:
    """Kill it, and go on when nothing that it had started lives: git may be in the middle of a file."""
    process.send_signal(signal.SIGSTOP)  # what it has started by now is all that it will
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    process.stderr.close()
    until = time.monotonic() + 60
    while any(_lives(child) for child in children):
        assert time.monotonic() < until, children
        time.sleep(0.01)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def campaign_of(repository: Path) -> Path | None:
    found = [*(repository / "agent" / "workspace").glob("*/request.json")]
    return found[0].parent if found else None


@pytest.fixture(scope="module", autouse=True)
def _own_leases(tmp_path_factory):
    """No campaign of another waits for one of these, or these for it, nor for a machine at rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIDGELINE_QUIET_S", "0")
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        yield


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A finished campaign on real processes, and the repository as it was before."""
    folder = tmp_path_factory.mktemp("recorded")
    root = folder / "kernels"
    for path, text in files().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "harness.py").chmod(0o755)
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@localhost"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-q", "-m", "start"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    shutil.copytree(root, folder / "before" / "kernels")
    finish(drive("start", root))
    return folder / "before" / "kernels", campaign_of(root)


def replay(recorded, folder: Path) -> Path:
    before, _ = recorded
    shutil.copytree(before, folder / "kernels")
    return folder / "kernels"


def log(repository: Path) -> str:
    argv = ["git", "log", "--format=%H %s", "--branches=optimize/*"]
    return subprocess.run(argv, cwd=repository, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    """Variables by which the calls of a campaign that change files are counted, and killed at."""
    return make_preloaded(tmp_path_factory.mktemp("preloaded"))


def play(preloaded, repository: Path, *words: object, at: int = 0, what: int = 0) -> Control:
    """A session to its end, which comes at that call of the campaign or of its git; 0: by itself."""
    control = map_control(Path(preloaded["SOAK_CONTROL"]))
    ctypes.memset(ctypes.byref(control), 0, ctypes.sizeof(control))
    control.root, control.at, control.what, control.scope = -1, at, what, ALL
    control.place = os.fsencode(f"{repository}/")
    process = drive(*words, **preloaded)
    _, problem = process.communicate(timeout=300)
    assert process.returncode == (-signal.SIGKILL if at else 0), problem
    return control


@pytest.mark.slow
@pytest.mark.feature("F121")
def test_random_kills_change_nothing(recorded, preloaded, tmp_path):
    _, original = recorded
    repository = replay(recorded, tmp_path / "whole")
    calls = play(preloaded, repository, "start", repository, original).count
    whole = (campaign_of(repository) / "ledger.jsonl").read_bytes()
    assert whole == (original / "ledger.jsonl").read_bytes()
    draw = random.Random(7)
    for number in range(KILLS // 3):
        repository = replay(recorded, tmp_path / f"{number}")
        words = ("start", repository, original)
        for what in (KILL_BEFORE, TEAR, KILL_AFTER):  # in three quarters of the campaign, so that each meets it
            control = play(preloaded, repository, *words, at=draw.randrange(1, calls // 4), what=what)
            assert control.done, control.where
            campaign = campaign_of(repository)
            words = ("resume", campaign) if campaign else words
        finish(drive(*words))
        campaign = campaign_of(repository)
        assert (campaign / "ledger.jsonl").read_bytes() == whole, f"campaign {number}"
        assert log(repository) == log(tmp_path / "whole" / "kernels")
        assert (campaign / "final_report.md").exists()


KILLED_WITH_LOCK = """#!/bin/sh
case "$*" in
*kernels/.git\\ *update-ref\\ refs/heads/optimize/*)
    for word; do case "$word" in refs/heads/optimize/*) break;; esac; done
    [ -d refs ] || cd .git
    mkdir -p refs/heads/optimize
    echo >"$word.lock"
    kill -KILL $PPID
    sleep 9;;
esac
exec GIT "$@"
"""


@pytest.mark.slow
def test_killed_while_git_makes_the_branch_resumes(recorded, tmp_path):
    """Found by `make soak`: the lock of the branch stayed, for the ledger did not know the branch yet."""
    _, original = recorded
    repository = replay(recorded, tmp_path)
    (tmp_path / "git").write_text(KILLED_WITH_LOCK.replace("GIT", shutil.which("git")))
    (tmp_path / "git").chmod(0o755)
    process = drive("start", repository, original, PATH=f"{tmp_path}:{os.environ['PATH']}")
    _, problem = process.communicate(timeout=100)
    assert process.returncode == -signal.SIGKILL, problem
    assert [*(repository / ".git" / "refs" / "heads" / "optimize").glob("*.lock")]
    finish(drive("resume", campaign_of(repository)))
    assert (campaign_of(repository) / "ledger.jsonl").read_bytes() == (original / "ledger.jsonl").read_bytes()


@pytest.mark.slow
def test_a_campaign_folder_copied_elsewhere_resumes_there_without_its_repository(recorded, tmp_path):
    _, original = recorded
    repository = replay(recorded, tmp_path)
    process = drive("start", repository, original)
    while not (campaign_of(repository) and len(_lines(campaign_of(repository))) >= 5):
        time.sleep(0.05)
        assert process.poll() is None
    kill_with_children(process)
    elsewhere = tmp_path / "elsewhere" / "campaign"
    shutil.copytree(campaign_of(repository), elsewhere, symlinks=True)
    shutil.rmtree(repository)
    finish(drive("resume", elsewhere))
    assert (elsewhere / "ledger.jsonl").read_bytes() == (original / "ledger.jsonl").read_bytes()


def _lines(campaign: Path) -> list[bytes]:
    path = campaign / "ledger.jsonl"
    return path.read_bytes().splitlines() if path.exists() else []


@pytest.mark.slow
def test_a_repository_copied_with_its_campaign_goes_on_in_the_copy(recorded, tmp_path):
    _, original = recorded
    repository = replay(recorded, tmp_path)
    process = drive("start", repository, original)
    while not (campaign_of(repository) and len(_lines(campaign_of(repository))) >= 4):
        time.sleep(0.05)
        assert process.poll() is None
    kill_with_children(process)
    before = log(repository)
    shutil.copytree(repository, tmp_path / "copy", symlinks=True)
    finish(drive("resume", campaign_of(tmp_path / "copy")))
    assert log(repository) == before
    assert len(log(tmp_path / "copy").splitlines()) > len(before.splitlines())
