"""What killed processes leave: locks, unfinished files, temporary folders; and what another user may have put there."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from ridgeline.graph.errors import DeviceBusy, GitFailed, LeaseUnsafe
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.isolation import leftovers
from ridgeline.sandbox.workspace.git import Git, git

ROOT = Path(__file__).parents[2]
AGED = time.time() - 7 * 24 * 3600


def aged(path: Path, *, folder: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if folder else path.write_text("x")
    os.utime(path, (AGED, AGED))
    return path


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A temporary directory that other users can write to."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    yield tmp_path
    tempfile.tempdir = None


def test_a_lease_never_follows_a_link_that_lies_in_its_place(shared):
    victim = shared / "victim"
    victim.write_text("precious")
    own = shared / f"ridgeline-{os.getuid()}"
    own.mkdir(mode=0o700)
    (own / "cpu.lock").symlink_to(victim)
    with pytest.raises(LeaseUnsafe, match=r"cpu\.lock: cannot be held as a lock"), lease("cpu", wait_s=0):
        pass
    (own / "cpu.lock").unlink()
    (own / "cpu.lock").hardlink_to(victim)
    with pytest.raises(LeaseUnsafe, match=r"cpu\.lock: is no plain file"), lease("cpu", wait_s=0):
        pass
    assert victim.read_text() == "precious"


def test_a_lease_lies_in_no_folder_that_others_may_write_to(shared):
    own = shared / f"ridgeline-{os.getuid()}"
    (shared / "theirs").mkdir()
    own.symlink_to(shared / "theirs")
    with pytest.raises(LeaseUnsafe, match="is not a folder of this user's own"), lease("cpu", wait_s=0):
        pass
    own.unlink()
    own.mkdir()
    own.chmod(0o777)
    with pytest.raises(LeaseUnsafe, match="set XDG_RUNTIME_DIR"), lease("cpu", wait_s=0):
        pass
    assert not [*own.iterdir()]


def test_who_waits_is_told_for_whom_and_since_when(tmp_path):
    with (
        lease("running", wait_s=0, folder=tmp_path),
        pytest.raises(
            DeviceBusy,
            match=rf"{tmp_path.name}.: process {os.getpid()} since 20..-..-.. ..:..:.. \(`.+` in .+\) holds the lease",
        ),
        lease("running", wait_s=0, folder=tmp_path),
    ):
        pass


INTERRUPT = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["ridgeline", "status"]
from ridgeline.agent.__main__ import main
main()
"""


@pytest.mark.parametrize(
    "name", ["ridgeline.agent.cli.application", "typer", "ridgeline.agent.cli.campaign", "pydantic"]
)
def test_an_interruption_while_python_imports_is_one_line(name):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT.format(name=name)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["ridgeline"]


def test_unfinished_files_of_a_campaign_are_removed_and_everything_else_stays(tmp_path):
    mirror = tmp_path / "mirror.git" / "objects"
    gone = [
        aged(tmp_path / ".base.json.0123abcd.tmp"),
        aged(tmp_path / "rounds" / "round-2" / ".summary.md.89abcdef.tmp"),
        aged(mirror / "ab" / "tmp_obj_x9Yz"),
        aged(mirror / "pack" / "tmp_pack_Q2w3"),
        aged(tmp_path / "mirror.git.new", folder=True),
    ]
    young = tmp_path / ".tape.jsonl.0123abcd.tmp"
    young.write_text("x")
    stays = [
        aged(tmp_path / "ledger.jsonl"),
        aged(tmp_path / "trees" / "a" / ".kernel.c.0123abcd.tmp"),
        aged(mirror / "ab" / "cdef"),
        aged(tmp_path / ".notes.tmp"),
        young,
    ]
    assert sorted(leftovers.remove_campaign_leftovers(tmp_path)) == sorted(gone)
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in stays)


def test_temporary_folders_of_ended_processes_are_removed_once_they_are_old(shared, monkeypatch):
    began = time.time() - 3 * 24 * 3600
    monkeypatch.setattr(leftovers, "_first_python_start", lambda: began)
    monkeypatch.setattr(leftovers, "_changed_s", lambda path: path.lstat().st_mtime)  # a change time cannot be set
    gone = [
        aged(shared / f"ridgeline-{name}", folder=True) for name in ("abcd1234", "frozen-abcd_234", "check-a_cd1234")
    ]
    (gone[0] / "deep").mkdir()
    os.utime(gone[0], (AGED, AGED))
    alive = aged(shared / "ridgeline-zzzz1234", folder=True)
    os.utime(alive, (began + 60, began + 60))
    stays = [
        alive,
        aged(shared / f"ridgeline-{os.getuid()}", folder=True),
        aged(shared / "ridgeline-notes", folder=True),
        aged(shared / "other-abcd1234", folder=True),
        aged(shared / "ridgeline-file1234"),
    ]
    (shared / "ridgeline-link1234").symlink_to(stays[2])
    assert sorted(leftovers.remove_abandoned_folders()) == sorted(gone)
    assert all(path.exists() for path in (*stays, shared / "ridgeline-link1234"))


@pytest.fixture
def repository(tmp_path):
    git("init", "-q", "--bare", "--template=", str(tmp_path / "r.git"), cwd=tmp_path)
    return Git(git_dir=tmp_path / "r.git")


def grow(repository: Git, **environment: str) -> str:
    words = b"commit refs/heads/a\ncommitter A <a@b> 1 +0000\ndata 1\nx\nM 644 inline f\ndata 1\ny\n\ndone\n"
    repository.run("fast-import", "--quiet", "--done", stdin=words, env=environment)
    return repository.line("rev-parse", "refs/heads/a")


def test_commits_and_references_are_on_the_disk_when_git_says_so(repository, tmp_path):
    first = grow(repository, GIT_TRACE2_EVENT=str(tmp_path / "import"))
    repository.run("update-ref", "refs/heads/b", first, env={"GIT_TRACE2_EVENT": str(tmp_path / "move")})
    for name in ("import", "move"):
        events = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        synced = [event for event in events if event["event"] in ("counter", "data") and "fsync" in json.dumps(event)]
        assert synced, f"{name}: nothing was brought to the disk"


def test_a_lock_that_a_killed_git_left_is_named_with_its_time(repository):
    first = grow(repository)
    lock = repository.git_dir / "refs" / "heads" / "a.lock"
    aged(lock)
    with pytest.raises(GitFailed, match=r"a\.lock is there since 20..-..-.. .*remove the file if none runs") as caught:
        repository.move("refs/heads/a", new=first, old=first)
    assert "\n" not in str(caught.value)
