"""The pages: a template each, with what they show. Everything foreign is escaped by the templates' environment."""

from ridgeline.agent.errors import UserError
from ridgeline.agent.evidence_pack import change_of
from ridgeline.agent.spectator import Course
from ridgeline.agent.web.catalogue import CORE, Catalogue, Row, Whole
from ridgeline.agent.web.going_on import said
from ridgeline.agent.web.live import beat
from ridgeline.graph.documents.conclusion import headline
from ridgeline.graph.documents.figures import hypothesis
from ridgeline.graph.documents.noise import noise_lines
from ridgeline.graph.documents.report_html import cost_rows, facts, predicted
from ridgeline.graph.documents.report_html_plots import roofline_plot, trend_plot
from ridgeline.graph.documents.report_html_text import diff, markdown
from ridgeline.graph.documents.rounds import summary
from ridgeline.graph.documents.text import clip, interval
from ridgeline.graph.standing import History
from ridgeline.prompts.render import render
from ridgeline.sandbox.artifacts import ArtifactStore

LOG_LINES = 60


def campaign_list(catalogue: Catalogue) -> str:
    """All campaigns."""
    rows = catalogue.rows()
    return render("web_campaigns.v1.html", rows=rows, reading=any(row.record is None for row in rows), **_top(rows))


def campaign(catalogue: Catalogue, id: str) -> str:
    """One campaign, with its phase and its events."""
    stamp = beat(catalogue.folder(id)).stamp  # before it is read: what comes later is told by the events
    row = catalogue.row(id)
    if row.record is not None and row.record.problem:
        return message(catalogue, "This ledger cannot be read", row.record.problem)
    whole = catalogue.whole(id)
    said_here = said(catalogue.folder(id))
    with CORE:
        return render(
            "web_campaign.v1.html", row=row, stamp=stamp, said=said_here, **_told(whole), **_top(catalogue.rows())
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
            **_top(catalogue.rows()),
        )


def message(catalogue: Catalogue, title: str, text: str) -> str:
    """A page with one thing to say."""
    return render("web_message.v1.html", title=title, text=text, **_top(catalogue.rows()))


def _top(rows: list[Row]) -> dict[str, object]:
    """What the head of every page shows."""
    return {"open": sum(row.waiting for row in rows)}


def _told(whole: Whole) -> dict[str, object]:
    history = whole.history
    course = Course()
    log = [course.take(body) for body in whole.bodies][-LOG_LINES:]
    shown = _measured(history) if history else {}
    empty = {
        "ended": "",
        "headline": "",
        "facts": (),
        "trend": "",
        "roofline": "",
        "rounds": (),
        "predicted": "",
        "costs": "",
        "noise": "",
    }
    return {**empty, "log": "\n".join(log), **shown}


def _measured(history: History) -> dict[str, object]:
    return {
        "ended": history.concluded.stop_reason if history.concluded else "",
        "headline": headline(history).replace("&lt;", "<"),
        "facts": facts(history),
        "trend": trend_plot(history),
        "roofline": roofline_plot(history),
        "rounds": [
            (
                closed,
                clip(hypothesis(closed).change, 200),
                interval(closed.judged.verdict.gain, closed.judged.verdict.lower, closed.judged.verdict.upper),
            )
            for closed in history.rounds
        ],
        "noise": markdown("\n".join(f"- {item}" for item in noise_lines(history))),
        "predicted": markdown(predicted(history)),
        "costs": markdown(cost_rows(history)),
    }
