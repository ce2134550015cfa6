"""What is written together is on the disk together, and a folder only where a name in it is new."""

import errno
import os
from pathlib import Path

import pytest

from ridgeline.graph.errors import DiskFull
from ridgeline.sandbox.store import durable
from ridgeline.sandbox.store.durable import UnsyncedFiles, append_whole, overwrite, write_whole


@pytest.fixture
def synced(monkeypatch) -> list[str]:
    """Names of what is brought to the disk from now on."""
    seen: list[str] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        seen.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    return seen


def test_everything_is_there_when_sync_returns(tmp_path, synced):
    later = UnsyncedFiles()
    for name in ("x/one", "x/two", "y/three"):
        write_whole(tmp_path / name, b"1", synced=False)
        later.add(tmp_path / name)
    (tmp_path / "y" / "three").unlink()
    assert synced == [tmp_path.name] * 2  # for the names of the two folders
    synced.clear()
    later.sync()
    assert sorted(synced) == ["one", "two", "x", "y"]
    later.sync()
    assert len(synced) == 4


def test_a_file_that_took_the_place_of_another_is_there_by_its_name_and_so_are_its_folders(tmp_path, synced):
    write_whole(tmp_path / "a" / "b" / "file", b"1")
    assert [name for name in synced if not name.endswith(".tmp")] == ["a", tmp_path.name, "b"]
    synced.clear()
    write_whole(tmp_path / "a" / "b" / "file", b"2")
    assert [name for name in synced if not name.endswith(".tmp")] == ["b"]


def test_the_folder_of_a_file_that_grows_is_brought_once(tmp_path, synced):
    later = UnsyncedFiles()
    for _ in range(3):
        append_whole(tmp_path / "tape", b"line\n", synced=False)
        later.add(tmp_path / "tape", grown=True)
        later.sync()
    assert sorted(synced) == sorted([*(["tape"] * 3), tmp_path.name])


def test_a_full_disk_is_named_and_nothing_is_forgotten(tmp_path, monkeypatch):
    later = UnsyncedFiles()
    write_whole(tmp_path / "one", b"1", synced=False)
    later.add(tmp_path / "one")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(durable.os, "fsync", full)
        with pytest.raises(DiskFull, match="one"):
            later.sync()
    seen: set[str] = set()  # by path: other tests' threads may bring files of their own to the disk meanwhile
    monkeypatch.setattr(durable.os, "fsync", lambda file: seen.add(str(Path(f"/proc/self/fd/{file}").readlink())))
    later.sync()
    assert {str(tmp_path), str(tmp_path / "one")} <= seen


def test_a_line_that_was_shown_is_overwritten_in_place(tmp_path):
    path = tmp_path / "deep" / "status.json"
    overwrite(path, b"long first line", room=32)
    place = path.stat().st_ino
    overwrite(path, b"short", room=32)
    assert path.read_bytes() == b"short".ljust(31) + b"\n"
    assert path.stat().st_ino == place
    overwrite(path, b"x" * 40, room=32)
    assert path.read_bytes() == b"x" * 40 + b"\n"
