"""`mcp`: campaigns for coding agents."""

from pathlib import Path
from typing import Annotated

import typer

from ridgeline.agent import campaigns

Folders = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders whose campaigns may be named; default: this repository."),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer neither `approve` nor `answer`.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(mcp)


def mcp(folders: Folders = None, read_only: ReadOnly = False) -> None:
    """Serve status, queue, approve, answer, report and parse_bench_csv to a coding agent, on standard input and output.

    The protocol is MCP; a client starts this command itself.
    """
    from ridgeline.agent.mcp.desk import Roots
    from ridgeline.agent.mcp.server import serve

    here = Path.cwd()
    serve(Roots(folders or [campaigns.repository(here) or here]), read_only=read_only)
