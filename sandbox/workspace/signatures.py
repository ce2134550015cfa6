"""By what a file that was read once is known to be the same without reading it again."""

import os
import stat
import time
from pathlib import Path

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
    """What is in a file, without a file object: this is asked of every file of a tree. Raises OSError."""
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


def settled(signs: Signs) -> bool:
    """Whether a later change is sure to show in the signs. A file from the future is never settled."""
    return time.time_ns() - signs[3] > SETTLED_NS
