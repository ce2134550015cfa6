"""`status`, `watch`, `report`: look at a campaign without touching it."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.campaign import folders
from ridgeline.agent.errors import UserError
from ridgeline.graph.errors import LedgerCorrupt

if TYPE_CHECKING:
    from ridgeline.agent.campaign.status import CampaignStatus

Campaign = Annotated[
    str | None,
    typer.Argument(
        help="A campaign's directory or name; without it, the newest one here.", autocompletion=folders.names
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as one self-contained page instead.")]
Pack = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write an evidence pack: patches, raw samples, report, ledger, checksums."),
]
Stay = Annotated[bool, typer.Option("--stay", help="Stay while it waits, until it concludes.")]
Every = Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)]


def register(app: typer.Typer) -> None:
    """Adds `status`, `watch` and `report` to the command line."""
    app.command()(status)
    app.command()(watch)
    app.command()(report)


def status(campaign: Campaign = None, as_json: Json = False) -> None:
    """Where a campaign stands. Also whether its ledger is whole."""
    from ridgeline.agent.campaign.state_files import require_complete
    from ridgeline.agent.campaign.status import status_of

    directory = folders.find(campaign)
    problem = ""
    try:
        require_complete(directory)
    except UserError as error:
        problem = str(error)
    if (directory / folders.LEDGER).is_dir():
        raise UserError(problem)
    view = status_of(directory)
    view = view.model_copy(update={"problem": problem}) if problem else view
    if as_json:
        console.emit(view)
    else:
        for name, value in view.model_dump().items():
            console.say(f"{name:<14} {value if value is not None else '-'}")
    if problem:
        raise UserError(problem)


def watch(campaign: Campaign = None, every: Every = 1.0, stay: Stay = False) -> None:
    """Follow a campaign until it stops. Shows its phase, and each round as it closes. Ctrl-C ends the watching only."""
    from ridgeline.agent.campaign.progress import progress, read_worked_s
    from ridgeline.agent.campaign.state_files import require_complete
    from ridgeline.agent.campaign.status import status_of
    from ridgeline.sandbox.store.ledger import JsonlLedger

    directory = folders.find(campaign)
    view = progress(before_s=read_worked_s(directory))
    line_count, message = 0, ""
    while True:
        now = status_of(directory)
        if not now.chain_ok:
            raise UserError(now.problem)
        lines = JsonlLedger(directory / folders.LEDGER).lines() if now.ledger_lines else ()
        for line in lines[line_count:]:
            view.show_closed(line.body)
        line_count = len(lines)
        if now.status == "running":
            view.phase(now.phase, now.round, now.detail)
        elif now.status == "concluded" or not stay:
            break
        elif message != (message := _describe_stop(now)):
            view.close()
            console.note(message)
        time.sleep(every)
    view.close()
    console.note(_describe_stop(now))
    require_complete(directory, ledger_alone=True)


def report(campaign: Campaign = None, html: Html = None, pack: Pack = None, as_json: Json = False) -> None:
    """Print the report. In the middle of a campaign, what is known so far."""
    from ridgeline.agent.campaign.state_files import require_complete

    directory = folders.find(campaign)
    if html is None and pack is None:
        _print_status(directory, as_json=as_json)
        return
    written: dict[str, object] = {}
    if html is not None:
        from ridgeline.agent.campaign.evidence_pack import page

        try:
            html.write_text(page(directory), encoding="utf-8")
        except OSError as error:
            raise UserError(f"--html: {html}: {error.strerror}; name a file in a folder that can be written") from None
        written["html"] = str(html)
    if pack is not None:
        from ridgeline.agent.campaign.evidence_pack import write_pack

        result = write_pack(directory, pack)
        written["pack"] = result.model_dump(mode="json")
        if result.missing:
            console.note(f"{len(result.missing)} raw files are lost; the pack's README.md names them")
    if as_json:
        console.emit(written)
    else:
        console.say("\n".join(str(path) for path in (html, pack) if path is not None))
    require_complete(directory, ledger_alone=True)  # what is known is written all the same


def _print_status(campaign: Path, *, as_json: bool) -> None:
    """Prints the report's text; as JSON with the status."""
    from ridgeline.agent.campaign.state_files import require_complete, require_whole
    from ridgeline.graph.reports.final_report import render_final_report as render

    try:
        text = render(folders.history(campaign))
    except (UserError, LedgerCorrupt):
        require_whole(campaign)
        raise
    if as_json:
        from ridgeline.agent.campaign.status import status_of

        console.emit({**status_of(campaign).model_dump(mode="json"), "text": text})
    else:
        console.say(text)
    require_complete(campaign)  # what is known is printed all the same


def _describe_stop(now: "CampaignStatus") -> str:
    """Why `watch` has nothing to follow, and what to do about it."""
    if now.status == "concluded":
        return f"{now.campaign}: read the report with `ridgeline report {now.campaign}`"
    if now.request:
        from ridgeline.agent.campaign.approvals import describe_wait

        return f"{now.campaign}: {describe_wait(now.campaign, now.request)}"
    if now.decision:
        return f"{now.campaign}: decided, not resumed: {now.decision}; go on with `ridgeline resume {now.campaign}`"
    return f"{now.campaign}: {now.status}; go on with `ridgeline resume {now.campaign}`"
