"""Configuration classes that win and lose by the same change."""

from collections.abc import Sequence

from ridgeline.graph.limits import Limits
from ridgeline.graph.policy.gates import mean_gain
from ridgeline.graph.policy.outcome import Outcome
from ridgeline.graph.policy.score import at_least, exceeds
from ridgeline.graph.trial import Drafted, Stage, find, proposed
from ridgeline.graph.values import Answer
from ridgeline.graph.verdict import ShapeChange


def class_gains(shapes: Sequence[ShapeChange]) -> dict[str, float]:
    """Geometric mean gain of each class, in order of appearance."""
    names = dict.fromkeys(shape.config_class for shape in shapes)
    return {name: mean_gain([shape for shape in shapes if shape.config_class == name]) for name in names}


def losing(shapes: Sequence[ShapeChange], trial: Stage, limits: Limits) -> tuple[str, ...]:
    """Classes that lost core_shape_regress_limit; anything beyond noise when this draft already is the split one."""
    limit = limits.noise_threshold if is_split(trial) else limits.core_shape_regress_limit
    return tuple(name for name, gain in class_gains(shapes).items() if at_least(-gain, limit))


def target_class(shapes: Sequence[ShapeChange], trial: Stage) -> str | None:
    """The class that the hypothesis is for; None for a global one, or one that names no class of the benchmark."""
    name = proposed(trial).hypothesis.target_class
    return name if name in class_gains(shapes) else None


def is_split(trial: Stage) -> bool:
    """Whether this draft is the class-specialised second attempt."""
    drafted = find(trial, Drafted)
    return drafted is not None and drafted.split


def split(
    shapes: Sequence[ShapeChange], losers: Sequence[str], *, trial: Stage, limits: Limits, gain: float, faster: Answer
) -> Outcome | None:
    """A split, when some classes lose, the target class (any other, for a global change) wins, and none was tried yet.

    `shapes`, `gain` and `faster` are the measured ones of the whole candidate; a class wins beyond noise_threshold.
    """
    gains = class_gains(shapes)
    target = target_class(shapes, trial)
    hopeful = [target] if target else list(gains)
    winners = [name for name in hopeful if name not in losers and exceeds(gains[name], limits.noise_threshold)]
    if not (limits.split and losers and winners) or is_split(trial):
        return None
    won = ", ".join(f"class {name} won {gains[name]:.1%}" for name in winners)
    return Outcome(
        decision="split",
        reason="class_regression",
        why=f"{won}, {named(gains, losers)}; keep the general kernel and dispatch the winner's class to this one",
        faster=faster,
        gain=gain,
        shapes=tuple(shapes),
    )


def named(gains: dict[str, float], losers: Sequence[str]) -> str:
    """The losing classes, for a sentence."""
    return ", ".join(f"class {name} lost {-gains[name]:.1%}" for name in losers)
