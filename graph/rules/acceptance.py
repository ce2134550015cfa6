"""The judge: a trial, the best version and the limits give one verdict. The only place where a change is kept."""

import math
from collections.abc import Sequence
from typing import assert_never

from ridgeline.graph.evidence import Profiled, TestResult
from ridgeline.graph.limits import Limits
from ridgeline.graph.rules import preset_autonomous, preset_campaign
from ridgeline.graph.rules.audit import list_audit_notes
from ridgeline.graph.rules.gates import check_hard_gates, is_usable, note_missing_counters, note_suspicious_gain
from ridgeline.graph.rules.objections import (
    find_objections,
    look_at_skewed_gain,
    note_unexplained_gain,
    weigh_objections,
)
from ridgeline.graph.rules.outcome import (
    Outcome,
    accept_outcome,
    compute_class_gains,
    describe_losses,
    explain_failure,
    make_verdict,
    propose_split,
    reject_outcome,
    write_sentence,
)
from ridgeline.graph.rules.readings import Readings, core_labels, reference_run, sort_readings
from ridgeline.graph.rules.score import metric_names
from ridgeline.graph.standing import BenchmarkWant, CompareWant, Standing
from ridgeline.graph.stats.sequential import LEAST_PAIRS, Estimate, PairDecision, decide_from_pairs, estimate_gain
from ridgeline.graph.trial import Applied, Broken, Failed, Stage, Timed, Traced, Verified, find
from ridgeline.graph.values import Answer
from ridgeline.graph.verdict import Reason, ShapeChange, Verdict


def decide_verdict(
    trial: Traced | Failed, standing: Standing, limits: Limits, *, best_profile: Profiled | None
) -> Verdict:
    """Hard gates in their order, the preset's own rule between them, and the notes.

    `best_profile` holds the counters of the best version, None where it has none. Raises MixedEvidence for numbers
    that may not be compared.
    """
    if isinstance(trial, Failed):
        return _add_audit_notes(_decide_failed(trial), trial, standing)
    found = sort_readings(trial, standing, limits)
    blocked = check_hard_gates(trial, found, standing)
    weighed = blocked or _decide_measured(trial, found, standing, limits, best_profile=best_profile)
    return _add_audit_notes(make_verdict(trial, weighed), trial, standing)


def _add_audit_notes(verdict: Verdict, trial: Traced | Failed, standing: Standing) -> Verdict:
    """The verdict with what the audit of the candidate's source sends to a closer check."""
    applied = find(trial, Applied)
    told = list_audit_notes(applied.audit, standing.contract) if applied else ()
    return verdict.model_copy(update={"notes": (*verdict.notes, *told)}) if told else verdict


def _decide_measured(
    trial: Traced, found: Readings, standing: Standing, limits: Limits, *, best_profile: Profiled | None
) -> Outcome:
    own = _apply_preset(trial, found, standing, limits, best_profile=best_profile)
    final = weigh_objections(own, find_objections(own, trial, found, standing, limits, before=best_profile), limits)
    notes = (
        *final.notes,
        *note_unexplained_gain(final, found, standing),
        *note_missing_counters(final, best_profile, trial.profile),
        *note_suspicious_gain(final, limits),
    )
    return final.model_copy(update={"notes": notes})


def _apply_preset(
    trial: Traced, found: Readings, standing: Standing, limits: Limits, *, best_profile: Profiled | None
) -> Outcome:
    match limits.preset:
        case "evidence":
            return decide_by_pairs(trial, found, standing, limits)
        case "campaign":
            return preset_campaign.decide_by_throughput(trial, found, standing, limits)
        case "router":
            return preset_campaign.decide_any_gain(trial, found, standing, limits)
        case "autonomous":
            return preset_autonomous.decide_by_kernel_time(trial, found, standing, limits, before=best_profile)
        case _:  # pragma: no cover - mypy proves that no preset is left
            assert_never(limits.preset)


def _decide_failed(trial: Failed) -> Verdict:
    tested = find(trial, Verified) or find(trial, Broken)
    test = tested.test if tested is not None else None
    own: Answer = (test.own_work if test is not None else None) or "unverified"
    return Verdict(
        decision="rolled_back",
        reason=trial.reason,
        correct=_answer_correct(trial.reason, test),
        faster="unverified",
        own_work="no" if trial.reason in ("tampered", "overfit", "convicted") else own,
        notes=(trial.detail,) if trial.detail else (),
        sentence=write_sentence(trial, "rolled_back", why=explain_failure(trial)),
    )


def _answer_correct(reason: Reason, test: TestResult | None) -> Answer:
    """The judge looks at whose work it is only where the results are right."""
    if reason == "incorrect":
        return "yes" if test is not None and test.own_work == "no" else "no"
    return "yes" if test is not None and test.passed and reason != "tampered" else "unverified"


# What a trial should have measured next: the one question that nodes ask between two measurements.


def choose_measurement(
    trial: Verified | Timed, standing: Standing, limits: Limits
) -> BenchmarkWant | CompareWant | None:
    """The next measurement, or None when the trial can be judged. A failed run or a FAIL row ends measuring.

    Raises MixedEvidence when numbers of two engines, commands, machines or strange commits stand side by side.
    """
    found = sort_readings(trial, standing, limits)
    if not is_usable(found, standing):
        return None
    match limits.preset:
        case "evidence":
            return choose_pairs(found, standing, limits)
        case "campaign":
            return preset_campaign.choose_quick_then_full(trial, found, standing, limits)
        case "router":
            return preset_campaign.choose_quick(found, standing, limits)
        case "autonomous":
            return preset_autonomous.choose_full_run(trial, found, standing, limits)
        case _:  # pragma: no cover - mypy proves that no preset is left
            assert_never(limits.preset)


# Preset `evidence`: Ridgeline's own rule. Interleaved pairs looked at one after another, a bound above the margin, a
# guard for every shape. Screening drops what looks hopeless early; confirming goes on until the bounds decide.


def choose_pairs(found: Readings, standing: Standing, limits: Limits) -> BenchmarkWant | CompareWant | None:
    """Absolute numbers and the Check gate first, then pairs until a look decides or the looks are spent.

    A lost pair spends its look: another one is timed, so that it costs power and settles nothing.
    """
    if found.run("candidate", "full", 0) is None:
        return BenchmarkWant(which="candidate", level="full", repeat=0)
    if _needs_best(found, standing):
        return BenchmarkWant(which="best", level="full", repeat=0)
    done, steps = len(found.comparisons) + len(found.lost), (0, *limits.looks)
    if done == len(steps) - 1:
        return None
    if found.comparisons and _is_settled(estimate_gain(found.comparisons, standing.noise, limits), standing, limits):
        return None
    return CompareWant(first_pair=steps[done], pairs=steps[done + 1] - steps[done])


def decide_by_pairs(trial: Stage, found: Readings, standing: Standing, limits: Limits) -> Outcome:
    """Accepted iff the lower bound exceeds the margin and no shape is slower: none with confidence beyond
    shape_guard, and no core shape by core_shape_regress_limit even as a point estimate.
    """
    lost = _note_lost_looks(found)
    if not found.comparisons:
        why = ": ".join(("candidate and best were never timed side by side", *lost))
        return reject_outcome("undecided", why, faster="unverified", notes=lost)
    seen = estimate_gain(found.comparisons, standing.noise, limits)
    shapes = _list_shape_changes(seen)
    core = _find_losing_shapes(seen, limits, core_labels(standing, "full"))
    stand = "lost" if core and decide_from_pairs(seen, limits) == "faster" else decide_from_pairs(seen, limits)
    kept = _make_outcome(
        trial, seen, [shape for shape in shapes if shape.label in core], stand, shapes=shapes, limits=limits
    )
    bounds = {"lower": _compute_gain(seen.lower), "upper": _compute_gain(seen.upper)}
    return kept.model_copy(update={**bounds, "notes": (*kept.notes, *lost)})


def _is_settled(seen: Estimate, standing: Standing, limits: Limits) -> bool:
    """Nothing more to learn.

    A winner with a shape that looks slower, or without a gain on skewed shapes, is measured on: that must be resolved.
    """
    stand = decide_from_pairs(seen, limits)
    if stand == "faster":
        skewed = [shape for shape in _list_shape_changes(seen) if shape.label in standing.contract.skew_shapes]
        at_risk = any(shape.theta < math.log1p(-limits.shape_guard) for shape in seen.shapes)
        return not at_risk and not (
            skewed and look_at_skewed_gain(math.expm1(seen.theta), skewed, limits) == "unresolved"
        )
    return stand != "undecided"


def _list_shape_changes(seen: Estimate) -> tuple[ShapeChange, ...]:
    return tuple(
        ShapeChange(
            label=s.label,
            config_class=s.config_class,
            gain=math.expm1(s.theta),
            lower=_compute_gain(s.lower),
            upper=_compute_gain(s.upper),
        )
        for s in seen.shapes
    )


def _make_outcome(
    trial: Stage,
    seen: Estimate,
    slower: Sequence[ShapeChange],
    stand: PairDecision,
    *,
    shapes: tuple[ShapeChange, ...],
    limits: Limits,
) -> Outcome:
    gain, answer = math.expm1(seen.theta), _answer_faster(seen)
    losing = tuple(name for name in compute_class_gains(shapes) if any(shape.config_class == name for shape in slower))
    divided = propose_split(shapes, losing, trial=trial, limits=limits, gain=gain, faster=answer)
    if divided and stand in ("lost", "not_better"):
        return divided
    also = f", and {describe_losses(slower)}" if slower else ""
    match stand:
        case "faster":
            return accept_outcome(gain, shapes, limits, lower=math.expm1(seen.lower))
        case "lost":
            return reject_outcome("core_regression", describe_losses(slower), faster=answer, gain=gain, shapes=shapes)
        case "not_better":
            return reject_outcome(
                "not_better", f"{_explain_not_better(seen)}{also}", faster=answer, gain=gain, shapes=shapes
            )
        case "unpromising":
            why = f"{gain:+.1%} in {_format_pairs(seen)}: below the margin of {_format_required(seen)}, so not confirmed{also}"
            return reject_outcome("undecided", why, faster=answer, gain=gain, shapes=shapes)
        case "undecided":
            why = f"{gain:+.1%} in {_format_pairs(seen)} does not settle it (at least {_format_gain(seen.lower)}){also}"
            return reject_outcome("undecided", why, faster=answer, gain=gain, shapes=shapes)
        case _:  # pragma: no cover - mypy proves that no stand is left
            assert_never(stand)


def _find_losing_shapes(seen: Estimate, limits: Limits, core: Sequence[str]) -> frozenset[str]:
    hard = math.log1p(-limits.core_shape_regress_limit)
    confident = {shape.label for shape in seen.shapes if shape.slower}
    return frozenset(confident | {shape.label for shape in seen.shapes if shape.label in core and shape.theta <= hard})


def _needs_best(found: Readings, standing: Standing) -> bool:
    """Whether the other metrics of the best version were last measured on another machine than the candidate's."""
    run, best = found.run("candidate", "full", 0), reference_run(found, standing, "full")
    several = len(metric_names(standing.contract.scoring)) > 1
    return several and run is not None and best is not None and best.machine != run.machine


def _note_lost_looks(found: Readings) -> tuple[str, ...]:
    """A note on looks that gave no pair, for whoever reads the verdict."""
    if not found.lost:
        return ()
    count = len(found.lost)
    asked = count + len(found.comparisons)
    return (f"{count} of {asked} looks gave no pair, since the machine was disturbed: {found.lost[-1].detail}",)


def _explain_not_better(seen: Estimate) -> str:
    if seen.upper < 0:
        return f"it is slower, by at least {-math.expm1(seen.upper):.1%}"
    if seen.upper < seen.required:
        return f"it is at most {math.expm1(seen.upper):+.1%} faster, below the margin of {_format_required(seen)}"
    return f"{math.expm1(seen.theta):+.1%} in {_format_pairs(seen)} is unlikely to exceed the margin of {_format_required(seen)}"


def _answer_faster(seen: Estimate) -> Answer:
    if seen.lower > seen.required and seen.pairs >= LEAST_PAIRS:
        return "yes"
    return "no" if seen.upper < seen.required or seen.unlikely else "unverified"


def _format_required(seen: Estimate) -> str:
    return f"{math.expm1(seen.required):.1%}"


def _format_pairs(seen: Estimate) -> str:
    return f"{seen.pairs} process pair{'s' if seen.pairs > 1 else ''}"


def _compute_gain(log_ratio: float) -> float | None:
    return math.expm1(log_ratio) if math.isfinite(log_ratio) else None


def _format_gain(log_ratio: float) -> str:
    return f"{math.expm1(log_ratio):+.1%}" if math.isfinite(log_ratio) else "nothing"
