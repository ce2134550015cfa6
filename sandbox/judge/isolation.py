"""Starts workers so that they see, change and outlive nothing, as well as this machine allows, and says how well."""

import functools
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen
from typing import Literal

from ridgeline.graph.errors import ProgramMissing, WorldError
from ridgeline.sandbox.harness.isolate import kernel
from ridgeline.sandbox.judge import starting
from ridgeline.sandbox.judge.limits import WorkerLimits
from ridgeline.sandbox.judge.starting import Mode, Start, Worker
from ridgeline.sandbox.judge.stems import Warm

__all__ = ["Isolation", "Warm", "Worker", "WorkerLimits", "end", "isolation", "launch", "shield"]

_WITHOUT_NAMESPACES = ("mounts of its own", "processes of its own", "a network of its own", "another user")
_TOOLS: dict[Mode, Literal["bubblewrap", "own", "none"]] = {
    "root": "own",
    "user": "own",
    "bubblewrap": "bubblewrap",
    "weak": "none",
}


@dataclass(frozen=True)
class Isolation:
    """How well workers are shut in on this machine."""

    level: Literal["namespaces", "weak"]
    """`weak`: a session that is killed as a whole and folders of its own, and every layer that is not missing."""
    tool: Literal["bubblewrap", "own", "none"]
    missing: tuple[str, ...]
    """Layers that this machine does not have, in words: `seccomp`, `landlock`, `memory of all processes`, ..."""
    why: tuple[str, ...] = ()
    """What became of each better way that was tried, in one line each."""


def isolation() -> Isolation:
    """What `launch` does on this machine, found by doing it once.

    Raises WorldError where not even a weakly isolated process can be started.
    """
    return _found()[1]


def launch(
    program: Sequence[str] | Warm,
    *,
    readable: Sequence[Path],
    private: Path,
    limits: WorkerLimits,
    pass_fds: Sequence[int],
    gpu: bool,
    environment: Mapping[str, str],
) -> Worker:
    """Start a worker. It runs when this returns, with nothing open but `pass_fds`, which keep their numbers.

    It sees system programs and libraries, the Python installation of argv[0] (a whole path), and `readable` under the
    names given (files, or folders with all that is in them, readable by everybody). `private` is an empty folder for
    it alone, where it starts: under that name it finds its home, caches and temporary files, gone when it ends.
    `environment` is added to a short one that says nothing of the purpose; names of secrets are withheld. With `gpu`
    the cards' files are there too. What it prints is `worker.said()`. A `Warm` program says what it imports first:
    where the way of isolation allows it, the worker is a copy of a process that has imported that.

    Raises:
        ProgramMissing: argv[0] is not a whole path of a program.
        WorldError: something that it is to see is not there or not readable, or the isolation did not come about.
    """
    mode, _ = _found()
    warm = program if isinstance(program, Warm) else None
    argv = program.argv if isinstance(program, Warm) else tuple(program)
    start = Start(argv=argv, readable=tuple(readable), private=private, limits=limits, gpu=gpu, warm=warm)
    return starting.begin(mode, start, pass_fds=pass_fds, environment=environment)


def end(process: Worker | Popen[bytes]) -> None:
    """Kill the worker and everything it started, and collect it. Nothing of it runs when this returns.

    A second time does nothing. What it printed, and why it ended if it had, can still be asked.
    """
    if isinstance(process, Worker):
        process.end()
    else:
        process.kill()
        process.wait()


def shield() -> None:
    """Keep other processes of the same user from reading this one's memory, as a judge must where isolation is weak.

    It also gives up core dumps, and its files in /proc belong to root from here on.
    """
    kernel.prctl(kernel.DUMPABLE, 0)


@functools.cache
def _found() -> tuple[Mode, Isolation]:
    faults: list[str] = []
    for mode in _modes():
        try:
            return mode, replace(tried(mode), why=tuple(faults))
        except WorldError as error:
            faults.append(f"{mode}: {error}")
    raise WorldError(f"no worker can be started on this machine ({'; '.join(faults)})")


def tried(mode: Mode) -> Isolation:
    """What this way comes to on this machine, found by starting one process. Raises WorldError if it fails."""
    program = shutil.which("true", path="/usr/bin:/bin")
    if program is None:
        raise ProgramMissing("true")
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        start = Start(argv=(program,), readable=(), private=Path(folder), limits=WorkerLimits(), gpu=False)
        worker = starting.begin(mode, start, pass_fds=(), environment={})
        code = worker.wait()
        worker.end()
    if code != 0:
        raise WorldError(f"a process in it ended with {code}: {worker.said().strip()}")
    weak = mode == "weak"
    missing = (*(_WITHOUT_NAMESPACES if weak else ()), *worker.missing)
    return Isolation("weak" if weak else "namespaces", _TOOLS[mode], missing)


def _modes() -> tuple[Mode, ...]:
    """Ways to isolate, the best first. For root it is our own: bubblewrap would not really change the user."""
    tool: tuple[Mode, ...] = ("bubblewrap",) if shutil.which("bwrap") else ()
    return ("root", *tool, "user", "weak") if os.geteuid() == 0 else (*tool, "user", "weak")
