"""Waits for a command in windows, and gives up one that hangs: one that neither prints nor computes (rules R2.1, 20.1).

What spins, or waits for a device by spinning, computes: that ends at its time limit.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

How = Literal["exited", "late", "hung"]
"""late: its time limit came first."""
IDLE = 0.01
"""Share of a window: a process that used less of one core than this looked at its watch, and did no work."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a command may do nothing. With a time limit below `windows * window_s` it never matters."""

    window_s: float
    """Longest wait, in seconds, after which is looked whether anything goes on (limit `poll_max_s`)."""
    windows: int
    """So many in a row without progress are a hang (limit `poll_stuck_windows`)."""

    @property
    def told(self) -> str:
        return f"hung: no output and no work in {self.windows} windows of {self.window_s:g} s"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a command has done so far."""

    printed: int = 0
    """Bytes of its output."""
    worked_s: float = 0.0
    """Processor time of its processes, in seconds."""


def watched(
    exited: Callable[[float], bool], *, timeout_s: float, patience: Patience | None, progress: Callable[[], Progress]
) -> How:
    """How a command ended that `exited` waits for, so many seconds at most. Without patience only the limit counts."""
    if patience is None:
        return "exited" if exited(timeout_s) else "late"
    until = time.monotonic() + timeout_s
    before, still = Progress(), 0
    while not exited(min(patience.window_s, until - time.monotonic())):
        if time.monotonic() >= until:
            return "late"
        now = progress()
        moved = now.printed != before.printed or abs(now.worked_s - before.worked_s) >= IDLE * patience.window_s
        before, still = now, 0 if moved else still + 1
        if still >= patience.windows:
            return "hung"
    return "exited"
