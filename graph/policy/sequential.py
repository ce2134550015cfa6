"""Deciding from pairs that arrive one after another: estimates, and bounds that hold at every look together."""

import math
import statistics
from collections.abc import Sequence

from ridgeline.graph.evidence import Comparison, ShapePairs
from ridgeline.graph.limits import Limits
from ridgeline.graph.noise import FLOOR_SD, Noise, Spread
from ridgeline.graph.policy.confidence import reach
from ridgeline.graph.policy.paired import check, merge, pair_means, scatter
from ridgeline.graph.policy.score import MixedEvidence
from ridgeline.graph.values import Value

LEAST_PAIRS = 2
"""Nothing is faster before a second process pair says so too."""
NOISIER = (7.0, 4.0)
"""Variance of the own pairs over that of identical versions beyond which they are judged by their own scatter alone:
with one degree of freedom, which luck takes far in one calm case out of fifty, and with more."""
SEEN = 0.95
"""Power of the last look alone at which a gain is called visible: screening and futility cost some of it, so that nine
in ten are kept (simulated: 90 to 92 per cent)."""


class ShapeEstimate(Value):
    """One shape, log scale; bounds hold for all shapes at once."""

    label: str
    config_class: str
    theta: float
    lower: float
    upper: float
    slower: bool
    """Slower than the shape guard allows, with confidence over all shapes together (Holm)."""


class Estimate(Value):
    """Log-ratio ln(t_best / t_candidate), mean over shapes and pairs, with one-sided bounds. Positive is faster."""

    theta: float
    lower: float
    """Minus infinity while nothing bounds it, for example one pair without a calibration."""
    upper: float
    sd: float
    """Standard deviation that one pair is taken to have; 0.0 while nothing is known of it."""
    pairs: int
    required: float
    """What `lower` must exceed: the margin, and what favours one side of identical versions here."""
    unlikely: bool
    """Below `required` at the futility limit's error rate."""
    shapes: tuple[ShapeEstimate, ...]


def estimate(comparisons: Sequence[Comparison], noise: Noise | None, limits: Limits) -> Estimate:
    """Everything the pairs so far say. Noise of another machine is no noise.

    Raises MixedEvidence for comparisons or noise that may not be pooled (another engine, other shapes), PairedError
    for unusable samples.
    """
    merged = merge(comparisons)
    check(merged)
    known = _usable(noise, merged)
    means = pair_means(merged.shapes)
    spread = _pooled(known, merged.shapes)
    squares, degrees = _with_own(means, spread)
    theta, half = statistics.fmean(means), reach(len(means), squares, degrees, alpha=limits.alpha)
    sd = math.sqrt(squares / degrees) if degrees else 0.0
    required = math.log1p(limits.margin) + (known.allowance if known else 0.0)
    doubt = statistics.NormalDist().inv_cdf(1 - limits.futility) * sd / math.sqrt(len(means))
    return Estimate(
        theta=theta,
        lower=theta - half,
        upper=theta + half,
        sd=sd,
        pairs=len(means),
        required=required,
        unlikely=degrees > 0 and theta + doubt < required,
        shapes=_shapes(merged.shapes, known, limits),
    )


def visible(noise: Noise, limits: Limits) -> float:
    """Smallest true gain, as a share, that is kept nine times in ten within the last look's pairs."""
    n, sd = limits.looks[-1], noise.sd
    squares, degrees = (noise.degrees + n - 1) * sd**2, noise.degrees + n - 1
    half = reach(n, squares, degrees, alpha=limits.alpha) + statistics.NormalDist().inv_cdf(SEEN) * sd / math.sqrt(n)
    return math.expm1(math.log1p(limits.margin) + noise.allowance + half)


def _usable(noise: Noise | None, merged: Comparison) -> Noise | None:
    if noise is None or noise.machine != merged.machine:
        return None
    if noise.engine != merged.engine:
        raise MixedEvidence(f"engine: pairs by {merged.engine} are never judged by the noise of {noise.engine}")
    return noise


def _pooled(known: Spread | None, shapes: Sequence[ShapePairs]) -> tuple[float, int]:
    """Squares and degrees of the calibration, enlarged where blocks scatter more now than they did then."""
    if known is None:
        return 0.0, 0
    now = scatter(shapes) / known.scatter if known.scatter > 0 else 1.0
    return max(known.squares, known.degrees * FLOOR_SD**2) * max(1.0, now) ** 2, known.degrees


def _with_own(means: Sequence[float], calibration: tuple[float, int]) -> tuple[float, int]:
    """Calibration and own pairs together; the own alone where they scatter like another experiment."""
    squares, degrees = calibration
    own = len(means) - 1
    center = statistics.fmean(means)
    mine = max(math.fsum((value - center) ** 2 for value in means), own * FLOOR_SD**2)
    if own and degrees and mine / own > NOISIER[own > 1] * squares / degrees:
        return mine, own
    return squares + mine, degrees + own


def _shapes(shapes: Sequence[ShapePairs], known: Noise | None, limits: Limits) -> tuple[ShapeEstimate, ...]:
    bounds = [_Bounds(shape, known.of(shape.label) if known else None) for shape in shapes]
    slower = _holm(bounds, math.log1p(-limits.shape_guard), limits.alpha)
    share = limits.alpha / len(bounds)
    return tuple(
        ShapeEstimate(
            label=shape.label,
            config_class=shape.config_class,
            theta=found.theta,
            lower=found.theta - found.half(share),
            upper=found.theta + found.half(share),
            slower=shape.label in slower,
        )
        for shape, found in zip(shapes, bounds, strict=True)
    )


class _Bounds:
    """One shape's mean, and its half-width at any error rate."""

    def __init__(self, shape: ShapePairs, known: Spread | None) -> None:
        means = pair_means((shape,))
        self.label = shape.label
        self.theta = statistics.fmean(means)
        self._pairs = len(means)
        self._squares, self._degrees = _with_own(means, _pooled(known, (shape,)))

    def half(self, alpha: float) -> float:
        return reach(self._pairs, self._squares, self._degrees, alpha=alpha)


def _holm(bounds: Sequence[_Bounds], guard: float, alpha: float) -> frozenset[str]:
    """Shapes whose upper bound is below the guard, step down: each one found leaves more error rate to the rest."""
    found: set[str] = set()
    while True:
        share = alpha / max(len(bounds) - len(found), 1)
        new = {one.label for one in bounds if one.label not in found and one.theta + one.half(share) < guard}
        if not new:
            return frozenset(found)
        found |= new
