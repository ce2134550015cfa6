"""A whole search: 60 candidates one after another; what a rule claims at the end, and what is true."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ridgeline.graph.evidence import Comparison
from ridgeline.graph.limits import Limits
from ridgeline.graph.stats.noise import estimate_noise
from ridgeline.graph.stats.paired import run_fixed_test
from tests.bench.fields import Rule
from tests.bench.simulation_machine import Floats, Machine
from tests.bench.simulation_ours import compared, decided

ROUNDS = 60
NULL, WORSE = 0.7, 0.2
"""Shares of candidates that change nothing, and that are slower by 0 to 3 per cent; the rest are real gains."""
SLOWEST = -0.03
GAINS = (0.005, 0.05)


@dataclass(frozen=True, kw_only=True)
class Search:
    """Means over searches of one rule."""

    searches: int
    wrong: float
    """Candidates kept that gain nothing or lose."""
    found: float
    """Share of the true gain on offer that the champion has (logarithms)."""
    claimed: float
    """Gain that is reported, as a share: stage gains multiplied; ours: the estimate of the final test."""
    at_least: float
    """Ours: the lower bound of the final test, which is the claim. Others state none: not a number."""
    real: float
    overclaimed: float
    """Share of searches that claim more than is true; ours: whose lower bound does."""
    runs: float
    """Process runs of the whole search, calibration, canaries and final test included."""


def candidates(draw: np.random.Generator, searches: int) -> Floats:
    """True log gain of each candidate over the version it changes, [searches, rounds]; more searches begin alike."""
    kind, worse, better = np.moveaxis(draw.random((searches, 3, ROUNDS)), 1, 0)
    gains = GAINS[0] + (GAINS[1] - GAINS[0]) * better
    return np.log1p(np.where(kind < NULL, 0.0, np.where(kind < NULL + WORSE, SLOWEST * worse, gains)))


def searched_by(rule: Rule, machine: Machine, searches: int, *, seed: Sequence[int]) -> Search:
    """A rule of the field, every candidate against the best version of its time."""
    draw = np.random.default_rng(list(seed))
    truth = candidates(draw, searches)
    found = rule(machine, draw, truth.ravel())
    kept = found.kept.reshape(truth.shape)
    claimed = np.where(kept, found.claimed.reshape(truth.shape), 0.0).sum(axis=1)
    real = np.where(kept, truth, 0.0).sum(axis=1)
    return _summed(truth, kept, claimed=claimed, lower=None, real=real, runs=found.runs.sum() / searches)


def searched(machine: Machine, searches: int, limits: Limits, *, seed: Sequence[int]) -> Search:
    """Ours: calibration, canaries, sequential test of each candidate, one final test of champion against original."""
    draw = np.random.default_rng(list(seed))
    truth = candidates(draw, searches)
    ends = [_campaign(machine, draw, gains, limits) for gains in truth]
    kept = np.stack([end.kept for end in ends])
    claimed, lower, real = (np.array([getattr(end, name) for end in ends]) for name in ("claimed", "lower", "real"))
    runs = sum(end.pairs for end in ends) * 2 / searches
    return _summed(truth, kept, claimed=claimed, lower=lower, real=real, runs=runs)


@dataclass(frozen=True, kw_only=True)
class _Campaign:
    kept: np.ndarray
    claimed: float
    lower: float
    real: float
    pairs: int


def _campaign(machine: Machine, draw: np.random.Generator, gains: Floats, limits: Limits) -> _Campaign:
    """No claim, 0.0, where nothing was kept."""
    pairs = limits.calibration_pairs
    same = [_compared(machine, draw, limits.calibration_pairs, limits)]
    noise, kept = estimate_noise(same), np.zeros(len(gains), dtype=bool)
    blocks = machine.pairs(draw, len(gains), limits.looks[-1], blocks=limits.blocks) + gains[:, None, None]
    for at, candidate in enumerate(blocks.tolist()):
        stand, looked = decided(candidate, noise, limits)
        kept[at], pairs = stand == "faster", pairs + looked
        if (at + 1) % limits.canary_every == 0:
            same.append(_compared(machine, draw, limits.canary_pairs, limits))
            noise, pairs = estimate_noise(same), pairs + limits.canary_pairs
    real = float(gains[kept].sum())
    if not kept.any():
        return _Campaign(kept=kept, claimed=0.0, lower=0.0, real=real, pairs=pairs)
    final = run_fixed_test(_compared(machine, draw, limits.final_pairs, limits, gain=real), alpha=limits.alpha)
    return _Campaign(kept=kept, claimed=final.theta, lower=final.lower, real=real, pairs=pairs + limits.final_pairs)


def _compared(
    machine: Machine, draw: np.random.Generator, pairs: int, limits: Limits, *, gain: float = 0.0
) -> Comparison:
    return compared((machine.pairs(draw, 1, pairs, blocks=limits.blocks)[0] + gain).tolist())


def _summed(
    truth: Floats, kept: np.ndarray, *, claimed: Floats, lower: Floats | None, real: Floats, runs: float
) -> Search:
    offered = np.where(truth > 0, truth, 0.0).sum()
    stated = claimed if lower is None else lower
    return Search(
        searches=len(truth),
        wrong=float((kept & (truth <= 0)).sum() / len(truth)),
        found=float(real.sum() / offered),
        claimed=math.expm1(claimed.mean()),
        at_least=math.nan if lower is None else math.expm1(lower.mean()),
        real=math.expm1(real.mean()),
        overclaimed=float((stated > real + 1e-12).mean()),
        runs=float(runs),
    )
