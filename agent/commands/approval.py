"""`queue`, `approve`: what campaigns ask people, and the answers."""

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import campaigns, console
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.approvals import Waits

Folders = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders or campaigns to look in; default: the campaigns of this repository."),
]
Campaign = Annotated[
    str | None,
    typer.Argument(
        help="A campaign's directory or name; without it, the newest one here.", autocompletion=campaigns.names
    ),
]
Key = Annotated[str | None, typer.Option(help="Which question, where several are open.")]
By = Annotated[str | None, typer.Option(help="Who decides, for the record; default: your user name.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Approve without being shown the evidence.")]
Reject = Annotated[str | None, typer.Option(metavar="REASON", help="Reject; the planner is told why.")]
Edit = Annotated[
    Path | None,
    typer.Option(
        help="Approve with other code: a folder with edited files, or one file; built and tested now, then measured."
    ),
]
End = Annotated[
    str,
    typer.Option("--end", metavar="WHY", help="With --yes or --reject: nothing is left, conclude after this round."),
]
Number = Annotated[
    int | None, typer.Option("--round", help="With --yes: which change, where a person's edit was measured beside it.")
]
Defer = Annotated[str | None, typer.Option(metavar="NOTE", help="Leave it in the queue with a note.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the campaign at once.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
LONGEST = 1_000_000
"""Characters of a page that a terminal is shown."""
HEADER = ("CAMPAIGN", "GATE", "ROUND", "SINCE (UTC)", "WHAT")
REASON = typer.Option("", help="Why, for the record.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(queue)
    app.command()(approve)


def queue(folders: Folders = None, as_json: Json = False) -> None:
    """What campaigns wait for a person to decide, oldest first, and what was decided and not resumed."""
    from ridgeline.agent.approving import decided_questions, open_questions
    from ridgeline.agent.providers.base import plain
    from ridgeline.agent.wanted import next_of

    found, decided = open_questions(folders or []), decided_questions(folders or [])
    if as_json:
        waiting = [{"dir": str(folder), **one.model_dump(mode="json")} for folder, one in found]
        console.emit(
            {
                "waiting": waiting,
                "decided": [{"dir": str(folder), **one.model_dump(mode="json")} for folder, one in decided],
            }
        )
        return
    if not found:
        console.say("nothing waits for a person")
    else:
        console.table(HEADER, [_row(one) for _, one in found])
        folder, first = found[0]
        console.say(f"read {first.page}, then `ridgeline approve {folder}`")
    for folder, done in decided:
        console.say(plain(f"{done.request.campaign}: {next_of(str(folder), done)}", limit=LONGEST))


def approve(
    campaign: Campaign = None,
    key: Key = None,
    yes: Yes = False,
    reject: Reject = None,
    edit: Edit = None,
    defer: Defer = None,
    number: Number = None,
    end: End = "",
    reason: str = REASON,
    by: By = None,
    go_on: Resume = False,
    as_json: Json = False,
) -> None:
    """Answer a campaign that waits for a person. Shows the evidence and asks, unless the answer is an option."""
    from ridgeline.agent.approving import Answer, asked, refuse_late, store

    found = campaigns.find(campaign)
    one = asked(found, key)
    if sum((yes, reject is not None, edit is not None, defer is not None)) > 1:
        raise UserError("give one of --yes, --reject, --edit and --defer")
    if end and (edit is not None or defer is not None):
        raise UserError("--end: goes with --yes or --reject: an edit has to be measured, and a deferred question waits")
    if reject is None and edit is None and defer is None and not yes:
        refuse_late(one)
        yes, reject = _shown(one)
    who = by or getpass.getuser()
    answer = Answer(yes=yes, reject=reject, edit=edit, defer=defer, end=end, round=number, reason=reason, by=who)
    if edit is not None:
        console.note(f"{found.name}: the edit is built and tested before it is taken")
    stored = store(found, one, answer, goes_on=go_on)
    if go_on and stored != "defer":
        from ridgeline.agent.campaign import resume
        from ridgeline.agent.commands.campaign import tell
        from ridgeline.agent.spectator import progress

        tell(resume(found, progress()), as_json=as_json)
        return
    if as_json:
        console.emit({"campaign": found.name, "dir": str(found), "key": one.request.key, "choice": stored})
        return
    mend = "stays in the queue" if stored == "defer" else f"go on with `ridgeline resume {found}`"
    console.say(f"{found.name}: {one.request.gate} of round {one.request.round}: {stored}; {mend}")


def _row(one: "Waits") -> tuple[str, ...]:
    from ridgeline.agent.providers.base import plain

    request = one.request
    later = f" (deferred by {one.deferred.by}: {one.deferred.reason})" if one.deferred else ""
    late = f" ({request.late} after {request.hours:g} h)" if request.hours else ""
    what = plain(request.title + late + later, limit=LONGEST)
    return (request.campaign, request.gate, str(request.round), request.asked_at[:16].replace("T", " "), what)


def _shown(one: "Waits") -> tuple[bool, str | None]:
    """The evidence, then yes or a reason. Raises UserError where nobody can be asked."""
    from ridgeline.agent.providers.base import plain

    if not sys.stdin.isatty():
        raise UserError(f"{one.request.key}: say --yes, --reject REASON, --edit PATH or --defer NOTE; read {one.page}")
    page = Path(one.page).read_text(encoding="utf-8")
    console.say(plain(page, limit=LONGEST))  # a diff may hold what would turn this terminal round
    if typer.confirm("approve?"):
        return True, None
    return False, typer.prompt("why not (the planner is told)")
