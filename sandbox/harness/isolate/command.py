"""Starts commands in rooms of their own: one small process that waits, of which a copy becomes the keeper of each command.

Started by `ridgeline.sandbox.isolation.commands`. A copy is a child of Ridgeline itself, so that it is waited for, killed and
counted like any other. Three processes: the keeper outside, the first process of the namespaces, the command.
"""

import marshal
import os
import select
import socket
import sys

from . import filters, kernel, landlock, locks, room
from .enter import FAULT, KILL, end_like, give_up, join
from .plan import Plan
from .watch import kill_orphans

_ASIDE = kernel.NEW_MOUNTS | kernel.NEW_HOSTNAME | kernel.NEW_IPC
_IGNORED = (1, 2, 15)
"""HUP, INT and TERM ask the command, not the process that waits for it."""
_CHANGED = (*_IGNORED, 13, 25)
"""What the command is to find as if it had been started by a shell."""
_DESCRIPTORS = 5
_KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 14, 15, 23)
"""Of root, which builds and tests of root's own files need: owners and modes of files, changing the user, locked memory, niceness.
Not: tracing the first process, which has them all, mounting, making devices, raw disks, modules, networks, limits."""
_PROFILING = (21, 38)
"""What counters of a card or of the processor are only given to: SYS_ADMIN, whose other uses the filter of system calls
takes away, and PERFMON."""


def serve() -> None:
    """Shutting a process in: answer Ridgeline with a keeper's process id for each plan. Words: the wire's descriptor, Ridgeline's id."""
    wire = socket.socket(fileno=int(sys.argv[1]))
    judge = os.pidfd_open(int(sys.argv[2]))
    if os.getppid() != int(sys.argv[2]):
        return
    wire.send(b"ready")
    poller = select.poll()
    for number in (wire.fileno(), judge):
        poller.register(number, select.POLLIN)
    while not any(number == judge for number, _ in poller.poll()):
        word, numbers, _, _ = socket.recv_fds(wire, 16, _DESCRIPTORS)
        if not word:
            return
        copy = kernel.fork_beside()
        if copy == 0:
            wire.close()
            keep(_read_plan(numbers), judge)
        for number in numbers:
            os.close(number)
        wire.send(b"%d" % copy)


def alone() -> None:
    """Shutting a process in: keep one command: words are the descriptors, with commas between them, and Ridgeline's process id."""
    judge = os.pidfd_open(int(sys.argv[2]))
    if os.getppid() == int(sys.argv[2]):
        keep(_read_plan([int(word) for word in sys.argv[1].split(",")]), judge)


def _read_plan(numbers: list[int]) -> Plan:
    """Shutting a process in: the plan, from memory that Ridgeline wrote it to, with the descriptors that came with it."""
    plan = Plan(marshal.loads(os.pread(numbers[0], os.fstat(numbers[0]).st_size, 0)))
    os.close(numbers[0])
    plan.report, *plan.streams = numbers[1:]
    os.set_inheritable(plan.report, False)
    return plan


def keep(plan: Plan, judge: int) -> None:
    """Start the isolated command, wait for its end or bring it about, and end alike. Never returns."""
    try:
        if os.getpid() != os.getsid(0):
            os.setsid()
        for number in _IGNORED:
            kernel.ignore_signal(number)
        if plan.mode == "user":
            locks.own_users(os.geteuid(), os.getegid(), inside=(os.geteuid(), os.getegid()))
        if plan.makes_namespaces:
            kernel.unshare(kernel.NEW_PROCESSES)
        else:
            kernel.prctl(kernel.SUBREAPER, 1)
        status, status_here = os.pipe()
        child = os.fork()
    except OSError as error:
        give_up(plan, error)
    if child == 0:
        os.close(judge)
        os.close(status)
        _inside(plan, status_here)
    for number in (plan.report, status_here, *plan.streams):
        os.close(number)
    over = os.pidfd_open(child)
    poller = select.poll()
    for number in (over, judge):
        poller.register(number, select.POLLIN)
    if over not in {number for number, _ in poller.poll()}:
        os.kill(child, KILL)
    _, ended = os.waitpid(child, 0)
    if plan.makes_namespaces:
        report = os.read(status, 4)
        ended = int.from_bytes(report, "little") if report else KILL
    kill_orphans()
    end_like(ended, plan)


def _inside(plan: Plan, status_here: int) -> None:
    """In an isolated command: the first process of the namespaces, or the command itself where there are none. Never returns."""
    try:
        kernel.prctl(kernel.PARENT_DEATH_SIGNAL, KILL)
        if _is_left(status_here):
            os._exit(FAULT)
        for group in plan.groups:
            join(group)
        if not plan.makes_namespaces:
            if plan.network == "none":
                _leave_network(plan)
            _become(plan)
        kernel.unshare(_ASIDE | (0 if plan.network == "machine" else kernel.NEW_NETWORK))
        if plan.network == "loopback":
            kernel.raise_loopback()
        room.build(plan)
        command = os.fork()
        if command == 0:
            os.close(status_here)
            _become(plan)
    except OSError as error:
        give_up(plan, error)
    kernel.prctl(kernel.DUMPABLE, 0)
    for number in (plan.report, *plan.streams):
        os.close(number)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == command:
            os.write(status_here, status.to_bytes(4, "little"))
            os._exit(0)  # and with it everything that is left in here


def _leave_network(plan: Plan) -> None:
    try:
        kernel.unshare(kernel.NEW_NETWORK)
    except OSError:
        os.write(plan.report, b"missing: a network of its own\n")


def _is_left(status_here: int) -> bool:
    """Whether an isolated command's keeper has gone, so that no signal will tell of its end."""
    poller = select.poll()
    poller.register(status_here, 0)
    return bool(poller.poll(0))


def _become(plan: Plan) -> None:
    """Give up what the isolated command may not have, and be replaced by it. Never returns."""
    try:
        os.sched_setaffinity(0, plan.cpus)
        for number, most in plan.limits:
            locks.limit(number, most)
        os.chdir(plan.folder)
        for number, stream in enumerate(plan.streams):
            os.dup2(stream, number)
        for stream in {*plan.streams}:
            os.close(stream)
        _lock(plan)
    except OSError as error:
        give_up(plan, error)
    try:
        for number in _CHANGED:
            kernel.default_signal(number)
        os.write(plan.report, b"ready\n")
        os.execve(plan.argv[0], plan.argv, plan.environment)
    except OSError as error:
        os.write(plan.report, f"exec: {error.strerror}\n".encode())
        os._exit(FAULT)


def _lock(plan: Plan) -> None:
    if plan.mode == "root":
        kernel.keep_capabilities((*_KEPT_CAPABILITIES, *(_PROFILING if plan.network == "loopback" else ())))
    kernel.prctl(kernel.NO_NEW_PRIVILEGES, 1)
    if not plan.makes_namespaces:
        missing = _hold_files(plan)
        os.write(plan.report, "".join(f"missing: {word}\n" for word in missing).encode())
    if filters.is_supported():
        try:
            filters.apply(filters.command_program())
        except OSError:
            os.write(plan.report, b"missing: seccomp\n")


def _hold_files(plan: Plan) -> list[str]:
    """Shutting a process in: where there are no namespaces: what the room makes writable is all that the command may change."""
    if landlock.version() == 0:
        return ["landlock"]
    writable = [what for kind, what, _ in plan.mounts if kind == "write"]
    devices = [where for kind, _, where in plan.mounts if kind in ("device", "terminals")]
    readable = [what for kind, what, _ in plan.mounts if kind == "read"]
    landlock.apply(writable=[*writable, *devices, "/dev/shm", "/proc"], readable=readable)
    return []
