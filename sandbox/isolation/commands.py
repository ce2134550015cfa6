"""Starts commands in rooms of their own, at the cost of a fork: one small process makes the keeper of each of them."""

import atexit
import functools
import logging
import marshal
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ridgeline.graph.errors import WorldError
from ridgeline.sandbox.harness.isolate.plan import Mounts
from ridgeline.sandbox.isolation import kill_tree
from ridgeline.sandbox.isolation.kill_tree import StartedProcess
from ridgeline.sandbox.isolation.rooms import Room, list_command_mounts

logger = logging.getLogger(__name__)

Mode = Literal["root", "user", "weak"]
Network = Literal["none", "loopback"]
_MODES: tuple[Mode, ...] = ("root",) if os.geteuid() == 0 else ("user",)
START_S = 20.0
"""Starting an interpreter from a cold disk takes seconds."""
MIB = 1 << 20
TASKS, TASKS_PER_CORE = 4096, 64
"""Processes and threads of a command at a time, the larger of both: a storm of them ends there, a parallel build does not."""
COUNTS_ROOMS_USERS = (5, 14)
"""Since then Linux counts the processes of a user in a namespace apart from his others."""
NUMBERS_ROOMS_TASKS = (6, 14)
"""Since then a namespace of processes has a largest number of its own; written before, it would be that of the machine."""


def most_tasks() -> int:
    """Processes and threads that an isolated command may have at a time."""
    return max(TASKS, TASKS_PER_CORE * (os.cpu_count() or 1))


@functools.cache
def kernel_release() -> tuple[int, int]:
    """Version and patch level of the running Linux; zeros where it does not say."""
    numbers = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


class NotStarted(OSError):
    """The command's program cannot be executed."""


@dataclass(frozen=True, kw_only=True)
class CommandPlan:
    """One command, resolved: what runs, where, and in which room."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    mounts: Mounts
    scratch_bytes: int
    memory_mb: int | None
    file_mb: int | None
    cpu: int | None
    network: Network

    def pack(self, mode: Mode) -> bytes:
        """A command's plan as bytes, as `isolate.command` reads it."""
        limits = [(resource.RLIMIT_CORE, 0)]
        if mode == "user" and kernel_release() >= COUNTS_ROOMS_USERS:
            limits.append((resource.RLIMIT_NPROC, most_tasks()))
        if self.file_mb is not None:
            limits.append((resource.RLIMIT_FSIZE, self.file_mb * MIB))
        if self.memory_mb is not None:
            limits.append((resource.RLIMIT_AS, self.memory_mb * MIB))
        return marshal.dumps(
            {
                "mode": mode,
                "argv": list(self.argv),
                "environment": dict(self.environment),
                "folder": str(self.cwd),
                "mounts": self.mounts,
                "scratch_bytes": self.scratch_bytes,
                "scratch_files": 0,
                "same_user": True,
                "base": "/proc",
                "limits": limits,
                "tasks": most_tasks() if mode == "root" and kernel_release() >= NUMBERS_ROOMS_TASKS else 0,
                "cpus": sorted(os.sched_getaffinity(0)) if self.cpu is None else [self.cpu],
                "network": self.network,
                "groups": [],
            }
        )


class Keeper:
    """The process that holds a command from outside: a child of this one, which ends as the command ends."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """Collect it: its exit code, or the negative number of the signal that ended it."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


class _Server:
    """The process of which keepers are copies. It ends with this one."""

    def __init__(self) -> None:
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = kill_tree.start_child(
                lambda: _start_interpreter("serve", theirs.fileno(), keep=[theirs.fileno()])
            )
        self._wire.settimeout(START_S)
        if self._wire.recv(16) != b"ready":
            raise OSError("it ended at its start")

    def copy(self, descriptors: Sequence[int]) -> Keeper:
        """A keeper that carries out the plan in the first descriptor. Raises OSError."""
        socket.send_fds(self._wire, [b"keep"], list(descriptors))
        word = self._wire.recv(16)
        if not word:
            raise OSError("it ended")
        return Keeper(int(word))

    def close(self) -> None:
        """Let the process that forks isolated commands end."""
        self._wire.close()
        self._process.wait()


_servers: dict[tuple[int, int], _Server | None] = {}
"""By process and thread: keepers are children of the thread that started their server, where the load of others is told from theirs."""


def start_command(plan: CommandPlan, streams: tuple[int, int, int]) -> StartedProcess:
    """Start it with these descriptors as its input, output and errors; it runs when this returns.

    Raises NotStarted where its program cannot be executed, WorldError where its room cannot be made.
    """
    return _start(plan, streams, find_mode())


def _start(plan: CommandPlan, streams: tuple[int, int, int], mode: Mode) -> StartedProcess:
    receiver, report = os.pipe()
    memory = os.memfd_create("plan")
    os.write(memory, plan.pack(mode))
    try:
        keeper = _start_keeper([memory, report, *streams])
    finally:
        os.close(memory)
        os.close(report)
        with os.fdopen(receiver, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    faults = [line for line in lines if line.startswith(("fault: ", "exec: "))]
    if "ready" in lines and not faults:
        return keeper
    code = keeper.wait()
    kind, _, text = (faults or [f"fault: its start ended with {code}"])[0].partition(": ")
    if kind == "exec":
        raise NotStarted(0, text)
    raise WorldError(f"{plan.argv[0]}: the room of a command could not be made: {text}")


def _start_keeper(descriptors: list[int]) -> StartedProcess:
    server = _find_server()
    if server is not None:
        try:
            with kill_tree.starting():
                keeper = server.copy(descriptors)
                kill_tree.add_child(keeper.pid)
            return keeper
        except OSError as error:
            logger.warning("the process that starts commands was lost (%s); each is started for itself now", error)
            _servers[_key()] = None
    words = ",".join(map(str, descriptors))
    return kill_tree.start_child(lambda: _start_interpreter("alone", words, keep=descriptors))


def _find_server() -> _Server | None:
    if _key() not in _servers:
        try:
            _servers[_key()] = _Server()
        except OSError as error:
            logger.info("commands are started each for itself: %s", error)
            _servers[_key()] = None
    return _servers[_key()]


def _key() -> tuple[int, int]:
    return os.getpid(), threading.get_native_id()


def _start_interpreter(function: str, word: object, *, keep: Sequence[int]) -> subprocess.Popen[bytes]:
    harness = Path(__file__).parents[1] / "harness"
    program = f"import sys; sys.path.append({str(harness)!r}); from isolate import command; command.{function}()"
    return subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", program, str(word), str(os.getpid())),
        cwd="/",
        env={"LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=tuple(keep),
    )


@atexit.register
def _end_servers() -> None:
    for key, server in _servers.items():
        if server is not None and key[0] == os.getpid():
            server.close()


@functools.cache
def find_mode() -> Mode:
    """How commands are held on this machine, found by starting one: in namespaces, as root or as a user, or without."""
    for mode in _MODES:
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder, Path(os.devnull).open("r+b") as nothing:
            private, streams = Path(folder), (nothing.fileno(),) * 3
            try:
                if _start(_probe(private), streams, mode).wait() == 0:
                    return mode
            except (OSError, WorldError) as error:
                logger.info("commands cannot be held as %s: %s", mode, error)
    return "weak"


def _probe(private: Path) -> CommandPlan:
    mounts = list_command_mounts(Room(writable=(private,)), own_folders=(), argv=(), environment={}, passed={})
    return CommandPlan(
        argv=(shutil.which("true") or "/bin/true",),
        cwd=private,
        environment={},
        mounts=mounts,
        scratch_bytes=MIB,
        memory_mb=None,
        file_mb=1,
        cpu=None,
        network="none",
    )


def has_own_table() -> bool:
    """Whether commands have processes, files and shared memory of their own on this machine."""
    return find_mode() != "weak"


def check_processor(cpu: int | None) -> int | None:
    """The processor to keep a command on. Raises WorldError where this process may not use it."""
    if cpu is not None and cpu not in os.sched_getaffinity(0):
        raise WorldError(f"processor {cpu} is not one that this process may use; choose another")
    return cpu
