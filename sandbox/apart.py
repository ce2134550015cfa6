"""A process table of a command's own: it sees nobody else's processes, and whatever it started ends with it."""

import functools
import os
import signal
from pathlib import Path

from sandbox.confine import located, namespaces, pinned, tied

FIRST = (
    'exec 9>&2 2>"$1"; ulimit -c 0; ulimit -f "$2"; [ -z "$3" ] || ulimit -v "$3"; shift 3;'
    ' (exec "$@" 2>&9 9>&-); exit $?'
)
"""The first process inside, for which signals without a handler do not exist, so it may not be the command itself.

Its words: where to say by which signal the command died, the largest file in blocks of 512 bytes, the address space in
KiB or nothing, the command.
"""
BLOCKS, KIB = 2048, 1024
"""In one MiB."""
UNSAID = frozenset({signal.SIGINT, signal.SIGPIPE})
"""Signals of which no shell says anything."""


def first_process(
    *, said: Path, network: bool, memory_mb: int | None, file_mb: int, cpu: int | None
) -> tuple[str, ...]:
    """Words that give what follows them a process table, limits, a processor, and no network unless `network`.

    Empty where this machine permits no such table. `said` is a file that is made there, for `how_it_ended`. With the
    network the command may administer the system as its user may, which profilers need; without, it may not, so that
    it cannot take away what hides the other processes from it.

    Raises:
        ProgramMissing: a processor is asked for and the tool that sets it is not here.
        WorldError: the processor is not one that this process may use.
    """
    ways, shell = namespaces(network=network, table=True), located("sh")
    if not ways or shell is None:
        return ()
    memory = "" if memory_mb is None else str(memory_mb * KIB)
    limits = (str(said), str(file_mb * BLOCKS), memory)
    return (*tied(), *ways, shell, "-c", FIRST, "sh", *limits, *(() if network else _unprivileged()), *pinned(cpu))


def how_it_ended(code: int, said: Path) -> tuple[int, bytes]:
    """The command's own exit code, -N for signal N as `Popen` has it, and what the shell had to say besides."""
    try:
        words = said.read_bytes()
    except OSError:  # the shell was killed before it came to that
        return code, b""
    number = code - 128
    if 0 < number < signal.NSIG and (words or number in UNSAID or not _says_signals()):
        return -number, b""
    return code, words


def own_table() -> bool:
    """Whether commands have a process table of their own on this machine."""
    return bool(namespaces(network=False, table=True)) and located("sh") is not None


@functools.cache
def _says_signals() -> bool:
    """Whether the shell says that a program died by a signal; of others, 128 and the number is taken for that."""
    return os.path.basename(os.path.realpath(located("sh") or "")) == "dash"  # noqa: PTH119 (a name, not a place)


def _unprivileged() -> tuple[str, ...]:
    tool = located("setpriv")
    return (tool, "--bounding-set", "-sys_admin") if tool else ()
