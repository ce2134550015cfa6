"""The `ridgeline` command: parse, call, and turn what went wrong into one line and an exit code."""

import errno
import logging
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from ridgeline.agent.console import Documents, NoteHandler, OutputClosed, Process, complain, emit, note, say
from ridgeline.agent.errors import EndRequest, UserError, Waiting, is_interruption
from ridgeline.agent.extensions import registrations
from ridgeline.graph.errors import CampaignError, DiskFull, WorldError

GROUPS = (
    "campaign", "answers", "views", "servers", "skill", "contract", "roofline", "profile", "isa", "bench", "judge",
    "formats", "suite", "fleet", "deep", "machine", "memory", "knowledge",
)  # fmt: skip
"""Modules beside this one, in the order of the help."""
INTERRUPTED = 130
CAMPAIGN_COMMANDS = ("run", "resume", "demo", "answer", "approve", "watch")
"""Those that work on a campaign, or look at one that works."""
MENDS = {
    errno.EACCES: "give this user the right to it, or name another place",
    errno.EPERM: "give this user the right to it, or name another place",
    errno.ENAMETOOLONG: "shorten the name",
    errno.ELOOP: "correct the link",
    errno.ENOTDIR: "name a folder",
    errno.EISDIR: "name a file",
    errno.EMFILE: "allow more open files (`ulimit -n`)",
    errno.ENFILE: "this machine has too many open files; end what holds them",
    errno.ENOMEM: "free memory",
    errno.ETXTBSY: "end the program that runs from it",
}
"""Errors of the system that are nobody's verdict and no mistake of ours, beside those of a disk: how to mend each."""


COPY_FAILED = re.compile(r"'([^']+)', \"?\[Errno (\d+)\]")
"""Where `shutil.copytree` says which file could not be written, and why."""


def main() -> None:
    """Entry point; ends the process with the documented exit code."""
    Process.began = time.time()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` has it ignored
            signal.signal(number, _end)
    logging.getLogger().addHandler(NoteHandler(logging.WARNING))
    code = run(sys.argv[1:])
    asked_by = EndRequest.signal_number
    sys.exit(128 + asked_by if asked_by and code == INTERRUPTED else code)


def _end(number: int, _: FrameType | None) -> None:
    """Handler of the signals that ask the command to end."""
    EndRequest.signal_number = number
    raise EndRequest


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code (0 done, 2 input, 3 waiting, 4 device busy, 5 machine, 130 interrupted).

    SIGTERM and SIGHUP end it as Ctrl-C does; the process then leaves with 143 and 129.

    A failure is told on standard error; with `--json` it is also the one JSON object on standard output.
    """
    before = Documents.emitted
    try:
        code, problem = _run(arguments)
        if code and EndRequest.signal_number:  # what failed then did so because of it
            code = INTERRUPTED
        if problem:
            complain(problem)
            if _wants_json(arguments) and Documents.emitted == before:
                emit({"error": problem, "exit_code": code})
    except OutputClosed as closed:
        return closed.exit_code
    return code


def _run(arguments: Sequence[str]) -> tuple[int, str]:
    """A command's exit code, and what went wrong, a problem a line; empty where nothing did. Raises OutputClosed."""
    try:
        if (text := _help_text(arguments)) is not None:
            say(text)
            return 0, ""
        code = _command()(args=list(arguments), prog_name="ridgeline", standalone_mode=False)
    except typer.TyperException as error:
        if error.format_message().startswith("Usage:"):  # a bare command: not a mistake, show what there is
            note(error.format_message())
            return error.exit_code, ""
        return error.exit_code, f"{error.format_message().rstrip('.')}; see `ridgeline --help`"
    except (UserError, Waiting, CampaignError, WorldError) as error:
        return error.exit_code, str(error)
    except OutputClosed:
        raise
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if is_interruption(error):
            code = INTERRUPTED
        elif isinstance(error, OSError) and (problem := _describe_system_error(error)):
            return 2, problem
        else:
            raise
    if code == INTERRUPTED:
        return INTERRUPTED, f"interrupted; {_describe_next(arguments)}"
    return code if isinstance(code, int) else 0, ""


def _describe_next(arguments: Sequence[str]) -> str:
    """The command that goes on after an interruption."""
    if next(iter(arguments), "") in CAMPAIGN_COMMANDS:
        return "nothing is lost: go on with `ridgeline resume`"
    words, keeps = tuple(arguments[:2]), any(word.partition("=")[0] == "--keep" for word in arguments)
    if words in (("suite", "run"), ("fleet", "run")) or (words == ("judge", "baselines") and keeps):
        return "the same command goes on with what is left"
    return "the same command begins again"


def _describe_system_error(error: OSError) -> str:
    """One printed line for an error of disk, rights or limits; empty for every other."""
    from ridgeline.sandbox.store.durable import UNWRITABLE, name_full_disk

    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error):  # tempfile's own words
        return "no folder for temporary files can be written; free space in /tmp, or name another in TMPDIR"
    code, place = error.errno, error.filename2 or error.filename
    if isinstance(error, shutil.Error) and (copy := COPY_FAILED.search(str(error))):
        place, code = copy[1], int(copy[2])
    path = Path(os.fsdecode(place)) if isinstance(place, str | bytes) and place else None
    if code in UNWRITABLE:
        return str(name_full_disk(path, code) if path else _find_full_disk(code))
    if code in MENDS:
        return f"{path or 'this command'}: {os.strerror(code)}; {MENDS[code]}"
    return ""


def _find_full_disk(code: int) -> WorldError:
    """The command's error for a write that failed with that code somewhere: in the folder of temporary files, or here."""
    import tempfile

    from ridgeline.sandbox.store.durable import PAGE_BYTES, name_full_disk, require_room

    for folder in (Path(tempfile.gettempdir()), Path.cwd()):
        try:
            require_room(folder, size=PAGE_BYTES)
        except DiskFull as full:
            return full
    return name_full_disk(Path.cwd(), code)


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


@cache
def _command() -> TyperGroup:
    """The parser of the whole command line, made once in a process: it takes 80 ms."""
    command = typer.main.get_command(application())
    assert isinstance(command, TyperGroup)
    return command


def _help_text(arguments: Sequence[str]) -> str | None:
    """What `--version` or `COMMAND --help` asks for; None for all else.

    typer would load pydantic to parse the options first, which takes longer than everything else about a help text.
    """
    match arguments:
        case ["--version"]:
            from ridgeline.agent.version import VERSION

            return VERSION
        case [*words, "--help"]:
            command: Any = _command()
            context = command.context_class(command, info_name="ridgeline")
            for word in words:
                subcommand = command.get_command(context, word) if isinstance(command, TyperGroup) else None
                if subcommand is None:
                    return None
                command = subcommand
                context = command.context_class(command, info_name=word, parent=context)
            return str(context.get_help())
        case _:
            return None
