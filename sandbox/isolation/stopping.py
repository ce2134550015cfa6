"""A person's request to stop, and a campaign's time limit: heard in every wait, in seconds, wherever this process is.

What waits (for a command, a worker, a lease, a core that shall rest) asks `check` every `STEP_S`. What then goes up is
no error of the world: the adapters' ports answer with a value that says that the step was ended.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ridgeline.graph.errors import WorldError

STEP_S = 2.0
"""Longest stretch of a wait in which nothing is asked."""


class StepEnded(WorldError):
    """A step was ended before it was over, because the campaign shall stop. The text says who or what wanted it."""

    exit_code = 2


@dataclass(kw_only=True)
class Stopping:
    """What ends the steps of one campaign."""

    requests: Callable[[], int]
    """How often a person asked to stop."""
    worked_s: Callable[[], float] | None = None
    """Seconds that the campaign was worked on; None: no limit of time ends a step."""
    rounds_until_s: float | None = None
    """Of those: when rounds must be over, so that the final validation has room; None: no limit."""
    until_s: float | None = None
    """When everything must be."""
    final: bool = False
    """The campaign validates its end: what asked it to conclude is no reason to end that too."""
    _requests_before: int = 0

    def begin_final(self) -> None:
        """From now on the final validation is made: only the limit itself, and a request that is new, end it."""
        self.final, self._requests_before = True, self.requests()

    def reason(self) -> str:
        """Why the step under way shall end; empty to go on."""
        if self.requests() > self._requests_before:
            return "a person asked to stop"
        limit_s = self.until_s if self.final else self.rounds_until_s
        if limit_s is not None and self.worked_s is not None and self.worked_s() >= limit_s:
            return (
                "the time limit is reached"
                if self.final
                else "the time limit leaves room for the final validation only"
            )
        return ""


_listening: list[Stopping] = []
"""The campaign that this process runs; empty outside of one."""


@contextlib.contextmanager
def listening(stopping: Stopping) -> Iterator[None]:
    """Every wait of this process hears `stopping` while the block lasts."""
    _listening.append(stopping)
    try:
        yield
    finally:
        _listening.remove(stopping)


def reason() -> str:
    """Why a process's step under way shall end; empty to go on."""
    return next((why for stopping in _listening if (why := stopping.reason())), "")


def check() -> None:
    """Raise StepEnded where a stop of the campaign was asked for."""
    if why := reason():
        raise StepEnded(f"ended before it was over: {why}")


def sleep(seconds: float) -> None:
    """Wait so long, and hear meanwhile a request to stop. Raises StepEnded."""
    until = time.monotonic() + seconds
    check()
    while (left_s := until - time.monotonic()) > 0:
        time.sleep(min(left_s, STEP_S))
        check()


def wait(is_true: Callable[[float], bool], seconds: float) -> bool:
    """Whether `done`, given seconds that it may wait, came true in time, a request to stop heard meanwhile. Raises StepEnded."""
    until = time.monotonic() + seconds
    while True:
        check()
        left_s = until - time.monotonic()
        if is_true(min(left_s, STEP_S)):
            return True
        if left_s <= STEP_S:
            return False
