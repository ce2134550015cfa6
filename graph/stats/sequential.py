"""Deciding from pairs that arrive one after another: estimates, and bounds that hold at every look together."""

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from ridgeline.graph.evidence import Comparison, MixedEvidence, ShapePairs
from ridgeline.graph.limits import Limits
from ridgeline.graph.stats.intervals import confidence_half_width
from ridgeline.graph.stats.noise import Noise, Spread
from ridgeline.graph.stats.paired import (
    FLOOR_SD,
    check_samples,
    compute_block_scatter,
    compute_pair_means,
    merge_comparisons,
)
from ridgeline.graph.values import Value

LEAST_PAIRS = 2
"""Nothing is faster before a second process pair says so too."""
NOISIER_VARIANCE = (7.0, 4.0)
"""Variance of the own pairs over that of identical versions beyond which they are judged by their own scatter alone:
with one degree of freedom, which luck takes far in one calm case out of fifty, and with more."""
VISIBLE_POWER = 0.95
"""Power of the last look alone at which a gain is called visible: screening and futility cost some of it, so that nine
in ten are kept (simulated: 90 to 92 per cent)."""
PairDecision = Literal["faster", "not_better", "unpromising", "lost", "undecided"]
"""not_better: below the margin, or unlikely to exceed it. lost: a shape is slower. unpromising: dropped after
screening, because its estimate is below the margin; nothing more is claimed of it."""


class ShapeEstimate(Value):
    """One shape, log scale; bounds hold for all shapes at once."""

    label: str
    config_class: str
    theta: float
    lower: float
    upper: float
    slower: bool
    """Slower than the shape guard allows, or at all where it is protected, with confidence over all shapes together (Holm)."""


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
    """What `lower` must exceed: `Limits.margin`, and the allowance for what favours one side of identical versions here.
    Sentences call the sum the margin."""
    unlikely: bool
    """Below `required` at the futility limit's error rate."""
    shapes: tuple[ShapeEstimate, ...]


def estimate_gain(
    comparisons: Sequence[Comparison], noise: Noise | None, limits: Limits, *, sharing: int = 1
) -> Estimate:
    """Everything the pairs so far say. Noise of another machine is no noise.

    `sharing`: candidates that share the error rate of being kept (Bonferroni): the bounds of all of them hold together
    at `limits.alpha`, whichever of them is then chosen and however they depend on one another.

    Raises MixedEvidence for comparisons or noise that may not be pooled (another engine, other shapes), PairedError
    for unusable samples.
    """
    merged = merge_comparisons(comparisons)
    check_samples(merged)
    noise = _matching_noise(noise, merged)
    means = compute_pair_means(merged.shapes)
    spread = _pool_calibration(noise, merged.shapes)
    squares, degrees = _pool_own_pairs(means, spread)
    theta, alpha = statistics.fmean(means), limits.alpha / sharing
    half = confidence_half_width(len(means), squares, degrees, alpha=alpha)
    sd = math.sqrt(squares / degrees) if degrees else 0.0
    required = math.log1p(limits.margin) + (noise.allowance if noise else 0.0)
    doubt = statistics.NormalDist().inv_cdf(1 - limits.futility) * sd / math.sqrt(len(means))
    return Estimate(
        theta=theta,
        lower=theta - half,
        upper=theta + half,
        sd=sd,
        pairs=len(means),
        required=required,
        unlikely=degrees > 0 and theta + doubt < required,
        shapes=_estimate_shapes(merged.shapes, noise, limits),
    )


def decide_from_pairs(pooled: Estimate, limits: Limits) -> PairDecision:
    """What the pairs so far say, asked at each look. Bounds that touch the margin decide nothing."""
    if pooled.upper < pooled.required or pooled.unlikely:
        return "not_better"
    if any(shape.slower for shape in pooled.shapes):
        return "lost"
    if pooled.lower > pooled.required and pooled.pairs >= LEAST_PAIRS:
        return "faster"
    return "unpromising" if pooled.pairs >= limits.screen_pairs and pooled.theta < pooled.required else "undecided"


def is_outpaced(estimate: Estimate, leader: Estimate, limits: Limits) -> bool:
    """Whether a candidate is slower than another one of its round, at the futility limit's error rate.

    It only ends measuring, so it keeps nothing that should not be kept. False while nothing is known of the scatter.
    """
    if not (estimate.sd and leader.sd):
        return False
    spread = math.hypot(estimate.sd / math.sqrt(estimate.pairs), leader.sd / math.sqrt(leader.pairs))
    return estimate.theta + statistics.NormalDist().inv_cdf(1 - limits.futility) * spread < leader.theta


def smallest_visible_gain(noise: Noise, limits: Limits) -> float:
    """Smallest true gain, as a share, that is kept nine times in ten within the last look's pairs."""
    n, sd = limits.looks[-1], noise.sd
    squares, degrees = (noise.degrees + n - 1) * sd**2, noise.degrees + n - 1
    half = confidence_half_width(n, squares, degrees, alpha=limits.alpha)
    luck = statistics.NormalDist().inv_cdf(VISIBLE_POWER) * sd / math.sqrt(n)
    return math.expm1(math.log1p(limits.margin) + noise.allowance + (half + luck))


def _matching_noise(noise: Noise | None, merged: Comparison) -> Noise | None:
    """The noise, if of this machine; else None. Raises MixedEvidence for another engine's."""
    if noise is None or noise.machine != merged.machine:
        return None
    if noise.engine != merged.engine:
        raise MixedEvidence(f"engine: pairs by {merged.engine} are never judged by the noise of {noise.engine}")
    return noise


def _pool_calibration(noise: Spread | None, shapes: Sequence[ShapePairs]) -> tuple[float, int]:
    """Squares and degrees of the calibration, enlarged where blocks scatter more now than they did then."""
    if noise is None:
        return 0.0, 0
    ratio = compute_block_scatter(shapes) / noise.scatter if noise.scatter > 0 else 1.0
    return max(noise.squares, noise.degrees * FLOOR_SD**2) * max(1.0, ratio) ** 2, noise.degrees


def _pool_own_pairs(means: Sequence[float], calibration: tuple[float, int]) -> tuple[float, int]:
    """Calibration and own pairs together; the own alone where they scatter like another experiment."""
    squares, degrees = calibration
    own_degrees = len(means) - 1
    center = statistics.fmean(means)
    own_squares = max(math.fsum((value - center) ** 2 for value in means), own_degrees * FLOOR_SD**2)
    if own_degrees and degrees and own_squares / own_degrees > NOISIER_VARIANCE[own_degrees > 1] * squares / degrees:
        return own_squares, own_degrees
    return squares + own_squares, degrees + own_degrees


def _estimate_shapes(shapes: Sequence[ShapePairs], noise: Noise | None, limits: Limits) -> tuple[ShapeEstimate, ...]:
    guard = math.log1p(-limits.shape_guard)
    bounds = [
        _Bounds(shape, noise.shape_noise(shape.label) if noise else None, guard=0.0 if shape.protected else guard)
        for shape in shapes
    ]
    slower = _find_slower(bounds, limits.alpha)
    share = limits.alpha / len(bounds)
    return tuple(
        ShapeEstimate(
            label=shape.label,
            config_class=shape.config_class,
            theta=bound.theta,
            lower=bound.theta - bound.half(share),
            upper=bound.theta + bound.half(share),
            slower=shape.label in slower,
        )
        for shape, bound in zip(shapes, bounds, strict=True)
    )


class _Bounds:
    """One shape's mean, its half-width at any error rate, and what it may lose."""

    def __init__(self, shape: ShapePairs, noise: Spread | None, *, guard: float) -> None:
        means = compute_pair_means((shape,))
        self.label, self.guard = shape.label, guard
        self.theta = statistics.fmean(means)
        self._pairs = len(means)
        self._squares, self._degrees = _pool_own_pairs(means, _pool_calibration(noise, (shape,)))

    def half(self, alpha: float) -> float:
        return confidence_half_width(self._pairs, self._squares, self._degrees, alpha=alpha)


def _find_slower(bounds: Sequence[_Bounds], alpha: float) -> frozenset[str]:
    """Shapes whose upper bound is below their guard, step down: each one found leaves more error rate to the rest."""
    slower: set[str] = set()
    while True:
        share = alpha / max(len(bounds) - len(slower), 1)
        more = {
            bound.label
            for bound in bounds
            if bound.label not in slower and bound.theta + bound.half(share) < bound.guard
        }
        if not more:
            return frozenset(slower)
        slower |= more
