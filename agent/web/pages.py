"""The pages: a template each, with what they show. Everything foreign is escaped by the templates' environment."""

import getpass
import re
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Literal

from ridgeline.agent.campaign.approvals import Waits, describe_unused
from ridgeline.agent.campaign.decisions import Answer, find_question, refuse_late, store_decision
from ridgeline.agent.campaign.evidence_pack import change_of, read_for_page
from ridgeline.agent.campaign.progress import Course
from ridgeline.agent.errors import UserError
from ridgeline.agent.fleet.run import CAMPAIGNS, read_standing
from ridgeline.agent.web.catalogue import CORE, CampaignRecord, Catalogue
from ridgeline.agent.web.gatekeeper import NAME, source, words
from ridgeline.agent.web.listing import (
    ROWS_A_PAGE,
    STATES,
    ListPage,
    ListQuery,
    because,
    screen,
    select_night,
    select_rows,
    short_cost,
)
from ridgeline.agent.web.live import beat
from ridgeline.agent.web.resume import read_log_tail
from ridgeline.graph.errors import ArtifactLost
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.reports.figures import hypothesis
from ridgeline.graph.reports.html import cost_rows, describe_predictions, facts
from ridgeline.graph.reports.machine import noise_lines, nothing_to_gain
from ridgeline.graph.reports.markdown import diff, markdown
from ridgeline.graph.reports.plots import roofline_plot, trend_plot
from ridgeline.graph.reports.result import PRODUCT
from ridgeline.graph.reports.rounds import summary
from ridgeline.graph.reports.text import clip, interval
from ridgeline.graph.rules.result import compute_result
from ridgeline.graph.values import Artifact
from ridgeline.prompts.render import render
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.workspace.globs import matches

LOG_LINES = 40
ROUNDS_A_PAGE = 25
HOURS = (16, 24, 72, 168)
"""Nights that the morning page offers: one since the afternoon before, a day, a weekend, a week."""


def campaign_list(catalogue: Catalogue, request: ListQuery) -> str:
    """The page with the list of campaigns that filters ask for."""
    stamp = catalogue.stamp()  # before they are read: what comes later is told by the events
    rows = catalogue.rows()
    matches = select_rows(rows, request)
    return render(
        "web_campaigns.v1.html",
        asked=request,
        states=STATES,
        stamp=stamp,
        shown=ListPage.of(matches, request.page, ROWS_A_PAGE),
        of=len(rows),
        reading=any(row.record is None for row in rows),
        unsearched=[str(folder) for folder in catalogue.unsearched],
        because=because,
        short_cost=short_cost,
        product=PRODUCT,
        **_top(catalogue),
    )


def morning(catalogue: Catalogue, hours: int) -> str:
    """The web page of the morning: what the campaigns of the last hours achieved, and which of them need a person."""
    stamp = catalogue.stamp()
    rows = catalogue.rows()
    last_night = select_night(rows, hours=hours, now=datetime.now(UTC))
    screens = {row.id: screen(row.record.result) for row in last_night.rows if row.record and row.record.result}
    return render(
        "web_morning.v1.html",
        night=last_night,
        screens=screens,
        stamp=stamp,
        since=last_night.since.astimezone().strftime("%A %H:%M"),
        choices=HOURS,
        reading=any(row.record is None for row in rows),
        short_cost=short_cost,
        **_top(catalogue),
    )


def fleets(catalogue: Catalogue) -> str:
    """The web page of every fleet: its campaigns with their gains, what they cost, and which machine holds which."""
    stamp = catalogue.stamp()
    names = {path: name for name, path in catalogue.find_campaigns().items()}
    rows = {row.id: row for row in catalogue.rows()}
    shown = []
    for folder in catalogue.fleets:
        standing, inside = read_standing(folder), (folder / CAMPAIGNS).resolve()
        lines = [(line, rows.get(names.get(inside / line.name, ""))) for line in standing.lines]
        shown.append((folder.name, standing, lines))
    return render("web_fleet.v1.html", fleets=shown, stamp=stamp, product=PRODUCT, **_top(catalogue))


def campaign(catalogue: Catalogue, id: str, page: int = 1) -> str:
    """The web page of one campaign, with its phase and events. `page`: of its rounds, the newest first; one beyond them is the last."""
    stamp = beat(catalogue.folder(id)).stamp  # before it is read: what comes later is told by the events
    row = catalogue.row(id)
    if row.record is not None and row.record.problem:
        return message(catalogue, "This ledger cannot be read", row.record.problem)
    record = catalogue.read_record(id)
    course = catalogue.render_once((id, "course"), record.head, lambda: _course(record))
    rounds_page = ListPage.of(record.history.rounds[::-1] if record.history else (), page, ROUNDS_A_PAGE)
    rounds = catalogue.render_once(
        (id, "rounds", rounds_page.page), record.head, lambda: _rounds(record, rounds_page.items)
    )
    said_here = read_log_tail(catalogue.folder(id))
    return render(
        "web_campaign.v1.html",
        row=row,
        stamp=stamp,
        said=said_here,
        shown=rounds_page,
        **course,
        **rounds,
        **_top(catalogue),
    )


def round_page(catalogue: Catalogue, id: str, number: int) -> str:
    """The web page of one round with its evidence and its change. Raises UserError where it has not closed."""
    record = catalogue.read_record(id)
    history = record.history
    rounds = history.rounds if history else ()
    at = next((n for n, closed in enumerate(rounds) if closed.round == number), None)
    if at is None or history is None:
        raise UserError("there is no such round")
    closed = rounds[at]
    change = change_of(ArtifactStore(catalogue.folder(id)), closed)
    with CORE:
        return render(
            "web_round.v1.html",
            id=id,
            campaign=history.opened.target.campaign,
            closed=closed,
            change=hypothesis(closed).change,
            summary=markdown(summary(history, closed)),
            diff=diff(change) if change else "",
            before=rounds[at - 1].round if at else None,
            after=rounds[at + 1].round if at + 1 < len(rounds) else None,
            page=(len(rounds) - 1 - at) // ROUNDS_A_PAGE + 1,
            **_top(catalogue),
        )


def message(catalogue: Catalogue, title: str, text: str) -> str:
    """A page of the server with one thing to say."""
    return render("web_message.v1.html", title=title, text=text, **_top(catalogue))


def _top(catalogue: Catalogue) -> dict[str, object]:
    """What the head of every page of the server shows."""
    return {"open": catalogue.asking(), "has_fleets": bool(catalogue.fleets)}


def _course(record: CampaignRecord) -> dict[str, object]:
    """What a campaign's web page says of the campaign as a whole."""
    history = record.history
    course = Course()
    for body in record.bodies[:-LOG_LINES]:
        course.pass_over(body)
    log = "\n".join(course.take(body) for body in record.bodies[-LOG_LINES:])
    if history is None:
        return {"log": log, "ended": "", "first": (), "facts": (), "trend": "", "roofline": "", "noise": ""}
    return {
        "log": log,
        "ended": history.concluded.stop_reason if history.concluded else "",
        "first": screen(compute_result(history), headline=nothing_to_gain(history)),
        "facts": facts(history),
        "trend": trend_plot(history),
        "roofline": roofline_plot(history),
        "noise": markdown("\n".join(f"- {item}" for item in noise_lines(history))),
    }


def _rounds(record: CampaignRecord, rounds: Sequence[RoundClosed]) -> dict[str, object]:
    """A part of a campaign's rounds on its web page, the newest first."""
    history = record.history
    if history is None:
        return {"rounds": (), "predicted": "", "costs": ""}
    return {
        "rounds": [
            (
                closed,
                clip(hypothesis(closed).change, 200),
                interval(closed.judged.verdict.gain, closed.judged.verdict.lower, closed.judged.verdict.upper),
            )
            for closed in rounds
        ],
        "predicted": markdown(describe_predictions(history, rounds)),
        "costs": markdown(cost_rows(history, rounds)),
    }


# The approval queue as pages: what waits, one question with its evidence, and the answer.

Choice = Literal["approve", "reject", "edit", "defer"]
MOST_FILES = 20
LARGEST_FILE = 300_000
"""Bytes of a file that is edited in a browser; larger ones are edited elsewhere and given to `ridgeline approve`."""
_CHANGED = re.compile(r"^\+\+\+ b/(.+)$", re.MULTILINE)


def waiting(catalogue: Catalogue, choice: Choice | None = None, *, of: str | None = None, goes_on: bool = False) -> str:
    """The web page of open questions, oldest first; `choice`: what was just decided, `of` which campaign, and whether that goes on."""
    questions = catalogue.questions()
    answered = catalogue.find_campaigns().get(of or "")
    return render(
        "web_queue.v1.html",
        waiting=questions,
        done=choice,
        of=of if answered else "",
        campaign=answered.name if answered else "",
        goes_on=goes_on,
        **_top(catalogue),
        decided=[
            (name, describe_unused(str(catalogue.folder(name)), each))
            for name, each in catalogue.list_unused_decisions()
        ],
    )


def question(catalogue: Catalogue, id: str, key: str, *, goes_on: bool = False) -> str:
    """The web page of one open question with its evidence and forms. Raises UserError where it is not open."""
    folder = catalogue.folder(id)
    question = find_question(folder, key)
    refuse_late(question)
    artifacts = ArtifactStore(folder)
    request = question.request
    change = read_for_page(artifacts, request.diff) if request.diff else ""
    files, uneditable = _editable(catalogue, id, question, change)
    with CORE:
        sections = [(section.heading, markdown(section.text)) for section in request.sections]
    return render(
        "web_question.v1.html",
        id=id,
        request=request,
        goes_on=goes_on,
        sections=sections,
        diff=diff(change) if change and not request.options else "",
        options=[
            (option, diff(read_for_page(artifacts, option.diff)) if option.diff else "") for option in request.options
        ],
        by=getpass.getuser(),
        files=list(files.items()),
        uneditable=uneditable,
        **_top(catalogue),
    )


def decide(catalogue: Catalogue, id: str, key: str, form: Mapping[str, str], *, goes_on: bool = False) -> Choice:
    """Keep the answer that a form of a page gives. Raises UserError for an answer that is none, or that came late."""
    folder = catalogue.folder(id)
    question = find_question(folder, key)
    by, reason = words(form, "by", NAME), words(form, "reason")
    if not by:
        raise UserError("say who decides: it goes into the record")
    with tempfile.TemporaryDirectory(prefix="ridgeline-edit-") as place:
        answer = _answer(catalogue, id, question, form, by=by, reason=reason, place=Path(place))
        return store_decision(folder, question, answer, goes_on=goes_on)


def _answer(
    catalogue: Catalogue, id: str, question: Waits, form: Mapping[str, str], *, by: str, reason: str, place: Path
) -> Answer:
    """The decision that a browser's form gives. Raises UserError where it is none."""
    match form.get("action"):
        case "approve":
            return Answer(yes=True, end=words(form, "end"), round=_round(form), reason=reason, by=by)
        case "reject" if reason:
            return Answer(reject=reason, end=words(form, "end"), by=by)
        case "reject":
            raise UserError("say why not: the planner learns from it")
        case "defer":
            return Answer(defer=reason, by=by)
        case "edit":
            _write_edits(catalogue, id, question, form, place)
            return Answer(edit=place, reason=reason, by=by)
        case _:
            raise UserError("choose one of approve, reject, edit and defer")


def _round(form: Mapping[str, str]) -> int | None:
    """Which of several measured changes was chosen in a page's form; None where there is one."""
    number = form.get("round", "")
    if number and not (number.isascii() and number.isdigit() and len(number) < 7):
        raise UserError("choose one of the measured changes")
    return int(number) if number else None


def _write_edits(catalogue: Catalogue, id: str, question: Waits, form: Mapping[str, str], place: Path) -> None:
    """The files in a page's form under the names that the campaign gave them: a form chooses no path."""
    request = question.request
    change = read_for_page(ArtifactStore(catalogue.folder(id)), request.diff) if request.diff else ""
    files, uneditable = _editable(catalogue, id, question, change)
    if not files:
        raise UserError(uneditable or f"a {request.gate} has no code to edit")
    edited = {
        name: source(form[f"file-{n}"], before) for n, (name, before) in enumerate(files.items()) if f"file-{n}" in form
    }
    if len(edited) != len(files):
        raise UserError("some of the files are not in the form; open the page again")
    if edited == files:
        raise UserError("nothing was edited; approve it as it is, or edit it")
    for name, text in edited.items():
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())


def _editable(catalogue: Catalogue, id: str, question: Waits, change: str) -> tuple[dict[str, str], str]:
    """Text of the files that a person may edit on a page, by path; or why none may."""
    history = catalogue.read_record(id).history
    if history is None or question.request.gate != "change":
        return {}, ""
    globs = history.contract.editable_globs
    chosen = [file for file in question.request.snapshot if matches(file.name, globs) and _inside(file.name)]
    folder = PurePosixPath(history.opened.contract_path).parent
    rest = {name for name in _CHANGED.findall(change) if name not in {str(folder / file.name) for file in chosen}}
    elsewhere = "; edit a checkout and give it to `ridgeline approve --edit`"
    if rest:
        return {}, f"this change touches files that cannot be edited here{elsewhere}"
    if not chosen or len(chosen) > MOST_FILES or any(file.size > LARGEST_FILE for file in chosen):
        return {}, f"the sources cannot be edited here: none are stored, or too much{elsewhere}"
    store_of = ArtifactStore(catalogue.folder(id))
    try:
        return {file.name: _text(store_of, file) for file in chosen}, ""
    except (ArtifactLost, UnicodeDecodeError):
        return {}, f"the sources cannot be edited here: lost, or not text{elsewhere}"


def _text(artifacts: ArtifactStore, file: Artifact) -> str:
    return artifacts.get(file).decode()


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and name != ""
