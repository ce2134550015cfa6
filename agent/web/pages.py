"""The pages: a template each, with what they show. Everything foreign is escaped by the templates' environment."""

from collections.abc import Sequence
from datetime import UTC, datetime

from ridgeline.agent.errors import UserError
from ridgeline.agent.evidence_pack import change_of
from ridgeline.agent.spectator import Course
from ridgeline.agent.web.catalogue import CORE, Catalogue, Whole
from ridgeline.agent.web.going_on import said
from ridgeline.agent.web.listing import ROWS_A_PAGE, STATES, Asked, because, chosen, night, screen, short_cost
from ridgeline.agent.web.live import beat
from ridgeline.agent.web.paged import Paged
from ridgeline.graph.documents.figures import hypothesis
from ridgeline.graph.documents.noise import noise_lines
from ridgeline.graph.documents.report_html import cost_rows, facts, predicted
from ridgeline.graph.documents.report_html_plots import roofline_plot, trend_plot
from ridgeline.graph.documents.report_html_text import diff, markdown
from ridgeline.graph.documents.roofline import nothing_to_gain
from ridgeline.graph.documents.rounds import summary
from ridgeline.graph.documents.text import clip, interval
from ridgeline.graph.policy.result import result
from ridgeline.graph.record import RoundClosed
from ridgeline.prompts.render import render
from ridgeline.sandbox.store.campaign_folder import ArtifactStore

LOG_LINES = 40
ROUNDS_A_PAGE = 25
HOURS = (16, 24, 72, 168)
"""Nights that the morning page offers: one since the afternoon before, a day, a weekend, a week."""


def campaign_list(catalogue: Catalogue, asked: Asked) -> str:
    """The campaigns that are wanted."""
    stamp = catalogue.stamp()  # before they are read: what comes later is told by the events
    rows = catalogue.rows()
    found = chosen(rows, asked)
    return render(
        "web_campaigns.v1.html",
        asked=asked,
        states=STATES,
        stamp=stamp,
        shown=Paged.of(found, asked.page, ROWS_A_PAGE),
        of=len(rows),
        reading=any(row.record is None for row in rows),
        unsearched=[str(folder) for folder in catalogue.unsearched],
        because=because,
        short_cost=short_cost,
        **_top(catalogue),
    )


def morning(catalogue: Catalogue, hours: int) -> str:
    """What the campaigns of the last hours achieved, and which of them need a person."""
    stamp = catalogue.stamp()
    rows = catalogue.rows()
    found = night(rows, hours=hours, now=datetime.now(UTC))
    screens = {row.id: screen(row.record.result) for row in found.rows if row.record and row.record.result}
    return render(
        "web_morning.v1.html",
        night=found,
        screens=screens,
        stamp=stamp,
        since=found.since.astimezone().strftime("%A %H:%M"),
        choices=HOURS,
        reading=any(row.record is None for row in rows),
        short_cost=short_cost,
        **_top(catalogue),
    )


def campaign(catalogue: Catalogue, id: str, page: int = 1) -> str:
    """One campaign, with its phase and its events. `page`: of its rounds, the newest first; one beyond them is the last."""
    stamp = beat(catalogue.folder(id)).stamp  # before it is read: what comes later is told by the events
    row = catalogue.row(id)
    if row.record is not None and row.record.problem:
        return message(catalogue, "This ledger cannot be read", row.record.problem)
    whole = catalogue.whole(id)
    course = catalogue.rendered((id, "course"), whole.head, lambda: _course(whole))
    shown = Paged.of(whole.history.rounds[::-1] if whole.history else (), page, ROUNDS_A_PAGE)
    rounds = catalogue.rendered((id, "rounds", shown.page), whole.head, lambda: _rounds(whole, shown.items))
    said_here = said(catalogue.folder(id))
    return render(
        "web_campaign.v1.html", row=row, stamp=stamp, said=said_here, shown=shown, **course, **rounds, **_top(catalogue)
    )


def round_page(catalogue: Catalogue, id: str, number: int) -> str:
    """One round with its evidence and its change. Raises UserError where it has not closed."""
    whole = catalogue.whole(id)
    history = whole.history
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
    """A page with one thing to say."""
    return render("web_message.v1.html", title=title, text=text, **_top(catalogue))


def _top(catalogue: Catalogue) -> dict[str, object]:
    """What the head of every page shows."""
    return {"open": catalogue.asking()}


def _course(whole: Whole) -> dict[str, object]:
    """What the page says of the campaign as a whole."""
    history = whole.history
    course = Course()
    for body in whole.bodies[:-LOG_LINES]:
        course.pass_over(body)
    log = "\n".join(course.take(body) for body in whole.bodies[-LOG_LINES:])
    if history is None:
        return {"log": log, "ended": "", "first": (), "facts": (), "trend": "", "roofline": "", "noise": ""}
    return {
        "log": log,
        "ended": history.concluded.stop_reason if history.concluded else "",
        "first": screen(result(history), said=nothing_to_gain(history)),
        "facts": facts(history),
        "trend": trend_plot(history),
        "roofline": roofline_plot(history),
        "noise": markdown("\n".join(f"- {item}" for item in noise_lines(history))),
    }


def _rounds(whole: Whole, rounds: Sequence[RoundClosed]) -> dict[str, object]:
    """One page of its rounds, the newest first."""
    history = whole.history
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
        "predicted": markdown(predicted(history, rounds)),
        "costs": markdown(cost_rows(history, rounds)),
    }
