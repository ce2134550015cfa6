"""Gates before any number counts: build, correctness, Check, benchmark, physics, Rule 11. And notes for all presets."""

from typing import Literal

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Benchmark, BenchmarkFailed, Profiled
from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.outcome import CAUSES, Outcome, reject_outcome
from ridgeline.graph.rules.physics import find_impossible_time
from ridgeline.graph.rules.readings import Readings, active_labels, find_failing_rows, reference_run
from ridgeline.graph.rules.score import ScoreError, at_least, delta, exceeds
from ridgeline.graph.standing import Standing
from ridgeline.graph.stats.paired import PairedError, check_samples, merge_comparisons
from ridgeline.graph.trial import Traced, find_proposal
from ridgeline.graph.values import FORBIDDEN_BUCKETS
from ridgeline.graph.verdict import Verdict

SPILLS = "spills"
OCCUPANCY = "occupancy"
UNEXPLAINED = "unexplained: "


def check_hard_gates(trial: Traced, readings: Readings, standing: Standing) -> Outcome | None:
    """Build, correctness, Check, benchmark, Rule 11: what rejects whatever the numbers say. None when all hold."""
    verified = trial.timed.verified
    if not verified.built.build.ok:
        return reject_outcome("build_failed", CAUSES["build_failed"], faster="unverified")
    if not verified.test.passed:
        return reject_outcome("incorrect", f"{CAUSES['incorrect']}: {verified.test.detail}", faster="unverified")
    return (
        _check_rows(readings)
        or _check_numbers(readings, standing)
        or _check_physics(readings, standing)
        or _check_bucket(trial)
    )


def compare_minimal_projects(
    candidate: Benchmark | BenchmarkFailed, best: Benchmark | BenchmarkFailed, scoring: Scoring, limits: Limits
) -> tuple[float | None, tuple[Literal["benchmark_failed", "local_gate", "stopped"], str] | None]:
    """Gain of a candidate in the minimal project, and why it ends there: reason and detail, None to go on.

    One run each is no measurement: only a loss beyond what a core shape may lose ends it. A best version without
    numbers is no fault of the candidate's.
    """
    if isinstance(candidate, BenchmarkFailed):
        reason: Literal["stopped", "benchmark_failed"] = (
            "stopped" if candidate.reason == "stopped" else "benchmark_failed"
        )
        return None, (reason, f"in the minimal project: {candidate.reason}: {candidate.detail}")
    if labels := find_failing_rows(candidate):
        return None, ("benchmark_failed", f"in the minimal project Check is not PASS for {', '.join(labels)}")
    if isinstance(best, BenchmarkFailed):
        return None, None
    try:
        gain = delta(candidate, best, scoring).gain
    except ScoreError as error:
        return None, ("benchmark_failed", f"in the minimal project: {error}")
    if at_least(-gain, limits.core_shape_regress_limit):
        return gain, (
            "local_gate",
            f"{gain:+.1%} against the best version there; {-limits.core_shape_regress_limit:+.0%} ends it",
        )
    return gain, None


def is_usable(readings: Readings, standing: Standing) -> bool:
    """Whether measuring on makes sense: a failed run or row decides the round at once."""
    if readings.failed is not None or _check_rows(readings) is not None:
        return False
    return not readings.candidate or (_check_numbers(readings, standing) or _check_physics(readings, standing)) is None


def read_counters(name: str, before: Profiled, after: Profiled) -> tuple[float | None, float | None]:
    """A counter of two profiles; nothing where one has it from another rung of the ladder."""
    if before.rung_of(name) != after.rung_of(name):
        return None, None
    return before.counter(name), after.counter(name)


def note_missing_counters(outcome: Outcome, before: Profiled | None, after: Profiled | None) -> tuple[str, ...]:
    """A note where spills or occupancy are known of the best version and not of an accepted candidate."""
    if outcome.decision != "accepted" or before is None:
        return ()
    names = [name for name in (SPILLS, OCCUPANCY) if before.counter(name) is not None]
    same = after is not None and is_same_rung(before, after)
    missing = [name for name in names if not same or after is None or read_counters(name, before, after)[1] is None]
    return (f"not read of the candidate, so not compared: {', '.join(missing)}",) if missing else ()


def note_suspicious_gain(outcome: Outcome, limits: Limits) -> tuple[str, ...]:
    """A note on a gain larger than one change usually has; it rejects nothing."""
    if outcome.gain is None or not is_suspicious(outcome.gain, limits):
        return ()
    return (
        f"suspicious: {outcome.gain:+.1%} is more than {limits.measurement_suspect_delta:+.0%}; re-check the bucket, "
        "that all the work is still done, and that nothing else ran on the device",
    )


def needs_person(verdict: Verdict) -> bool:
    """Whether a campaign that asks people for anything must ask about this acceptance."""
    return verdict.accepted and any(note.startswith(UNEXPLAINED) for note in verdict.notes)


def is_suspicious(gain: float, limits: Limits) -> bool:
    """Whether a gain is larger than one change usually brings, which a note says; presets that follow a document measure it again first."""
    return exceeds(gain, limits.measurement_suspect_delta)


def is_same_rung(before: Profiled, after: Profiled) -> bool:
    """Whether counters of two profiles may be compared."""
    return (before.rung, before.machine) == (after.rung, after.machine)


def _check_rows(readings: Readings) -> Outcome | None:
    for run in readings.candidate:
        if labels := find_failing_rows(run):
            return reject_outcome("check_failed", f"Check is not PASS for {', '.join(labels)}", faster="unverified")
    return None


def _check_numbers(readings: Readings, standing: Standing) -> Outcome | None:
    if readings.failed is not None and readings.failed.reason == "stopped":
        return reject_outcome("stopped", f"{CAUSES['stopped']}: {readings.failed.detail}", faster="unverified")
    problem = _find_problem(readings, standing)
    if not problem:
        return None
    return reject_outcome("benchmark_failed", f"{CAUSES['benchmark_failed']}: {problem}", faster="unverified")


def _check_physics(readings: Readings, standing: Standing) -> Outcome | None:
    problem = find_impossible_time(readings, standing)
    return reject_outcome("benchmark_failed", problem, faster="unverified") if problem else None


def _find_problem(readings: Readings, standing: Standing) -> str:
    """What is wrong with the numbers; empty when they can be compared. A number that is missing is never a tie."""
    if readings.failed is not None:
        return f"{readings.failed.reason}: {readings.failed.detail}"
    if not readings.candidate:
        return "no benchmark of the candidate"
    try:
        for run in (*readings.candidate, *readings.best):
            best = reference_run(readings, standing, run.level)
            if best is None or best.machine != run.machine:
                best = run  # a campaign that moved: only the shape of the numbers is looked at here
            delta(run, best, standing.contract.scoring, labels=active_labels(standing, run.level))
        if readings.comparisons:
            check_samples(merge_comparisons(readings.comparisons))
    except (ScoreError, PairedError) as error:
        return str(error)
    compared = [{shape.label for shape in item.shapes} for item in readings.comparisons]
    absent = sorted(label for label in standing.all_shapes if any(label not in labels for labels in compared))
    return f"not compared: {', '.join(absent)}" if absent else ""


def _check_bucket(trial: Traced) -> Outcome | None:
    bucket = find_proposal(trial).hypothesis.bucket
    if bucket not in FORBIDDEN_BUCKETS:
        return None
    why = f"{CAUSES['overfit']}: bucket {bucket} hits only because a benchmark reuses its tensors"
    return reject_outcome("overfit", why, faster="unverified")
