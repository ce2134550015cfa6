"""What may go wrong in a tool, as the one line that its client is told."""

from pydantic import ValidationError

from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.providers.base import told
from ridgeline.graph.errors import CampaignError, WorldError

KNOWN = (UserError, Waiting, CampaignError, WorldError, ValidationError, OSError)
"""A client's mistakes, and a world that is not as it should be; all else is a fault of ours and ends up in the log."""
LONGEST = 2_000
"""Characters: several reasons why an answer cannot be used."""


def one_line(error: Exception) -> str:
    """Without keys and control characters; of a value that does not fit, where and why, and not the value."""
    match error:
        case ValidationError():
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            return told(f"{where or error.title}: {first['msg']}", limit=LONGEST)
        case OSError():
            return told(f"{error.filename or 'file'}: {error.strerror}", limit=LONGEST)
        case _:
            return told(str(error), limit=LONGEST)
