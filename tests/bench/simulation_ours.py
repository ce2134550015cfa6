"""Simulated candidates through the real rule: `estimate_noise`, `estimate_gain` and `decide_from_pairs` at every look."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ridgeline.graph.evidence import Comparison, ShapePairs
from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.calibration import make_known_noise
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.stats.sequential import PairDecision, decide_from_pairs, estimate_gain
from ridgeline.graph.values import Artifact
from tests.bench.simulation_machine import Floats, Machine

RAW = Artifact(name="pairs.csv", sha256="0" * 64, size=1)
Blocks = Sequence[Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What became of `tries` candidates with the same true gain."""

    tries: int
    kept: int
    pairs: float
    """Mean process pairs of a candidate."""
    pairs_kept: float
    """Mean process pairs of a kept one; not a number when none was kept."""
    stands: tuple[tuple[str, int], ...]

    @property
    def rate(self) -> float:
        return self.kept / self.tries

    @property
    def most(self) -> float:
        """Upper 95 per cent bound of the rate (Clopper and Pearson 1934)."""
        from scipy.stats import beta

        return 1.0 if self.kept == self.tries else float(beta.ppf(0.95, self.kept + 1, self.tries - self.kept))


def compared(blocks: Blocks) -> Comparison:
    """One shape, those pairs of blocks. Built without validation: a simulation makes millions."""
    shape = ShapePairs.model_construct(
        label="s", config_class="all", pairs=tuple(tuple(pair) for pair in blocks), best_us=100.0, candidate_us=100.0
    )
    return Comparison.model_construct(
        best="a", candidate="b", machine="m", engine="wall", shapes=(shape,), notes=(), raw=RAW, seconds=0.0
    )


def calibrated(blocks: Blocks, limits: Limits | None = None) -> Noise | None:
    """By all these pairs, or by as many as the limits ask for."""
    known = make_known_noise(limits) if limits else None
    looks = [look for look in known.looks if look < len(blocks)] if known else []
    enough = next((look for look in looks if known and known.holds(compared(blocks[:look]).shapes)), len(blocks))
    return estimate_noise([compared(blocks[:enough])]) if enough else None


def decided(blocks: Blocks, noise: Noise | None, limits: Limits) -> tuple[PairDecision, int]:
    """Where the pairs of one candidate end, and how many of them were looked at."""
    stand: PairDecision = "undecided"
    for look in limits.looks:
        stand = decide_from_pairs(estimate_gain([compared(blocks[:look])], noise, limits), limits)
        if stand != "undecided":
            return stand, look
    return stand, limits.looks[-1]


def tallied(ends: Sequence[tuple[PairDecision, int]]) -> Tally:
    kept = [pairs for stand, pairs in ends if stand == "faster"]
    return Tally(
        tries=len(ends),
        kept=len(kept),
        pairs=sum(pairs for _, pairs in ends) / len(ends),
        pairs_kept=sum(kept) / len(kept) if kept else math.nan,
        stands=tuple(Counter(stand for stand, _ in ends).most_common()),
    )


def judged(
    machine: Machine,
    gains: Sequence[tuple[float, int]],
    limits: Limits,
    *,
    seed: Sequence[int],
    later: Machine | None = None,
) -> list[Tally]:
    """One tally for each (true gain, candidates); `later`: the machine as it is once it has been calibrated.

    Every candidate has a calibration of its own. Candidates of all gains meet the same luck, which is what makes the
    columns of a table comparable.
    """
    draw = np.random.default_rng(list(seed))
    most = max(tries for _, tries in gains)
    before = machine.pairs(draw, most, limits.calibration_pairs, blocks=limits.blocks)
    after = (later or machine).pairs(draw, most, limits.looks[-1], blocks=limits.blocks)
    noises = [calibrated(run, limits) for run in before.tolist()]
    return [tallied(_ends(after[:tries] + math.log1p(gain), noises, limits)) for gain, tries in gains]


def _ends(pairs: Floats, noises: Sequence[Noise | None], limits: Limits) -> list[tuple[PairDecision, int]]:
    return [decided(blocks, noise, limits) for blocks, noise in zip(pairs.tolist(), noises, strict=False)]
