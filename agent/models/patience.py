"""Asking again: exponential backoff with jitter, the server's own Retry-After first, never longer than a bound."""

import logging
import multiprocessing
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from typing import TypeVar

from ridgeline.agent.models.base import Unreachable

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Again(Exception):
    """A failure that may pass: the connection, a time-out, 429, 5xx."""

    def __init__(self, message: str, *, after_s: float | None = None) -> None:
        """`after_s`: seconds the server asks to wait; None when it says nothing."""
        super().__init__(message)
        self.after_s = after_s


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often and how long; seconds."""

    attempts: int = 6
    first_s: float = 1.0
    """Mean of the first pause; each later one is twice as long."""
    longest_s: float = 60.0
    """No pause of our own choosing is longer."""
    total_s: float = 900.0
    """Of one question with all pauses and attempts."""
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random

    def insist(self, call: Callable[[float], T], *, who: str) -> T:
        """`call(seconds left)` until it answers. Raises Unreachable with the last failure when patience ends."""
        until = self.now() + self.total_s
        for attempt in range(1, self.attempts + 1):
            try:
                return call(until - self.now())
            except Again as failure:
                pause = self._pause(attempt, failure.after_s)
                if attempt == self.attempts:
                    raise Unreachable(f"{who}: no answer in {attempt} attempts: {failure}") from None
                if self.now() + pause >= until:
                    asked = f", and asks to wait {failure.after_s:.0f} s" if failure.after_s else ""
                    raise Unreachable(f"{who}: no answer within {self.total_s:g} s: {failure}{asked}") from None
                logger.warning("%s: %s; asking again in %.1f s", who, failure, pause)
                self.sleep(pause)
        raise AssertionError("attempts is at least 1")

    def _pause(self, attempt: int, after_s: float | None) -> float:
        if after_s is not None:
            return after_s + self.draw()  # a little later than asked, so that many clients do not come back at once
        return min(self.longest_s, self.first_s * 2.0 ** (attempt - 1)) * (0.5 + self.draw())


def within(seconds: float, call: Callable[[], T]) -> T:
    """The call's result, or Again when it takes longer than `seconds` of wall time.

    A socket's own time limit starts anew with every byte, so a server that drips would hold us for ever. The thread
    that is left behind ends with the process.
    """
    pool = ThreadPool(1)
    try:
        return pool.apply_async(call).get(max(0.0, seconds))
    except multiprocessing.TimeoutError:
        raise Again(f"no complete answer within {seconds:.0f} s") from None
    finally:
        pool.terminate()
