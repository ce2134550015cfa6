"""One start of one worker: the plan, the process that carries it out, and what is heard of it."""

import logging
import os
import secrets
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ridgeline.graph.errors import ProgramMissing, WorldError
from ridgeline.sandbox.harness.isolate.plan import Mounts, Plan, packed
from ridgeline.sandbox.harness.isolate.watch import HEAD
from ridgeline.sandbox.isolation.environment import MARK, SECRET
from ridgeline.sandbox.isolation.kill_tree import exited_within, sweep
from ridgeline.sandbox.judge import bubblewrap, groups, stems
from ridgeline.sandbox.judge.limits import WorkerLimits
from ridgeline.sandbox.judge.room import OWN, check_readable, mounts, told
from ridgeline.sandbox.judge.stems import Copy, Warm

Mode = Literal["root", "user", "bubblewrap", "weak"]
logger = logging.getLogger(__name__)
_PATIENCE_S = 5.0
"""How long the outer process may take to kill what is inside, which it does in milliseconds."""
_SCRATCH_FILES = 100_000
_LAYERS = {"memory": "memory of all processes", "pids": "number of all processes"}


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is to run, and what it may see and use."""

    argv: tuple[str, ...]
    readable: tuple[Path, ...]
    private: Path
    limits: WorkerLimits
    gpu: bool
    warm: Warm | None = None
    """What has been imported before, where that can be had; `argv` is what starts the worker otherwise."""


class Worker:
    """A worker that runs. Its process is the one that holds it from outside; it ends with the worker, and alike."""

    plan: Plan
    """All that it may see and use."""
    missing: tuple[str, ...] = ()
    """Layers of isolation that this start did without."""

    def __init__(self, plan: Plan, *, mark: str | None, stem: stems.Stem | None) -> None:
        """Start it. `plan` has no descriptors yet. Raises WorldError when it did not come to run as planned."""
        self.plan, self._mark, self._groups, self._limit = plan, mark, plan.groups, plan.said_bytes
        self._said = plan.said = os.memfd_create("said")
        weakref.finalize(self, os.close, self._said)
        os.lseek(self._said, HEAD, os.SEEK_SET)
        heard, plan.report = os.pipe()
        plan.line, line = os.pipe()
        self._let_go = weakref.finalize(self, os.close, line)
        try:
            self._outer = _alone(plan) if stem is None else stem.copied(plan)
        finally:
            os.close(plan.report)
            os.close(plan.line)
            with os.fdopen(heard, encoding="utf-8", errors="replace") as report:
                said = report.read()
        self._check(said.splitlines())

    @property
    def returncode(self) -> int | None:
        """Its exit code, or the negative number of the signal that ended it; None until somebody has waited for it."""
        return self._outer.returncode

    def wait(self, timeout_s: float | None = None) -> int:
        """Until it has ended: its exit code. Raises subprocess.TimeoutExpired."""
        return self._outer.wait(timeout_s)

    def kill(self) -> None:
        """What holds it, and it with that."""
        self._outer.kill()

    def said(self) -> str:
        """What it printed, standard output and error together: head and tail, with what is between them counted."""
        count, _ = self._head()
        half = self._limit // 2
        data = os.pread(self._said, 2 * half, HEAD)
        if count <= 2 * half:
            return data[:count].decode(errors="replace")
        turn = (count - half) % half
        tail = data[half + turn :] + data[half : half + turn]
        gone = count - 2 * half
        return (
            f"{data[:half].decode(errors='replace')}\n[... {gone} bytes left out ...]\n{tail.decode(errors='replace')}"
        )

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel killed a process of it for memory. Known after its end, where all memory is counted."""
        return self._head()[1] > 0

    def end(self) -> None:
        """See `ridgeline.sandbox.judge.isolation.end`."""
        self._let_go()
        if self.returncode is None and not self._ended_within(_PATIENCE_S):
            self.kill()
        self.wait()
        if self._mark is not None and not isinstance(self._outer, Copy):
            sweep(self._mark, first=self._outer.pid, forks=None)
        groups.remove(self._groups)

    def _check(self, report: list[str]) -> None:
        """Everything up to the start of the program went as planned, or the worker is ended and WorldError raised."""
        faults = [line.removeprefix("fault: ") for line in report if line.startswith("fault: ")]
        self.missing += tuple(line.removeprefix("missing: ") for line in report if line.startswith("missing: "))
        if faults or "ready" not in report:
            self.end()
            why = "; ".join(faults) or os.pread(self._said, self._limit, HEAD).decode(errors="replace").strip()
            raise WorldError(
                f"a worker could not be started in isolation: {why or f'its start ended with {self.returncode}'}"
            )

    def _ended_within(self, timeout_s: float) -> bool:
        outer = self._outer
        return outer.ended_within(timeout_s) if isinstance(outer, Copy) else exited_within(outer, timeout_s)

    def _head(self) -> tuple[int, int]:
        head = os.pread(self._said, HEAD, 0)
        return int.from_bytes(head[:8], "little"), int.from_bytes(head[8:16], "little")


def _alone(plan: Plan) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", stems.program("enter"), packed(plan)),
        cwd="/",
        env={"LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=plan.said,  # a fault of that program itself; what the worker prints takes its place
        start_new_session=True,
        pass_fds=(*plan.keep, plan.report, plan.line, plan.said),
    )


def begin(mode: Mode, start: Start, *, pass_fds: Sequence[int], environment: Mapping[str, str]) -> Worker:
    """Start a worker that way; see `ridgeline.sandbox.judge.isolation.launch`."""
    mark = secrets.token_hex(16) if mode == "weak" else None
    given = _without_secrets(environment)
    plan = _planned(mode, start, {**given, **({MARK: mark} if mark else {})})
    plan.keep = sorted(pass_fds)
    counted = mode == "root" or (mode == "user" and os.geteuid() != 0)
    controllers = ("memory",) if counted else ("memory", "pids")
    plan.groups, unbound = groups.make(start.limits, controllers)
    lent = bubblewrap.wrap(plan) if mode == "bubblewrap" else ()
    try:
        worker = _copied(plan, start.warm, given) if start.warm and _can_be_copied(mode) else None
        if worker is None:
            if plan.script:  # a copy was lost, and may have taken its groups with it
                groups.remove(plan.groups)
                plan.groups, unbound = groups.make(start.limits, controllers)
            worker = Worker(plan, mark=mark, stem=None)
    except (OSError, WorldError):
        groups.remove(plan.groups)
        raise
    finally:
        for number in lent:
            os.close(number)
    worker.missing += tuple(_LAYERS[controller] for controller in unbound)
    return worker


def _can_be_copied(mode: Mode) -> bool:
    """Not where workers have not a user and processes of their own, nor where that user could change the interpreter:
    /proc/self/exe of a copy leads past the mounts that hold it read-only.
    """
    theirs = Path(sys.executable).stat().st_uid == os.geteuid() or os.access(sys.executable, os.W_OK)
    return mode == "root" or (mode == "user" and not theirs)


def _copied(plan: Plan, warm: Warm, environment: Mapping[str, str]) -> Worker | None:
    """The worker as a copy of a process that has its modules; None where there is none of which copies can be made."""
    stem = stems.stem(warm, environment)
    if stem is None:
        return None
    plan.script = [*warm.script]
    try:
        return Worker(plan, mark=None, stem=stem)
    except OSError as error:
        logger.warning("a stem of workers was lost (%s); each is started for itself now", error)
        stems.forget(stem)
        return None


def _planned(mode: Mode, start: Start, environment: Mapping[str, str]) -> Plan:
    """The plan, without what is made for it. Makes the folders in the worker's own."""
    program, private = Path(start.argv[0]), start.private
    if not (program.is_absolute() and os.access(program, os.X_OK)):
        raise ProgramMissing(str(program), why="is not the whole path of a program")
    check_readable((private,), by_others=False)
    check_readable(start.readable, by_others=mode == "root")
    for name in OWN:
        (private / name).mkdir(exist_ok=True)
    seen = mounts(program, readable=start.readable, private=private, gpu=start.gpu)
    _check_visible(program, seen)
    return Plan(
        {
            "mode": mode,
            "argv": list(start.argv),
            "script": [],
            "environment": told(private, program, dict(environment)),
            "folder": str(private),
            "mounts": seen,
            "scratch_bytes": start.limits.scratch_mb << 20,
            "scratch_files": _SCRATCH_FILES,
            "limits": start.limits.resources(gpu=start.gpu),
            "tasks": start.limits.tasks + (0 if mode in ("root", "user") else _tasks_of_user()),
            "said_bytes": start.limits.output_bytes,
            "judge": os.getpid(),
            "gpu": start.gpu,
        }
    )


def _check_visible(program: Path, seen: Mounts) -> None:
    places = (program, Path(os.path.realpath(program.parent)) / program.name)
    if not any(place.is_relative_to(where) for kind, _, where in seen if kind == "read" for place in places):
        raise WorldError(
            f"{program}: a worker is to run it and would not see it; name its folder among what it may read"
        )


def _tasks_of_user() -> int:
    """Processes and threads that the kernel counts with the worker's where it has no count of its own."""
    user, tasks = os.geteuid(), 0
    for process in Path("/proc").iterdir():
        with suppress(OSError):  # gone meanwhile
            if process.name.isdigit() and process.stat().st_uid == user:
                tasks += sum(1 for _ in (process / "task").iterdir())
    return tasks


def _without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    for name in environment:
        if SECRET.search(name):
            logger.warning("%s is withheld from a worker: its name says it is a secret", name)
    return {name: value for name, value in environment.items() if not SECRET.search(name)}
