"""Times of judged calls, and what they say by blocks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ridgeline.graph.task import Shape
from ridgeline.sandbox.judge.session import Sealed

LEAST_US = 0.05
"""Resolution: an empty call's time, which is taken off, varies by more."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One timed and judged call."""

    label: str
    block: int
    slot: int
    side: str
    """a or b."""
    time_us: float
    """The judge's clock without what an empty call takes."""
    claimed_us: float | None
    at_us: float
    """End, on the monotonic clock."""


def slot(shape: Shape, place: tuple[int, int, str], sealed: Sealed, taken_us: float, at_us: float) -> Slot:
    """The call of that block, number and side; no time is less than the resolution."""
    block, number, side = place
    return Slot(
        label=shape.label,
        block=block,
        slot=number,
        side=side,
        time_us=max(taken_us, LEAST_US),
        claimed_us=sealed.claimed_us,
        at_us=at_us,
    )


def ratios(slots: Sequence[Slot]) -> dict[str, list[float]]:
    """ln(time of a / time of b) of each block, by size: positive is faster."""
    blocks: dict[tuple[str, int], list[Slot]] = {}
    for slot in slots:
        blocks.setdefault((slot.label, slot.block), []).append(slot)
    found: dict[str, list[float]] = {}
    for (label, _), block in blocks.items():
        logs = {side: [math.log(slot.time_us) for slot in block if slot.side == side] for side in "ab"}
        found.setdefault(label, []).append(float(np.mean(logs["a"]) - np.mean(logs["b"])))
    return found
