"""Statistics of interleaved timings: the process pair is the unit of replication, everything is a log-ratio.

Blocks inside one pair share a process and its luck, so they are averaged first and never counted as evidence.
"""

import math
import statistics
from collections.abc import Sequence

from ridgeline.graph.evidence import Comparison, MixedEvidence, ShapePairs
from ridgeline.graph.stats.intervals import student_quantile
from ridgeline.graph.values import Value

FLOOR_SD = 0.001
"""Smallest standard deviation believed of pair means: 0.1 per cent. A few identical samples show a coarse clock, not
a perfect one, so their interval never shrinks to a point."""
TRIM = 0.2
"""Share of blocks cut at either end of a pair, against interrupts; from TRIM_FROM blocks on."""
TRIM_FROM = 5


class PairedError(ValueError):
    """Samples that allow no estimate: none at all, a pair that lacks a shape, a number that is not finite."""


class Interval(Value):
    """Log-ratio ln(t_best / t_candidate), mean over shapes and pairs, with one-sided bounds. Positive is faster."""

    theta: float
    lower: float
    """Minus infinity for a single pair: one pair proves nothing."""
    upper: float
    pairs: int


def run_fixed_test(comparison: Comparison, *, alpha: float) -> Interval:
    """Student t over the pair means of one experiment whose size was fixed beforehand, one-sided at `alpha`.

    Raises PairedError for unusable samples.
    """
    check_samples(comparison)
    means = compute_pair_means(comparison.shapes)
    theta, lower, upper = _student_interval(means, alpha)
    return Interval(theta=theta, lower=lower, upper=upper, pairs=len(means))


def merge_comparisons(comparisons: Sequence[Comparison]) -> Comparison:
    """Several batches of pairs of the same two versions as one.

    Times are means weighted by pairs; `raw` is that of the last batch, each batch keeps its own. Raises MixedEvidence
    for other versions, machines, engines or shapes, and PairedError for no batch.
    """
    if not comparisons:
        raise PairedError("no comparison to judge")
    earliest, latest = comparisons[0], comparisons[-1]
    for comparison in comparisons[1:]:
        _check_poolable(earliest, comparison)
    if len(comparisons) == 1:
        return earliest
    grouped = zip(*(item.shapes for item in comparisons), strict=True)
    return Comparison(
        best=earliest.best,
        candidate=earliest.candidate,
        machine=earliest.machine,
        engine=earliest.engine,
        shapes=tuple(_join_batches(parts) for parts in grouped),
        dropped_blocks=sum(item.dropped_blocks for item in comparisons),
        taken_blocks=sum(item.taken_blocks for item in comparisons),
        notes=tuple(dict.fromkeys(note for item in comparisons for note in item.notes)),
        raw=latest.raw,
        seconds=math.fsum(item.seconds for item in comparisons),
    )


def check_samples(comparison: Comparison) -> None:
    """Raises PairedError unless every shape has finite samples in the same number of pairs."""
    for shape in comparison.shapes:
        if not shape.pairs or not all(shape.pairs):
            raise PairedError(f"shape {shape.label} has a process pair without a single block")
        if not all(math.isfinite(block) for blocks in shape.pairs for block in blocks):
            raise PairedError(f"shape {shape.label} has a log-ratio that is not finite")
    if len({len(shape.pairs) for shape in comparison.shapes}) != 1:
        raise PairedError("the shapes were not measured in the same number of process pairs")


def _check_poolable(reference: Comparison, comparison: Comparison) -> None:
    for what in ("best", "candidate", "machine", "engine"):
        ours, theirs = getattr(reference, what), getattr(comparison, what)
        if ours != theirs:
            raise MixedEvidence(f"{what}: pairs of {ours} and of {theirs} are never pooled")
    labels = [[shape.label for shape in item.shapes] for item in (reference, comparison)]
    if labels[0] != labels[1]:
        raise MixedEvidence(f"shapes: pairs over {labels[0]} and over {labels[1]} are never pooled")


def _join_batches(parts: Sequence[ShapePairs]) -> ShapePairs:
    weights = [len(part.pairs) for part in parts]
    total = max(sum(weights), 1)
    return parts[0].model_copy(
        update={
            "pairs": tuple(pair for part in parts for pair in part.pairs),
            "best_us": math.fsum(w * part.best_us for w, part in zip(weights, parts, strict=True)) / total,
            "candidate_us": math.fsum(w * part.candidate_us for w, part in zip(weights, parts, strict=True)) / total,
        }
    )


def compute_pair_means(shapes: Sequence[ShapePairs]) -> list[float]:
    """One number per process pair: the trimmed mean of its blocks, averaged over shapes by their weights."""
    by_shape = [[_trimmed_mean(blocks) for blocks in shape.pairs] for shape in shapes]
    return [statistics.fmean(values, weights=weigh(shapes)) for values in zip(*by_shape, strict=True)]


def weigh(shapes: Sequence[ShapePairs]) -> list[float] | None:
    """Statistics of pairs: the weights of shapes in a mean; None where all are alike, so that it is the plain mean to the last bit."""
    weights = [shape.weight for shape in shapes]
    return weights if len(set(weights)) > 1 else None


def compute_block_scatter(shapes: Sequence[ShapePairs]) -> float:
    """Root mean square over shapes of the mean absolute deviation of blocks from their pair's median."""
    return math.sqrt(statistics.fmean([_deviation(shape) ** 2 for shape in shapes]))


def _deviation(shape: ShapePairs) -> float:
    """Mean distance of a shape's blocks from the median of their pair."""
    middles = [statistics.median(blocks) for blocks in shape.pairs]
    return statistics.fmean(
        [abs(block - middle) for middle, blocks in zip(middles, shape.pairs, strict=True) for block in blocks]
    )


def _trimmed_mean(blocks: Sequence[float]) -> float:
    cut = int(TRIM * len(blocks)) if len(blocks) >= TRIM_FROM else 0
    return statistics.fmean(sorted(blocks)[cut : len(blocks) - cut])


def _student_interval(means: Sequence[float], alpha: float) -> tuple[float, float, float]:
    center = statistics.fmean(means)
    if len(means) < 2:
        return center, -math.inf, math.inf
    spread = max(statistics.stdev(means), FLOOR_SD) / math.sqrt(len(means))
    half = student_quantile(alpha, len(means) - 1) * spread
    return center, center - half, center + half
