"""What no kernel can beat: bytes and operations at the machine's measured ceilings, and the judge's own clock."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ridgeline.graph.formula import evaluate
from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.dtypes import STORAGE
from ridgeline.sandbox.judge.inputs import extents

MARGIN = 0.95
"""A floor is this share of the ceiling's time: ceilings are measured, to a few percent (measurement 2.8)."""
CLAIM_SHARE = 0.8
STANDARD_ERRORS = 3.0
"""The wall clock must show this share of a claimed gain, within so many of its standard errors (measurement 2.7)."""

SHOWN = 2.0
"""A gain is more than so many standard errors of what shows it."""
TRIM = 0.2
"""Share of pairs cut at either end before the judge's clock is asked: the machine has other work too."""

Possible = Literal["yes", "escalate", "no"]
"""`no`: fewer bytes than the result needs, or faster than an empty call. `escalate`: beyond the operations' peak,
which an algebraic rewrite may do legally; a closer look decides."""


def floor_us(
    bytes_min: float | None, flops: float | None, *, copy_gbps: float | None, peak_gflops: float | None
) -> float:
    """Least time of one call in microseconds; 0 where nothing is known.

    `copy_gbps` is 1e9 bytes per second, reads and writes together; `peak_gflops` 1e9 operations per second of the
    declared type. A warm cache makes only the floor of operations hold: pass None for the bytes then.
    """
    return max(bytes_floor_us(bytes_min, copy_gbps), flops_floor_us(flops, peak_gflops))


def bytes_floor_us(bytes_min: float | None, copy_gbps: float | None) -> float:
    """Least time in microseconds to move the bytes; 0 where either number is unknown."""
    return MARGIN * _microseconds(bytes_min, copy_gbps)


def moved_share(task: Task, dims: Mapping[str, int]) -> float:
    """Of the bytes of all arrays, those that the task says a call must move: a gather reads few of a table's."""
    if task.bytes is None:
        return 1.0
    arrays = (*task.inputs, *task.outputs)
    whole = sum(STORAGE[one.dtype].itemsize * math.prod(extents(one, dims)) for one in arrays)
    return min(1.0, max(0.0, evaluate(task.bytes, dims)) / max(whole, 1))


def flops_floor_us(flops: float | None, peak_gflops: float | None) -> float:
    """Least time in microseconds of the nominal operations; 0 where either number is unknown."""
    return MARGIN * _microseconds(flops, peak_gflops)


def possible(time_us: float, *, bytes_us: float, flops_us: float, empty_us: float) -> Possible:
    """Whether one sample can be true, given the floors and the time of a call that does nothing, all microseconds."""
    if not time_us >= max(bytes_us, MARGIN * empty_us) or not time_us > 0:
        return "no"
    return "yes" if time_us >= flops_us else "escalate"


def slope_us(chain_us: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Microseconds per step, and the standard error, from chains of (steps, total microseconds).

    A line by least squares: its constant holds what every chain costs once. Raises ValueError for fewer than three
    chains or a single length, which give no error.
    """
    lengths = [float(steps) for steps, _ in chain_us]
    if len(chain_us) < 3 or len(set(lengths)) < 2:
        raise ValueError("a slope and its error need three chains of at least two lengths")
    middle = math.fsum(lengths) / len(lengths)
    mean_us = math.fsum(total for _, total in chain_us) / len(lengths)
    width = math.fsum((steps - middle) ** 2 for steps in lengths)
    slope = math.fsum((steps - middle) * (total - mean_us) for steps, total in chain_us) / width
    left = math.fsum((total - mean_us - slope * (steps - middle)) ** 2 for steps, total in chain_us)
    return slope, math.sqrt(left / (len(lengths) - 2) / width)


def claim_holds(*, wall_gain_us: float, claimed_gain_us: float, error_us: float) -> bool:
    """Whether the judge's clock shows the gain that the worker's timer claims, in microseconds per step."""
    return wall_gain_us >= CLAIM_SHARE * claimed_gain_us - STANDARD_ERRORS * error_us


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A gain as a clock shows it, in microseconds."""

    mean_us: float
    error_us: float


def claims(gains: Sequence[tuple[float, float]]) -> tuple[Seen, float]:
    """The judge's clock, and what the workers claim, over (wall, claimed) of at least one pair of calls."""
    wall = _cut([one for one, _ in gains])
    claimed = statistics.fmean(_cut([one for _, one in gains]))
    error = statistics.stdev(wall) / math.sqrt(len(wall)) if len(wall) > 1 else math.inf
    return Seen(mean_us=statistics.fmean(wall), error_us=error), claimed


def _cut(values: list[float]) -> list[float]:
    cut = int(TRIM * len(values))
    return sorted(values)[cut : len(values) - cut]


def _microseconds(amount: float | None, giga_per_second: float | None) -> float:
    if not amount or not giga_per_second:
        return 0.0
    return amount / (giga_per_second * 1e3)
