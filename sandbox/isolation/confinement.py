"""The programs put in front of a helper of ours to hold it: limits, network, parent's death, processor."""

import functools
import os
import shutil
import subprocess
from typing import Literal

from ridgeline.graph.errors import ProgramMissing, WorldError

MIB = 1024 * 1024


def confining_words(*, memory_mb: int | None, file_mb: int | None, cpu: int | None, network: bool) -> tuple[str, ...]:
    """Words to put before a program. Each of these replaces itself by the next, so no process is added.

    `file_mb` None marks one of our own tools, which is not confined at all.

    Raises:
        ProgramMissing: a memory limit or a processor is asked for and the tool that sets it is not here.
        WorldError: the processor is not one that this process may use.
    """
    if file_mb is None:
        return ()
    words: list[str] = [*_limit_words(memory_mb, file_mb)]
    if not network:
        words += network_words()
    return (*words, *death_signal_words("KILL"), *pinning_words(cpu))


def death_signal_words(signal: Literal["KILL", "TERM"]) -> tuple[str, ...]:
    """Words by which a program is sent that signal at the end of this process: else a killed campaign's benchmark would run on."""
    tool = locate("setpriv")
    return (tool, "--pdeathsig", signal) if tool else ()


def pinning_words(cpu: int | None) -> tuple[str, ...]:
    """Words that keep a program on that processor. Raises what `wrapped` raises for it."""
    if cpu is None:
        return ()
    if cpu not in os.sched_getaffinity(0):
        raise WorldError(f"processor {cpu} is not one that this process may use; choose another")
    return (_tool("taskset", field="threads"), "-c", str(cpu))


def network_isolation() -> Literal["namespaces", "weak"]:
    """How well a command is kept from the network: by a namespace of its own, or not at all."""
    return "namespaces" if network_words() else "weak"


def _limit_words(memory_mb: int | None, file_mb: int) -> tuple[str, ...]:
    if memory_mb is None and locate("prlimit") is None:
        return ()
    sizes = (f"--fsize={file_mb * MIB}", "--core=0")
    memory = () if memory_mb is None else (f"--as={memory_mb * MIB}",)
    return (_tool("prlimit", field="memory_limit_mb"), *sizes, *memory)


def _tool(name: str, *, field: str) -> str:
    path = locate(name)
    if path is None:
        raise ProgramMissing(name, field=field)
    return path


def locate(name: str) -> str | None:
    """Where a program is that confines others, looked for once as long as PATH stays as it is."""
    return which(name, os.environ.get("PATH", os.defpath))


_programs: dict[tuple[str, str], str] = {}


def which(name: str, path: str) -> str | None:
    """Where a program is on that path; a place that was found is remembered as long as the program is there."""
    place = _programs.get((name, path))
    if place is not None and os.access(place, os.X_OK):
        return place
    program = shutil.which(name, path=path)
    if program is not None:
        _programs[name, path] = program
    return program


@functools.cache
def network_words() -> tuple[str, ...]:
    """The first way out of the network that works here; empty when none does. Tried once.

    A user who may not leave it becomes root of a namespace of users first.
    """
    tool, probe = locate("unshare"), locate("true")
    if tool is None or probe is None:
        return ()
    ways = ((tool, *user, "-n") for user in ((), ("-r",)))
    return next((way for way in ways if works((*way, probe))), ())


def works(argv: tuple[str, ...]) -> bool:
    """Whether a short confined command of ours, tried here, says that it went well."""
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
