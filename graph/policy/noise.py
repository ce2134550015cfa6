"""What identical versions show on this machine: the yardstick of every later decision, folded from A/A comparisons."""

import math
import statistics
from collections.abc import Sequence

from graph.evidence import Comparison, ShapePairs
from graph.policy.confidence import reach
from graph.policy.paired import FLOOR_SD, check, pair_means, scatter
from graph.policy.score import MixedEvidence
from graph.values import Engine, Value

LEAST_PAIRS = 2
"""Fewer show no scatter."""
OFFSET_ALPHA = 0.01
"""Error rate at which identical versions are found to differ systematically."""
ONE_SIDED_95 = statistics.NormalDist().inv_cdf(0.95)


class Spread(Value):
    """Scatter of process-pair means of identical versions, on the log scale."""

    squares: float
    """Sum of squared deviations of the pair means from the mean of their own A/A run."""
    degrees: int
    """Degrees of freedom of `squares`; the standard deviation of one pair is sqrt(squares / degrees)."""
    scatter: float
    """Mean absolute deviation of blocks from the median of their pair."""

    @property
    def sd(self) -> float:
        return max(math.sqrt(self.squares / self.degrees), FLOOR_SD)


class ShapeNoise(Spread):
    label: str


class Noise(Spread):
    """Of the mean over shapes, and of each shape."""

    machine: str
    """Fingerprint: another machine's noise says nothing."""
    engine: Engine
    pairs: int
    offset: float
    """Mean log-ratio of identical versions: 0 but for luck and for whatever favours one side systematically."""
    allowance: float
    """Added to the margin: 0, or how far `offset` may be from 0 where luck alone does not explain it."""
    seconds_per_pair: float
    shapes: tuple[ShapeNoise, ...]

    def of(self, label: str) -> ShapeNoise | None:
        return next((shape for shape in self.shapes if shape.label == label), None)


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
    """How far identical versions may truly lie apart: upper 95 per cent bound, once zero itself is excluded."""
    if abs(offset) <= reach(pairs, spread.squares, spread.degrees, alpha=OFFSET_ALPHA):
        return 0.0
    return abs(offset) + ONE_SIDED_95 * spread.sd / math.sqrt(pairs)


def _same(first: Comparison, other: Comparison) -> None:
    for what in ("machine", "engine"):
        if getattr(first, what) != getattr(other, what):
            raise MixedEvidence(f"{what}: identical versions on {getattr(first, what)} and {getattr(other, what)}")
    if [shape.label for shape in first.shapes] != [shape.label for shape in other.shapes]:
        raise MixedEvidence("shapes: identical versions were timed on different ones")
