"""Preset `autonomous`: design document 003. Full runs, the class gate, and kernel time decides."""

import statistics

from ridgeline.graph.evidence import Profiled
from ridgeline.graph.limits import Limits, by_document
from ridgeline.graph.policy.divergence import class_gains, losing, named, split, target_class
from ridgeline.graph.policy.gates import same_rung, suspicious
from ridgeline.graph.policy.outcome import Outcome, accept, averaged, faster, losses, lost, reject
from ridgeline.graph.policy.readings import Readings, active, guarded, reference
from ridgeline.graph.policy.score import EDGE, Delta, delta, exceeds, gain
from ridgeline.graph.standing import BenchmarkWant, Standing
from ridgeline.graph.trial import Stage, Traced
from ridgeline.graph.verdict import ShapeChange

KERNEL_TIME = "kernel_time_us"
"""Profile counter: mean device time of the target kernel in microseconds."""


def want(trial: Stage, found: Readings, standing: Standing, limits: Limits) -> BenchmarkWant | None:
    """Full; again while a gain is within noise or suspiciously large, or a class lost so much that it is seen twice."""
    if found.run("candidate", "full", 0) is None:
        return BenchmarkWant(which="candidate", level="full", repeat=0)
    if reference(found, standing, "full") is None:
        return BenchmarkWant(which="best", level="full", repeat=0)
    seen = _deltas(found, standing)
    if len(seen) >= limits.repeat_same_direction or not _again(seen[-1], trial, limits):
        return None
    return BenchmarkWant(which="candidate", level="full", repeat=len(seen))


def outcome(trial: Traced, found: Readings, standing: Standing, limits: Limits, *, before: Profiled | None) -> Outcome:
    """Aggregate, classes, core shapes, noise, then kernel time where the preset wants it."""
    seen = _deltas(found, standing)
    if not seen:
        return reject("undecided", "candidate and best have no full numbers to compare", faster="unverified")
    mean, shapes = statistics.fmean(item.gain for item in seen), averaged([item.shapes for item in seen])
    rejected = _classes(trial, seen, limits) or _aggregate(seen, trial, limits) or _core(mean, shapes, standing, limits)
    if rejected:
        return rejected
    kept = accept(mean, shapes, limits)
    return _kernel_time(kept, seen, before, trial.profile, limits) if limits.keep_gpu_time else kept


def _deltas(found: Readings, standing: Standing) -> list[Delta]:
    best = reference(found, standing, "full")
    if best is None:
        return []
    runs = [run for run in found.candidate if run.level == "full"]
    return [delta(run, best, standing.contract.scoring, labels=active(standing, "full")) for run in runs]


def _again(seen: Delta, trial: Stage, limits: Limits) -> bool:
    small = exceeds(seen.gain, 0.0) and not exceeds(seen.gain, limits.noise_threshold)
    return small or suspicious(seen.gain, limits) or bool(losing(seen.shapes, trial, limits))


def _classes(trial: Traced, seen: list[Delta], limits: Limits) -> Outcome | None:
    """A class that lost in every measurement: split it off, or do not keep the candidate."""
    mean, shapes = statistics.fmean(item.gain for item in seen), averaged([item.shapes for item in seen])
    each = [losing(item.shapes, trial, limits) for item in seen]
    losers = tuple(name for name in each[0] if all(name in others for others in each))
    if not losers or len(class_gains(shapes)) < 2:
        return None
    answer = faster(mean, limits)
    divided = split(shapes, losers, trial=trial, limits=limits, gain=mean, faster=answer)
    why = f"{named(class_gains(shapes), losers)} in {len(seen)} of {len(seen)} measurements"
    return divided or reject("class_regression", why, faster=answer, gain=mean, shapes=shapes)


def _aggregate(seen: list[Delta], trial: Traced, limits: Limits) -> Outcome | None:
    mean, shapes = statistics.fmean(item.gain for item in seen), averaged([item.shapes for item in seen])
    target = target_class(shapes, trial)
    if target and (changed := class_gains(shapes)[target]) <= EDGE:
        why = f"the target class {target} changed by {changed:+.1%}"
        return reject("not_better", why, faster=faster(mean, limits), gain=mean, shapes=shapes)
    if not exceeds(mean, 0.0):
        return reject("not_better", f"the aggregate changed by {mean:+.1%}", faster="no", gain=mean, shapes=shapes)
    if exceeds(mean, limits.noise_threshold) or _same_direction(seen, limits):
        return None
    why = f"{mean:+.1%} is within noise and was not seen {limits.repeat_same_direction} times in the same direction"
    return reject("noise", why, faster="unverified", gain=mean, shapes=shapes)


def _same_direction(seen: list[Delta], limits: Limits) -> bool:
    return len(seen) >= limits.repeat_same_direction and all(exceeds(item.gain, 0.0) for item in seen)


def _core(mean: float, shapes: tuple[ShapeChange, ...], standing: Standing, limits: Limits) -> Outcome | None:
    drops = lost(shapes, guarded(standing, "full"), limits)
    if not drops:
        return None
    return reject("core_regression", losses(drops), faster=faster(mean, limits), gain=mean, shapes=shapes)


def _kernel_time(
    kept: Outcome, seen: list[Delta], before: Profiled | None, after: Profiled | None, limits: Limits
) -> Outcome:
    """Rules 11.5. A profile is taken once, so a gain within noise needs the benchmark's repetitions beside it."""
    times = _times(before, after)
    if times is None and _kernel(before) is not None:
        why = (
            "kernel time was read of the best version and could not be read of the candidate in the same way, and"
            f" {by_document(limits)} it decides, whatever was timed ({kept.gain or 0.0:+.1%})"
        )
        return reject("trace_not_improved", why, faster="unverified", gain=kept.gain, shapes=kept.shapes)
    if times is None:
        note = "kernel time was not measured for both versions here; the benchmark's times decide alone"
        return kept.model_copy(update={"notes": (*kept.notes, note)})
    change = gain(times[1], times[0], higher_is_better=False)
    note = f"kernel time {times[0]:g} -> {times[1]:g} us ({change:+.1%})"
    if exceeds(change, limits.noise_threshold) or (change > 0 and _same_direction(seen, limits)):
        return kept.model_copy(update={"notes": (*kept.notes, note)})
    benchmark = f"the benchmark alone changed by {kept.gain or 0.0:+.1%}"
    return reject(
        "trace_not_improved",
        f"{note} did not improve beyond noise, and {by_document(limits)} it decides; {benchmark}",
        faster="no" if change <= 0 else "unverified",
        gain=change,
        shapes=kept.shapes,
        notes=(note, benchmark),
    )


def _times(before: Profiled | None, after: Profiled | None) -> tuple[float, float] | None:
    if before is None or after is None or not same_rung(before, after):
        return None
    if before.rung_of(KERNEL_TIME) != after.rung_of(KERNEL_TIME):
        return None
    old, new = _kernel(before), _kernel(after)
    return (old, new) if old is not None and new is not None else None


def _kernel(profile: Profiled | None) -> float | None:
    """Kernel time in microseconds; None where the profile has none that can be one."""
    value = profile.counter(KERNEL_TIME) if profile else None
    return value if value is not None and value > 0 else None
