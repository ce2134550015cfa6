"""Where a campaign stands, folded from its ledger; and what the next measurement of a trial should be."""

from typing import Literal

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Benchmark, Level, Machine
from ridgeline.graph.limits import Limits
from ridgeline.graph.record import (
    BaselineClosed,
    Calibrated,
    Concluded,
    Opened,
    Restarted,
    Reviewed,
    Rooflined,
    RoundClosed,
    Steered,
)
from ridgeline.graph.stats.noise import Noise
from ridgeline.graph.values import Named, Value


class History(Value):
    """The ledger's bodies, sorted by kind. Everything derived is computed from this."""

    opened: Opened
    roofline: Rooflined | None = None
    baseline: BaselineClosed | None = None
    calibrations: tuple[Calibrated, ...] = ()
    rounds: tuple[RoundClosed, ...] = ()
    reviews: tuple[Reviewed, ...] = ()
    restarts: tuple[Restarted, ...] = ()
    steered: tuple[Steered, ...] = ()
    """`opened` has the terms of the last of these."""
    concluded: Concluded | None = None

    @property
    def limits(self) -> Limits:
        return self.opened.limits

    @property
    def contract(self) -> Contract:
        return self.opened.contract


class Standing(Value):
    """The best version: always the last accepted one."""

    round: int
    commit: str
    tree: str
    quick: Benchmark
    """Its latest quick-command numbers (level quick or full)."""
    full: Benchmark | None
    """Its full-level numbers of the quick command, when it has any."""
    shapes: tuple[str, ...]
    """The active set of the quick level: representative shapes."""
    all_shapes: tuple[str, ...]
    core_shapes: tuple[str, ...]
    contract: Contract
    """How rows become scores, and which shapes are skewed: no measurement can be judged without it."""
    noise: Noise | None = None
    """What identical versions showed here; None where that was not measured."""
    roofline: Rooflined | None = None
    """The ceilings of this machine; None where nobody asked for them."""
    machine: Machine | None = None
    original_us: tuple[Named, ...] | None = None
    """Every time of one call of the original that is known, by shape; None where the best version is the original."""


class BenchmarkWant(Value):
    """Run a benchmark command once more."""

    kind: Literal["benchmark"] = "benchmark"
    which: Literal["candidate", "best"]
    level: Level
    repeat: int


class CompareWant(Value):
    """Time candidate and best interleaved for some more fresh process pairs."""

    kind: Literal["comparison"] = "comparison"
    first_pair: int
    pairs: int
