"""What a person is asked before the campaign goes on, and what they decided."""

from typing import Annotated, Literal

from pydantic import Field

from ridgeline.graph.values import Artifact, FileEdit, Hypothesis, Instant, Value, is_default, is_empty, is_none

Gate = Literal["target", "hypothesis", "change"]
GATES: tuple[Gate, ...] = ("target", "hypothesis", "change")
"""The places where a campaign may wait for a person, in the order of a round."""
Late = Literal["hold", "reject", "accept"]
"""What happens when nobody decides in time."""
POLICY = "policy"
"""Who decided, where nobody did."""


Limit = bool | int | float | str | tuple[int, ...] | None
"""What a limit can be."""


class Section(Value):
    """A heading and what stands below it: Markdown for people."""

    heading: str
    text: str


class Option(Value):
    """One of several measured changes that a question is about."""

    round: int
    """Names it: of the planner's own change the open round, of each edit the next number."""
    author: str
    """Who edited it; empty for the planner's own."""
    title: str
    """Its verdict in one line."""
    acceptable: bool
    """Whether its own measurement lets it be kept."""
    diff: Artifact | None = None


class EditBegun(Value):
    """What an edit of a waiting change begins as: who gives it, and when, is not known yet."""

    round: int
    """Its own number."""
    edits_round: int
    """Of the change that it edits."""
    hypothesis: Hypothesis
    edits: tuple[FileEdit, ...]
    """Of that change: they stay where the person gives no file in their place."""
    parent: Annotated[int | None, Field(exclude_if=is_none)] = None
    """As in `Proposed`: what the edits are edits of."""


class ApprovalRequest(Value):
    """One question to a person, with all that they need to answer it."""

    key: str
    """Names gate, round and content: a decision never applies to anything else."""
    gate: Gate
    round: int
    """0 before the first."""
    campaign: str
    title: str
    """One line."""
    asked_at: str
    """ISO-8601 UTC."""
    hours: float = 0
    """So long it waits; 0 is for ever."""
    late: Late = "hold"
    sections: tuple[Section, ...] = ()
    diff: Artifact | None = None
    snapshot: tuple[Artifact, ...] = ()
    """The kernel's files with the change, for whoever wants to edit them; named by their paths."""
    options: Annotated[tuple[Option, ...], Field(exclude_if=is_empty)] = ()
    """After an edit: every measured change of the question, the planner's own first; else empty."""
    edit: Annotated[EditBegun | None, Field(exclude_if=is_none)] = None
    """Of a change only."""


class Decision(Value):
    """A person's answer, or the policy's after its time-out."""

    key: str
    choice: Literal["approve", "reject", "edit"]
    reason: str = ""
    edits: tuple[FileEdit, ...] = ()
    """Of `edit`: whole files in place of the change's own; it is tested and measured again."""
    by: str
    at: Instant
    """ISO-8601 UTC."""
    exhausted: Annotated[str, Field(exclude_if=is_empty)] = ""
    """Beside `approve` or `reject`: why nothing worth a round is left, so that the campaign ends with this round."""
    round: Annotated[int | None, Field(exclude_if=is_none)] = None
    """Of `approve`, where several measured changes are asked about: which of them."""
    target: Annotated[tuple[tuple[str, str], ...], Field(exclude_if=is_empty)] = ()
    """Beside `approve` at the target: parameters that the person changed, as `--target` takes them."""
    limits: Annotated[tuple[tuple[str, Limit], ...], Field(exclude_if=is_empty)] = ()
    """Likewise limits, by their names."""
    waited_s: Annotated[float, Field(ge=0, exclude_if=is_default(0))] = 0.0
    """Seconds from the question until the campaign went on with the answer: no limit of minutes counts them."""


class Steering(Value):
    """What a person changed of a running campaign, unasked: in its memory and in the stop conditions of its README."""

    masked: tuple[int, ...] = ()
    """Memory versions that planning leaves out, ascending."""
    unmasked: tuple[int, ...] = ()
    """Versions that no restart masks, ascending."""
    stops: tuple[str, ...] = ()
    """Lines of the README's stop conditions as the person wrote them, in the README's order."""
    deep: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Plans of the deep rounds that a person asked for, in order; an empty plan leaves it to the worker."""
