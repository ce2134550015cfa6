"""What speaks against a gain after its times were taken, and which of it may undo the gain: the only place that says so.

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

from collections.abc import Iterator, Sequence
from typing import Literal

from ridgeline.graph.evidence import Profiled
from ridgeline.graph.limits import Limits, by_document
from ridgeline.graph.rules.audit import describe_finding, list_open_findings
from ridgeline.graph.rules.gates import OCCUPANCY, SPILLS, UNEXPLAINED, is_same_rung, read_counters
from ridgeline.graph.rules.outcome import Outcome
from ridgeline.graph.rules.physics import find_unexplained_time
from ridgeline.graph.rules.readings import Readings, reference_run
from ridgeline.graph.rules.score import at_least, delta, exceeds, mean_gain, metric_names
from ridgeline.graph.standing import Standing
from ridgeline.graph.trial import Applied, Traced, find
from ridgeline.graph.values import Named, Value
from ridgeline.graph.verdict import ShapeChange

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
