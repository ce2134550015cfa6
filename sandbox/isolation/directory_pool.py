"""Folders for one use. One that was left as it had been made serves again.

On a journaling file system removing a folder takes milliseconds, more than many of the commands that it is made for.
"""

import atexit
import os
import shutil
import stat
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Shape = tuple[str, tuple[str, ...]]
"""Where temporary files lie, and the folders that are wanted inside."""
Signs = tuple[tuple[int, int, int], ...]
"""Inode, mode and owner of a folder and of those in it."""

_idle: dict[Shape, dict[Path, Signs]] = defaultdict(dict)


@contextmanager
def fresh_folder(*inside: str) -> Iterator[Path]:
    """A folder of this user's own that holds nothing but the empty folders `inside`; what is put there goes with it."""
    shape = (tempfile.gettempdir(), inside)
    folder, signs = _take(shape)
    try:
        yield folder
    finally:
        if _clean(folder, inside, signs):
            _idle[shape][folder] = signs
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _take(shape: Shape) -> tuple[Path, Signs]:
    idle = _idle[shape]
    while idle:
        folder, signs = idle.popitem()
        if _clean(folder, shape[1], signs):  # somebody may have been there meanwhile
            return folder, signs
        shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-"))
    for name in shape[1]:
        (folder / name).mkdir()
    return folder, _signs(folder, shape[1])


def _clean(folder: Path, inside: tuple[str, ...], signs: Signs) -> bool:
    """Whether it is, without the plain files directly in it, as it was made."""
    try:
        if _signs(folder, inside) != signs:
            return False
        with os.scandir(folder) as entries:
            left = [entry for entry in entries if entry.name not in inside]
        for entry in left:
            os.unlink(entry.path)  # noqa: PTH108 (twice for every process; refuses a folder)
        return all(_empty(f"{folder}/{name}") for name in inside)
    except OSError:
        return False


def _empty(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def _signs(folder: Path, inside: tuple[str, ...]) -> Signs:
    """Raises OSError where one of them is missing or is no folder."""
    statuses = [os.lstat(folder), *(os.lstat(f"{folder}/{name}") for name in inside)]
    if not all(stat.S_ISDIR(status.st_mode) for status in statuses):
        raise NotADirectoryError(folder)
    return tuple((status.st_ino, status.st_mode, status.st_uid) for status in statuses)


@atexit.register
def _forget() -> None:
    for idle in _idle.values():
        for folder in idle:
            shutil.rmtree(folder, ignore_errors=True)
