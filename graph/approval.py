"""What a person is asked before the campaign goes on, and what they decided."""

from typing import Annotated, Literal

from pydantic import Field

from ridgeline.graph.values import Artifact, FileEdit, Value

Gate = Literal["target", "hypothesis", "change"]
GATES: tuple[Gate, ...] = ("target", "hypothesis", "change")
"""The places where a campaign may wait for a person, in the order of a round."""
Late = Literal["hold", "reject", "accept"]
"""What happens when nobody decides in time."""
POLICY = "policy"
"""Who decided, where nobody did."""


class Section(Value):
    """A heading and what stands below it: Markdown for people."""

    heading: str
    text: str


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


class Decision(Value):
    """A person's answer, or the policy's after its time-out."""

    key: str
    choice: Literal["approve", "reject", "edit"]
    reason: str = ""
    edits: tuple[FileEdit, ...] = ()
    """Of `edit`: whole files in place of the change's own; it is tested and measured again."""
    by: str
    at: str
    """ISO-8601 UTC."""
    waited_s: Annotated[float, Field(ge=0, exclude_if=lambda seconds: seconds == 0)] = 0.0
    """Seconds from the question until the campaign went on with the answer: no limit of minutes counts them."""
