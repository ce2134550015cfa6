"""What a preset's own rule found, before the gates that hold for all of them, and how it becomes a verdict."""

import math
from collections.abc import Sequence

from ridgeline.graph.limits import Limits
from ridgeline.graph.policy.score import at_least, exceeds
from ridgeline.graph.policy.sentence import sentence
from ridgeline.graph.trial import Traced, proposed
from ridgeline.graph.values import FORBIDDEN_BUCKETS, Answer, Value
from ridgeline.graph.verdict import Decision, Reason, ShapeChange, Verdict

CORRECT: dict[Reason, Answer] = {"check_failed": "no", "incorrect": "no", "build_failed": "unverified"}
"""Reasons that speak about correctness; whatever else was measured had passed its test."""


class Outcome(Value):
    """A decision with its numbers."""

    decision: Decision
    reason: Reason
    why: str
    """Cause, in words that fit after `because`; what won, for an acceptance."""
    faster: Answer
    gain: float | None = None
    lower: float | None = None
    upper: float | None = None
    shapes: tuple[ShapeChange, ...] = ()
    notes: tuple[str, ...] = ()


def settle(trial: Traced, outcome: Outcome) -> Verdict:
    """The verdict of a measured trial."""
    return Verdict(
        decision=outcome.decision,
        reason=outcome.reason,
        correct=CORRECT.get(outcome.reason, "yes"),
        faster=outcome.faster,
        own_work=_own_work(trial),
        gain=outcome.gain,
        lower=outcome.lower,
        upper=outcome.upper,
        shapes=outcome.shapes,
        notes=outcome.notes,
        sentence=sentence(
            trial,
            outcome.decision,
            why=outcome.why,
            trade_off=outcome.reason == "faster_trade_off",
            helped=outcome.faster,
        ),
    )


def _own_work(trial: Traced) -> Answer:
    """As the judge answered; without one, only a cache that Rule 11 forbids is known to be no work."""
    if answered := trial.timed.verified.test.own_work:
        return answered
    return "no" if proposed(trial).hypothesis.bucket in FORBIDDEN_BUCKETS else "unverified"


def accept(gain: float, shapes: Sequence[ShapeChange], limits: Limits, *, lower: float | None = None) -> Outcome:
    """Kept; with a note when shapes lost more than noise and less than their guard."""
    regressed = [shape for shape in shapes if at_least(-shape.gain, limits.noise_threshold)]
    losses = tuple(f"shape {shape.label} regressed {-shape.gain:.1%}" for shape in regressed)
    sure = f" (at least {lower:+.1%})" if lower is not None else ""
    spread = () if regressed else _spread(shapes)
    return Outcome(
        decision="accepted",
        reason="faster_trade_off" if regressed else "faster",
        why=", ".join((f"avg {gain:+.1%}{sure}", *losses, *spread)),
        faster="yes" if lower is not None else faster(gain, limits),
        gain=gain,
        lower=lower,
        shapes=tuple(shapes),
        notes=tuple(f"trade-off: {loss}" for loss in losses),
    )


def reject(reason: Reason, why: str, *, faster: Answer, gain: float | None = None, **numbers: object) -> Outcome:
    """Not kept. `numbers` are further fields of Outcome."""
    fields = {"decision": "rolled_back", "reason": reason, "why": why, "faster": faster, "gain": gain, **numbers}
    return Outcome.model_validate(fields)


def faster(gain: float, limits: Limits) -> Answer:
    """What single measurements can say: beyond noise yes, not above zero no, in between unverified."""
    if exceeds(gain, limits.noise_threshold):
        return "yes"
    return "unverified" if exceeds(gain, 0.0) else "no"


def lost(shapes: Sequence[ShapeChange], labels: Sequence[str], limits: Limits) -> tuple[ShapeChange, ...]:
    """Shapes among `labels` that lost core_shape_regress_limit or more."""
    return tuple(
        shape for shape in shapes if shape.label in labels and at_least(-shape.gain, limits.core_shape_regress_limit)
    )


def losses(shapes: Sequence[ShapeChange]) -> str:
    """The losing shapes, for a sentence."""
    return ", ".join(f"shape {shape.label} lost {-shape.gain:.1%}" for shape in shapes)


def averaged(samples: Sequence[Sequence[ShapeChange]]) -> tuple[ShapeChange, ...]:
    """Mean gain of each shape over several measurements of the same shapes."""
    return tuple(
        group[0].model_copy(update={"gain": math.fsum(item.gain for item in group) / len(group)})
        for group in zip(*samples, strict=True)
    )


def _spread(shapes: Sequence[ShapeChange]) -> tuple[str, ...]:
    if len(shapes) < 2:
        return ()
    low, high = min(shapes, key=lambda s: s.gain), max(shapes, key=lambda s: s.gain)
    return (f"from {low.gain:+.1%} ({low.label}) to {high.gain:+.1%} ({high.label})",)
