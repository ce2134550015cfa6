"""Six shapes and the guard of each, through the whole policy from `wanted` to `judge`."""

from collections.abc import Sequence

import numpy as np

from ridgeline.graph.limits import Limits
from ridgeline.graph.stats.noise import estimate_noise
from tests.bench.simulation_machine import Floats, Machine
from tests.builders import BASE, make_comparison, make_standing
from tests.judging import by_pairs, drive

LABELS = ("s0", "s1", "s2", "s3", "s4", "s5")
GAIN = 0.03
WORLDS: dict[str, tuple[float, ...]] = {
    "all six +3 %": (GAIN,) * 6,
    "five +3 %, one -3 %": (*(GAIN,) * 5, -0.03),
    "five +3 %, one -5 %": (*(GAIN,) * 5, -0.05),
    "five +3 %, one at the guard": (*(GAIN,) * 5, -0.02),
    "all six 0 %": (0.0,) * 6,
}
"""True gain of each shape."""


def guarded(
    machine: Machine, gains: Sequence[float], tries: int, limits: Limits, *, seed: Sequence[int]
) -> tuple[float, float]:
    """Shares of such candidates: kept, and rejected because a shape loses."""
    draw = np.random.default_rng(list(seed))
    ends = [_judged(machine, draw, gains, limits) for _ in range(tries)]
    lost = sum(reason == "core_regression" for _, reason in ends)
    return sum(accepted for accepted, _ in ends) / tries, lost / tries


def _judged(machine: Machine, draw: np.random.Generator, gains: Sequence[float], limits: Limits) -> tuple[bool, str]:
    before = machine.pairs(draw, len(LABELS), limits.calibration_pairs, blocks=limits.blocks)
    after = machine.pairs(draw, len(LABELS), limits.looks[-1], blocks=limits.blocks)
    after = after + np.log1p(np.array(gains))[:, None, None]
    noise = estimate_noise([make_comparison(_rows(before), candidate=BASE)])
    values = dict(zip(LABELS, after.tolist(), strict=True))
    standing = make_standing(dict.fromkeys(LABELS, 100.0), noise=noise)
    verdict, _ = drive(by_pairs(lambda label, pair: values[label][pair], LABELS), limits, standing=standing)
    return verdict.accepted, verdict.reason


def _rows(pairs: Floats) -> dict[str, tuple[tuple[float, ...], ...]]:
    return {label: tuple(map(tuple, rows)) for label, rows in zip(LABELS, pairs.tolist(), strict=True)}
