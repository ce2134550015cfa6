"""`answer`: answer the open request of a campaign that asks by mailbox."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent import campaigns, console
from agent.errors import UserError

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
    text = judged(_read(file), asked, source="standard input" if file == "-" else file)
    given = counted(text) + sum(counted(message.text) for message in asked.ask.messages)
    about = Answered(
        digest=asked.digest,
        text=text,
        author=plain(by, limit=200),
        tokens=given if tokens is None else tokens,
        dollars=dollars,
    )
    stored = box.store(asked, about)
    if resume:
        console.note(f"{found.name}: answer {asked.number:03d} stored; going on")
        from agent.commands.campaign import resume as go_on

        go_on(str(found), as_json)
    else:
        _tell(found, asked, stored, as_json=as_json)


def _tell(campaign: Path, asked: "Asked", stored: Path, *, as_json: bool) -> None:
    """What comes next: another question, or work for the machine."""
    from agent.ahead import ahead
    from agent.models.mailbox import open_request

    following = open_request(campaign) if ahead(campaign) else None
    if as_json:
        told = {"campaign": campaign.name, "dir": str(campaign), "request": asked.number, "purpose": asked.ask.purpose}
        console.emit({**told, "answer": str(stored), "next_request": following})
        return
    stored_as = f"{campaign.name}: answer {asked.number:03d} stored"
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
