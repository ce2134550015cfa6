"""What each tool of the server may be asked: validated here, and the source of the schemas that clients see."""

from typing import Annotated, Literal

from pydantic import Field

from ridgeline.graph.values import Value

Word = Annotated[str, Field(max_length=1_000, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A name or one line."""
Named = Annotated[Word, Field(min_length=1)]
Offset = Annotated[int, Field(ge=0, le=100_000_000)]


class AboutCampaigns(Value):
    """Without a campaign, all that are in the allowed folders, the newest first."""

    campaign: Word = ""
    """The campaign's folder, absolute or below an allowed one, or its name."""


class AboutCsv(Value):
    """One of `file` and `text`."""

    campaign: Named
    """Whose benchmark it is; its contract has the columns and the scoring."""
    file: Word = ""
    """A CSV below the campaign's folder or an allowed one."""
    text: Annotated[str, Field(max_length=4_000_000)] = ""
    """The CSV itself."""


class AboutQueue(AboutCampaigns):
    """Without a campaign, the open questions of all; with one, its own, and the evidence of the first or of `key`."""

    key: Word = ""
    """Which question's evidence."""
    offset: Offset = 0
    """Characters of the evidence to leave out: `next_offset` of the part before."""


class Decide(Value):
    """An answer to a question of the queue. It is kept for good, with who gave it."""

    campaign: Named
    key: Named
    """Of the question, from `queue`: a decision never applies to another."""
    choice: Literal["approve", "reject", "defer"]
    by: Named
    """Who decides: the person's name, or yours if you were told to decide yourself."""
    reason: Annotated[str, Field(max_length=10_000)] = ""
    """Needed to reject, where the planner learns from it, and to defer."""


class AnswerRequest(Value):
    """Without `text`, the open request of a mailbox campaign; with it, its answer."""

    campaign: Named
    number: Annotated[int, Field(ge=1)] | None = None
    """Of the request, needed with `text`: an answer never goes to another."""
    text: Annotated[str, Field(max_length=2_000_000)] = ""
    """The whole answer, in the form that the request describes."""
    by: Word = ""
    """Who or what wrote it, needed with `text`."""
    offset: Offset = 0
    """Characters of the request to leave out: `next_offset` of the part before."""


class AboutReport(Value):
    """The report so far, in Markdown."""

    campaign: Named
    offset: Offset = 0
    """Characters to leave out: `next_offset` of the part before."""
