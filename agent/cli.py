"""The `ridgeline` command: parse, call, and turn what went wrong into one line and an exit code."""

import errno
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from agent.console import complain, note, say
from agent.errors import UserError, Waiting
from agent.extensions import registrations
from graph.errors import CampaignError
from sandbox.errors import WorldError

GROUPS = ("campaign", "look", "contract", "roofline", "doctor", "diagram", "memory")
"""Modules of `agent.commands`, in the order of the help."""
INTERRUPTED = 130


def main() -> None:
    """Entry point; ends the process with the documented exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code (0 done, 2 input, 3 waiting, 4 device busy, 5 machine, 130 interrupted)."""
    try:
        code = application()(args=list(arguments), prog_name="ridgeline", standalone_mode=False)
    except typer.TyperException as error:
        if error.format_message().startswith("Usage:"):  # a bare command: not a mistake, show what there is
            note(error.format_message())
            return error.exit_code
        complain(f"{error.format_message().rstrip('.')}; see `ridgeline --help`")
        return error.exit_code
    except (UserError, Waiting, CampaignError, WorldError) as error:
        complain(str(error))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        place = f"{error.filename}: " if error.filename else ""
        complain(f"{place}the disk is full; nothing is lost: free space and go on with `ridgeline resume`")
        return 2
    if code == INTERRUPTED:
        complain("interrupted; nothing is lost: go on with `ridgeline resume`")
    return code if isinstance(code, int) else 0


def application() -> typer.Typer:
    """All commands: ours, then those of the entry-point group `ridgeline.commands`."""
    app = typer.Typer(
        name="ridgeline",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for group in GROUPS:
        import_module(f"agent.commands.{group}").register(app)
    for register in registrations():
        register(app)
    return app


def _version(asked: bool) -> None:
    if asked:
        from agent.version import VERSION

        say(VERSION)
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
]


def _options(version: Version = False) -> None:
    """Optimize one kernel at a time, unattended, and prove every gain that is kept."""


if __name__ == "__main__":
    main()
