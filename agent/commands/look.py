"""`status`, `watch`, `report`: look at a campaign without touching it."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from agent import campaigns, console
from agent.errors import UserError

if TYPE_CHECKING:
    from agent.inspection import CampaignStatus

Campaign = Annotated[
    str | None, typer.Argument(help="A campaign's directory or name; without it, the newest one here.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Html = Annotated[bool, typer.Option("--html", help="Write a self-contained page beside the report instead.")]
Every = Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(status)
    app.command()(watch)
    app.command()(report)


def status(campaign: Campaign = None, as_json: Json = False) -> None:
    """Where a campaign stands. Also whether its ledger is whole."""
    from agent.inspection import status_of

    found = status_of(campaigns.find(campaign))
    if as_json:
        console.emit(found)
    else:
        for name, value in found.model_dump().items():
            console.say(f"{name:<13} {value if value is not None else '-'}")
    if not found.chain_ok:
        raise UserError(found.problem)


def watch(campaign: Campaign = None, every: Every = 1.0) -> None:
    """Follow a campaign until it stops. Shows its phase, and each round as it closes. Ctrl-C ends the watching only."""
    from agent.inspection import status_of
    from agent.spectator import progress
    from sandbox.ledger import JsonlLedger

    found = campaigns.find(campaign)
    view = progress()
    shown = 0
    while True:
        now = status_of(found)
        if not now.chain_ok:
            raise UserError(now.problem)
        lines = JsonlLedger(found / campaigns.LEDGER).lines() if now.ledger_lines else ()
        for line in lines[shown:]:
            view.closed(line.body)
        shown = len(lines)
        if now.status != "running":
            break
        view.phase(now.phase, now.round, now.detail)
        time.sleep(every)
    view.close()
    _explain(now)


def report(campaign: Campaign = None, html: Html = False, as_json: Json = False) -> None:
    """Print the report. In the middle of a campaign, what is known so far."""
    from graph.documents import report as render

    found = campaigns.find(campaign)
    text = render(campaigns.history(found))
    if html:
        page = found / "report.html"
        page.write_text(_page(found.name, text), encoding="utf-8")
        console.say(str(page))
    elif as_json:
        from agent.inspection import status_of

        console.emit({**status_of(found).model_dump(mode="json"), "text": text})
    else:
        console.say(text)


def _explain(now: "CampaignStatus") -> None:
    if now.status == "concluded":
        console.note(f"{now.campaign}: read the report with `ridgeline report {now.campaign}`")
    else:
        console.note(f"{now.campaign}: {now.status}; go on with `ridgeline resume {now.campaign}`")


def _page(title: str, text: str) -> str:
    """The Markdown as it is, in a readable page that needs no network."""
    from html import escape

    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<title>{escape(title)}</title><style>body{{max-width:110ch;margin:2em auto;padding:0 1em}}"
        "pre{font:14px/1.45 ui-monospace,monospace;white-space:pre-wrap}</style></head>"
        f"<body><pre>{escape(text)}</pre></body></html>\n"
    )
