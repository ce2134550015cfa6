"""What the judge decided, from a closed list of reasons; numbers are present exactly when they were measured."""

from typing import Literal, Self

from pydantic import model_validator

from ridgeline.graph.values import Answer, Value

Decision = Literal["accepted", "rolled_back", "split", "escalate"]
"""split: winners and losers diverge by configuration class. escalate is never recorded."""

AcceptReason = Literal["faster", "faster_trade_off", "tie_with_benefit"]
UnmeasuredReason = Literal[
    "no_edit",
    "refused_edit",
    "no_change",
    "more_than_one_change",
    "overfit",
    "convicted",
    "unsettled",
    "build_failed",
    "build_timeout",
    "incorrect",
    "test_timeout",
    "test_crashed",
    "tampered",
    "benchmark_failed",
    "local_gate",
    "rejected",
    "stopped",
]
MeasuredReason = Literal[
    "check_failed",
    "not_better",
    "noise",
    "undecided",
    "core_regression",
    "class_regression",
    "isa_regression",
    "trace_not_improved",
    "formatted_not_better",
    "replaced",
    "outpaced",
]
"""no_edit: planner had no usable change. refused_edit: outside the editable globs. no_change: identical tree.
overfit: Rule 11. convicted: its source has what no honest kernel has. tampered: evaluation files differ.
unsettled: its source has what no check of this campaign can tell from a trick, and the contract does not allow it.
noise: improvement not resolved. undecided: budget of pairs spent.
local_gate: in the minimal project already it is slower by more than a core shape may lose.
rejected: by a person. stopped: a person or the time limit ended its round.
replaced: proven, and a person chose another measured change of the same question.
outpaced: timed side by side with another candidate of its round, which was faster.
core_regression: a shape lost more than its threshold, which the sentence names: a core shape core_shape_regress_limit,
in preset evidence any shape shape_guard with confidence, a protected one noise.
isa_regression: more spills or lost occupancy, which undoes only what was not proven (`rules.acceptance`)."""
Reason = AcceptReason | UnmeasuredReason | MeasuredReason


class ShapeChange(Value):
    """Gain of one shape, candidate over best: +0.05 is five per cent more of what is better."""

    label: str
    config_class: str
    gain: float
    lower: float | None = None
    upper: float | None = None


class Verdict(Value):
    """The decision on one round."""

    decision: Decision
    reason: Reason
    correct: Answer
    faster: Answer
    own_work: Answer
    gain: float | None = None
    """Relative change of the aggregate, candidate over best, higher is better."""
    lower: float | None = None
    """Lower confidence bound of the gain, where the preset computes one."""
    upper: float | None = None
    shapes: tuple[ShapeChange, ...] = ()
    notes: tuple[str, ...] = ()
    sentence: str
    """What an engineer can quote: `Round 4: ACCEPTED - avg +8.4%, ...`."""

    @property
    def accepted(self) -> bool:
        return self.decision == "accepted"

    @property
    def proven_gain(self) -> float:
        """The bound of the gain, where the preset has one; of a measured round, which has a gain."""
        assert self.gain is not None
        return self.gain if self.lower is None else self.lower

    @model_validator(mode="after")
    def _numbers_tied_to_reason(self) -> Self:
        accepting = self.reason in ("faster", "faster_trade_off", "tie_with_benefit")
        if self.accepted and not accepting:
            raise ValueError(f"accepted cannot be for reason {self.reason}")
        if self.accepted and (self.correct != "yes" or self.gain is None):
            raise ValueError("accepted needs a correct candidate and a measured gain")
        if self.decision == "rolled_back" and accepting:
            raise ValueError(f"rolled back cannot be for reason {self.reason}")
        return self
