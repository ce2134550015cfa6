"""Noise of this machine: how much timings of identical versions differ, on the log scale.

`estimate_noise` makes it of A/A comparisons; every decision about time is judged by it. `find_changed_noise` says when
later pairs of identical versions (a canary) no longer agree with it.
"""

import math
import statistics
from collections.abc import Sequence

from ridgeline.graph.evidence import Comparison, MixedEvidence, ShapePairs
from ridgeline.graph.stats.intervals import confidence_half_width, student_quantile
from ridgeline.graph.stats.paired import FLOOR_SD, check_samples, compute_block_scatter, compute_pair_means
from ridgeline.graph.values import Engine, Value

OFFSET_ALPHA = 0.02
"""Error rate at which a calibration finds that identical versions differ systematically. Missing an offset costs false
accepts; finding one too many costs the campaign some of its power."""
LEAST_CALIBRATION_PAIRS = 2
"""Fewer show no scatter."""
ONE_SIDED_95 = statistics.NormalDist().inv_cdf(0.95)
DIFFERENT_ALPHA = 0.01
"""Error rate at which two copies of one version are called different, which has the machine calibrated again."""
SCATTER_RANGE = (0.25, 2.0)
"""Scatter of blocks of identical versions over what it was: outside of these it is another kind of noise. A machine
that is quieter than it was costs power and no honesty."""


KNOWN_ALPHA = 0.01
KNOWN_PAIRS = 12
"""Error rate and process pairs of a comparison for which the noise is asked to be small enough."""
KNOWN_OFFSET_SHARE = 0.1
"""Of the margin: how far the mean of identical versions may lie from 0 then; or, where luck alone does not explain it and
it is charged, how well it is to be known."""


class KnownNoise(Value):
    """When fewer pairs of identical versions are enough: what is seen with this noise would hardly be seen with less."""

    looks: tuple[int, ...]
    """Numbers of pairs at which that is asked."""
    margin: float
    shape_guard: float

    def holds(self, shapes: Sequence[ShapePairs]) -> bool:
        """Whether gains from twice the margin on are seen in KNOWN_PAIRS pairs, and losses of a shape at its guard.

        Noise that is believed too small for once keeps nothing: a comparison is judged by its own scatter too.
        """
        means = compute_pair_means(shapes)
        if len(means) not in self.looks or len(means) < LEAST_CALIBRATION_PAIRS:
            return False
        if _find_half_width(means) > self.margin or not self._is_offset_known(means):
            return False
        return all(_find_half_width(compute_pair_means((shape,))) <= self.shape_guard for shape in shapes)

    def _is_offset_known(self, means: Sequence[float]) -> bool:
        """Whether more pairs of identical versions would hardly change what their difference adds to the margin."""
        offset, sd = statistics.fmean(means), statistics.stdev(means)
        if abs(offset) <= KNOWN_OFFSET_SHARE * self.margin:
            return True
        error = max(sd, FLOOR_SD) / math.sqrt(len(means))
        return error <= KNOWN_OFFSET_SHARE * self.margin and _is_offset_real(offset, sd, len(means), len(means) - 1)


def _find_half_width(means: Sequence[float]) -> float:
    """Of the interval after KNOWN_PAIRS pairs that scatter as these do."""
    degrees = len(means) - 1 + KNOWN_PAIRS - 1
    squares = degrees * max(statistics.variance(means), FLOOR_SD**2)
    return confidence_half_width(KNOWN_PAIRS, squares, degrees, alpha=KNOWN_ALPHA)


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

    def shape_noise(self, label: str) -> ShapeNoise | None:
        """Noise of one shape; None where it was not calibrated."""
        return next((shape for shape in self.shapes if shape.label == label), None)


def estimate_noise(runs: Sequence[Comparison]) -> Noise | None:
    """A calibration and the canaries after it as one; None when no run has two pairs.

    Raises MixedEvidence for runs of two machines, engines or sets of shapes, PairedError for unusable samples.
    """
    runs = [run for run in runs if len(run.shapes[0].pairs) >= LEAST_CALIBRATION_PAIRS]
    if not runs:
        return None
    for run in runs:
        check_samples(run)
        _check_same_origin(runs[0], run)
    means = [compute_pair_means(run.shapes) for run in runs]
    spread, pairs = _estimate_spread(means, [run.shapes for run in runs]), sum(len(part) for part in means)
    offset = math.fsum(value for part in means for value in part) / pairs
    return Noise(
        **spread.model_dump(),
        machine=runs[0].machine,
        engine=runs[0].engine,
        pairs=pairs,
        offset=offset,
        allowance=_compute_allowance(offset, spread, pairs),
        seconds_per_pair=math.fsum(run.seconds for run in runs) / pairs,
        shapes=tuple(_estimate_shape_noise(parts) for parts in zip(*(run.shapes for run in runs), strict=True)),
    )


def find_changed_noise(canary: Comparison, noise: Noise) -> str:
    """Why `noise` is no longer that of this machine, by pairs of identical versions timed now; empty when it is."""
    means = compute_pair_means(canary.shapes)
    center = math.fsum(means) / len(means)
    squares = noise.squares + (len(means) - 1) * noise.sd**2
    half = confidence_half_width(len(means), squares, noise.degrees, alpha=DIFFERENT_ALPHA)
    if abs(center) > noise.allowance + half:
        return f"two copies of the best version seem to differ by {math.expm1(abs(center)):.1%}"
    ratio = compute_block_scatter(canary.shapes) / noise.scatter if noise.scatter > 0 else 1.0
    if not SCATTER_RANGE[0] <= ratio <= SCATTER_RANGE[1]:
        return f"timings of one and the same version scatter {ratio:.1f} times as much as when they were calibrated"
    return ""


def _estimate_spread(means: Sequence[Sequence[float]], shapes: Sequence[Sequence[ShapePairs]]) -> Spread:
    """Each run is taken about its own mean, so that a canary of another version adds scatter and no level."""
    weights = [len(part) for part in means]
    return Spread(
        squares=math.fsum((value - statistics.fmean(part)) ** 2 for part in means for value in part),
        degrees=sum(weights) - len(weights),
        scatter=math.fsum(w * compute_block_scatter(part) for w, part in zip(weights, shapes, strict=True))
        / sum(weights),
    )


def _estimate_shape_noise(parts: Sequence[ShapePairs]) -> ShapeNoise:
    spread = _estimate_spread([compute_pair_means((part,)) for part in parts], [(part,) for part in parts])
    return ShapeNoise(label=parts[0].label, **spread.model_dump())


def _compute_allowance(offset: float, spread: Spread, pairs: int) -> float:
    """How far identical versions may truly lie apart: upper 95 per cent bound, once zero itself is excluded.

    A t test says whether it is. A calibration may be looked at up to five times, so it finds a difference that is not
    there in 2 to 6 of 100 (simulated): that adds to the margin, and keeps nothing that should not be kept.
    """
    if not _is_offset_real(offset, math.sqrt(spread.squares / spread.degrees), pairs, spread.degrees):
        return 0.0
    return abs(offset) + ONE_SIDED_95 * spread.sd / math.sqrt(pairs)


def _is_offset_real(offset: float, sd: float, pairs: int, degrees: int) -> bool:
    """Whether identical versions differ by more than luck; by their own scatter, however small: what is found costs power alone."""
    return abs(offset) > student_quantile(OFFSET_ALPHA / 2, degrees) * sd / math.sqrt(pairs)


def _check_same_origin(reference: Comparison, comparison: Comparison) -> None:
    for what in ("machine", "engine"):
        if getattr(reference, what) != getattr(comparison, what):
            raise MixedEvidence(
                f"{what}: identical versions on {getattr(reference, what)} and {getattr(comparison, what)}"
            )
    if [shape.label for shape in reference.shapes] != [shape.label for shape in comparison.shapes]:
        raise MixedEvidence("shapes: identical versions were timed on different ones")
