"""What a trial has measured so far, sorted by version and level."""

from collections.abc import Sequence
from typing import Literal

from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Comparison, Level, Measured, MixedEvidence
from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.score import at_least, exceeds
from ridgeline.graph.standing import Standing
from ridgeline.graph.trial import Applied, Judged, Stage, Timed, find
from ridgeline.graph.values import Value
from ridgeline.graph.verdict import ShapeChange

DISTURBED = "unstable"
"""The reason of a failure that says nothing about the candidate. Only pairs have it."""


class Readings(Value):
    """Evidence of one trial; benchmarks of each version in the order they were taken."""

    candidate: tuple[Benchmark, ...] = ()
    best: tuple[Benchmark, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    failed: BenchmarkFailed | None = None
    """What leaves the candidate without usable numbers; None while lost pairs may still be made up for."""
    lost_pairs: tuple[BenchmarkFailed, ...] = ()
    """Pairs that the machine disturbed, by its conditions alone and whatever they would have said."""

    def run(self, which: Literal["candidate", "best"], level: Level, repeat: int) -> Benchmark | None:
        """A trial's benchmark run of that version, level and repeat, if it was made."""
        runs = self.candidate if which == "candidate" else self.best
        return next((run for run in runs if run.level == level and run.repeat == repeat), None)


def sort_readings(trial: Stage, standing: Standing, limits: Limits) -> Readings:
    """For the verdict: the evidence of a trial, sorted. Raises MixedEvidence for a number that belongs to neither version."""
    applied, timed = find(trial, Applied), find(trial, Timed)
    assert applied is not None
    evidence = timed.evidence if timed else ()
    runs = [item for item in evidence if isinstance(item, Benchmark)]
    comparisons = tuple(item for item in evidence if isinstance(item, Comparison))
    for run in runs:
        if run.commit not in (applied.commit, standing.commit):
            raise MixedEvidence(f"a benchmark of {run.commit[:12]} is neither the candidate's nor the best version's")
    for item in comparisons:
        if (item.candidate, item.best) != (applied.commit, standing.commit):
            raise MixedEvidence(f"pairs of {item.candidate[:12]} and {item.best[:12]} are not of this round")
    return Readings(
        candidate=tuple(run for run in runs if run.commit == applied.commit),
        best=tuple(run for run in runs if run.commit == standing.commit),
        comparisons=comparisons,
        failed=_find_failure(evidence, limits),
        lost_pairs=tuple(item for item in evidence if isinstance(item, BenchmarkFailed) and item.reason == DISTURBED),
    )


def _find_failure(evidence: Sequence[Measured], limits: Limits) -> BenchmarkFailed | None:
    """For the verdict: the first failure of a trial that nothing makes up for: no disturbance, or one too many in a row."""
    row = 0
    for item in evidence:
        row = row + 1 if isinstance(item, BenchmarkFailed) else 0
        if isinstance(item, BenchmarkFailed) and (item.reason != DISTURBED or row >= limits.lost_in_a_row):
            return item
    return None


def is_left_unmeasured(judged: Judged) -> bool:
    """Whether the machine was too disturbed to time a candidate: nothing is known of it, so its verdict says nothing of the change."""
    timed = find(judged, Timed)
    if judged.verdict.reason != "benchmark_failed" or timed is None:
        return False
    last = (
        timed.evidence[-1] if timed.evidence else None
    )  # what else ends measuring comes behind a pair that was lost before
    return isinstance(last, BenchmarkFailed) and last.reason == DISTURBED


def active_labels(standing: Standing, level: Level) -> tuple[str, ...]:
    """For the verdict: labels that a trial's run of this level must have: no subset inside a level."""
    return standing.shapes if level == "quick" else standing.all_shapes


def core_labels(standing: Standing, level: Level) -> tuple[str, ...]:
    """For the verdict: core shapes at this level: the contract's, else the whole active set of the level."""
    labels = standing.contract.core_shapes
    return labels or (standing.core_shapes if level == "quick" else standing.all_shapes)


def find_lost_shapes(
    shapes: Sequence[ShapeChange], standing: Standing, level: Level, limits: Limits
) -> tuple[ShapeChange, ...]:
    """For the verdict: core shapes that lost core_shape_regress_limit or more, and protected ones that lost more than noise."""
    core, protected = core_labels(standing, level), standing.contract.scoring.protected_shapes
    return tuple(
        shape
        for shape in shapes
        if (shape.label in core and at_least(-shape.gain, limits.core_shape_regress_limit))
        or (shape.label in protected and exceeds(-shape.gain, limits.noise_threshold))
    )


def explain_losses(shapes: Sequence[ShapeChange], standing: Standing, level: Level, limits: Limits) -> str:
    """For the verdict: the losing shapes with the threshold that each crossed, for the sentence of a `core_regression`."""
    core, protected = core_labels(standing, level), standing.contract.scoring.protected_shapes
    texts = []
    for shape in shapes:
        threshold = f"shape_guard {limits.shape_guard:g}, with confidence"
        if shape.label in core and at_least(-shape.gain, limits.core_shape_regress_limit):
            threshold = f"core_shape_regress_limit {limits.core_shape_regress_limit:g}"
        elif shape.label in protected:
            threshold = "it is a protected shape"
        texts.append(f"shape {shape.label} lost {-shape.gain:.1%} ({threshold})")
    return ", ".join(texts)


def reference_run(readings: Readings, standing: Standing, level: Level) -> Benchmark | None:
    """For the verdict: numbers of the best version at a level; those taken in this round first. None when there are none yet."""
    if level == "quick":
        return standing.quick
    return readings.run("best", "full", 0) or standing.full


def find_failing_rows(run: Benchmark) -> tuple[str, ...]:
    """For the verdict: shapes whose row says FAIL or ERROR."""
    return tuple(row.label for row in run.rows if row.check != "PASS")
