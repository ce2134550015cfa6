"""An answer to the open question of a mailbox campaign: which question it is for, and whether it can be used."""

from dataclasses import dataclass
from pathlib import Path

from ridgeline.agent.errors import UserError, UserErrors
from ridgeline.agent.providers.base import plain
from ridgeline.agent.providers.mailbox import Answered, Asked, Mailbox, judged, open_request
from ridgeline.agent.providers.tape import FILE, ModelTape, counted


@dataclass(frozen=True, kw_only=True)
class Given:
    """What somebody answered, as it came."""

    data: bytes
    """UTF-8; whatever else it is, is refused."""
    source: str
    """What a message calls it, for example the file's name."""
    by: str = ""
    dollars: float | None = None
    """None where nobody knows."""
    tokens: int | None = None
    """None: counted from question and answer."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An accepted answer."""

    path: Path
    dropped: tuple[str, ...]
    """Parts that the planner will leave out, each with its reason."""


def store(campaign: Path, asked: Asked, given: Given) -> Stored:
    """Keep the answer. Raises UserError or UserErrors where it cannot be used: the request then stays open."""
    text = judged(given.data, asked, source=given.source)
    dropped = _usable(text, asked, given.source)
    counts = counted(text) + sum(counted(message.text) for message in asked.ask.messages)
    spent = counts if given.tokens is None else given.tokens
    author = plain(given.by, limit=200)
    about = Answered(digest=asked.digest, text=text, author=author, tokens=spent, dollars=given.dollars)
    return Stored(path=Mailbox(campaign).store(asked, about), dropped=dropped)


def open_question(campaign: Path, *, replace: bool = False) -> Asked:
    """The request that an answer is for; with `replace`, the newest one even if it is answered and not yet read.

    Raises UserError when there is none.
    """
    box = Mailbox(campaign)
    asked = box.open_request()
    if asked is not None:
        return asked
    known = box.requests()
    if not known:
        raise UserError(f"{campaign.name}: has asked nothing; only `--model mailbox` campaigns ask for answers")
    newest = known[-1]
    if ModelTape(campaign / FILE, repaired=False).answered(newest.ask) is not None:
        raise UserError(
            f"{campaign.name}: has no open request ({newest.number:03d} is answered and read); `ridgeline resume` it"
        )
    if not replace:
        raise UserError(f"{campaign.name}: request {newest.number:03d} is answered already; --replace writes it anew")
    return newest


def following(campaign: Path) -> str | None:
    """Go on as far as nothing has to be measured; the page of the next question, None where none is asked."""
    from ridgeline.agent.ahead import ahead

    return open_request(campaign) if ahead(campaign) else None


def _usable(text: str, asked: Asked, source: str) -> tuple[str, ...]:
    """Parts that the planner will leave out. Raises UserErrors, a line for each reason, when it can use none.

    The planner's own checks, made here so that a mistake costs none of its tries.
    """
    if not asked.checks:
        return ()
    from pydantic import ValidationError

    from ridgeline.agent.planner.checks import Checks
    from ridgeline.agent.planner.directions import found_of
    from ridgeline.knowledge.library import Library

    try:
        checks = Checks.model_validate_json(asked.checks)
    except ValidationError:
        return ()  # asked by another version of Ridgeline, whose campaign checks the answer itself
    found = found_of(text, checks, Library().line)
    if found.why:
        first, *others = [found.why.replace("\n", "; ")] if asked.ask.answer_schema else found.why.splitlines()
        raise UserErrors([f"{source}: {first} (request {asked.number:03d} stays open, no try is spent)", *others])
    return found.dropped
