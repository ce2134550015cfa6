"""What identical versions show on this machine: the yardstick of every later decision, folded from A/A comparisons."""

import math
import statistics
from collections.abc import Sequence

from ridgeline.graph.evidence import Comparison, ShapePairs
from ridgeline.graph.noise import Noise, ShapeNoise, Spread
from ridgeline.graph.policy.paired import check, pair_means, scatter
from ridgeline.graph.policy.score import MixedEvidence
from ridgeline.graph.student import critical

OFFSET_ALPHA = 0.02
"""Error rate at which a calibration finds that identical versions differ systematically. Missing an offset costs false
accepts; finding one too many costs the campaign some of its power."""
LEAST_PAIRS = 2
"""Fewer show no scatter."""
ONE_SIDED_95 = statistics.NormalDist().inv_cdf(0.95)


def noise_of(runs: Sequence[Comparison]) -> Noise | None:
    """A calibration and the canaries after it as one; None when no run has two pairs.

    Raises MixedEvidence for runs of two machines, engines or sets of shapes, PairedError for unusable samples.
    """
    runs = [run for run in runs if len(run.shapes[0].pairs) >= LEAST_PAIRS]
    if not runs:
        return None
    for run in runs:
        check(run)
        _same(runs[0], run)
    means = [pair_means(run.shapes) for run in runs]
    spread, pairs = _spread(means, [run.shapes for run in runs]), sum(len(part) for part in means)
    offset = math.fsum(value for part in means for value in part) / pairs
    return Noise(
        **spread.model_dump(),
        machine=runs[0].machine,
        engine=runs[0].engine,
        pairs=pairs,
        offset=offset,
        allowance=_allowance(offset, spread, pairs),
        seconds_per_pair=math.fsum(run.seconds for run in runs) / pairs,
        shapes=tuple(_shape(parts) for parts in zip(*(run.shapes for run in runs), strict=True)),
    )


def _spread(means: Sequence[Sequence[float]], shapes: Sequence[Sequence[ShapePairs]]) -> Spread:
    """Each run is taken about its own mean, so that a canary of another version adds scatter and no level."""
    weights = [len(part) for part in means]
    return Spread(
        squares=math.fsum((value - statistics.fmean(part)) ** 2 for part in means for value in part),
        degrees=sum(weights) - len(weights),
        scatter=math.fsum(w * scatter(part) for w, part in zip(weights, shapes, strict=True)) / sum(weights),
    )


def _shape(parts: Sequence[ShapePairs]) -> ShapeNoise:
    spread = _spread([pair_means((part,)) for part in parts], [(part,) for part in parts])
    return ShapeNoise(label=parts[0].label, **spread.model_dump())


def _allowance(offset: float, spread: Spread, pairs: int) -> float:
    """How far identical versions may truly lie apart: upper 95 per cent bound, once zero itself is excluded.

    A calibration has a size that was fixed beforehand and is looked at once, so a plain t test says whether it is.
    """
    error = spread.sd / math.sqrt(pairs)
    return (
        0.0 if abs(offset) <= critical(OFFSET_ALPHA / 2, spread.degrees) * error else abs(offset) + ONE_SIDED_95 * error
    )


def _same(first: Comparison, other: Comparison) -> None:
    for what in ("machine", "engine"):
        if getattr(first, what) != getattr(other, what):
            raise MixedEvidence(f"{what}: identical versions on {getattr(first, what)} and {getattr(other, what)}")
    if [shape.label for shape in first.shapes] != [shape.label for shape in other.shapes]:
        raise MixedEvidence("shapes: identical versions were timed on different ones")
