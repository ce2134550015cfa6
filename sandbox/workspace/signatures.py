"""By what a file that was read once is known to be the same without reading it again."""

import hashlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ridgeline.sandbox.isolation.directory_pool import walk_tree

Signs = tuple[int, ...]
"""Kind and permissions, size, modification and change time in ns, inode. No process can set the change time back."""

SETTLED_NS = 100_000_000
"""The kernel's file times move in ticks of up to 10 ms, so two changes within one tick bear the same time. What was
changed more recently than this is read again, however its signs look."""


def signs_of(place: Path | str) -> Signs | None:
    """The signs of a file, not of what it links to; None where there is no plain file."""
    try:
        status = os.lstat(place)
    except OSError:  # gone, or a parent is no folder any more
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def contents(place: str) -> bytes:
    """What is in a file of a tree, without a file object: this is asked of every file. Raises OSError."""
    handle = os.open(place, os.O_RDONLY)
    try:
        parts: list[bytes] = []
        while part := os.read(handle, 1 << 20):
            parts.append(part)
    finally:
        os.close(handle)
    return b"".join(parts)


def is_folder(place: Path | str) -> bool:
    """Whether a folder stands there itself, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(place).st_mode)
    except OSError:
        return False


def is_settled(signs: Signs) -> bool:
    """Whether a later change is sure to show in the signs. A file from the future is never settled."""
    return time.time_ns() - signs[3] > SETTLED_NS


# What a tree was once built: a run that changes sources or binaries would have something timed that was not tested.

OWN = frozenset({".pytest_cache", ".git"})
"""What test runners and git write for themselves; nothing runs what is in it."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One sealed file: its contents, and the signs by which an untouched file is known without reading it again."""

    sha256: str
    signs: Signs | None
    """None where they were too young to be relied on: then the contents are compared."""


class Seals:
    """Seals by tree, for as long as this process lives; a tree that has none is sealed when it is next used."""

    def __init__(self) -> None:
        self._marks: dict[str, dict[str, Mark]] = {}

    def holds(self, content: str) -> bool:
        """Whether the built tree of that content, by git's name, is sealed."""
        return content in self._marks

    def close(self, content: str, tree: Path, *, covers: Callable[[str], bool]) -> None:
        """Seal the files of `tree` whose path below it `covers` admits."""
        paths = (path for path in _files(tree) if covers(path))
        self._marks[content] = {path: _mark(f"{tree}/{path}") for path in paths}

    def open(self, content: str) -> None:
        """Forget a built tree's seal: it is about to be made anew."""
        self._marks.pop(content, None)

    def broken(self, content: str, tree: Path) -> tuple[str, ...]:
        """Sealed files that are gone or hold something else now, sorted; none without a seal."""
        marks = self._marks.get(content, {})
        paths: list[str] = []
        for path, mark in marks.items():
            place = f"{tree}/{path}"
            signs = signs_of(place)
            if signs is not None and signs == mark.signs:
                continue
            if signs is None or _sha256(place) != mark.sha256:
                paths.append(path)
            elif is_settled(signs):
                marks[path] = replace(mark, signs=signs)
        return tuple(sorted(paths))


def discard(tree: Path) -> None:
    """Make the git checkout around `tree` one that holds nothing: a slot without its .git file is checked out afresh."""
    for folder in (tree, *tree.parents):
        if (folder / ".git").is_file():
            (folder / ".git").unlink()
            return


def _files(tree: Path) -> list[str]:
    """Plain files below a sealed tree, by their paths from there."""
    files: list[str] = []
    for folder, _, names in walk_tree(tree, leave_out=OWN):
        paths = (f"{folder}/{name}" if folder else name for name in names)
        files += [path for path in paths if signs_of(f"{tree}/{path}") is not None]
    return files


def _mark(place: str) -> Mark:
    signs = signs_of(place)
    return Mark(sha256=_sha256(place), signs=signs if signs is not None and is_settled(signs) else None)


def _sha256(place: str) -> str:
    return hashlib.sha256(contents(place)).hexdigest()
