"""Preset `autonomous`: design document 003. Full runs, the class gate, and kernel time decides."""

import statistics

from ridgeline.graph.evidence import Profiled
from ridgeline.graph.limits import Limits, by_document
from ridgeline.graph.rules.gates import is_same_rung, is_suspicious
from ridgeline.graph.rules.outcome import (
    Outcome,
    accept_outcome,
    answer_faster,
    average_shapes,
    compute_class_gains,
    describe_losing_classes,
    find_losing_classes,
    propose_split,
    reject_outcome,
    target_class,
)
from ridgeline.graph.rules.readings import Readings, active_labels, explain_losses, find_lost_shapes, reference_run
from ridgeline.graph.rules.score import EDGE, Delta, delta, exceeds, gain
from ridgeline.graph.standing import BenchmarkWant, Standing
from ridgeline.graph.trial import Stage, Timed, Traced, Verified
from ridgeline.graph.verdict import ShapeChange

KERNEL_TIME = "kernel_time_us"
"""Profile counter: mean device time of the target kernel in microseconds."""


class AutonomousRule:
    """Full benchmarks, again where doubtful; classes and core shapes are guarded, and kernel time decides."""

    def choose_measurement(
        self, trial: Verified | Timed, readings: Readings, standing: Standing, limits: Limits
    ) -> BenchmarkWant | None:
        """Full; again while a gain is within noise or suspiciously large, or a class lost so much that it is seen twice."""
        if readings.run("candidate", "full", 0) is None:
            return BenchmarkWant(which="candidate", level="full", repeat=0)
        if reference_run(readings, standing, "full") is None:
            return BenchmarkWant(which="best", level="full", repeat=0)
        deltas = _compute_deltas(readings, standing)
        if len(deltas) >= limits.repeat_same_direction or not _needs_repeat(deltas[-1], trial, limits):
            return None
        return BenchmarkWant(which="candidate", level="full", repeat=len(deltas))

    def decide(
        self, trial: Traced, readings: Readings, standing: Standing, limits: Limits, *, best_profile: Profiled | None
    ) -> Outcome:
        """Aggregate, classes, core shapes, noise, then kernel time where the preset wants it."""
        deltas = _compute_deltas(readings, standing)
        if not deltas:
            return reject_outcome(
                "undecided", "candidate and best have no full numbers to compare", faster="unverified"
            )
        mean, shapes = statistics.fmean(item.gain for item in deltas), average_shapes([item.shapes for item in deltas])
        rejection = (
            _check_classes(trial, deltas, limits)
            or _check_aggregate(deltas, trial, limits)
            or _check_core_shapes(mean, shapes, standing, limits)
        )
        if rejection:
            return rejection
        outcome = accept_outcome(mean, shapes, limits)
        return (
            _check_kernel_time(outcome, deltas, best_profile, trial.profile, limits)
            if limits.keep_gpu_time
            else outcome
        )


def _compute_deltas(readings: Readings, standing: Standing) -> list[Delta]:
    best = reference_run(readings, standing, "full")
    if best is None:
        return []
    runs = [run for run in readings.candidate if run.level == "full"]
    return [delta(run, best, standing.contract.scoring, labels=active_labels(standing, "full")) for run in runs]


def _needs_repeat(change: Delta, trial: Stage, limits: Limits) -> bool:
    small = exceeds(change.gain, 0.0) and not exceeds(change.gain, limits.noise_threshold)
    return small or is_suspicious(change.gain, limits) or bool(find_losing_classes(change.shapes, trial, limits))


def _check_classes(trial: Traced, deltas: list[Delta], limits: Limits) -> Outcome | None:
    """A class that lost in every measurement: split it off, or do not keep the candidate."""
    mean, shapes = statistics.fmean(item.gain for item in deltas), average_shapes([item.shapes for item in deltas])
    each = [find_losing_classes(item.shapes, trial, limits) for item in deltas]
    losers = tuple(name for name in each[0] if all(name in losing for losing in each))
    if not losers or len(compute_class_gains(shapes)) < 2:
        return None
    answer = answer_faster(mean, limits)
    split = propose_split(shapes, losers, trial=trial, limits=limits, gain=mean, faster=answer)
    why = (
        f"{describe_losing_classes(compute_class_gains(shapes), losers)} in {len(deltas)} of {len(deltas)} measurements"
    )
    return split or reject_outcome("class_regression", why, faster=answer, gain=mean, shapes=shapes)


def _check_aggregate(deltas: list[Delta], trial: Traced, limits: Limits) -> Outcome | None:
    mean, shapes = statistics.fmean(item.gain for item in deltas), average_shapes([item.shapes for item in deltas])
    target = target_class(shapes, trial)
    if target and (changed := compute_class_gains(shapes)[target]) <= EDGE:
        why = f"the target class {target} changed by {changed:+.1%}"
        return reject_outcome("not_better", why, faster=answer_faster(mean, limits), gain=mean, shapes=shapes)
    if not exceeds(mean, 0.0):
        return reject_outcome(
            "not_better", f"the aggregate changed by {mean:+.1%}", faster="no", gain=mean, shapes=shapes
        )
    if exceeds(mean, limits.noise_threshold) or _has_same_direction(deltas, limits):
        return None
    why = f"{mean:+.1%} is within noise and was not seen {limits.repeat_same_direction} times in the same direction"
    return reject_outcome("noise", why, faster="unverified", gain=mean, shapes=shapes)


def _has_same_direction(deltas: list[Delta], limits: Limits) -> bool:
    return len(deltas) >= limits.repeat_same_direction and all(exceeds(item.gain, 0.0) for item in deltas)


def _check_core_shapes(
    mean: float, shapes: tuple[ShapeChange, ...], standing: Standing, limits: Limits
) -> Outcome | None:
    drops = find_lost_shapes(shapes, standing, "full", limits)
    if not drops:
        return None
    return reject_outcome(
        "core_regression",
        explain_losses(drops, standing, "full", limits),
        faster=answer_faster(mean, limits),
        gain=mean,
        shapes=shapes,
    )


def _check_kernel_time(
    outcome: Outcome, deltas: list[Delta], before: Profiled | None, after: Profiled | None, limits: Limits
) -> Outcome:
    """A profile is taken once, so a gain within noise needs the benchmark's repetitions beside it."""
    times = _read_kernel_times(before, after)
    if times is None and _read_kernel_time(before) is not None:
        why = (
            "kernel time was read of the best version and could not be read of the candidate in the same way, and"
            f" {by_document(limits)} it decides, whatever was timed ({outcome.gain or 0.0:+.1%})"
        )
        return reject_outcome("trace_not_improved", why, faster="unverified", gain=outcome.gain, shapes=outcome.shapes)
    if times is None:
        note = "kernel time was not measured for both versions here; the benchmark's times decide alone"
        return outcome.model_copy(update={"notes": (*outcome.notes, note)})
    change = gain(times[1], times[0], higher_is_better=False)
    note = f"kernel time {times[0]:g} -> {times[1]:g} us ({change:+.1%})"
    if exceeds(change, limits.noise_threshold) or (change > 0 and _has_same_direction(deltas, limits)):
        return outcome.model_copy(update={"notes": (*outcome.notes, note)})
    benchmark = f"the benchmark alone changed by {outcome.gain or 0.0:+.1%}"
    return reject_outcome(
        "trace_not_improved",
        f"{note} did not improve beyond noise, and {by_document(limits)} it decides; {benchmark}",
        faster="no" if change <= 0 else "unverified",
        gain=change,
        shapes=outcome.shapes,
        notes=(note, benchmark),
    )


def _read_kernel_times(before: Profiled | None, after: Profiled | None) -> tuple[float, float] | None:
    if before is None or after is None or not is_same_rung(before, after):
        return None
    if before.rung_of(KERNEL_TIME) != after.rung_of(KERNEL_TIME):
        return None
    old, new = _read_kernel_time(before), _read_kernel_time(after)
    return (old, new) if old is not None and new is not None else None


def _read_kernel_time(profile: Profiled | None) -> float | None:
    """Kernel time in microseconds; None where the profile has none that can be one."""
    value = profile.counter(KERNEL_TIME) if profile else None
    return value if value is not None and value > 0 else None
