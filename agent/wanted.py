"""What a campaign waits for: a decision of a person, or an answer to its mailbox; and the command that gives it."""

from pathlib import Path

from ridgeline.agent.approvals import FOLDER, ApprovalFiles
from ridgeline.agent.models.mailbox import open_request


def wanted(campaign: Path) -> str | None:
    """The page to answer: a question to a person, or one to a model."""
    asked = ApprovalFiles(campaign).waiting()
    return asked[0].page if asked else open_request(campaign)


def how(campaign: str, page: str) -> str:
    """One sentence: who is waited for, what to read, and the command that answers; `page` as `wanted` gives it."""
    if Path(page).parent.name == FOLDER:
        return f"waits for a person: read {page}, then `ridgeline approve {campaign} --resume`"
    return f"waits for an answer: read {page}, then `ridgeline answer {campaign} FILE --resume`"
