"""A process that has imported what workers need. A copy of it becomes a worker whenever the judge asks, at once.

Started by `ridgeline.sandbox.isolation.workers`. It runs nothing of a candidate: what does is shut in like any other worker first.
"""

# importing pathlib would cost each start of a worker 10 ms
# ruff: noqa: PTH100, PTH115, PTH120, PTH123, PTH208

import contextlib
import fcntl
import gc
import importlib
import mmap
import os
import os.path
import select
import socket
import sys
import types

from . import enter, kernel
from .plan import Plan, unpacked

MANY = b"threads"
"""Said instead of `ready` where what was imported runs threads of its own, of which a copy has none."""
CARD = b"a card"
"""Said instead of `ready` where a module behind PyTorch has opened a card, which no copy could use any more."""
CARDS = ("/dev/nvidia", "/dev/kfd")
LONGEST = 1 << 18
"""Bytes of a plan."""
MOST_KEPT = 16
"""Descriptors that a worker can be given."""
_FREE_PAGES = 4096
"""So many pages at most are left free, by chance, before a worker's own memory."""
_DEEP = 12
"""So many calls at most lie under a worker's own, by chance: each moves its stack by some hundred bytes."""


def main() -> None:
    """Words: the descriptor of the judge, its process id, modules and `module:function`, which is called once, with
    commas between them, then where to find them."""
    wire = socket.socket(fileno=int(sys.argv[1]))
    judge = os.pidfd_open(int(sys.argv[2]))
    if os.getppid() != int(sys.argv[2]):
        return
    sys.dont_write_bytecode = True
    sys.path += sys.argv[4:]
    before = None
    for name in sys.argv[3].split(","):
        before = _count_card_files() if before is None and "torch" in sys.modules else before
        module, _, function = name.partition(":")
        if not function:
            importlib.import_module(module)
            continue
        with contextlib.suppress(ImportError, AttributeError):  # another version: each copy does it for itself
            getattr(importlib.import_module(module), function)()
    del sys.path[len(sys.path) - len(sys.argv[4:]) :]
    gc.collect()
    gc.freeze()
    alone = len(os.listdir("/proc/self/task")) == 1
    touched = before is not None and _count_card_files() > before
    answer = MANY if not alone else CARD if touched else b"ready"
    wire.send(answer)
    plan = _serve_copies(wire, judge) if answer == b"ready" else None
    if plan is not None:
        script = _reset_process(plan)
        del wire, judge, plan
        _run_at_random_address(script, int.from_bytes(os.urandom(1), "little") % (_DEEP + 1))


def _count_card_files() -> int:
    """How many files of a card's driver the process has open that workers shut in are copied from."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the folder's own descriptor is closed by now
            count += os.readlink(f"/proc/self/fd/{name}").startswith(CARDS)
    return count


def _serve_copies(wire: socket.socket, judge: int) -> Plan | None:
    """Shutting a process in: answers the judge with a copy of this process for each plan. What it returns in such a copy is its plan."""
    poller = select.poll()
    for number in (wire.fileno(), judge):
        poller.register(number, select.POLLIN)
    while True:
        if any(number == judge for number, _ in poller.poll()):
            return None  # a process that it forked may hold the wire still
        word, descriptors, _, _ = socket.recv_fds(wire, LONGEST, MOST_KEPT)
        if not word:
            return None
        copy = os.fork()
        if copy == 0:
            os.setsid()  # a signal to its own group must reach nobody else
            wire.close()
            plan, judge = _renumber(unpacked(word.decode()), descriptors, judge)
            enter.enter(plan, judge)
            os.close(plan.report)
            return plan
        for number in descriptors:
            os.close(number)
        over = os.pidfd_open(copy)
        socket.send_fds(wire, [b"copied"], [over])
        os.close(over)
        _reap_copies()


def _reap_copies() -> None:
    """The worker's copies that have ended; the judge, which holds a descriptor of each, has been told already."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return


def _renumber(plan: Plan, descriptors: list[int], judge: int) -> tuple[Plan, int]:
    """The descriptors that came with the plan, under the numbers that it names, or new ones that it names then; and
    that of the judge, out of their way."""
    beyond = max((*descriptors, *plan.keep, judge)) + 1
    moved_descriptors = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, beyond) for number in (*descriptors, judge)]
    for number in (*descriptors, judge):
        os.close(number)
    judge = moved_descriptors.pop()
    plan.report, plan.line, plan.output = moved_descriptors[:3]
    for number, target in zip(moved_descriptors[3:], plan.keep, strict=True):
        os.dup2(number, target)
        os.close(number)
    return plan, judge


def _reset_process(plan: Plan) -> list[str]:
    """Make a copied worker as if it had been started alone. Its program and that one's words."""
    kernel.prctl(kernel.DUMPABLE, 1)  # as after a start: else its own files in /proc are not its own
    os.environ.clear()
    os.environ.update(plan.environment)
    sys.path.remove(_root())
    sys.path_importer_cache.clear()
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.seed()  # else chance says the same in all workers
    for name in [name for name in sys.modules if name.partition(".")[0] == __name__.partition(".")[0]]:
        del sys.modules[name]
    sys.argv = plan.script
    sys.orig_argv = [*plan.argv]
    return plan.script


def _root() -> str:
    folder = os.path.abspath(__file__)
    for _ in __name__.split("."):
        folder = os.path.dirname(folder)
    return folder


def _run_at_random_address(script: list[str], depth: int) -> bool:
    """Addresses that chance has moved: workers of one stem would all have the same, and times hang on them a little."""
    if depth:
        return max((script,), key=lambda words: _run_at_random_address(words, depth - 1)) is script
    pages = int.from_bytes(os.urandom(2), "little") % _FREE_PAGES
    _run(script, mmap.mmap(-1, (1 + pages) * mmap.PAGESIZE))
    return True


def _show_exception(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
    """A worker's exception: what is above the program is nothing to its reader; what was printed before comes first."""
    while trace is not None and trace.tb_frame.f_globals is not sys.modules["__main__"].__dict__:
        trace = trace.tb_next
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def _run(script: list[str], free: mmap.mmap) -> None:
    """Run the worker's program, as Python runs one. `free` is memory that nobody uses."""
    program = types.ModuleType("__main__")
    program.__dict__["__file__"] = script[0]
    sys.modules["__main__"] = program
    sys.excepthook = _show_exception
    with open(script[0], encoding="utf-8") as file:
        code = compile(file.read(), script[0], "exec")
    exec(code, program.__dict__)
