"""The accept rules that kernel agents and benchmark tools use, on the same simulated machines as ours.

Each takes the machine, draws its own runs and answers for many candidates at once. A run is one process; its result is
the mean of its timings.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.bench.simulation_machine import Floats, Machine

TIMINGS = 20
"""Of one run."""
DO_BENCH_TIMINGS = 100
FLAT = 0.01
NEAR_NOISE = 0.02
REPEATS = 3
SIGMA_SHARE = 0.5
GAP = 0.005


@dataclass(frozen=True, kw_only=True)
class Answers:
    """One entry for each candidate."""

    kept: NDArray[np.bool_]
    claimed: Floats
    """Log of the gain that the rule would report for it."""
    runs: Floats
    """Process runs it cost, those of the best version too."""


Rule = Callable[[Machine, np.random.Generator, Floats], Answers]
"""(machine, random numbers, true log gains of the candidates)."""


def any_smaller(machine: Machine, draw: np.random.Generator, truth: Floats) -> Answers:
    """One run each; the smaller number wins."""
    seen = _measured(machine, draw, truth)
    return _answers(seen > 0, seen, 2)


def flat(machine: Machine, draw: np.random.Generator, truth: Floats) -> Answers:
    """One run each; kept from 1 per cent on."""
    seen = _measured(machine, draw, truth)
    return _answers(seen >= np.log1p(FLAT), seen, 2)


def twice(machine: Machine, draw: np.random.Generator, truth: Floats) -> Answers:
    """Kept from 1 per cent on; a smaller gain is noise unless a second measurement has the same sign."""
    first, second = _measured(machine, draw, truth), _measured(machine, draw, truth)
    large, small = first >= np.log1p(FLAT), (first > 0) & (first < np.log1p(FLAT))
    claimed = np.where(large, first, (first + second) / 2)
    return _answers(large | (small & (second > 0)), claimed, np.where(small, 4, 2))


def three_times(machine: Machine, draw: np.random.Generator, truth: Floats) -> Answers:
    """Below 2 per cent measured three times more; kept when their mean exceeds 1 per cent and twice their scatter."""
    first = np.expm1(_measured(machine, draw, truth))
    again = np.expm1(np.stack([_measured(machine, draw, truth) for _ in range(REPEATS)]))
    near, mean = (first > 0) & (first < NEAR_NOISE), again.mean(axis=0)
    steady = (mean > FLAT) & (again.std(axis=0, ddof=1) < SIGMA_SHARE * mean)
    kept = (first >= NEAR_NOISE) | (near & steady)
    return _answers(kept, np.log1p(np.where(near, mean, first)), np.where(near, 2 + 2 * REPEATS, 2))


def do_bench(machine: Machine, draw: np.random.Generator, truth: Floats) -> Answers:
    """Means of 100 timings in one process each, the candidate after the baseline; the smaller mean wins."""
    seen = _measured(machine, draw, truth, timings=DO_BENCH_TIMINGS)
    return _answers(seen > 0, seen, 2)


def intervals(machine: Machine, draw: np.random.Generator, truth: Floats) -> Answers:
    """From the fastest timing to the third quartile of 100, one process each; kept when 0.5 per cent lie between."""
    best, candidate = machine.runs(draw, len(truth), timings=DO_BENCH_TIMINGS)
    slowest = np.quantile(candidate, 0.75, axis=1) - truth
    kept = best.min(axis=1) - slowest > np.log1p(GAP)
    claimed = np.median(best, axis=1) - np.median(candidate, axis=1) + truth
    return _answers(kept, claimed, 2)


RULES: dict[str, Rule] = {
    "any smaller number wins": any_smaller,
    "1 % flat": flat,
    "1 %, or twice in the same direction": twice,
    "under 2 % measured 3 times more": three_times,
    "smaller mean of do_bench": do_bench,
    "intervals [min, Q3] 0.5 % apart": intervals,
}


def _measured(machine: Machine, draw: np.random.Generator, truth: Floats, *, timings: int = TIMINGS) -> Floats:
    """Log of (mean time of the best version / mean time of the candidate), a fresh run of either."""
    best, candidate = machine.runs(draw, len(truth), timings=timings)
    return np.log(np.exp(best).mean(axis=1)) - np.log(np.exp(candidate).mean(axis=1)) + truth


def _answers(kept: NDArray[np.bool_], claimed: Floats, runs: Floats | int) -> Answers:
    return Answers(kept=kept, claimed=claimed, runs=np.broadcast_to(np.asarray(runs, dtype=np.float64), kept.shape))
