"""`serve`: campaigns and the approval queue in a browser."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from ridgeline.agent import console
from ridgeline.agent.campaign import folders as campaigns
from ridgeline.agent.errors import UserError

ShownFolders = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders or campaigns to show; default: the campaigns of this repository."),
]
Host = Annotated[
    str,
    typer.Option(help="Address to listen on; any but this machine's own is not encrypted: prefer ssh -L."),
]
Port = Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="RIDGELINE_TOKEN",
        help="What every browser must show once; default: this user's own, made at the first start and kept in a"
        " file that nobody else may read. A command line is seen by others: rather set the variable.",
    ),
]
Name = Annotated[list[str] | None, typer.Option(help="A further host name by which browsers reach this server.")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on with a campaign once its question is decided, on the page, by its time-out or elsewhere: starts `ridgeline"
        " resume` on this machine with what this server may do; the page shows what it says. Default: store only.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds `serve`, `mcp` and `device-host` to the command line."""
    app.command()(serve)
    app.command()(mcp)
    app.command(name="device-host", hidden=True)(device_host)


def serve(
    folders: ShownFolders = None,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    token: Token = None,
    name: Name = None,
    resume: Resume = False,
) -> None:
    """Show campaigns in a browser: live, with diffs, evidence and the approval queue. Ctrl-C ends it."""
    from ridgeline.agent.web.gatekeeper import SHORTEST_TOKEN
    from ridgeline.agent.web.server import ServeOptions, listen

    if token is not None and len(token) < SHORTEST_TOKEN:
        raise UserError(f"--token: is shorter than {SHORTEST_TOKEN} characters; leave it out and one is made")
    for folder in folders or []:
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder; give a campaign, or a repository with campaigns")
    where = ServeOptions(
        folders=tuple(folders or [Path.cwd()]),
        host=host,
        port=port,
        token=token,
        names=tuple(name or ()),
        resume=resume,
    )
    listen(where, console.say)


# `mcp`: campaigns for coding agents.

NamedFolders = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders whose campaigns may be named; default: this repository."),
]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Offer nothing that writes, decides or runs a project's code.")
]


def mcp(folders: NamedFolders = None, read_only: ReadOnly = False) -> None:
    """Serve campaigns, judge, bench and what else reads kernels to a coding agent, on standard input and output.

    The protocol is MCP; a client starts this command itself.
    """
    from ridgeline.agent.mcp.desk import Roots
    from ridgeline.agent.mcp.server import serve

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # a thread that reads standard input would hold an orderly end for ever
    here = Path.cwd()
    serve(Roots(folders or [campaigns.repository(here) or here]), read_only=read_only)


def device_host() -> None:
    """What a campaign's `ssh` starts on its `device_host`: answers on standard output, until that connection ends."""
    from ridgeline.agent.campaign.device_server import serve_standard_streams

    serve_standard_streams()
