"""A made-up machine at the level of single timings: what disturbs them is known, so every wrong verdict is seen."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BIAS = 0.3
"""Standard deviation of what one pair of processes adds to every ratio in it, in units of the noise of one timing."""
WARM_UP = 0.01
WARM_UP_TIMINGS = 20.0
"""After idling, timings are longer by WARM_UP and lose that exponentially, with this time constant."""
WANDER = 0.008
WANDER_STEP = 0.95
"""Clock: a stationary AR(1) over timings with this standard deviation and this correlation of neighbours."""
OUTLIERS = 0.03
OUTLIER_MEAN = 0.02
"""Share of timings that are hit by something, and by how much on average (exponential)."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """How timings scatter; everything is on the log scale, so 0.01 is 1 per cent."""

    name: str
    noise: float
    """Standard deviation of a single timing."""
    bias: float | None = None
    """Standard deviation of a process pair's own ratio; BIAS times `noise` when not given."""
    tails: Literal["normal", "t5"] = "normal"
    """Of the process pair's ratio. t5: Student t with 5 degrees of freedom, scaled to the same deviation."""
    warm_up: bool = False
    wander: bool = False
    outliers: bool = False
    offset: float = 0.0
    """What identical versions differ by on this machine, in favour of the candidate's place."""

    @property
    def pair_bias(self) -> float:
        return BIAS * self.noise if self.bias is None else self.bias

    def disturbed(self, draw: np.random.Generator, count: int, timings: int) -> Floats:
        """Log-times of `count` sessions of `timings` timings one after another, the same version throughout."""
        logs = draw.normal(0.0, self.noise, (count, timings))
        if self.warm_up:
            logs += np.log1p(WARM_UP * np.exp(-np.arange(timings) / WARM_UP_TIMINGS))
        if self.wander:
            logs += _wander(draw, count, timings)
        if self.outliers:
            hit = draw.random((count, timings)) < OUTLIERS
            logs += np.log1p(hit * draw.exponential(OUTLIER_MEAN, (count, timings)))
        return logs

    def luck(self, draw: np.random.Generator, count: int) -> Floats:
        """What each of `count` process pairs adds to its log-ratio, `offset` included."""
        if self.tails == "t5":
            return self.offset + self.pair_bias * math.sqrt(3 / 5) * draw.standard_t(5, count)
        return self.offset + draw.normal(0.0, self.pair_bias, count)

    def pairs(self, draw: np.random.Generator, count: int, pairs: int, *, blocks: int) -> Floats:
        """Log-ratios ln(t_best / t_candidate) of identical versions, [count, pairs, blocks], from ABBA/BAAB blocks."""
        logs = self.disturbed(draw, count * pairs, 4 * blocks).reshape(count, pairs, blocks, 4)
        outer, inner = logs[..., [0, 3]].mean(axis=-1), logs[..., [1, 2]].mean(axis=-1)
        best_outside = draw.random((count, pairs, blocks)) < 0.5
        ratios = np.where(best_outside, outer - inner, inner - outer)
        return ratios + self.luck(draw, count * pairs).reshape(count, pairs, 1)

    def runs(self, draw: np.random.Generator, count: int, *, timings: int) -> tuple[Floats, Floats]:
        """Log-times of the best version, then of the candidate: one process each, [count, timings] both.

        The order is the usual one, baseline first, in one session: what warms up or wanders does so through both.
        """
        logs = self.disturbed(draw, count, 2 * timings)
        best, candidate = logs[:, :timings], logs[:, timings:]
        return best, candidate - self.luck(draw, count)[:, None]


def _wander(draw: np.random.Generator, count: int, timings: int) -> Floats:
    steps = draw.normal(0.0, WANDER * math.sqrt(1 - WANDER_STEP**2), (count, timings))
    steps[:, 0] = draw.normal(0.0, WANDER, count)
    for at in range(1, timings):
        steps[:, at] += WANDER_STEP * steps[:, at - 1]
    return steps


def _grid() -> tuple[Machine, ...]:
    found = []
    for noise in (0.005, 0.01, 0.02):
        label = f"noise {noise * 100:g} %"
        found += [
            Machine(name=label, noise=noise),
            Machine(name=f"{label}, warm-up drift", noise=noise, warm_up=True),
            Machine(name=f"{label}, clock wander", noise=noise, wander=True),
            Machine(name=f"{label}, outliers", noise=noise, outliers=True),
            Machine(name=f"{label}, all of these", noise=noise, warm_up=True, wander=True, outliers=True),
        ]
    return tuple(found)


GRID = _grid()
"""Noise of a timing times what else disturbs it."""
HARSH = Machine(name="every pair mean has sd 1 %", noise=0.003, bias=0.01)
"""The noise is the pair's: no number of blocks averages it away."""
TAILS = Machine(name="every pair mean t5, sd 1 %", noise=0.003, bias=0.01, tails="t5")
