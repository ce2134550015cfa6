"""Puts committed files back, byte for byte, wherever a run left something else."""

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from sandbox.edits import LINK
from sandbox.git import Entry, Git

EXECUTABLE = "100755"


def restore_files(root: Path, committed: Mapping[str, Entry], repository: Callable[[], Git]) -> tuple[str, ...]:
    """Make the named files below `root` what the repository says; the paths that were not, sorted."""
    changed = sorted(path for path, entry in committed.items() if not _same(root, path, entry))
    if not changed:
        return ()
    contents = repository().blobs(tuple(committed[path].oid for path in changed))
    for path, data in zip(changed, contents, strict=True):
        _put(root, path, committed[path], data)
    return tuple(changed)


def _same(root: Path, path: str, entry: Entry) -> bool:
    place = root / path
    if any((root / parent).is_symlink() for parent in _parents(path)):
        return False
    if place.is_symlink():
        return entry.mode == LINK and _oid(os.fsencode(place.readlink()), entry) == entry.oid
    if not place.is_file() or entry.mode == LINK:
        return False
    executable = bool(place.stat().st_mode & 0o100)
    return executable == (entry.mode == EXECUTABLE) and _oid(place.read_bytes(), entry) == entry.oid


def _put(root: Path, path: str, entry: Entry, data: bytes) -> None:
    for parent in _parents(path):
        folder = root / parent
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            folder.unlink()
        folder.mkdir(exist_ok=True)
    place = root / path
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)  # a hard link elsewhere keeps its own contents
    if entry.mode == LINK:
        place.symlink_to(os.fsdecode(data))
        return
    place.write_bytes(data)
    place.chmod(0o755 if entry.mode == EXECUTABLE else 0o644)


def _parents(path: str) -> list[str]:
    """The folders above a path, outermost first."""
    return [str(parent) for parent in reversed(PurePosixPath(path).parents) if str(parent) != "."]


def _oid(data: bytes, entry: Entry) -> str:
    """Git's name for a blob, in the repository's own kind of hash."""
    kind = hashlib.sha256 if len(entry.oid) == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(data) + data).hexdigest()
