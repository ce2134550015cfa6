"""A decision with its numbers, how it becomes a verdict, its one sentence, and splits by configuration class."""

import math
import re
from collections.abc import Sequence

from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.score import at_least, exceeds, mean_gain
from ridgeline.graph.trial import Broken, Drafted, Failed, Stage, Traced, find, find_proposal
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


def make_verdict(trial: Traced, outcome: Outcome) -> Verdict:
    """The verdict of a measured trial."""
    return Verdict(
        decision=outcome.decision,
        reason=outcome.reason,
        correct=CORRECT.get(outcome.reason, "yes"),
        faster=outcome.faster,
        own_work=_answer_own_work(trial),
        gain=outcome.gain,
        lower=outcome.lower,
        upper=outcome.upper,
        shapes=outcome.shapes,
        notes=outcome.notes,
        sentence=write_sentence(
            trial,
            outcome.decision,
            why=outcome.why,
            trade_off=outcome.reason == "faster_trade_off",
            helped=outcome.faster,
        ),
    )


def _answer_own_work(trial: Traced) -> Answer:
    """Whether it is own work, as the judge answered; without one, only a cache that Rule 11 forbids is known to be no work."""
    if answered := trial.timed.verified.test.own_work:
        return answered
    return "no" if find_proposal(trial).hypothesis.bucket in FORBIDDEN_BUCKETS else "unverified"


def accept_outcome(
    gain: float, shapes: Sequence[ShapeChange], limits: Limits, *, lower: float | None = None
) -> Outcome:
    """Kept; with a note when shapes lost more than noise and less than their guard."""
    regressed = [shape for shape in shapes if at_least(-shape.gain, limits.noise_threshold)]
    losses = tuple(f"shape {shape.label} regressed {-shape.gain:.1%}" for shape in regressed)
    sure = f" (at least {lower:+.1%})" if lower is not None else ""
    spread = () if regressed else _describe_spread(shapes)
    return Outcome(
        decision="accepted",
        reason="faster_trade_off" if regressed else "faster",
        why=", ".join((f"avg {gain:+.1%}{sure}", *losses, *spread)),
        faster="yes" if lower is not None else answer_faster(gain, limits),
        gain=gain,
        lower=lower,
        shapes=tuple(shapes),
        notes=tuple(f"trade-off: {loss}" for loss in losses),
    )


def reject_outcome(
    reason: Reason, why: str, *, faster: Answer, gain: float | None = None, **numbers: object
) -> Outcome:
    """The outcome of a candidate that is not kept. `numbers` are further fields of Outcome."""
    fields = {"decision": "rolled_back", "reason": reason, "why": why, "faster": faster, "gain": gain, **numbers}
    return Outcome.model_validate(fields)


def answer_faster(gain: float, limits: Limits) -> Answer:
    """What single measurements can say: beyond noise yes, not above zero no, in between unverified."""
    if exceeds(gain, limits.noise_threshold):
        return "yes"
    return "unverified" if exceeds(gain, 0.0) else "no"


def describe_losses(shapes: Sequence[ShapeChange]) -> str:
    """The losing shapes with their losses, for a sentence."""
    return ", ".join(f"shape {shape.label} lost {-shape.gain:.1%}" for shape in shapes)


def average_shapes(samples: Sequence[Sequence[ShapeChange]]) -> tuple[ShapeChange, ...]:
    """Mean gain of each shape over several measurements of the same shapes."""
    return tuple(
        group[0].model_copy(update={"gain": math.fsum(item.gain for item in group) / len(group)})
        for group in zip(*samples, strict=True)
    )


def _describe_spread(shapes: Sequence[ShapeChange]) -> tuple[str, ...]:
    if len(shapes) < 2:
        return ()
    low, high = min(shapes, key=lambda s: s.gain), max(shapes, key=lambda s: s.gain)
    return (f"from {low.gain:+.1%} ({low.label}) to {high.gain:+.1%} ({high.label})",)


# The one line about a round that an engineer can quote.

LONGEST_DETAIL = 160
"""Characters of a tool's own words that a sentence repeats."""
LONGEST_REFUSAL = 400
"""Of what the audit says, which is ours: place, meaning and mend stand before the code that it quotes."""
AUDITED = frozenset({"convicted", "unsettled"})

CAUSES = {
    "no_edit": "the planner gave no usable change",
    "refused_edit": "it touched files outside the editable ones",
    "no_change": "it left the code as it was",
    "more_than_one_change": "it was more than one change",
    "overfit": "its gain cannot reach a training step (Rule 11)",
    "convicted": "its source does what no honest kernel does",
    "unsettled": "its source does what no check here can settle",
    "build_failed": "the build failed",
    "build_timeout": "the build ran out of time",
    "incorrect": "its results are wrong",
    "test_timeout": "the correctness test ran out of time",
    "test_crashed": "the correctness test crashed",
    "tampered": "evaluation files were altered",
    "benchmark_failed": "the benchmark gave no usable numbers",
    "local_gate": "it is slower in the minimal project already",
    "rejected": "a person rejected it",
    "stopped": "the campaign was to stop",
}
"""Why a trial ended before a usable measurement."""


def write_sentence(
    trial: Traced | Failed, decision: Decision, *, why: str, trade_off: bool = False, helped: Answer = "unverified"
) -> str:
    """`Round N: ACCEPTED - ...`, `... ROLLED BACK - <change> did not help because ...` or `... SPLIT - ...`.

    Only what was timed and is not faster "did not help"; the rest "was not kept".
    """
    start = find_proposal(trial)
    match decision:
        case "accepted":
            return f"Round {start.round}: ACCEPTED {'(trade-off) ' if trade_off else ''}- {why}"
        case "split":
            return f"Round {start.round}: SPLIT - {start.hypothesis.change}: {why}"
        case _:
            verb = "did not help" if helped == "no" else "was not kept"
            return f"Round {start.round}: ROLLED BACK - {start.hypothesis.change} {verb} because {why}"


COMPILER_ERROR = re.compile(r"^\S+:\d+(?::\d+)?: (?:fatal )?error: ")
"""gcc says first through which files an error was included."""

JUDGED = frozenset({"correct: no", "correct: unverified"})
"""What the judge says before it says why."""
UNLOADED = "load: "
"""How the judge begins where no call was made, since the kernel could not be loaded."""

UNUSED_REPAIR = re.compile(r"repair \d+: ")
"""How the last line begins where no edit of a repair was taken."""


def explain_failure(trial: Failed) -> str:
    """Why it failed: our words, then the first line of the tool's that names an error, or what the audit says."""
    lines = [line.strip() for line in trial.detail.splitlines() if line.strip() and line.strip() not in JUDGED]
    first_line = next(filter(COMPILER_ERROR.search, lines), lines[0] if lines else "")
    words = CAUSES[trial.reason]
    if trial.reason == "incorrect" and first_line.startswith(UNLOADED):
        words, first_line = "it cannot be loaded", first_line.removeprefix(UNLOADED)
    broken = find(trial, Broken)
    if broken is not None and broken.test.own_work == "no":
        words = "it is not its own work"
    if trial.reason == "rejected" and first_line:
        return f"it was {_cut(first_line, LONGEST_DETAIL)}"
    longest = LONGEST_REFUSAL if trial.reason in AUDITED else LONGEST_DETAIL
    cause = f"{words}: {_cut(first_line, longest)}" if first_line else words
    # a repair that changed nothing, or could not be used, is why what was wrong before it still is
    repair = lines[-1] if len(lines) > 1 and UNUSED_REPAIR.match(lines[-1]) else ""
    return f"{cause}; {_cut(repair, LONGEST_DETAIL)}" if repair else cause


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def describe_gain(verdict: Verdict) -> str:
    """The gain with its bounds, and what they resolve: `-12.44% [-13.19%, -11.69%], slower`."""
    gain, lower, upper = verdict.gain, verdict.lower, verdict.upper
    if gain is None:
        return "not measured"
    bounds = f" [{lower:+.2%}, {upper:+.2%}]" if lower is not None and upper is not None else ""
    match verdict.faster:
        case "yes":
            words = "faster"
        case "no":
            words = "slower" if gain < 0 else "no gain above the margin"
        case _:
            words = "not resolved"
    return f"{gain:+.2%}{bounds}, {words}"


def describe_measured(verdict: Verdict) -> str:
    """The gain of a verdict with its bound, as a sentence names it."""
    if verdict.gain is None:
        return "nothing"
    return f"{verdict.gain:+.1%}" + (f" (at least {verdict.lower:+.1%})" if verdict.lower is not None else "")


def describe_worst_shape(verdict: Verdict) -> str:
    """The shape that lost most where a shape's loss decided (`core_regression`), with its number; empty elsewhere."""
    if verdict.reason != "core_regression" or not verdict.shapes:
        return ""
    shape = min(verdict.shapes, key=lambda change: change.gain)
    bounds = f" [{shape.lower:+.2%}, {shape.upper:+.2%}]" if None not in (shape.lower, shape.upper) else ""
    return f"shape {shape.label} changed by {shape.gain:+.2%}{bounds}"


# Configuration classes that win and lose by the same change.


def compute_class_gains(shapes: Sequence[ShapeChange]) -> dict[str, float]:
    """For the verdict: geometric mean gain of each class, in order of appearance."""
    names = dict.fromkeys(shape.config_class for shape in shapes)
    return {name: mean_gain([shape for shape in shapes if shape.config_class == name]) for name in names}


def find_losing_classes(shapes: Sequence[ShapeChange], trial: Stage, limits: Limits) -> tuple[str, ...]:
    """Classes that lost core_shape_regress_limit; anything beyond noise when this draft already is the split one."""
    limit = limits.noise_threshold if is_split(trial) else limits.core_shape_regress_limit
    return tuple(name for name, gain in compute_class_gains(shapes).items() if at_least(-gain, limit))


def target_class(shapes: Sequence[ShapeChange], trial: Stage) -> str | None:
    """The class that the hypothesis is for; None for a global one, or one that names no class of the benchmark."""
    name = find_proposal(trial).hypothesis.target_class
    return name if name in compute_class_gains(shapes) else None


def is_split(trial: Stage) -> bool:
    """For the verdict: whether this draft is the class-specialised second attempt."""
    drafted = find(trial, Drafted)
    return drafted is not None and drafted.split


def propose_split(
    shapes: Sequence[ShapeChange], losers: Sequence[str], *, trial: Stage, limits: Limits, gain: float, faster: Answer
) -> Outcome | None:
    """A split, when some classes lose, the target class (any other, for a global change) wins, and none was tried yet.

    `shapes`, `gain` and `faster` are the measured ones of the whole candidate; a class wins beyond noise_threshold.
    """
    gains = compute_class_gains(shapes)
    target = target_class(shapes, trial)
    hopeful = [target] if target else list(gains)
    winners = [name for name in hopeful if name not in losers and exceeds(gains[name], limits.noise_threshold)]
    if not (limits.split and losers and winners) or is_split(trial):
        return None
    won = ", ".join(f"class {name} won {gains[name]:.1%}" for name in winners)
    return Outcome(
        decision="split",
        reason="class_regression",
        why=f"{won}, {describe_losing_classes(gains, losers)}; keep the general kernel and dispatch the winner's class to this one",
        faster=faster,
        gain=gain,
        shapes=tuple(shapes),
    )


def describe_losing_classes(gains: dict[str, float], losers: Sequence[str]) -> str:
    """The losing classes, for a sentence."""
    return ", ".join(f"class {name} lost {-gains[name]:.1%}" for name in losers)
