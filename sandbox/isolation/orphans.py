"""Where a command can have no process table of its own: what it leaves behind is given to this process, and ended.

A process that wiped its environment and left its session has no other trace of who started it.
"""

import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
"""Of <linux/prctl.h>: orphans below this process become its children instead of the first process's."""
MANY = 1000
"""Numbers of processes of ours that are remembered before those that ended are forgotten."""
PASSES = 64
"""Each ends the children of those that the one before ended."""

_starting = threading.Lock()
_ours: set[int] = set()
"""Children that this process started itself; some of them have ended."""


def started(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a process that is never taken for an orphan."""
    with _starting:
        process = start()
        if len(_ours) >= MANY:
            _ours.intersection_update(_children())
        _ours.add(process.pid)
        return process


def before() -> frozenset[int] | None:
    """Children that are nobody's orphans, to be told to `end_since`. None where orphans are not given to us."""
    if not adopts():
        return None
    with _starting:  # a number that is given out again from now on is not ours by what it once was
        known = frozenset(_children())
        _ours.intersection_update(known)
    return known


def end_since(known: frozenset[int] | None) -> tuple[int, ...]:
    """Kill every orphan that came since, and collect it. Their ids."""
    found: list[int] = []
    for _ in range(PASSES if known is not None else 0):
        with _starting:
            orphans = [pid for pid in _children() if pid not in _ours and pid not in (known or ())]
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
        if not orphans:
            break
        found += orphans
    return tuple(dict.fromkeys(found))


@functools.cache
def adopts() -> bool:
    """Whether orphans are given to this process from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def _children() -> list[int]:
    """Nobody's where the kernel does not list them."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return found
