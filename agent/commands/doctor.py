"""`doctor`: what this machine has, and what each missing thing costs."""

from pathlib import Path
from typing import Annotated

import typer

from ridgeline.agent import console

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
MACHINE = 5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(as_json: Json = False) -> None:
    """What this machine has for the work. Also what each missing thing costs. Exit code 5: a campaign cannot run."""
    from ridgeline.agent.checkup import examine

    findings = examine(Path.cwd())
    lacking = [finding for finding in findings if finding.required and not finding.found]
    if as_json:
        console.emit({"ok": not lacking, "findings": [finding.model_dump(mode="json") for finding in findings]})
    else:
        rows = [
            ("yes" if finding.found else "NO" if finding.required else "no", finding.name, finding.detail, finding.cost)
            for finding in findings
        ]
        console.table(("HAVE", "WHAT", "DETAIL", "COST OF ITS ABSENCE"), rows)
    if lacking:
        raise typer.Exit(MACHINE)
