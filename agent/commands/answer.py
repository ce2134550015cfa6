"""`answer`: answer the open request of a campaign that asks by mailbox."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent import campaigns, console
from agent.errors import UserError, UserErrors

if TYPE_CHECKING:
    from agent.models.mailbox import Asked, Mailbox

Campaign = Annotated[str, typer.Argument(help="A campaign's directory or name.")]
File = Annotated[str, typer.Argument(help="The file that holds the answer; - reads standard input.")]
Author = Annotated[str, typer.Option("--by", help="Who or what wrote it, for the record.")]
Dollars = Annotated[float | None, typer.Option(help="What the answer cost, when somebody knows.", min=0)]
Tokens = Annotated[int | None, typer.Option(help="Tokens it took; default: counted from the texts.", min=0)]
Replace = Annotated[bool, typer.Option("--replace", help="Replace the newest answer, if the campaign has not read it.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the campaign at once.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(answer)


def answer(  # noqa: PLR0913 -- one parameter per option of the command line
    campaign: Campaign,
    file: File,
    by: Author = "",
    dollars: Dollars = None,
    tokens: Tokens = None,
    replace: Replace = False,
    resume: Resume = False,
    as_json: Json = False,
) -> None:
    """Answer the open request of a mailbox campaign. A wrong answer is refused, and the request stays open.

    The campaign goes on as far as nothing has to be measured, so that the next question may be there at once.
    """
    from agent.models.mailbox import Answered, Mailbox, judged
    from agent.models.redaction import plain
    from agent.models.tape import counted

    found = campaigns.find(campaign)
    box = Mailbox(found)
    asked = _open(box, found, replace=replace)
    source = "standard input" if file == "-" else file
    text = judged(_read(file), asked, source=source)
    dropped = _usable(text, asked, source)
    given = counted(text) + sum(counted(message.text) for message in asked.ask.messages)
    spent = given if tokens is None else tokens
    about = Answered(digest=asked.digest, text=text, author=plain(by, limit=200), tokens=spent, dollars=dollars)
    stored = box.store(asked, about)
    if resume:
        console.note(f"{found.name}: answer {asked.number:03d} stored{_without(dropped)}; going on")
        from agent.commands.campaign import resume as go_on

        go_on(str(found), as_json)
    else:
        _tell(found, asked, stored, dropped=dropped, as_json=as_json)


def _usable(text: str, asked: "Asked", source: str) -> tuple[str, ...]:
    """Parts that the planner will leave out. Raises UserErrors, a line for each reason, when it can use none.

    The planner's own checks, made here so that a mistake costs none of its tries.
    """
    if not asked.checks:
        return ()
    from pydantic import ValidationError

    from agent.planners.model_checks import Checks
    from agent.planners.model_refusal import found_of
    from knowledge.library import Library

    try:
        checks = Checks.model_validate_json(asked.checks)
    except ValidationError:
        return ()  # asked by another version of Ridgeline, whose campaign checks the answer itself
    found = found_of(text, checks, Library().line)
    if found.why:
        first, *others = [found.why.replace("\n", "; ")] if asked.ask.answer_schema else found.why.splitlines()
        raise UserErrors([f"{source}: {first} (request {asked.number:03d} stays open, no try is spent)", *others])
    return found.dropped


def _without(dropped: tuple[str, ...]) -> str:
    return f" without {len(dropped)} of its directions ({'; '.join(dropped)})" if dropped else ""


def _tell(campaign: Path, asked: "Asked", stored: Path, *, dropped: tuple[str, ...], as_json: bool) -> None:
    """What comes next: another question, or work for the machine."""
    from agent.ahead import ahead
    from agent.models.mailbox import open_request

    following = open_request(campaign) if ahead(campaign) else None
    if as_json:
        told = {"campaign": campaign.name, "dir": str(campaign), "request": asked.number, "purpose": asked.ask.purpose}
        console.emit({**told, "answer": str(stored), "dropped": dropped, "next_request": following})
        return
    stored_as = f"{campaign.name}: answer {asked.number:03d} stored{_without(dropped)}"
    if following:
        console.say(f"{stored_as}; nothing needs measuring before the next question: read {following}")
    else:
        console.say(f"{stored_as}; go on with `ridgeline resume {campaign}`")


def _open(box: "Mailbox", campaign: Path, *, replace: bool) -> "Asked":
    """The request that this answer is for. Raises UserError when there is none."""
    from agent.models.tape import FILE, ModelTape

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


def _read(file: str) -> bytes:
    from agent.models.mailbox import LONGEST

    if file == "-":
        return sys.stdin.buffer.read(LONGEST + 1)
    try:
        with Path(file).open("rb") as source:
            return source.read(LONGEST + 1)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); give the file that holds the answer") from None
