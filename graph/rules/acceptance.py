"""Why a change is kept or not: a trial, the best version and the limits give one verdict. Nothing else decides it.

`decide_verdict`: the hard gates (`gates`), then the preset's own rule (`PRESET_RULES`, here for preset `evidence`), then what
may overrule it (`find_objections`). `choose_measurement` says what is timed before that.

A gain is *proven* where interleaved pairs bound it above the margin; preset `evidence` accepts nothing else, the others
accept single readings, which prove nothing. What may speak against a gain is of three kinds:

| kind      | what                                                               | proven gain      | unproven gain |
|-----------|--------------------------------------------------------------------|------------------|---------------|
| timed     | the pairs bound the gain on skewed shapes near nothing; another    | undone           | undone        |
|           | primary metric reads lower by core_shape_regress_limit             |                  |               |
| integrity | a gain that no roofline explains, and the audit left a rule open   | undone           | undone        |
| proxy     | register spills, local memory, occupancy; skewed shapes that the   | kept, and noted  | undone        |
|           | pairs leave open; another primary metric that reads a little lower |                  |               |

A proxy never overrules a measurement: it explains a verdict, and forbids only what was not proven. The presets that
follow a document undo by that document's rule, and the reason names it. Build, correctness, Check, protected files,
physics and Rule 11 are none of these: they end a trial before its times are looked at (`gates.check_hard_gates`,
`trial.Failed`). That the kernel time of a profile decides in preset `autonomous` is what its document calls measuring;
it stands in `preset_autonomous.py`.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, assert_never

from ridgeline.graph.evidence import Profiled, TestResult
from ridgeline.graph.limits import Limits, Preset, by_document
from ridgeline.graph.rules.audit import describe_finding, list_audit_notes, list_open_findings
from ridgeline.graph.rules.gates import (
    OCCUPANCY,
    SPILLS,
    UNEXPLAINED,
    check_hard_gates,
    is_same_rung,
    is_usable,
    note_missing_counters,
    note_suspicious_gain,
    read_counters,
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
from ridgeline.graph.rules.physics import find_unexplained_time
from ridgeline.graph.rules.preset_autonomous import AutonomousRule
from ridgeline.graph.rules.preset_campaign import CampaignRule, RouterRule
from ridgeline.graph.rules.readings import Readings, core_labels, explain_losses, reference_run, sort_readings
from ridgeline.graph.rules.score import at_least, delta, exceeds, mean_gain, metric_names
from ridgeline.graph.standing import BenchmarkWant, CompareWant, Standing
from ridgeline.graph.stats.sequential import LEAST_PAIRS, Estimate, PairDecision, decide_from_pairs, estimate_gain
from ridgeline.graph.trial import Applied, Broken, Failed, Stage, Timed, Traced, Verified, find
from ridgeline.graph.values import Answer, Named, Value
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
    readings = sort_readings(trial, standing, limits)
    blocked = check_hard_gates(trial, readings, standing)
    outcome = blocked or _decide_measured(trial, readings, standing, limits, best_profile=best_profile)
    return _add_audit_notes(make_verdict(trial, outcome), trial, standing)


def _add_audit_notes(verdict: Verdict, trial: Traced | Failed, standing: Standing) -> Verdict:
    """The verdict with what the audit of the candidate's source sends to a closer check."""
    applied = find(trial, Applied)
    notes = list_audit_notes(applied.audit, standing.contract) if applied else ()
    return verdict.model_copy(update={"notes": (*verdict.notes, *notes)}) if notes else verdict


def _decide_measured(
    trial: Traced, readings: Readings, standing: Standing, limits: Limits, *, best_profile: Profiled | None
) -> Outcome:
    preset_outcome = PRESET_RULES[limits.preset].decide(trial, readings, standing, limits, best_profile=best_profile)
    final = weigh_objections(
        preset_outcome, find_objections(preset_outcome, trial, readings, standing, limits, before=best_profile), limits
    )
    notes = (
        *final.notes,
        *note_unexplained_gain(final, readings, standing),
        *note_missing_counters(final, best_profile, trial.profile),
        *note_suspicious_gain(final, limits),
    )
    return final.model_copy(update={"notes": notes})


def _decide_failed(trial: Failed) -> Verdict:
    verified = find(trial, Verified) or find(trial, Broken)
    test = verified.test if verified is not None else None
    own_work: Answer = (test.own_work if test is not None else None) or "unverified"
    return Verdict(
        decision="rolled_back",
        reason=trial.reason,
        correct=_answer_correct(trial.reason, test),
        faster="unverified",
        own_work="no" if trial.reason in ("tampered", "overfit", "convicted") else own_work,
        notes=(trial.detail,) if trial.detail else (),
        sentence=write_sentence(trial, "rolled_back", why=explain_failure(trial)),
    )


def _answer_correct(reason: Reason, test: TestResult | None) -> Answer:
    """The judge looks at whose work it is only where the results are right."""
    if reason == "incorrect":
        return "yes" if test is not None and test.own_work == "no" else "no"
    return "yes" if test is not None and test.passed and reason != "tampered" else "unverified"


def choose_measurement(
    trial: Verified | Timed, standing: Standing, limits: Limits
) -> BenchmarkWant | CompareWant | None:
    """The next measurement, or None when the trial can be judged. A failed run or a FAIL row ends measuring.

    Raises MixedEvidence when numbers of two engines, commands, machines or strange commits stand side by side.
    """
    readings = sort_readings(trial, standing, limits)
    if not is_usable(readings, standing):
        return None
    return PRESET_RULES[limits.preset].choose_measurement(trial, readings, standing, limits)


class PresetRule(Protocol):
    """A preset's own rule. The hard gates before it and the objections after it are the same for all."""

    def choose_measurement(
        self, trial: Verified | Timed, readings: Readings, standing: Standing, limits: Limits
    ) -> BenchmarkWant | CompareWant | None:
        """What is to be measured next; None when the trial can be decided."""
        ...

    def decide(
        self, trial: Traced, readings: Readings, standing: Standing, limits: Limits, *, best_profile: Profiled | None
    ) -> Outcome:
        """Whether the numbers keep the change, and why. `best_profile` holds the counters of the best version."""
        ...


class EvidenceRule:
    """Ridgeline's own rule: interleaved pairs looked at one after another, a bound above the margin, every shape guarded.

    Screening drops what looks hopeless early; confirming goes on until the bounds decide.
    """

    def choose_measurement(
        self, trial: Verified | Timed, readings: Readings, standing: Standing, limits: Limits
    ) -> BenchmarkWant | CompareWant | None:
        """Absolute numbers and the Check gate first, then pairs until a look decides or the looks are spent.

        A lost pair spends its look: another one is timed, so that it costs power and settles nothing.
        """
        if readings.run("candidate", "full", 0) is None:
            return BenchmarkWant(which="candidate", level="full", repeat=0)
        if _needs_best(readings, standing):
            return BenchmarkWant(which="best", level="full", repeat=0)
        looks_spent, steps = len(readings.comparisons) + len(readings.lost_pairs), (0, *limits.looks)
        if looks_spent == len(steps) - 1:
            return None
        if readings.comparisons and _is_settled(_estimate(trial, readings, standing, limits), standing, limits):
            return None
        return CompareWant(first_pair=steps[looks_spent], pairs=steps[looks_spent + 1] - steps[looks_spent])

    def decide(
        self, trial: Traced, readings: Readings, standing: Standing, limits: Limits, *, best_profile: Profiled | None
    ) -> Outcome:
        """Accepted iff the lower bound exceeds the margin and no shape is slower: none with confidence beyond
        shape_guard (a protected one: at all), and no core shape by core_shape_regress_limit even as a point estimate.
        """
        notes_of_losses = _note_lost_looks(readings)
        if not readings.comparisons:
            why = ": ".join(("candidate and best were never timed side by side", *notes_of_losses))
            return reject_outcome("undecided", why, faster="unverified", notes=notes_of_losses)
        estimate = _estimate(trial, readings, standing, limits)
        shapes = _list_shape_changes(estimate)
        losing = _find_losing_shapes(estimate, limits, core_labels(standing, "full"))
        decision = decide_from_pairs(estimate, limits)
        decision = "lost" if losing and decision == "faster" else decision
        outcome = _make_outcome(
            trial,
            estimate,
            [shape for shape in shapes if shape.label in losing],
            decision,
            shapes=shapes,
            standing=standing,
            limits=limits,
        )
        bounds = {"lower": _compute_gain(estimate.lower), "upper": _compute_gain(estimate.upper)}
        notes = (*outcome.notes, *notes_of_losses, *_note_sharing(trial, limits))
        return outcome.model_copy(update={**bounds, "notes": notes})


def _estimate(trial: Stage, readings: Readings, standing: Standing, limits: Limits) -> Estimate:
    """What all pairs so far say, at the candidate's share of the error rate."""
    timed = find(trial, Timed)
    assert timed is not None
    return estimate_gain(readings.comparisons, standing.noise, limits, sharing=timed.sharing)


def _note_sharing(trial: Traced, limits: Limits) -> tuple[str, ...]:
    """A note on the stricter bounds of candidates that were timed side by side."""
    count = trial.timed.sharing
    if count == 1:
        return ()
    each = f"{limits.alpha / count:.2%}"
    return (
        f"one of {count} candidates timed side by side: each is judged at {each}, all together at {limits.alpha:.2%}",
    )


def _is_settled(estimate: Estimate, standing: Standing, limits: Limits) -> bool:
    """For the verdict: whether measuring a candidate further would change nothing.

    A winner with a shape that looks slower, or without a gain on skewed shapes, is measured on: that must be resolved.
    """
    decision = decide_from_pairs(estimate, limits)
    if decision == "faster":
        skewed = [shape for shape in _list_shape_changes(estimate) if shape.label in standing.contract.skew_shapes]
        guard, protected = math.log1p(-limits.shape_guard), standing.contract.scoring.protected_shapes
        at_risk = any(shape.theta < (0.0 if shape.label in protected else guard) for shape in estimate.shapes)
        return not at_risk and not (
            skewed and look_at_skewed_gain(math.expm1(estimate.theta), skewed, limits) == "unresolved"
        )
    return decision != "undecided"


def _list_shape_changes(estimate: Estimate) -> tuple[ShapeChange, ...]:
    return tuple(
        ShapeChange(
            label=s.label,
            config_class=s.config_class,
            gain=math.expm1(s.theta),
            lower=_compute_gain(s.lower),
            upper=_compute_gain(s.upper),
        )
        for s in estimate.shapes
    )


def _make_outcome(
    trial: Stage,
    estimate: Estimate,
    slower: Sequence[ShapeChange],
    decision: PairDecision,
    *,
    shapes: tuple[ShapeChange, ...],
    standing: Standing,
    limits: Limits,
) -> Outcome:
    gain, answer = math.expm1(estimate.theta), _answer_faster(estimate)
    losing = tuple(name for name in compute_class_gains(shapes) if any(shape.config_class == name for shape in slower))
    split = propose_split(shapes, losing, trial=trial, limits=limits, gain=gain, faster=answer)
    if split and decision in ("lost", "not_better"):
        return split
    also = f", and {describe_losses(slower)}" if slower else ""
    match decision:
        case "faster":
            return accept_outcome(gain, shapes, limits, lower=math.expm1(estimate.lower))
        case "lost":
            why = explain_losses(slower, standing, "full", limits)
            return reject_outcome("core_regression", why, faster=answer, gain=gain, shapes=shapes)
        case "not_better":
            return reject_outcome(
                "not_better", f"{_explain_not_better(estimate)}{also}", faster=answer, gain=gain, shapes=shapes
            )
        case "unpromising":
            size, required = _format_beside_margin(gain, estimate)
            why = f"{size} in {_format_pairs(estimate)}: below the margin of {required}, so not confirmed{also}"
            return reject_outcome("undecided", why, faster=answer, gain=gain, shapes=shapes)
        case "undecided":
            why = f"{gain:+.1%} in {_format_pairs(estimate)} does not settle it (at least {_format_gain(estimate.lower)}){also}"
            return reject_outcome("undecided", why, faster=answer, gain=gain, shapes=shapes)
        case _:  # pragma: no cover - mypy proves that no decision is left
            assert_never(decision)


def _find_losing_shapes(estimate: Estimate, limits: Limits, core: Sequence[str]) -> frozenset[str]:
    hard = math.log1p(-limits.core_shape_regress_limit)
    confident = {shape.label for shape in estimate.shapes if shape.slower}
    return frozenset(
        confident | {shape.label for shape in estimate.shapes if shape.label in core and shape.theta <= hard}
    )


def _needs_best(readings: Readings, standing: Standing) -> bool:
    """Whether the other metrics of the best version were last measured on another machine than the candidate's."""
    run, best = readings.run("candidate", "full", 0), reference_run(readings, standing, "full")
    several = len(metric_names(standing.contract.scoring)) > 1
    return several and run is not None and best is not None and best.machine != run.machine


def _note_lost_looks(readings: Readings) -> tuple[str, ...]:
    """A note on looks that gave no pair, for whoever reads the verdict."""
    if not readings.lost_pairs:
        return ()
    count = len(readings.lost_pairs)
    looks = count + len(readings.comparisons)
    return (
        f"{count} of {looks} looks gave no pair, since the machine was disturbed: {readings.lost_pairs[-1].detail}",
    )


def _explain_not_better(estimate: Estimate) -> str:
    if estimate.upper < 0:
        return f"it is slower, by at least {-math.expm1(estimate.upper):.1%}"
    if estimate.upper < estimate.required:
        most, required = _format_beside_margin(math.expm1(estimate.upper), estimate)
        return f"it is at most {most} faster, below the margin of {required}"
    gain, required = _format_beside_margin(math.expm1(estimate.theta), estimate)
    return f"{gain} in {_format_pairs(estimate)} is unlikely to exceed the margin of {required}"


def _answer_faster(estimate: Estimate) -> Answer:
    if estimate.lower > estimate.required and estimate.pairs >= LEAST_PAIRS:
        return "yes"
    return "no" if estimate.upper < estimate.required or estimate.unlikely else "unverified"


def _format_beside_margin(gain: float, estimate: Estimate) -> tuple[str, str]:
    """A gain and the margin, with as many decimals as tell them apart, up to three: `+0.47%` and `0.53%`, not twice 0.5."""
    required = math.expm1(estimate.required)
    digits = next((digits for digits in (1, 2, 3) if f"{gain:.{digits}%}" != f"{required:.{digits}%}"), 3)
    return f"{gain:+.{digits}%}", f"{required:.{digits}%}"


def _format_pairs(estimate: Estimate) -> str:
    return f"{estimate.pairs} process pair{'s' if estimate.pairs > 1 else ''}"


def _compute_gain(log_ratio: float) -> float | None:
    return math.expm1(log_ratio) if math.isfinite(log_ratio) else None


def _format_gain(log_ratio: float) -> str:
    return f"{math.expm1(log_ratio):+.1%}" if math.isfinite(log_ratio) else "nothing"


PRESET_RULES: dict[Preset, PresetRule] = {
    "evidence": EvidenceRule(),
    "campaign": CampaignRule(),
    "router": RouterRule(),
    "autonomous": AutonomousRule(),
}
"""What each measures, and what it keeps:

| preset       | measures                                                        | keeps                                          |
|--------------|-----------------------------------------------------------------|------------------------------------------------|
| `evidence`   | interleaved process pairs of candidate and best, look by look   | a lower bound above the margin, no shape lost* |
| `campaign`   | a quick benchmark, again where near noise, all shapes if needed | a mean gain beyond noise, no core shape lost   |
| `router`     | one quick benchmark                                             | any gain, no core shape lost                   |
| `autonomous` | a full benchmark and a profile, again where doubtful            | a gain whose kernel time improved, class by class |

* lost: slower with confidence by more than shape_guard (a protected one: at all), or a core shape that reads slower by
core_shape_regress_limit.
"""


# What speaks against a gain, and whether it may undo it.

Kind = Literal["timed", "integrity", "proxy"]
LOCAL = ("scratch_bytes", "spill_ops")
"""What registers that do not suffice leave in memory, as profilers see it: bytes per thread, accesses per launch."""
CLOSER_GAIN = 2.0
"""Gain of one round, as a share, above which a roofline or a person must vouch for it: three times as fast."""
NOT_SETTLED = "not settled: "
"""How a note begins that leaves a question about a kept gain open."""


class Objection(Value):
    """One thing that speaks against a gain."""

    kind: Kind
    reason: Literal["overfit", "isa_regression", "not_better", "unsettled"]
    """Of the rollback, where it undoes the gain."""
    why: str
    """Cause, in words that fit after `because`."""
    note: str = ""
    """What rides along where it undoes nothing; for `integrity`, beside the reason."""


def weigh_objections(outcome: Outcome, objections: Sequence[Objection], limits: Limits) -> Outcome:
    """The outcome with the first objection that may undo it; all others become notes. The table above, as code."""
    undoing = next((objection for objection in objections if undoes(objection.kind, outcome)), None)
    notes = tuple(
        objection.note
        for objection in objections
        if objection.note and (objection is not undoing or objection.kind == "integrity")
    )
    if undoing is None:
        return outcome.model_copy(update={"notes": (*outcome.notes, *notes)})
    why = undoing.why
    if undoing.kind == "proxy":
        why = f"{why}, {by_document(limits)}, whatever was timed ({outcome.gain or 0.0:+.1%})"
    update = {"decision": "rolled_back", "reason": undoing.reason, "why": why, "notes": (*outcome.notes, *notes)}
    return outcome.model_copy(update=update)


def undoes(kind: Kind, outcome: Outcome) -> bool:
    """Whether an objection of this kind turns an accepted outcome into a rollback. Nothing else can be undone."""
    return outcome.decision == "accepted" and (kind != "proxy" or not is_proven(outcome))


def is_proven(outcome: Outcome) -> bool:
    """Whether interleaved pairs bound the gain above the margin: only preset `evidence` accepts with a lower bound."""
    return outcome.decision == "accepted" and outcome.lower is not None


def find_objections(
    outcome: Outcome, trial: Traced, readings: Readings, standing: Standing, limits: Limits, *, before: Profiled | None
) -> tuple[Objection, ...]:
    """Everything that speaks against the outcome. `before` holds the counters of the best version."""
    every = (
        check_skew(outcome, standing, limits),
        check_resources(before, trial.profile, limits),
        check_other_metrics(outcome, readings, standing, limits),
        check_unexplained_gain(outcome, trial, readings, standing),
    )
    return tuple(objection for objection in every if objection is not None)


def check_skew(outcome: Outcome, standing: Standing, limits: Limits) -> Objection | None:
    """A gain that vanishes on the skewed shapes (Rule 11): less than noise and than half of the whole gain.

    Timed where the pairs bound it there, and their bound says so too; else a reading, and so a proxy.
    """
    gain = outcome.gain
    if gain is None or not exceeds(gain, 0.0) or outcome.decision != "accepted":
        return None
    skewed = [shape for shape in outcome.shapes if shape.label in standing.contract.skew_shapes]
    if not skewed or (state := look_at_skewed_gain(gain, skewed, limits)) == "there":
        return None
    most = _bound_mean_gain(skewed)
    on_skew = f"{mean_gain(skewed):+.1%}" + (f", at most {most:+.1%}" if most is not None else "")
    return Objection(
        kind="timed" if state == "vanished" else "proxy",
        reason="overfit",
        why=f"its gain of {gain:+.1%} vanishes on skewed groups ({on_skew}), as a training step has them",
        note=f"{NOT_SETTLED}whether its gain of {gain:+.1%} is there on skewed groups, too ({on_skew})",
    )


def look_at_skewed_gain(
    gain: float, skewed: Sequence[ShapeChange], limits: Limits
) -> Literal["there", "vanished", "unresolved"]:
    """What the skewed shapes show of the whole `gain`; vanished only where every bound of theirs is known to say so."""
    least = min(limits.noise_threshold, gain / 2)
    if exceeds(mean_gain(skewed), least):
        return "there"
    most = _bound_mean_gain(skewed)
    return "vanished" if most is not None and not exceeds(most, least) else "unresolved"


def _bound_mean_gain(shapes: Sequence[ShapeChange]) -> float | None:
    """Upper bound of the mean gain, from the shapes' own bounds; None where one has none."""
    bounds = [shape.model_copy(update={"gain": shape.upper}) for shape in shapes if shape.upper is not None]
    return mean_gain(bounds) if len(bounds) == len(shapes) else None


def check_resources(before: Profiled | None, after: Profiled | None, limits: Limits) -> Objection | None:
    """More spills, new local memory or a large loss of occupancy. Profiles of two rungs or machines say nothing."""
    if before is None or after is None or not is_same_rung(before, after):
        return None
    why = ", ".join(_list_worse_resources(before, after, limits))
    if not why:
        return None
    note = f"counters, which explain and overrule no measured time: {why}"
    return Objection(kind="proxy", reason="isa_regression", why=why, note=note)


def _list_worse_resources(before: Profiled, after: Profiled, limits: Limits) -> Iterator[str]:
    old, new = read_counters(SPILLS, before, after)
    if old is not None and new is not None and new > old:
        yield f"register spills rose from {old:g} to {new:g}"
    for name in LOCAL:
        old, new = read_counters(name, before, after)
        if old == 0 and new:
            yield f"local memory is new: {name} rose from 0 to {new:g}"
    old, new = read_counters(OCCUPANCY, before, after)
    if old and new is not None and at_least(1 - new / old, limits.occupancy_drop_limit):
        yield f"occupancy fell from {old:g} to {new:g}"


def check_other_metrics(outcome: Outcome, readings: Readings, standing: Standing, limits: Limits) -> Objection | None:
    """Primary metrics beside the one that pairs time: single runs say that another one fell.

    A large fall counts as a core shape's does, by its reading alone; a smaller one is no more than a reading.
    """
    run, best = readings.run("candidate", "full", 0), reference_run(readings, standing, "full")
    several = len(metric_names(standing.contract.scoring)) > 1
    if not (is_proven(outcome) and several) or run is None or best is None:
        return None
    metrics = delta(run, best, standing.contract.scoring, labels=standing.all_shapes).metrics
    falling = [item for item in metrics if exceeds(-item.value, limits.noise_threshold)]
    if not falling:
        return None
    large = [item for item in falling if at_least(-item.value, limits.core_shape_regress_limit)]
    return Objection(
        kind="timed" if large else "proxy",
        reason="not_better",
        why=f"another primary metric, which pairs do not time, fell: {_list_metrics(large or falling)}",
        note=f"{NOT_SETTLED}another primary metric read lower in single runs: {_list_metrics(falling)}",
    )


def _list_metrics(metrics: Sequence[Named]) -> str:
    return ", ".join(f"{item.name} {item.value:+.1%}" for item in metrics)


def check_unexplained_gain(outcome: Outcome, trial: Traced, readings: Readings, standing: Standing) -> Objection | None:
    """A gain that one change hardly brings, which no roofline explains, while the audit left something open.

    It doubts that what was timed is the work. The judge of a task looks closer itself, at every call.
    """
    why = explain_large_gain(outcome, readings, standing)
    applied = find(trial, Applied)
    unsettled = list_open_findings(applied.audit, standing.contract) if applied and why else ()
    if not unsettled:
        return None
    rule = unsettled[0].rule
    return Objection(
        kind="integrity",
        reason="unsettled",
        why=(
            f"{outcome.gain:+.1%} in one round is not explained ({why}) and the audit left {rule} open;"
            f" declare `work:`, or allow it: audit: {{allow: [{rule}]}}"
        ),
        note=f"{UNEXPLAINED}left open: {describe_finding(unsettled[0])}",
    )


def note_unexplained_gain(outcome: Outcome, readings: Readings, standing: Standing) -> tuple[str, ...]:
    """The note on a kept gain of that size, where the audit left nothing open."""
    why = explain_large_gain(outcome, readings, standing)
    if not why:
        return ()
    words = f"{outcome.gain:+.1%} in one round and {why}; nothing here settles whether all the work is done"
    return (f"{UNEXPLAINED}{words}",)


def explain_large_gain(outcome: Outcome, readings: Readings, standing: Standing) -> str:
    """Why a kept gain is not explained; empty where it is small, where the roofline vouches, or a judge looked."""
    large = outcome.decision == "accepted" and outcome.gain is not None and exceeds(outcome.gain, CLOSER_GAIN)
    return find_unexplained_time(readings, standing) if large and not standing.contract.judged else ""
