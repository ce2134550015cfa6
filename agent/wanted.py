"""What a campaign waits for: a decision of a person, an answer to its mailbox, or somebody to go on with it."""

from pathlib import Path

from ridgeline.agent import campaigns
from ridgeline.agent.approvals import FOLDER, ApprovalFiles, Decided, said
from ridgeline.agent.providers.mailbox import open_request


def wanted(campaign: Path) -> str | None:
    """The page to answer: a question to a person, or one to a model."""
    asked = ApprovalFiles(campaign).waiting()
    return asked[0].page if asked else open_request(campaign)


def question_of(page: str | None) -> str | None:
    """Key of the question to a person that a page of `wanted` asks; None for one to a model."""
    return Path(page).stem if page and Path(page).parent.name == FOLDER else None


def decided(campaign: Path) -> Decided | None:
    """What was decided and not gone on with; None while a process works on it, and after its end.

    Raises UserError for a file that cannot be read.
    """
    written = campaigns.read_status(campaign)
    if written.get("status") == "concluded" or (written.get("status") == "running" and campaigns.is_alive(written)):
        return None
    return ApprovalFiles(campaign).decided()


def next_of(campaign: str, found: Decided) -> str:
    """One sentence: who decided what, and the command that goes on with it."""
    place = f" of round {found.request.round}" if found.request.round else ""
    return (
        f"decided, not resumed: {found.request.gate}{place}: {said(found.decision)};"
        f" go on with `ridgeline resume {campaign}`"
    )


def how(campaign: str, page: str) -> str:
    """One sentence: who is waited for, what to read, and the command that answers; `page` as `wanted` gives it."""
    if Path(page).parent.name == FOLDER:
        return f"waits for a person: read {page}, then `ridgeline approve {campaign} --resume`"
    return f"waits for an answer: read {page}, then `ridgeline answer {campaign} FILE --resume`"
