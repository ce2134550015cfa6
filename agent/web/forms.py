"""What a browser sends with a form, bounded and made harmless for terminals and records."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from ridgeline.agent.web.gatekeeper import Refused
from ridgeline.graph.documents.text import clip

FIELDS = 64
"""Fields of a form: some files and a few words."""
NAME, WORDS = 100, 2000
"""Characters of a person's name, and of a reason."""


async def fields(request: Request) -> dict[str, str]:
    """The form by field. Raises Refused where it is none, too long, or says one thing twice."""
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError as error:
        raise Refused(400, "this is not a form") from error
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refused(400, "a field is there twice")
    return found


def words(form: Mapping[str, str], name: str, limit: int = WORDS) -> str:
    """One line of text for people. Raises Refused where it is too long."""
    given = form.get(name, "")
    if len(given) > limit:
        raise Refused(400, f"{name} is longer than {limit} characters")
    return clip(given, limit)


def source(given: str, before: str) -> str:
    """An edited file with the line ends that it had: a browser sends CRLF."""
    text = given.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\n", "\r\n") if "\r\n" in before else text
