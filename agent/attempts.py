"""`ridgeline` as a command that a suite or a fleet runs many times: its words, what it printed, and the file of rows that notes it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO, Any, TypeVar

from ridgeline.agent import console
from ridgeline.agent.errors import EndRequest
from ridgeline.graph.values import Value
from ridgeline.sandbox.isolation.confinement import death_signal_words
from ridgeline.sandbox.store.durable import append_whole

ROWS_FILE = "rows.jsonl"
COMMAND_OPTIONS = (
    "model",
    "planner",
    "base_url",
    "preset",
    "max_rounds",
    "max_minutes",
    "budget_usd",
    "budget_tokens",
    "instruction",
)
"""Settings that are options of `ridgeline run`; every other is a limit by name."""
END_S = 60.0
"""For a command to end in order when a suite or fleet is interrupted."""
HEARD_S = 10.0
"""Within that a command that was interrupted together with its suite has ended, nearly always."""
WAITING_CODES = (3, 4)
"""Exit codes of a campaign that waits for a person, a mailbox or a device."""
RowType = TypeVar("RowType", bound=Value)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that was run."""

    code: int
    output: str
    seconds: float = 0.0
    """Between its start and its end, by the clock of the machine that it ran on."""


Command = Callable[..., Ended]
"""Runs `ridgeline` with these words, for at most so many seconds, as `run_command` does."""


def run_command(
    words: Sequence[str], timeout_s: float | None, *, name: str = "", environment: Mapping[str, str] | None = None
) -> Ended:
    """Run `ridgeline` for a suite or fleet in a process of its own, which ends with the thread that asks; its standard error is
    passed on as it comes, behind `name` in each line where there is one. `environment`: in place of this process's.
    """
    argv = [*death_signal_words("KILL"), sys.executable, "-m", "ridgeline", *words]
    began, errors = time.monotonic(), subprocess.PIPE if name else None
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as process,
        _pass_lines(process, name),
    ):
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            output, _ = process.communicate()
        except KeyboardInterrupt:
            _end_in_order([process], f"`ridgeline {words[0]}` ends")
            raise
    return Ended(code=process.returncode, output=output, seconds=time.monotonic() - began)


@contextmanager
def _pass_lines(process: subprocess.Popen[str], name: str) -> Iterator[None]:
    """While a command of several that run at once does: its lines, each told as its own; and it can be ended from outside."""
    lines, process.stderr = process.stderr, None  # else `communicate` would read it
    passing = Thread(target=_name_lines, args=(lines, name)) if lines is not None else None
    _running.add(process)
    try:
        if passing is not None:
            passing.start()
        yield
    finally:
        _running.discard(process)
        if passing is not None:
            process.wait()
            passing.join(timeout=END_S)


def _name_lines(lines: IO[str], name: str) -> None:
    """Pass a command's lines on, each behind its name."""
    with lines:
        for line in lines:
            console.note(f"{name}: {line.rstrip()}")


_running: set[subprocess.Popen[str]] = set()


def end_commands() -> None:
    """End in order what this process runs in threads: the commands of a suite that is interrupted."""
    if _running:
        _end_in_order([*_running], f"{len(_running)} commands end")


def _end_in_order(processes: Sequence[subprocess.Popen[str]], what: str) -> None:
    """Have a suite's commands end, and wait for it; those that have not within `END_S` are killed."""
    console.note(f"interrupted: {what} in order, within {END_S:.0f} s")
    began = time.monotonic()
    if not EndRequest.signal_number:  # the terminal interrupts all, `kill` but one: what has not heard of it is told
        while any(process.poll() is None for process in processes) and time.monotonic() < began + HEARD_S:
            time.sleep(0.1)
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(timeout=max(0.1, began + END_S - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def list_run_options(settings: Mapping[str, str]) -> Iterator[str]:
    """Words of `ridgeline run` for settings by name: its options, and any limit."""
    for name, value in settings.items():
        if name in COMMAND_OPTIONS:
            yield from (f"--{name.replace('_', '-')}", value)
        else:
            yield from ("--set", f"{name}={value}")


def read_object(text: str) -> Mapping[str, Any]:
    """The JSON object that a `ridgeline` of a suite or fleet printed; empty where it is none."""
    try:
        fields = json.loads(text)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def read_rows(folder: Path, kind: type[RowType]) -> Iterator[RowType]:
    """Rows that a suite or fleet noted in its folder, in their order; a line that was cut by a kill is none."""
    path = folder / ROWS_FILE
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        with suppress(ValueError):
            yield kind.model_validate_json(line)


def append_row(folder: Path, row: Value) -> None:
    """Note one more row of a suite or fleet, on the disk when this returns; what a kill cut off before it stays a line of its own."""
    path = folder / ROWS_FILE
    append_whole(path, (b"\n" if _is_torn(path) else b"") + row.model_dump_json().encode() + b"\n")


def _is_torn(path: Path) -> bool:
    """Whether the last line of a suite's or fleet's rows has no end."""
    if not path.exists() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
