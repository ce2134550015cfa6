"""`answer`: answer the open request of a campaign that asks by mailbox."""

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.campaign import folders as campaigns
from ridgeline.agent.errors import UserError

if TYPE_CHECKING:
    from ridgeline.agent.campaign.decisions import StoredAnswer
    from ridgeline.agent.providers.mailbox import MailboxRequest

Campaign = Annotated[str, typer.Argument(help="A campaign's directory or name.", autocompletion=campaigns.names)]
File = Annotated[str, typer.Argument(help="The file that holds the answer; - reads standard input.")]
Author = Annotated[str, typer.Option("--by", help="Who or what wrote it, for the record.")]
Dollars = Annotated[float | None, typer.Option(help="What the answer cost, when somebody knows.", min=0)]
Tokens = Annotated[int | None, typer.Option(help="Tokens it took; default: counted from the texts.", min=0)]
Replace = Annotated[bool, typer.Option("--replace", help="Replace the newest answer, if the campaign has not read it.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the campaign at once.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, logs on standard error.")]


def register(app: typer.Typer) -> None:
    """Adds `answer`, `queue` and `approve` to the command line."""
    app.command()(answer)
    app.command()(queue)
    app.command()(approve)


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
    from ridgeline.agent.campaign.decisions import Submission, open_question, store_answer

    directory = campaigns.find(campaign)
    request = open_question(directory, replace=replace)
    source = "standard input" if file == "-" else file
    stored = store_answer(
        directory, request, Submission(data=_read_answer(file), source=source, by=by, dollars=dollars, tokens=tokens)
    )
    if resume:
        console.note(
            f"{directory.name}: answer {request.number:03d} stored{_describe_dropped(stored.dropped)}; going on"
        )
        from ridgeline.agent.cli.campaign import resume as go_on

        go_on(str(directory), as_json)
    else:
        _report_stored(directory, request, stored, as_json=as_json)


def _describe_dropped(dropped: tuple[str, ...]) -> str:
    """Prints which directions the planner will leave out, as the end of a sentence."""
    return f" without {len(dropped)} of its directions ({'; '.join(dropped)})" if dropped else ""


def _report_stored(campaign: Path, request: "MailboxRequest", stored: "StoredAnswer", *, as_json: bool) -> None:
    """Prints what comes next after `ridgeline answer`: another question, or work for the machine."""
    from ridgeline.agent.campaign.decisions import following

    follows = following(campaign)
    if as_json:
        fields = {
            "campaign": campaign.name,
            "dir": str(campaign),
            "request": request.number,
            "purpose": request.ask.purpose,
        }
        console.emit({**fields, "answer": str(stored.path), "dropped": stored.dropped, "next_request": follows})
        return
    stored_as = f"{campaign.name}: answer {request.number:03d} stored{_describe_dropped(stored.dropped)}"
    if follows:
        console.say(f"{stored_as}; nothing needs measuring before the next question: read {follows}")
    else:
        console.say(f"{stored_as}; go on with `ridgeline resume {campaign}`")


def _read_answer(file: str) -> bytes:
    """Bytes of the file of `ridgeline answer`, one more than may be taken at most. Raises UserError for a file that cannot be read."""
    from ridgeline.agent.providers.mailbox import LONGEST

    if file == "-":
        return sys.stdin.buffer.read(LONGEST + 1)
    try:
        with Path(file).open("rb") as source:
            return source.read(LONGEST + 1)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); give the file that holds the answer") from None


# `queue`, `approve`: what campaigns ask people, and the answers.

if TYPE_CHECKING:
    from ridgeline.agent.campaign.approvals import Waits

Folders = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders or campaigns to look in; default: the campaigns of this repository."),
]
CampaignOrNewest = Annotated[
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
TargetChanges = Annotated[
    list[str] | None, typer.Option("--target", help="With --yes at the target: key=value of a parameter; repeatable.")
]
LimitChanges = Annotated[
    list[str] | None, typer.Option("--set", help="With --yes at the target: key=value of a limit; repeatable.")
]
Defer = Annotated[str | None, typer.Option(metavar="NOTE", help="Leave it in the queue with a note.")]

ApprovalJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
LONGEST = 1_000_000
"""Characters of a page that a terminal is shown."""
HEADER = ("CAMPAIGN", "GATE", "ROUND", "SINCE (UTC)", "WHAT")
REASON = typer.Option("", help="Why, for the record.")


def queue(folders: Folders = None, as_json: ApprovalJson = False) -> None:
    """What campaigns wait for: a person's decision, oldest first, or a mailbox's answer; and what was decided and not resumed."""
    from ridgeline.agent.campaign.approvals import describe_unused
    from ridgeline.agent.campaign.decisions import decided_questions, open_mailboxes, open_questions
    from ridgeline.agent.providers.base import plain
    from ridgeline.agent.providers.mailbox import Mailbox, describe_request

    questions, decided = open_questions(folders or []), decided_questions(folders or [])
    mailboxes = open_mailboxes(folders or [])
    if as_json:
        waiting = [{"dir": str(folder), **question.model_dump(mode="json")} for folder, question in questions]
        console.emit(
            {
                "waiting": waiting,
                "decided": [{"dir": str(folder), **question.model_dump(mode="json")} for folder, question in decided],
                "mailbox": [
                    {
                        "dir": str(folder),
                        "purpose": request.ask.purpose,
                        "page": str(Mailbox(folder).path(request.number, "request.md")),
                    }
                    for folder, request in mailboxes
                ],
            }
        )
        return
    if not questions and not mailboxes:
        console.say("nothing waits for a person")
    elif questions:
        console.table(HEADER, [_row(question) for _, question in questions])
        folder, oldest = questions[0]
        console.say(f"read {oldest.page}, then `ridgeline approve {folder}`")
    for folder, request in mailboxes:
        console.say(plain(describe_request(folder, request), limit=LONGEST))
    for folder, decision in decided:
        console.say(plain(f"{decision.request.campaign}: {describe_unused(str(folder), decision)}", limit=LONGEST))


def approve(
    campaign: CampaignOrNewest = None,
    key: Key = None,
    yes: Yes = False,
    reject: Reject = None,
    edit: Edit = None,
    defer: Defer = None,
    number: Number = None,
    end: End = "",
    target: TargetChanges = None,
    limits: LimitChanges = None,
    reason: str = REASON,
    by: By = None,
    go_on: Resume = False,
    as_json: ApprovalJson = False,
) -> None:
    """Answer a campaign that waits for a person. Shows the evidence and asks, unless the answer is an option."""
    from ridgeline.agent.campaign.decisions import Answer, find_question, refuse_late, store_decision
    from ridgeline.agent.cli.campaign import parse_pairs

    directory = campaigns.find(campaign)
    question = find_question(directory, key)
    if sum((yes, reject is not None, edit is not None, defer is not None)) > 1:
        raise UserError("give one of --yes, --reject, --edit and --defer")
    if end and (edit is not None or defer is not None):
        raise UserError("--end: goes with --yes or --reject: an edit has to be measured, and a deferred question waits")
    if reject is None and edit is None and defer is None and not yes:
        refuse_late(question)
        yes, reject = _ask_on_terminal(question)
    who = by or getpass.getuser()
    answer = Answer(
        yes=yes,
        reject=reject,
        edit=edit,
        defer=defer,
        end=end,
        round=number,
        target=parse_pairs("--target", target or []),
        limits=tuple(limits or ()),
        reason=reason,
        by=who,
    )
    if edit is not None:
        console.note(f"{directory.name}: the edit is built and tested before it is taken")
    stored = store_decision(directory, question, answer, goes_on=go_on)
    if go_on and stored != "defer":
        from ridgeline.agent.campaign.progress import progress, read_worked_s
        from ridgeline.agent.campaign.runner import resume
        from ridgeline.agent.cli.campaign import print_outcome

        print_outcome(resume(directory, progress(before_s=read_worked_s(directory))), as_json=as_json)
        return
    if as_json:
        console.emit({"campaign": directory.name, "dir": str(directory), "key": question.request.key, "choice": stored})
        return
    mend = "stays in the queue" if stored == "defer" else f"go on with `ridgeline resume {directory}`"
    console.say(f"{directory.name}: {question.request.gate} of round {question.request.round}: {stored}; {mend}")


def _row(question: "Waits") -> tuple[str, ...]:
    """The printed cells of one open question in `ridgeline queue`."""
    from ridgeline.agent.providers.base import plain

    request = question.request
    later = f" (deferred by {question.deferred.by}: {question.deferred.reason})" if question.deferred else ""
    late = f" ({request.late} after {request.hours:g} h)" if request.hours else ""
    what = plain(request.title + late + later, limit=LONGEST)
    return (request.campaign, request.gate, str(request.round), request.asked_at[:16].replace("T", " "), what)


def _ask_on_terminal(question: "Waits") -> tuple[bool, str | None]:
    """Print the evidence on the terminal and ask for yes or a reason. Raises UserError where nobody can be asked."""
    from ridgeline.agent.providers.base import plain

    if not sys.stdin.isatty():
        raise UserError(
            f"{question.request.key}: say --yes, --reject REASON, --edit PATH or --defer NOTE; read {question.page}"
        )
    page = Path(question.page).read_text(encoding="utf-8")
    console.say(plain(page, limit=LONGEST))  # a diff may hold what would turn this terminal round
    if typer.confirm("approve?"):
        return True, None
    return False, typer.prompt("why not (the planner is told)")
