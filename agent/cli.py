"""The `ridgeline` command: parse, call, and turn what went wrong into one line and an exit code."""

import errno
import sys
from collections.abc import Sequence
from importlib import import_module

import typer

from agent.console import complain
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
        help="Optimize one kernel at a time, unattended, and prove every gain that is kept.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    for group in GROUPS:
        import_module(f"agent.commands.{group}").register(app)
    for register in registrations():
        register(app)
    return app


if __name__ == "__main__":
    main()
