"""A process table and shared memory of a command's own: it sees nobody else's, and what it leaves ends with it."""

import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from ridgeline.graph.errors import ProgramMissing, WorldError

SHARED = "/dev/shm"
"""The one place that POSIX shared memory has on Linux."""
MOUNT = '"$1" -t tmpfs -o "$2" shm /dev/shm >/dev/null 2>&1'
"""An empty folder over the shared memory of the machine, which only those see who share the mounts of this shell."""
QUEUES = '[ ! -d /dev/mqueue ] || "$1" -t mqueue queues /dev/mqueue >/dev/null 2>&1'
"""The folder in which the command's own message queues are seen, over that of the machine's, where there is one."""
LEAST_BYTES = 1 << 30
"""Size of that folder where the machine's own says none."""
FIRST_PROCESS = (
    f'[ -z "$1" ] || {{ {MOUNT}; {QUEUES}; }}; shift 2;'
    ' exec 9>&2 2>"$1"; ulimit -c 0; ulimit -f "$2"; [ -z "$3" ] || ulimit -v "$3"; shift 3;'
    ' (exec "$@" 2>&9 9>&-); exit $?'
)
"""The first process inside, for which signals without a handler do not exist, so it may not be the command itself.

Its words: the program that mounts, or nothing, and its options; where to say by which signal the command died, the
largest file in blocks of 512 bytes, the address space in KiB or nothing, the command.
"""
BLOCKS, KIB = 2048, 1024
"""In one MiB."""
UNSAID = frozenset({signal.SIGINT, signal.SIGPIPE})
"""Signals of which no shell says anything."""


def own_table_words(
    *, exit_file: Path, network: bool, memory_mb: int | None, file_mb: int, cpu: int | None, uses: Iterable[str] = ()
) -> tuple[str, ...]:
    """Words that give what follows them a process table, limits, a processor, and no network unless `network`.

    Empty where this machine permits no such table. `exit_file` is made there, for `decode_exit`. With the
    network the command may administer the system as its user may, which profilers need; without, it may not, so that
    it cannot take away what hides the other processes from it.

    Shared memory is its own too: empty when it starts, and gone with it. Not where one of `uses`, the paths and
    settings that it is given, lies in the machine's own, which would be hidden.

    Raises:
        ProgramMissing: a processor is asked for and the tool that sets it is not here.
        WorldError: the processor is not one that this process may use.
    """
    ways, shell = namespace_words(network=network, table=True), locate("sh")
    if not ways or shell is None:
        return ()
    memory = "" if memory_mb is None else str(memory_mb * KIB)
    limits = (str(exit_file), str(file_mb * BLOCKS), memory)
    memory_of_its_own = ("", "") if any(SHARED in word for word in uses) else _mount_words(network=network)
    inside = (shell, "-c", FIRST_PROCESS, "sh", *memory_of_its_own, *limits)
    return (*death_signal_words(), *ways, *inside, *(() if network else _unprivileged_words()), *pinning_words(cpu))


def decode_exit(code: int, exit_file: Path) -> tuple[int, bytes]:
    """The command's own exit code, -N for signal N as `Popen` has it, and what the shell had to say besides."""
    try:
        words = exit_file.read_bytes()
    except OSError:  # the shell was killed before it came to that
        return code, b""
    number = code - 128
    if 0 < number < signal.NSIG and (words or number in UNSAID or not _says_signals()):
        return -number, b""
    return code, words


def has_own_table() -> bool:
    """Whether commands have a process table of their own on this machine."""
    return bool(namespace_words(network=False, table=True)) and locate("sh") is not None


def has_own_memory() -> bool:
    """Whether commands have shared memory of their own on this machine."""
    return has_own_table() and bool(_mount_words(network=False)[0])


@functools.cache
def _mount_words(*, network: bool) -> tuple[str, str]:
    """The program that mounts a private folder over `SHARED` and its options; empty where that fails. Tried once."""
    ways, shell, tool = namespace_words(network=network, table=True), locate("sh"), locate("mount")
    if not ways or shell is None or tool is None or not Path(SHARED).is_dir():
        return "", ""
    size = shutil.disk_usage(SHARED).total if os.path.ismount(SHARED) else 0
    options = f"size={size or LEAST_BYTES},mode=1777,nosuid,nodev"
    return (tool, options) if works((*ways, shell, "-c", MOUNT, "sh", tool, options)) else ("", "")


@functools.cache
def _says_signals() -> bool:
    """Whether the shell says that a program died by a signal; of others, 128 and the number is taken for that."""
    return os.path.basename(os.path.realpath(locate("sh") or "")) == "dash"  # noqa: PTH119 (a name, not a place)


def _unprivileged_words() -> tuple[str, ...]:
    tool = locate("setpriv")
    return (tool, "--bounding-set", "-sys_admin") if tool else ()


# The programs put in front of a command to hold it: limits, network, parent's death, processor.

MIB = 1024 * 1024
TABLE = ("--pid", "--fork", "--kill-child=KILL", "--mount-proc")
"""A process table of its own, seen through a /proc of its own."""
MESSAGES = ("--ipc",)
"""Semaphores, queues and memory of its own where they have no place in the file system. Goes with a table."""


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
        words += namespace_words(network=False, table=False)
    return (*words, *death_signal_words(), *pinning_words(cpu))


def death_signal_words() -> tuple[str, ...]:
    """Words by which a program ends with this process: else a killed campaign would leave its benchmark running."""
    tool = locate("setpriv")
    return (tool, "--pdeathsig", "KILL") if tool else ()


def pinning_words(cpu: int | None) -> tuple[str, ...]:
    """Words that keep a program on that processor. Raises what `wrapped` raises for it."""
    if cpu is None:
        return ()
    if cpu not in os.sched_getaffinity(0):
        raise WorldError(f"processor {cpu} is not one that this process may use; choose another")
    return (_tool("taskset", field="threads"), "-c", str(cpu))


def network_isolation() -> Literal["namespaces", "weak"]:
    """How well a command is kept from the network: by a namespace of its own, or not at all."""
    return "namespaces" if namespace_words(network=False, table=False) else "weak"


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
    """Where a tool is, looked for once as long as PATH stays as it is: every process needs three of them."""
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
def namespace_words(*, network: bool, table: bool) -> tuple[str, ...]:
    """The first way out of the network, and into an own process table, that works here; empty when none does.

    Tried once. A user who may not leave them becomes root of a namespace of users first. A table comes with messages
    of its own, save where the kernel knows no such namespace.
    """
    tool, probe = locate("unshare"), locate("true")
    flags = (*(() if network else ("-n",)), *(TABLE if table else ()))
    if tool is None or probe is None or not flags:
        return ()
    more = ((*flags, *MESSAGES), flags) if table else (flags,)
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
