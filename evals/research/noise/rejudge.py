"""Recorded processes through the rule of preset `evidence` again: how often it decides what, after how many pairs."""

import itertools
import math
import random
import statistics
from collections.abc import Sequence

from ridgeline.evals.research.noise.recordings import KernelRecord, Role
from ridgeline.graph.evidence import Comparison
from ridgeline.graph.limits import Limits
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.stats.sequential import PairDecision, decide_from_pairs, estimate_gain
from ridgeline.graph.values import Value

SEED = 20261121


class Case(Value):
    """Which two versions, and a gain given to the candidate afterwards; 0.0 leaves the samples as recorded."""

    best: Role
    candidate: Role
    gain: float = 0.0


class Decision(Value):
    stand: PairDecision
    pairs: int
    """Fresh process pairs it took."""


class Tally(Value):
    """Decisions over resampled orders of one and the same processes."""

    decisions: tuple[Decision, ...]

    def share(self, stand: PairDecision, *, within: int | None = None) -> float:
        """Share of all orders of a noise study: those that ended so, with at most that many pairs."""
        hits = [d for d in self.decisions if d.stand == stand and (within is None or d.pairs <= within)]
        return len(hits) / len(self.decisions)

    @property
    def mean_pairs(self) -> float:
        return statistics.fmean([decision.pairs for decision in self.decisions])


def decide(pairs: Sequence[Comparison], noise: Noise | None, limits: Limits) -> Decision:
    """In a noise study: looks at the pairs as a campaign does, until a look decides or the looks are spent.

    `pairs`: one comparison a look, the new pairs of that look alone; as many as there are.
    """
    stand: PairDecision = "undecided"
    pair_count = 0
    for look in range(1, len(pairs) + 1):
        estimate = estimate_gain(pairs[:look], noise, limits)
        stand, pair_count = decide_from_pairs(estimate, limits), estimate.pairs
        if stand != "undecided":
            break
    return Decision(stand=stand, pairs=pair_count)


def tally(recorded: KernelRecord, case: Case, limits: Limits, *, orders: int) -> Tally:
    """In a noise study: shuffles the processes `orders` times: the first ones calibrate with the twins, the next ones are judged."""
    twins = recorded.comparison("A", "B", blocks=limits.blocks)
    judged = recorded.comparison(case.best, case.candidate, blocks=limits.blocks, gain=case.gain)
    return Tally(
        decisions=tuple(
            decide(_looks(judged, fresh, limits), estimate_noise([pick(twins, calibration)]), limits)
            for calibration, fresh in _orders(recorded, limits, orders=orders)
        )
    )


def noises(recorded: KernelRecord, limits: Limits, *, orders: int) -> tuple[Noise, ...]:
    """A study of noise: the calibrations that `tally` judges by."""
    twins = recorded.comparison("A", "B", blocks=limits.blocks)
    estimates = [estimate_noise([pick(twins, ours)]) for ours, _ in _orders(recorded, limits, orders=orders)]
    return tuple(noise for noise in estimates if noise is not None)


def pick(comparison: Comparison, chosen: Sequence[int]) -> Comparison:
    """The chosen pairs of a noise study alone; times stay those of the whole."""
    share = len(chosen) / len(comparison.shapes[0].pairs)
    shapes = [
        shape.model_copy(update={"pairs": tuple(shape.pairs[index] for index in chosen)}) for shape in comparison.shapes
    ]
    update = {"shapes": tuple(shapes), "seconds": share * comparison.seconds}
    return comparison.model_copy(update=update)


def _orders(recorded: KernelRecord, limits: Limits, *, orders: int) -> list[tuple[list[int], list[int]]]:
    rng, count = random.Random(SEED), limits.calibration_pairs
    shuffled = [rng.sample(range(len(recorded.processes)), count + limits.looks[-1]) for _ in range(orders)]
    return [(order[:count], order[count:]) for order in shuffled]


def _looks(judged: Comparison, fresh: Sequence[int], limits: Limits) -> list[Comparison]:
    return [pick(judged, fresh[start:end]) for start, end in itertools.pairwise((0, *limits.looks))]


class Scatter(Value):
    """The noise of one kernel with one engine, over every process and block recorded; log scale but for the level."""

    level_us: float
    level_sd: float
    """Of a process's median time."""
    block_sd: float
    """Within a process, of a block's log-ratio of the twins."""
    process_sd: float
    """Of a process's true log-ratio of the twins: what is left once the block noise is taken out."""
    offset: float
    """Mean log-ratio ln(t_A / t_B) of the twins."""
    offset_error: float
    """Standard error of `offset`."""
    order_offset: float
    """The same, with the sign of which twin was captured first: positive where the first one is slower."""
    order_error: float


def scatter_of(recorded: KernelRecord) -> Scatter:
    """Scatter of a noise study's processes: at least two processes of at least two blocks each."""
    ratios = [process.ratios("A", "B", blocks=len(process.blocks)) for process in recorded.processes]
    means = [statistics.fmean(blocks) for blocks in ratios]
    within = statistics.fmean([statistics.variance(blocks) for blocks in ratios])
    between = statistics.variance(means) - within / statistics.fmean([len(blocks) for blocks in ratios])
    signed = [process.sign("A", "B") * mean for process, mean in zip(recorded.processes, means, strict=True)]
    levels = [statistics.median([block.level("A") for block in process.blocks]) for process in recorded.processes]
    return Scatter(
        level_us=recorded.level_us,
        level_sd=statistics.stdev(levels),
        block_sd=math.sqrt(within),
        process_sd=math.sqrt(max(0.0, between)),
        offset=statistics.fmean(means),
        offset_error=statistics.stdev(means) / math.sqrt(len(means)),
        order_offset=statistics.fmean(signed),
        order_error=statistics.stdev(signed) / math.sqrt(len(signed)),
    )


def effect(recorded: KernelRecord, best: Role, candidate: Role) -> float:
    """In a noise study: gain of the candidate over every process recorded, as a share: the best estimate of what was planted."""
    means = [
        statistics.fmean(process.ratios(best, candidate, blocks=len(process.blocks))) for process in recorded.processes
    ]
    return math.expm1(statistics.fmean(means))
