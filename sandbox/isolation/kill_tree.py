"""Ends processes: a whole session at a time, and those that left it."""

import contextlib
import ctypes
import functools
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from ridgeline.sandbox.isolation.environment import MARK

FEW = 100
"""So many ids are tried one by one faster than the processes of the machine are listed."""
GRACE_S = 1.0
"""Between asking and killing: long enough to remove a lock file, too short to matter to a campaign."""


class StartedProcess(Protocol):
    """A child of this process, as `subprocess` has it or as `ridgeline.sandbox.isolation.commands` does."""

    @property
    def pid(self) -> int:
        """The started process's id."""
        ...

    returncode: int | None
    """Its exit code, or the negative number of the signal that ended it; None until it was collected."""

    def wait(self) -> int:
        """Collect the started process: its exit code."""
        ...


def wait_for_exit(process: StartedProcess, timeout_s: float) -> bool:
    """Wait for the process without collecting it, so that its group's number cannot be given to anybody else.

    `Popen.wait` would poll in steps of up to 50 ms, which is longer than many kernels' benchmarks.
    """
    try:
        watched = os.pidfd_open(process.pid)
    except OSError:  # a kernel older than 5.3
        return _poll(process, timeout_s)
    try:
        poller = select.poll()
        poller.register(watched, select.POLLIN)
        return bool(poller.poll(max(timeout_s, 0) * 1000))
    finally:
        os.close(watched)


def end_session(process: StartedProcess, *, politely: bool) -> float | None:
    """Kill the process's whole session, with SIGTERM first when asked, and collect the process.

    Its processor time in seconds, with that of everything whose end was waited for below it; None where somebody else
    collected it.
    """
    if politely:
        _signal(process.pid, signal.SIGTERM)
        wait_for_exit(process, GRACE_S)
    _signal(process.pid, signal.SIGKILL)
    return _collect(process)


def _collect(process: StartedProcess) -> float | None:
    """Wait for the end of a process to be killed: its processor time in seconds, None where it was collected before."""
    if process.returncode is not None:
        return None
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:
        process.wait()
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def sweep(mark: str, *, ancestor: int, forks: int | None) -> tuple[int, ...]:
    """Kill whatever carries the mark in its environment: processes that made a session of their own. Their ids.

    `ancestor` is the process they descend from, and `forks` what `count_forks` said before it was started: younger ids
    are looked at, and all where ids may have come round since.
    """
    assignment = f"{MARK}={mark}".encode()
    killed: list[int] = []
    for _ in range(8):  # one that forks while we look is met in the next pass
        survivors = [pid for pid in _younger(ancestor, forks) if assignment in _environment(pid)]
        if not survivors:
            break
        for pid in survivors:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed += survivors
        time.sleep(0.01)
    return tuple(dict.fromkeys(killed))


def processor_time_s(mark: str, *, ancestor: int, forks: int | None) -> float:
    """Processor time, in seconds, of the living processes that carry the mark and of the children they collected.

    Arguments are those of `sweep`.
    """
    assignment = f"{MARK}={mark}".encode()
    return sum(_ticks(pid) for pid in _younger(ancestor, forks) if assignment in _environment(pid)) / os.sysconf(
        "SC_CLK_TCK"
    )


def _ticks(pid: int) -> int:
    """User and system time of a process and of its collected children; 0 for one that is gone."""
    try:
        fields = _read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        return sum(map(int, fields[11:15]))
    except (OSError, ValueError):
        return 0


def count_forks() -> int | None:
    """Processes and threads that this machine has made since it started; None where that is not told."""
    try:
        return int(_read_file("/proc/stat").rpartition(b"\nprocesses ")[2].split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        return None


def _younger(ancestor: int, forks: int | None) -> Iterable[int]:
    """Ids that may have been given out since `ancestor` was: they are given in order, and begin again after the largest.

    Not all of them need be in use.
    """
    now = count_forks()
    if forks is None or now is None:
        return _processes()
    try:
        newest = int(_read_file("/proc/loadavg").split()[-1])
        largest = int(_read_file("/proc/sys/kernel/pid_max"))
    except (OSError, ValueError, IndexError):
        return _processes()
    if now - forks > largest // 2:  # ids in use are jumped over, so they may have come round
        return _processes()
    if 0 <= newest - ancestor < FEW:
        return range(ancestor, newest + 1)
    return [
        pid
        for pid in _processes()
        if (ancestor <= pid <= newest if ancestor <= newest else pid >= ancestor or pid <= newest)
    ]


def _read_file(path: str) -> bytes:
    """The first 64 KiB of a file of a process, which is all of what /proc has for one number or one process."""
    handle = os.open(path, os.O_RDONLY)
    try:
        return os.read(handle, 1 << 16)
    finally:
        os.close(handle)


def _signal(group: int, number: signal.Signals) -> None:
    """Send a signal to a whole process group; one that is gone or not ours is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _poll(process: StartedProcess, timeout_s: float) -> bool:
    """Whether the killed process ended in time, on kernels without pidfd_open: looked at every 5 ms."""
    until = time.monotonic() + timeout_s
    while True:
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.005)


def _processes() -> list[int]:
    with os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]


def _environment(pid: int) -> bytes:
    """Environment of a process, read without a file object: this is asked of every process of the machine after every run."""
    try:
        handle = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:  # gone meanwhile, or another user's
        return b""
    parts: list[bytes] = []
    try:
        while part := os.read(handle, 1 << 16):
            parts.append(part)
    except OSError:
        pass
    finally:
        os.close(handle)
    return b"".join(parts)


# Where a command can have no process table of its own: what it leaves behind is given to this process, and ended.
#
# A process that wiped its environment and left its session has no other trace of who started it.

PR_SET_CHILD_SUBREAPER = 36
"""Of <linux/prctl.h>: orphans below this process become its children instead of the first process's."""
MANY = 1000
"""Numbers of processes of ours that are remembered before those that ended are forgotten."""
PASSES = 64
"""Each ends the children of those that the one before ended."""

_starting = threading.Lock()
_ours: set[int] = set()
"""Children that this process started itself; some of them have ended."""


def start_child(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a process that is never taken for an orphan."""
    with _starting:
        process = start()
        if len(_ours) >= MANY:
            _ours.intersection_update(_children())
        _ours.add(process.pid)
        return process


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """While the block starts a process by other means, none is taken for an orphan; `add_child` says which it was."""
    with _starting:
        yield


def add_child(pid: int) -> None:
    """That process was started here. Only within `starting`."""
    _ours.add(pid)


def children_before() -> frozenset[int] | None:
    """Children that are nobody's orphans, to be told to `end_since`. None where orphans are not given to us."""
    if not adopts():
        return None
    with _starting:  # a number that is given out again from now on is not ours by what it once was
        children = frozenset(_children())
        _ours.intersection_update(children)
    return children


def end_since(earlier_children: frozenset[int] | None) -> tuple[int, ...]:
    """Kill every orphan that came since, and collect it. Their ids."""
    killed: list[int] = []
    for _ in range(PASSES if earlier_children is not None else 0):
        with _starting:
            orphans = [pid for pid in _children() if pid not in _ours and pid not in (earlier_children or ())]
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
        if not orphans:
            break
        killed += orphans
    return tuple(dict.fromkeys(killed))


@functools.cache
def adopts() -> bool:
    """Whether orphans are given to this process from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def _children() -> list[int]:
    """Child processes by process, to be killed with it; nobody's where the kernel does not list them."""
    children: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that ended meanwhile
            children += map(int, (task / "children").read_text().split())
    return children
