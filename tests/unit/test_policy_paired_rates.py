"""What the default limits of preset `evidence` really do: simulated candidates, seeded, through the whole policy."""

import math
import random
from collections.abc import Callable

import pytest

from tests.builders import make_limits
from tests.judging import World, by_pairs, drive

LIMITS = make_limits()
Noise = Callable[[random.Random], float]


def normal(sd: float) -> Noise:
    return lambda draw: draw.gauss(0, sd)


def heavy(sd: float) -> Noise:
    """Student t with three degrees of freedom, scaled to that standard deviation."""
    return lambda draw: sd * draw.gauss(0, 1) / math.sqrt(draw.gammavariate(1.5, 2))


def world(draw: random.Random, gain: float, noise: Noise) -> World:
    """Pairs whose luck all shapes share, the worst case for a mean over shapes; five blocks in each."""
    luck: dict[int, float] = {}

    def blocks(label: str, pair: int) -> tuple[float, ...]:
        theta = math.log1p(gain) + luck.setdefault(pair, noise(draw))
        return tuple(theta + draw.gauss(0, 0.003) for _ in range(5))

    return by_pairs(blocks)


def rate(gain: float, noise: Noise, candidates: int) -> float:
    """Share of such candidates that is kept."""
    draw = random.Random(20260926)
    return sum(drive(world(draw, gain, noise), LIMITS)[0].accepted for _ in range(candidates)) / candidates


@pytest.mark.slow
@pytest.mark.parametrize("noise", [normal(0.01), normal(0.03), heavy(0.03)], ids=["1 %", "3 %", "3 % heavy tails"])
@pytest.mark.parametrize("gain", [0.0, LIMITS.margin], ids=["nothing", "just the margin"])
def test_a_candidate_without_a_gain_is_kept_at_most_once_in_a_hundred(gain, noise):
    assert rate(gain, noise, 1000) <= LIMITS.alpha


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gain", "noise", "least"),
    [(0.03, normal(0.01), 0.98), (0.05, normal(0.01), 0.99), (0.05, normal(0.03), 0.75), (0.05, heavy(0.03), 0.80)],
)
def test_a_real_gain_is_mostly_seen(gain, noise, least):
    assert rate(gain, noise, 200) >= least
