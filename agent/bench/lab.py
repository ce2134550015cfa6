"""What can be timed against each other, pair by pair."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ridgeline.graph.evidence import BenchmarkFailed, Comparison
from ridgeline.graph.values import Engine

Tell = Callable[[int], None]
"""Called with the number of pairs of identical versions that are done."""


@dataclass(frozen=True, kw_only=True)
class About:
    """Who is compared, in words; nothing decides by it."""

    a: str
    b: str
    engine: Engine
    machine: str
    unit: str
    """`us` for times; empty for numbers in a unit of the command's own."""
    inverted: bool = False
    """The shapes' numbers stand as their inverse, because higher is better."""
    notes: tuple[str, ...] = field(default=())


class Lab(Protocol):
    """Everything ready to be timed. Raises the errors of its adapters; each is one line for a person."""

    @property
    def about(self) -> About: ...

    def prepare(self, say: Callable[[str], None]) -> None:
        """Whatever is needed before the first pair, not counted: build, run once."""
        ...

    def calibrate(self, *, pairs: int, budget_s: float, tell: Tell) -> Comparison | BenchmarkFailed:
        """A against itself, with two pairs at least and no pair begun after `budget_s` seconds.

        BenchmarkFailed, here and below, only when the machine disturbed too much of it (`unstable`).
        """
        ...

    def pair(self, number: int) -> Comparison | BenchmarkFailed:
        """The pair of A and B with this number, from 0."""
        ...

    def raw(self) -> dict[str, object]:
        """Every single timing so far, as JSON holds it."""
        ...
