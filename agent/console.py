"""The only place that prints: results on standard output, everything else on standard error."""

import contextlib
import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

QUIET_S = 2.0
"""Seconds without a word; what takes longer is told."""
REMIND_S = 15.0
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""All but tab and newline; with them what turns the direction of text around on a terminal."""


class OutputClosed(Exception):
    """Whoever read standard output has left, as `head` does: the rest of the answer has no reader."""

    exit_code = 141
    """As a shell tells of a program that ended by SIGPIPE."""


def say(text: str = "") -> None:
    """Print a line of the command's answer on standard output. Raises OutputClosed, and OSError where it leads to a full disk."""
    try:
        print(defuse(text, sys.stdout), file=sys.stdout, flush=True)
    except BrokenPipeError:
        _discard(sys.stdout.fileno())
        raise OutputClosed from None
    except OSError:
        _discard(sys.stdout.fileno())
        raise


def note(text: str) -> None:
    """Print a line about the work on standard error. The work goes on where nobody can read it: terminal gone, disk full."""
    with contextlib.suppress(OSError):
        print(defuse(text, sys.stderr), file=sys.stderr, flush=True)


def defuse(text: str, stream: TextIO) -> str:
    """Text to print that commands no terminal: models, files and programs may have written some of it.

    Control characters stand as `\\x1b`, as does what the stream's encoding does not have.
    """
    visible = CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n"))
    encoding = stream.encoding or "utf-8"
    return visible.encode(encoding, "backslashreplace").decode(encoding)


class NoteHandler(logging.Handler):
    """Says warnings of the log as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line of standard error for each log record."""
        note(self.format(record))


def complain(text: str) -> None:
    """Prints what was wrong on standard error, one line per problem."""
    for line in text.splitlines() or [""]:
        note(f"ridgeline: {line}")


def emit(document: Any) -> None:
    """Print the one JSON object of a `--json` command; pydantic values and paths are accepted inside. Raises OutputClosed."""
    plain = document.model_dump(mode="json") if hasattr(document, "model_dump") else document
    say(json.dumps(plain, indent=2, default=str))
    Documents.emitted += 1


class Documents:
    """Counts the JSON objects of this process, so that a failure adds none to an answer that is out."""

    emitted = 0


class Process:
    """When this command began, in seconds since 1970; None where Ridgeline is called from another program."""

    began: float | None = None


class Progress:
    """Says which step is under way once it takes more than two seconds, and again now and then."""

    def __init__(self, say_line: Callable[[str], None]) -> None:
        self.tell = say_line

    @contextlib.contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        """Show on the terminal that one step is under way."""
        ended = threading.Event()

        def watch() -> None:
            began = time.monotonic()
            if ended.wait(QUIET_S):
                return
            self.tell(f"{step} ...")
            while not ended.wait(REMIND_S):
                self.tell(f"{step} ... {time.monotonic() - began:.0f} s")

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


silent = Progress(lambda line: None)
"""For those who want to hear nothing."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns on standard output; never wrapped, so that it can be searched and cut."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _discard(descriptor: int) -> None:
    """Let what is still to be printed go nowhere: Python flushes it again at its end, and would complain there."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
