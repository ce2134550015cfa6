"""Hard gates that hold in every preset, in the order of rules 11.2, and the notes that ride along."""

import math

from ridgeline.graph.evidence import Profiled
from ridgeline.graph.limits import Limits
from ridgeline.graph.policy.audit import left_open, said
from ridgeline.graph.policy.outcome import Outcome, reject
from ridgeline.graph.policy.paired import PairedError, check, merge
from ridgeline.graph.policy.physics import impossible, unexplained
from ridgeline.graph.policy.readings import Readings, active, failing, reference
from ridgeline.graph.policy.score import ScoreError, at_least, delta, exceeds
from ridgeline.graph.policy.sentence import CAUSES
from ridgeline.graph.standing import Standing
from ridgeline.graph.trial import Applied, Traced, find, proposed
from ridgeline.graph.verdict import ShapeChange, Verdict

FORBIDDEN_BUCKETS = ("W2", "W3")
"""Caches keyed on what changes every training step (rules 14.2)."""
SPILLS = "spills"
OCCUPANCY = "occupancy"
LOCAL = ("scratch_bytes", "spill_ops")
"""What registers that do not suffice leave in memory, as profilers see it: bytes per thread, accesses per launch."""
CLOSER_GAIN = 2.0
"""Gain of one round, as a share, above which a roofline or a person must vouch for it: three times as fast."""
UNEXPLAINED = "unexplained: "


def before_numbers(trial: Traced, found: Readings, standing: Standing) -> Outcome | None:
    """Build, correctness, Check, benchmark, Rule 11: what rejects whatever the numbers say. None when all hold."""
    verified = trial.timed.verified
    if not verified.built.build.ok:
        return reject("build_failed", CAUSES["build_failed"], faster="unverified")
    if not verified.test.passed:
        return reject("incorrect", f"{CAUSES['incorrect']}: {verified.test.detail}", faster="unverified")
    return _rows(found) or _numbers(found, standing) or _physics(found, standing) or _bucket(trial)


def usable(found: Readings, standing: Standing) -> bool:
    """Whether measuring on makes sense: a failed run or row decides the round at once."""
    if found.failed is not None or _rows(found) is not None:
        return False
    return not found.candidate or (_numbers(found, standing) or _physics(found, standing)) is None


def skew(outcome: Outcome, standing: Standing, limits: Limits) -> Outcome | None:
    """Overfit when the gain vanishes on the skewed shapes (rules 14.7): less than noise and than half of the whole.

    A gain that is itself not told from noise has nothing that could vanish; it keeps its own reason.
    """
    skewed = [shape for shape in outcome.shapes if shape.label in standing.contract.skew_shapes]
    if outcome.gain is None or not exceeds(outcome.gain, 0.0) or not skewed:
        return None
    if outcome.decision == "rolled_back" and outcome.faster != "yes":
        return None
    on_skew = mean_gain(skewed)
    if exceeds(on_skew, min(limits.noise_threshold, outcome.gain / 2)):
        return None
    why = f"its gain of {outcome.gain:+.1%} vanishes on skewed groups ({on_skew:+.1%}), as a training step has them"
    return outcome.model_copy(update={"decision": "rolled_back", "reason": "overfit", "why": why})


def isa(outcome: Outcome, before: Profiled | None, after: Profiled | None, limits: Limits) -> Outcome | None:
    """New spills or a large loss of occupancy undo an acceptance. Profiles of two rungs or machines say nothing."""
    if outcome.decision != "accepted" or before is None or after is None or not same_rung(before, after):
        return None
    spills, occupancy = (_both(name, before, after) for name in (SPILLS, OCCUPANCY))
    local = ((name, *_both(name, before, after)) for name in LOCAL)
    new = next(((name, value) for name, old, value in local if old == 0 and value), None)
    why = ""
    if spills[0] is not None and spills[1] is not None and spills[1] > spills[0]:
        why = f"register spills rose from {spills[0]:g} to {spills[1]:g}"
    elif new is not None:
        why = f"local memory is new: {new[0]} rose from 0 to {new[1]:g}"
    elif occupancy[0] and occupancy[1] is not None:
        drop = 1 - occupancy[1] / occupancy[0]
        if at_least(drop, limits.occupancy_drop_limit):
            why = f"occupancy fell from {occupancy[0]:g} to {occupancy[1]:g}"
    if not why:
        return None
    return outcome.model_copy(update={"decision": "rolled_back", "reason": "isa_regression", "why": why})


def _both(name: str, before: Profiled, after: Profiled) -> tuple[float | None, float | None]:
    """A counter of the two; nothing where one has it from another rung of the ladder."""
    if before.rung_of(name) != after.rung_of(name):
        return None, None
    return before.counter(name), after.counter(name)


def unread(outcome: Outcome, before: Profiled | None, after: Profiled | None) -> tuple[str, ...]:
    """A note where spills or occupancy are known of the best version and not of an accepted candidate."""
    if outcome.decision != "accepted" or before is None:
        return ()
    known = [name for name in (SPILLS, OCCUPANCY) if before.counter(name) is not None]
    same = after is not None and same_rung(before, after)
    missing = [name for name in known if not same or after is None or _both(name, before, after)[1] is None]
    return (f"not read of the candidate, so not compared: {', '.join(missing)}",) if missing else ()


def suspicion(outcome: Outcome, limits: Limits) -> tuple[str, ...]:
    """A note on a gain larger than one change usually has; it rejects nothing (rules 11.8, 11.9)."""
    if outcome.gain is None or not suspicious(outcome.gain, limits):
        return ()
    return (
        f"suspicious: {outcome.gain:+.1%} is more than {limits.measurement_suspect_delta:+.0%}; re-check the bucket, "
        "that all the work is still done, and that nothing else ran on the device",
    )


def closer_look(outcome: Outcome, trial: Traced, found: Readings, standing: Standing) -> Outcome:
    """A gain that one change hardly brings, which no roofline explains: kept only where the audit left nothing open.

    The judge of a task looks closer itself, at every call.
    """
    contract = standing.contract
    if outcome.decision != "accepted" or outcome.gain is None or not exceeds(outcome.gain, CLOSER_GAIN):
        return outcome
    why = "" if contract.judged else unexplained(found, standing)
    if not why:
        return outcome
    applied = find(trial, Applied)
    unsettled = left_open(applied.audit, contract) if applied else ()
    if unsettled:
        rule = unsettled[0].rule
        words = (
            f"{outcome.gain:+.1%} in one round is not explained ({why}) and the audit left {rule} open;"
            f" declare `work:`, or allow it: audit: {{allow: [{rule}]}}"
        )
        note = f"{UNEXPLAINED}left open: {said(unsettled[0])}"
        update = {"decision": "rolled_back", "reason": "unsettled", "why": words, "notes": (*outcome.notes, note)}
        return outcome.model_copy(update=update)
    note = f"{UNEXPLAINED}{outcome.gain:+.1%} in one round and {why}; nothing here settles whether all the work is done"
    return outcome.model_copy(update={"notes": (*outcome.notes, note)})


def needs_person(verdict: Verdict) -> bool:
    """Whether a campaign that asks people for anything must ask about this acceptance."""
    return verdict.accepted and any(note.startswith(UNEXPLAINED) for note in verdict.notes)


def suspicious(gain: float, limits: Limits) -> bool:
    """Whether a gain is larger than one change usually brings, so that it is measured again before it is believed."""
    return exceeds(gain, limits.measurement_suspect_delta)


def same_rung(before: Profiled, after: Profiled) -> bool:
    """Whether counters of two profiles may be compared."""
    return (before.rung, before.machine) == (after.rung, after.machine)


def mean_gain(shapes: list[ShapeChange]) -> float:
    """Geometric mean of the shapes' gains."""
    return math.expm1(math.fsum(math.log1p(shape.gain) for shape in shapes) / len(shapes))


def _rows(found: Readings) -> Outcome | None:
    for run in found.candidate:
        if labels := failing(run):
            return reject("check_failed", f"Check is not PASS for {', '.join(labels)}", faster="unverified")
    return None


def _numbers(found: Readings, standing: Standing) -> Outcome | None:
    problem = _problem(found, standing)
    if not problem:
        return None
    return reject("benchmark_failed", f"{CAUSES['benchmark_failed']}: {problem}", faster="unverified")


def _physics(found: Readings, standing: Standing) -> Outcome | None:
    problem = impossible(found, standing)
    return reject("benchmark_failed", problem, faster="unverified") if problem else None


def _problem(found: Readings, standing: Standing) -> str:
    """What is wrong with the numbers; empty when they can be compared. A number that is missing is never a tie."""
    if found.failed is not None:
        return f"{found.failed.reason}: {found.failed.detail}"
    if not found.candidate:
        return "no benchmark of the candidate"
    try:
        for run in (*found.candidate, *found.best):
            best = reference(found, standing, run.level)
            if best is None or best.machine != run.machine:
                best = run  # a campaign that moved: only the shape of the numbers is looked at here
            delta(run, best, standing.contract.scoring, labels=active(standing, run.level))
        if found.comparisons:
            check(merge(found.comparisons))
    except (ScoreError, PairedError) as error:
        return str(error)
    compared = [{shape.label for shape in item.shapes} for item in found.comparisons]
    absent = sorted(label for label in standing.all_shapes if any(label not in labels for labels in compared))
    return f"not compared: {', '.join(absent)}" if absent else ""


def _bucket(trial: Traced) -> Outcome | None:
    bucket = proposed(trial).hypothesis.bucket
    if bucket not in FORBIDDEN_BUCKETS:
        return None
    why = f"{CAUSES['overfit']}: bucket {bucket} hits only because a benchmark reuses its tensors"
    return reject("overfit", why, faster="unverified")
