"""The programs put in front of a command to hold it: limits, network, parent's death, processor."""

import functools
import os
import shutil
import subprocess
from typing import Literal

from ridgeline.graph.errors import ProgramMissing, WorldError

MIB = 1024 * 1024
TABLE = ("--pid", "--fork", "--kill-child=KILL", "--mount-proc")
"""A process table of its own, seen through a /proc of its own."""
MESSAGES = ("--ipc",)
"""Semaphores, queues and memory of its own where they have no place in the file system. Goes with a table."""


def wrapped(*, memory_mb: int | None, file_mb: int | None, cpu: int | None, network: bool) -> tuple[str, ...]:
    """Words to put before a program. Each of these replaces itself by the next, so no process is added.

    `file_mb` None marks one of our own tools, which is not confined at all.

    Raises:
        ProgramMissing: a memory limit or a processor is asked for and the tool that sets it is not here.
        WorldError: the processor is not one that this process may use.
    """
    if file_mb is None:
        return ()
    words: list[str] = [*_limits(memory_mb, file_mb)]
    if not network:
        words += namespaces(network=False, table=False)
    return (*words, *tied(), *pinned(cpu))


def tied() -> tuple[str, ...]:
    """Words by which a program ends with this process: else a killed campaign would leave its benchmark running."""
    tool = located("setpriv")
    return (tool, "--pdeathsig", "KILL") if tool else ()


def pinned(cpu: int | None) -> tuple[str, ...]:
    """Words that keep a program on that processor. Raises what `wrapped` raises for it."""
    if cpu is None:
        return ()
    if cpu not in os.sched_getaffinity(0):
        raise WorldError(f"processor {cpu} is not one that this process may use; choose another")
    return (_tool("taskset", field="threads"), "-c", str(cpu))


def isolation() -> Literal["namespaces", "weak"]:
    """How well a command is kept from the network: by a namespace of its own, or not at all."""
    return "namespaces" if namespaces(network=False, table=False) else "weak"


def _limits(memory_mb: int | None, file_mb: int) -> tuple[str, ...]:
    if memory_mb is None and located("prlimit") is None:
        return ()
    sizes = (f"--fsize={file_mb * MIB}", "--core=0")
    memory = () if memory_mb is None else (f"--as={memory_mb * MIB}",)
    return (_tool("prlimit", field="memory_limit_mb"), *sizes, *memory)


def _tool(name: str, *, field: str) -> str:
    found = located(name)
    if found is None:
        raise ProgramMissing(name, field=field)
    return found


def located(name: str) -> str | None:
    """Where a tool is, looked for once as long as PATH stays as it is: every process needs three of them."""
    return which(name, os.environ.get("PATH", os.defpath))


_seen: dict[tuple[str, str], str] = {}


def which(name: str, path: str) -> str | None:
    """Where a program is on that path; a place that was found is remembered as long as the program is there."""
    place = _seen.get((name, path))
    if place is not None and os.access(place, os.X_OK):
        return place
    found = shutil.which(name, path=path)
    if found is not None:
        _seen[name, path] = found
    return found


@functools.cache
def namespaces(*, network: bool, table: bool) -> tuple[str, ...]:
    """The first way out of the network, and into an own process table, that works here; empty when none does.

    Tried once. A user who may not leave them becomes root of a namespace of users first. A table comes with messages
    of its own, save where the kernel knows no such namespace.
    """
    tool, probe = located("unshare"), located("true")
    wanted = (*(() if network else ("-n",)), *(TABLE if table else ()))
    if tool is None or probe is None or not wanted:
        return ()
    more = ((*wanted, *MESSAGES), wanted) if table else (wanted,)
    ways = ((tool, *user, *words) for words in more for user in ((), ("-r",)))
    return next((way for way in ways if works((*way, probe))), ())


def works(argv: tuple[str, ...]) -> bool:
    """Whether a short command of ours, tried here, says that it went well."""
    try:
        tried = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0
