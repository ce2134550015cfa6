"""Shuts a worker in and stays outside, until the worker has ended, the judge says so, or the judge has gone.

Started by `ridgeline.sandbox.isolation.workers` with a plan as its only word, or entered by a copy of a `stem`. It ends as the
worker ended: same code, same signal.
"""

import os
import select
import sys

from . import kernel, locks, room
from .plan import Plan, unpacked
from .watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_ASIDE = kernel.NEW_MOUNTS | kernel.NEW_HOSTNAME | kernel.NEW_IPC | kernel.NEW_NETWORK
_CHANGED_BY_PYTHON = (2, 13, 25)
"""Signals that the interpreter ignores or catches: INT, PIPE, XFSZ."""
FAULT = 127
KILL = 9
COLLECT_MS = 100
"""How long what has ended beside the worker, its parent too, may wait to be collected."""


def main() -> None:
    """Carry out the plan that the command line holds: the worker becomes the plan's program."""
    plan = unpacked(sys.argv[1])
    judge = os.pidfd_open(plan.judge)
    if os.getppid() != plan.judge:  # gone before we could look: the number may be somebody else's by now
        os._exit(0)
    enter(plan, judge)
    try:
        for number in _CHANGED_BY_PYTHON:
            kernel.default_signal(number)
        os.execve(plan.argv[0], plan.argv, plan.environment)
    except OSError as error:
        give_up(plan, error)


def enter(plan: Plan, judge: int) -> None:
    """Shutting a process in: shut a child of this process in. Returns in that child alone, where the report is still open.

    `judge`: a descriptor of its process, not open there any more.
    """
    for number in (plan.report, plan.line, plan.output, judge):
        os.set_inheritable(number, False)
    try:
        watch = Watch(plan, judge)
        if plan.mode == "user":
            locks.own_users(os.geteuid(), os.getegid())
        if plan.makes_namespaces:
            kernel.unshare(kernel.NEW_PROCESSES)  # for the child; this process goes on seeing the machine's files
        else:
            kernel.prctl(kernel.SUBREAPER, 1)
        child = os.fork()
    except OSError as error:
        give_up(plan, error)
    if child == 0:
        watch.leave()
        _inside(plan, watch)
        return
    for number in (plan.report, *plan.keep):
        os.close(number)
    end_like(watch.until_end(child), plan)


def _inside(plan: Plan, watch: Watch) -> None:
    """In an isolated worker: the first process of the namespaces, or the worker itself. Returns in the worker."""
    try:
        kernel.prctl(kernel.PARENT_DEATH_SIGNAL, KILL)
        if watch.alone():
            os._exit(FAULT)
        for group in plan.groups:
            join(group)
        if not plan.makes_namespaces:
            return _lock_in(plan, watch)
        kernel.unshare(_ASIDE)
        room.build(plan)
        worker = os.fork()
    except OSError as error:
        give_up(plan, error)
    if worker == 0:
        return _lock_in(plan, watch)
    kernel.prctl(kernel.DUMPABLE, 0)
    for number in (plan.report, watch.print_here, *plan.keep):
        os.close(number)
    status = _await_end(worker)
    os.write(watch.status_here, status.to_bytes(4, "little"))
    os._exit(0)  # and with it everything that is left in here


def _await_end(worker: int) -> int:
    """In the first process of an isolated worker's namespaces: collect what ends in them until the worker has: what waitpid(2) says of it.

    Who waits in waitpid(2) is woken each time that the worker is stopped and goes on, within the judge's time of a call.
    """
    poller = select.poll()
    poller.register(os.pidfd_open(worker), select.POLLIN)
    while True:
        poller.poll(COLLECT_MS)
        while (collected := os.waitpid(-1, os.WNOHANG))[0]:
            if collected[0] == worker:
                return collected[1]


def _lock_in(plan: Plan, watch: Watch) -> None:
    try:
        os.chdir(plan.folder)
        nothing = os.open("/dev/null", os.O_RDONLY)
        for number, here in ((0, nothing), (1, watch.print_here), (2, watch.print_here)):
            os.dup2(here, number)
        for number in (nothing, watch.print_here, watch.status_here):
            os.close(number)
        missing = locks.apply(plan)
        os.write(plan.report, "".join((*(f"missing: {word}\n" for word in missing), "ready\n")).encode())
    except OSError as error:
        give_up(plan, error)


def join(group: str) -> None:
    """Put this isolated process into a control group."""
    handle = os.open(f"{group}/cgroup.procs", os.O_WRONLY)
    os.write(handle, b"0")
    os.close(handle)


def give_up(plan: Plan, error: OSError) -> "NoReturn":
    """Say what failed in isolating a worker, and end."""
    os.write(plan.report, f"fault: {error}\n".encode())
    os._exit(FAULT)


def end_like(status: int, plan: Plan) -> "NoReturn":
    """End this process as waitpid(2) says that the isolated worker ended."""
    code = os.waitstatus_to_exitcode(status)
    if plan.mode == "bubblewrap" and code > 128:  # as that tool says that a signal ended the worker
        code = 128 - code
    if code < 0:
        kernel.prctl(kernel.DUMPABLE, 0)  # no core of it: this may be a copy of a whole framework
        kernel.default_signal(-code)
        os.kill(os.getpid(), -code)
        select.select([], [], [], 1)  # a signal that does not end a process by itself
    os._exit(code if code >= 0 else 128 - code)
