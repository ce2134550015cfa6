"""`answer`: answer the open request of a campaign that asks by mailbox."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import campaigns, console
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.answering import Stored
    from ridgeline.agent.providers.mailbox import Asked

Campaign = Annotated[str, typer.Argument(help="A campaign's directory or name.", autocompletion=campaigns.names)]
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


def answer(
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
    from ridgeline.agent.answering import Given, open_question, store

    found = campaigns.find(campaign)
    asked = open_question(found, replace=replace)
    source = "standard input" if file == "-" else file
    stored = store(found, asked, Given(data=_read(file), source=source, by=by, dollars=dollars, tokens=tokens))
    if resume:
        console.note(f"{found.name}: answer {asked.number:03d} stored{_without(stored.dropped)}; going on")
        from ridgeline.agent.commands.campaign import resume as go_on

        go_on(str(found), as_json)
    else:
        _tell(found, asked, stored, as_json=as_json)


def _without(dropped: tuple[str, ...]) -> str:
    return f" without {len(dropped)} of its directions ({'; '.join(dropped)})" if dropped else ""


def _tell(campaign: Path, asked: "Asked", stored: "Stored", *, as_json: bool) -> None:
    """What comes next: another question, or work for the machine."""
    from ridgeline.agent.answering import following

    follows = following(campaign)
    if as_json:
        told = {"campaign": campaign.name, "dir": str(campaign), "request": asked.number, "purpose": asked.ask.purpose}
        console.emit({**told, "answer": str(stored.path), "dropped": stored.dropped, "next_request": follows})
        return
    stored_as = f"{campaign.name}: answer {asked.number:03d} stored{_without(stored.dropped)}"
    if follows:
        console.say(f"{stored_as}; nothing needs measuring before the next question: read {follows}")
    else:
        console.say(f"{stored_as}; go on with `ridgeline resume {campaign}`")


def _read(file: str) -> bytes:
    from ridgeline.agent.providers.mailbox import LONGEST

    if file == "-":
        return sys.stdin.buffer.read(LONGEST + 1)
    try:
        with Path(file).open("rb") as source:
            return source.read(LONGEST + 1)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); give the file that holds the answer") from None
