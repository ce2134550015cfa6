"""The `ridgeline` command: parse, call, and turn what went wrong into one line and an exit code."""

import errno
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import takewhile

import typer
from typer.core import TyperGroup

from ridgeline.agent.console import Documents, OutputClosed, complain, emit, note, say
from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.extensions import registrations
from ridgeline.graph.errors import CampaignError, WorldError

GROUPS = (
    "campaign", "answers", "views", "servers", "contract", "roofline", "profile", "isa", "bench", "judge", "machine",
    "memory", "knowledge",
)  # fmt: skip
"""Modules beside this one, in the order of the help."""
INTERRUPTED = 130


def main() -> None:
    """Entry point; ends the process with the documented exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code (0 done, 2 input, 3 waiting, 4 device busy, 5 machine, 130 interrupted).

    A failure is told on standard error; with `--json` it is also the one JSON object on standard output.
    """
    before = Documents.emitted
    try:
        code, problem = _run(arguments)
        if problem:
            complain(problem)
            if _wants_json(arguments) and Documents.emitted == before:
                emit({"error": problem, "exit_code": code})
    except OutputClosed as closed:
        return closed.exit_code
    return code


def _run(arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code, and what went wrong, a problem a line; empty where nothing did. Raises OutputClosed."""
    try:
        app = application()
        if (text := _help_text(app, arguments)) is not None:
            say(text)
            return 0, ""
        code = app(args=list(arguments), prog_name="ridgeline", standalone_mode=False)
    except typer.TyperException as error:
        if error.format_message().startswith("Usage:"):  # a bare command: not a mistake, show what there is
            note(error.format_message())
            return error.exit_code, ""
        return error.exit_code, f"{error.format_message().rstrip('.')}; see `ridgeline --help`"
    except (UserError, Waiting, CampaignError, WorldError) as error:
        return error.exit_code, str(error)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        place = f"{error.filename}: " if error.filename else ""
        return 2, f"{place}the disk is full; nothing is lost: free space and go on with `ridgeline resume`"
    if code == INTERRUPTED:
        return INTERRUPTED, "interrupted; nothing is lost: go on with `ridgeline resume`"
    return code if isinstance(code, int) else 0, ""


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether the command line asks for JSON; what stands after `--` belongs to another program."""
    return "--json" in takewhile(lambda word: word != "--", arguments)


def application() -> typer.Typer:
    """All commands: ours, then those of the entry-point group `ridgeline.commands`."""
    app = typer.Typer(
        name="ridgeline",
        help="Optimize one kernel at a time, unattended, and prove every gain that is kept.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    for group in GROUPS:
        import_module(f"ridgeline.agent.cli.{group}").register(app)
    for register in registrations():
        register(app)
    return app


def _help_text(app: typer.Typer, arguments: Sequence[str]) -> str | None:
    """What `--version` or `COMMAND --help` asks for; None for all else.

    typer would load pydantic to parse the options first, which takes longer than everything else about a help text.
    """
    match arguments:
        case ["--version"]:
            from ridgeline.agent.version import VERSION

            return VERSION
        case [*words, "--help"]:
            command = typer.main.get_command(app)
            context = command.context_class(command, info_name="ridgeline")
            for word in words:
                subcommand = command.get_command(context, word) if isinstance(command, TyperGroup) else None
                if subcommand is None:
                    return None
                command = subcommand
                context = command.context_class(command, info_name=word, parent=context)
            return context.get_help()
        case _:
            return None


if __name__ == "__main__":
    main()
