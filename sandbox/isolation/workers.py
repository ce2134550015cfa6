"""Starts workers so that they see, change and outlive nothing, as well as this machine allows, and says how well."""

import atexit
import contextlib
import functools
import logging
import os
import resource
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen
from typing import Literal

from ridgeline.graph.errors import ProgramMissing, WorldError
from ridgeline.sandbox.harness.isolate import filters
from ridgeline.sandbox.harness.isolate.plan import Mounts, Plan, packed
from ridgeline.sandbox.harness.isolate.room import NOBODY
from ridgeline.sandbox.harness.isolate.stem import LONGEST
from ridgeline.sandbox.harness.isolate.watch import HEAD, status_of
from ridgeline.sandbox.isolation.environment import MARK, SECRET
from ridgeline.sandbox.isolation.kill_tree import sweep, wait_for_exit
from ridgeline.sandbox.isolation.rooms import (
    OWN_FOLDERS,
    check_readable,
    list_mounts,
    worker_environment,
)

# The same isolation made by bubblewrap, for users who may not make namespaces themselves.


def put_bubblewrap_before(plan: Plan) -> tuple[int, ...]:
    """Put bubblewrap in front of the plan's program. Returns descriptors to close when the plan has been started.

    Raises ProgramMissing.
    """
    tool = shutil.which("bwrap")
    if tool is None:
        raise ProgramMissing("bwrap")
    words = [tool, "--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY), "--unshare-ipc", "--unshare-pid"]
    words += ["--unshare-net", "--unshare-uts", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for kind, what, where in plan.mounts:
        words += _bubblewrap_args(kind, what, where, size=plan.scratch_bytes)
    words += ["--remount-ro", "/", "--chdir", plan.folder]
    descriptors: tuple[int, ...] = ()
    if filters.is_supported():
        code = os.memfd_create("filter")
        os.write(code, filters.program(gpu=plan.gpu))
        os.lseek(code, 0, os.SEEK_SET)
        words += ["--seccomp", str(code)]
        plan.keep = [*plan.keep, code]
        descriptors = (code,)
    plan.argv = [*words, "--", *plan.argv]
    return descriptors


def _bubblewrap_args(kind: str, what: str, where: str, *, size: int) -> list[str]:
    if kind == "processes":
        return ["--proc", where]
    if kind == "link":
        return ["--symlink", what, where]
    if kind == "folder":
        return ["--dir", where]
    if kind == "scratch":
        return ["--size", str(size), "--tmpfs", where]
    return ["--dev-bind" if kind == "device" else "--ro-bind", what, where]


# Processes that have imported a framework, of which workers are copies: seconds less for every one of them.

logger = logging.getLogger(__name__)
_HARNESS = Path(__file__).parents[1] / "harness"
FLAGS = ("-I", "-S", "-X", "faulthandler=0")
"""Of the interpreter, in workers and in what they are copies of."""
IMPORT_S = 300.0
"""Importing PyTorch from a cold disk takes a minute."""
COPY_S = 20.0
WHICH_CARD = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Variables that say which card of NVIDIA is meant."""


def isolate_program(module: str) -> str:
    """Python's words for running one of `harness/isolate`, found by its place: without `site` no package is known."""
    return f"import sys; sys.path.append({str(_HARNESS)!r}); from isolate import {module}; {module}.main()"


@dataclass(frozen=True, kw_only=True)
class WarmProgram:
    """What a worker needs that takes long to import, and what it runs then."""

    modules: tuple[str, ...]
    paths: tuple[str, ...]
    """Folders of installed packages."""
    script: tuple[str, ...]
    """A Python program and its words."""

    @property
    def argv(self) -> tuple[str, ...]:
        """What starts the worker where no copy can be made."""
        return (sys.executable, *FLAGS, *self.script)


class ForkedProcess:
    """The outer process of a worker that a stem has copied: no child of this one, but waited for and killed alike."""

    def __init__(self, over: int, output: int) -> None:
        """`over`: a descriptor of the process, from here on this object's. `output`: the file of `watch.HEAD`."""
        self._over, self._output = over, output
        self._forget = weakref.finalize(self, os.close, over)
        self.returncode: int | None = None

    def ended_within(self, timeout_s: float | None) -> bool:
        """Wait for an isolated worker so long at most, or for ever."""
        if self.returncode is not None:
            return True
        poller = select.poll()
        poller.register(self._over, select.POLLIN)
        return bool(poller.poll(None if timeout_s is None else max(timeout_s, 0) * 1000))

    def wait(self, timeout_s: float | None = None) -> int:
        """An isolated worker's exit code, or the negative number of its signal. Raises subprocess.TimeoutExpired."""
        if not self.ended_within(timeout_s):
            raise subprocess.TimeoutExpired("a worker", timeout_s or 0.0)
        if self.returncode is None:
            status = status_of(self._output)
            self.returncode = -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
            self._forget()
        return self.returncode

    def kill(self) -> None:
        """Kill an isolated worker at once; what it holds dies with it."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._over, signal.SIGKILL)


class ForkServer:
    """One such process. It ends with this one."""

    def __init__(self, warm: WarmProgram, environment: Mapping[str, str]) -> None:
        """Start it and wait until it has imported what it shall. Raises OSError; TimeoutError where it does not."""
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        words = (str(theirs.fileno()), str(os.getpid()), ",".join(warm.modules), *warm.paths)
        with theirs:
            self._process = subprocess.Popen(
                (sys.executable, *FLAGS, "-c", isolate_program("stem"), *words),
                cwd="/",
                env={"LC_ALL": "C.UTF-8", **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # what fails here fails again, and is told, in workers started alone
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        self._wire.settimeout(IMPORT_S)
        try:
            answer = self._wire.recv(64)
        except OSError:
            self.close()
            raise
        if answer != b"ready":
            self.close()
            raise OSError(f"no copies can be made: {answer.decode(errors='replace') or 'it ended'}")
        self._wire.settimeout(COPY_S)
        self._wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LONGEST)

    def copy(self, plan: Plan) -> ForkedProcess:
        """A forked worker that carries out the plan. Raises OSError."""
        with self._lock:
            try:
                socket.send_fds(self._wire, [packed(plan).encode()], [plan.report, plan.line, plan.output, *plan.keep])
                word, descriptors, _, _ = socket.recv_fds(self._wire, 64, 1)
            except OSError:
                self._wire.close()  # a late answer must reach nobody who asks after this
                raise
        if not descriptors:
            raise OSError("no descriptor is left here" if word else "it ended")
        return ForkedProcess(descriptors[0], plan.output)

    def close(self) -> None:
        """Let the process that forks workers end."""
        self._wire.close()
        self._process.kill()
        self._process.wait()


_fork_servers: dict[tuple[object, ...], ForkServer | None] = {}
_finding = threading.Lock()


def fork_server_of(warm: WarmProgram, environment: Mapping[str, str]) -> ForkServer | None:
    """The one for these modules in this environment, started when it is first asked for; None where there cannot be.

    Copies keep to the cores that it was started on, so a caller that is pinned, as for timing, has one of its own. Which
    card is meant copies alone are told: it is read when a card is first used, and often known only then.
    """
    environment = {name: value for name, value in environment.items() if name not in WHICH_CARD}
    key = (os.getpid(), warm.modules, warm.paths, *sorted(os.sched_getaffinity(0)), *sorted(environment.items()))
    with _finding:
        if key not in _fork_servers:
            began = time.monotonic()
            try:
                _fork_servers[key] = ForkServer(warm, environment)
                logger.info("%s imported once for all workers, in %.1f s", warm.modules, time.monotonic() - began)
            except OSError as error:
                logger.info("workers import %s each for itself: %s", warm.modules, error)
                _fork_servers[key] = None
        return _fork_servers[key]


@atexit.register
def _end_fork_servers() -> None:
    for key, server in _fork_servers.items():
        if server is not None and key[0] == os.getpid():
            server.close()


def adopt_fork_servers() -> None:
    """In a process that was just forked: what the one before it started is this one's to ask. Only one of both may."""
    for key in list(_fork_servers):
        _fork_servers[(os.getpid(), *key[1:])] = _fork_servers.pop(key)


def forget_fork_server(gone: ForkServer) -> None:
    """It answers no more: workers are started each for itself from here on."""
    with _finding:
        for key in [key for key, server in _fork_servers.items() if server is gone]:
            _fork_servers[key] = None
    gone.close()


# How much of the machine one worker may use.

_MIB = 1 << 20
_PER_THREAD_MB = 136
"""Address space that glibc reserves for a thread's heap (two times 64 MiB, one given back) and stack; hardly any of it
is memory. Without it a library that starts a thread for each processor would fail on large machines."""

_CARD_FILES = 1024
"""A card's driver opens one for each stretch of memory that it shares."""


@dataclass(frozen=True, kw_only=True)
class WorkerLimits:
    """Sizes in MiB unless the name says bytes. Above any of them the worker fails; nobody else does."""

    memory_mb: int = 4096
    """Of all its processes together where control groups can be made, and of each one's address space otherwise and
    also (RLIMIT_AS, plus what threads reserve). Not of address space with a card: its driver reserves terabytes."""
    processes: int = 64
    """Processes and threads beyond two for each processor of the machine."""
    file_mb: int = 64
    """Largest file it may write."""
    scratch_mb: int = 1024
    """All that it may write, in a file system in memory; not held where there are no namespaces."""
    output_bytes: int = 64_000
    """Of what it prints, head and tail are kept to this size. It may print more."""
    open_files: int = 256

    @property
    def tasks(self) -> int:
        """Processes and threads of an isolated worker, as the kernel counts them."""
        return self.processes + 2 * (os.cpu_count() or 1)

    def resources(self, *, gpu: bool) -> list[tuple[int, int]]:
        """Resources and their limits as setrlimit(2) has them."""
        limits = [
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, self.file_mb * _MIB),
            (resource.RLIMIT_NOFILE, max(self.open_files, _CARD_FILES) if gpu else self.open_files),
        ]
        if not gpu:
            reserved = _PER_THREAD_MB * (os.cpu_count() or 1)
            limits.append((resource.RLIMIT_AS, (self.memory_mb + reserved) * _MIB))
        return limits


# One start of one worker: the plan, the process that carries it out, and what is heard of it.

IsolationMode = Literal["root", "user", "bubblewrap", "weak"]
_PATIENCE_S = 5.0
"""How long the outer process may take to kill what is inside, which it does in milliseconds."""
_SCRATCH_FILES = 100_000
_LAYER_WORDS = {"memory": "memory of all processes", "pids": "number of all processes"}


@dataclass(frozen=True, kw_only=True)
class StartRequest:
    """What is to run, and what it may see and use."""

    argv: tuple[str, ...]
    readable: tuple[Path, ...]
    private: Path
    limits: WorkerLimits
    gpu: bool
    warm: WarmProgram | None = None
    """What has been imported before, where that can be had; `argv` is what starts the worker otherwise."""
    bare: bool = False
    """Without programs and libraries but its own and the runtime of C."""


class ConfinedProcess:
    """A worker that runs. Its process is the one that holds it from outside; it ends with the worker, and alike."""

    plan: Plan
    """All that it may see and use."""
    missing: tuple[str, ...] = ()
    """Layers of isolation that this start did without."""

    def __init__(self, plan: Plan, *, mark: str | None, stem: ForkServer | None) -> None:
        """Start it. `plan` has no descriptors yet. Raises WorldError when it did not come to run as planned."""
        self.plan, self._mark, self._groups, self._limit = plan, mark, plan.groups, plan.output_bytes
        self._output = plan.output = os.memfd_create("said")
        weakref.finalize(self, os.close, self._output)
        os.lseek(self._output, HEAD, os.SEEK_SET)
        report_end, plan.report = os.pipe()
        plan.line, line = os.pipe()
        self._let_go = weakref.finalize(self, os.close, line)
        try:
            self._outer = _start_alone(plan) if stem is None else stem.copy(plan)
        finally:
            os.close(plan.report)
            os.close(plan.line)
            with os.fdopen(report_end, encoding="utf-8", errors="replace") as report:
                lines = report.read()
        self._check(lines.splitlines())

    @property
    def returncode(self) -> int | None:
        """Its exit code, or the negative number of the signal that ended it; None until somebody has waited for it."""
        return self._outer.returncode

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until an isolated worker has ended: its exit code. Raises subprocess.TimeoutExpired."""
        return self._outer.wait(timeout_s)

    def kill(self) -> None:
        """Kill what holds an isolated worker, and it with that."""
        self._outer.kill()

    def read_output(self) -> str:
        """What it printed, standard output and error together: head and tail, with what is between them counted."""
        count, _ = self._head()
        half = self._limit // 2
        data = os.pread(self._output, 2 * half, HEAD)
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
        """See `ridgeline.sandbox.isolation.workers.end_process`."""
        self._let_go()
        if self.returncode is None and not self._ended_within(_PATIENCE_S):
            self.kill()
        self.wait()
        if self._mark is not None and not isinstance(self._outer, ForkedProcess):
            sweep(self._mark, ancestor=self._outer.pid, forks=None)
        remove_control_groups(self._groups)

    def _check(self, report: list[str]) -> None:
        """Everything up to the start of an isolated worker went as planned, or it is ended and WorldError raised."""
        faults = [line.removeprefix("fault: ") for line in report if line.startswith("fault: ")]
        self.missing += tuple(line.removeprefix("missing: ") for line in report if line.startswith("missing: "))
        if faults or "ready" not in report:
            self.end()
            why = "; ".join(faults) or os.pread(self._output, self._limit, HEAD).decode(errors="replace").strip()
            raise WorldError(
                f"a worker could not be started in isolation: {why or f'its start ended with {self.returncode}'}"
            )

    def _ended_within(self, timeout_s: float) -> bool:
        outer = self._outer
        return outer.ended_within(timeout_s) if isinstance(outer, ForkedProcess) else wait_for_exit(outer, timeout_s)

    def _head(self) -> tuple[int, int]:
        head = os.pread(self._output, HEAD, 0)
        return int.from_bytes(head[:8], "little"), int.from_bytes(head[8:16], "little")


def _start_alone(plan: Plan) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", isolate_program("enter"), packed(plan)),
        cwd="/",
        env={"LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=plan.output,  # a fault of that program itself; what the worker prints takes its place
        start_new_session=True,
        pass_fds=(*plan.keep, plan.report, plan.line, plan.output),
    )


def start_process(
    mode: IsolationMode, start: StartRequest, *, pass_fds: Sequence[int], environment: Mapping[str, str]
) -> ConfinedProcess:
    """Start a worker that way; see `ridgeline.sandbox.isolation.workers.launch`."""
    mark = secrets.token_hex(16) if mode == "weak" else None
    permitted = _withhold_secrets(environment)
    plan = _make_plan(mode, start, {**permitted, **({MARK: mark} if mark else {})})
    plan.keep = sorted(pass_fds)
    counted = mode == "root" or (mode == "user" and os.geteuid() != 0)
    controllers = ("memory",) if counted else ("memory", "pids")
    plan.groups, unbound = make_control_groups(start.limits, controllers)
    lent = put_bubblewrap_before(plan) if mode == "bubblewrap" else ()
    try:
        worker = _start_copy(plan, start.warm, permitted) if start.warm and _can_be_copied(mode) else None
        if worker is None:
            if plan.script:  # a copy was lost, and may have taken its groups with it
                remove_control_groups(plan.groups)
                plan.groups, unbound = make_control_groups(start.limits, controllers)
            worker = ConfinedProcess(plan, mark=mark, stem=None)
    except (OSError, WorldError):
        remove_control_groups(plan.groups)
        raise
    finally:
        for number in lent:
            os.close(number)
    worker.missing += tuple(_LAYER_WORDS[controller] for controller in unbound)
    return worker


def _can_be_copied(mode: IsolationMode) -> bool:
    """Whether isolated workers can be copies of a process: not where they have not a user and processes of their own, nor where that user
    could change the interpreter:
    """
    theirs = Path(sys.executable).stat().st_uid == os.geteuid() or os.access(sys.executable, os.W_OK)
    return mode == "root" or (mode == "user" and not theirs)


def _start_copy(plan: Plan, warm: WarmProgram, environment: Mapping[str, str]) -> ConfinedProcess | None:
    """The worker as a copy of a process that has its modules; None where there is none of which copies can be made."""
    stem = fork_server_of(warm, environment)
    if stem is None:
        return None
    plan.script = [*warm.script]
    try:
        return ConfinedProcess(plan, mark=None, stem=stem)
    except OSError as error:
        logger.warning("a stem of workers was lost (%s); each is started for itself now", error)
        forget_fork_server(stem)
        return None


def _make_plan(mode: IsolationMode, start: StartRequest, environment: Mapping[str, str]) -> Plan:
    """The plan of an isolated worker, without what is made for it. Makes the folders in the worker's own."""
    program, private = Path(start.argv[0]), start.private
    if not (program.is_absolute() and os.access(program, os.X_OK)):
        raise ProgramMissing(str(program), why="is not the whole path of a program")
    check_readable((private,), by_others=False)
    check_readable(start.readable, by_others=mode == "root")
    for name in OWN_FOLDERS:
        (private / name).mkdir(exist_ok=True)
    mounts = list_mounts(program, readable=start.readable, private=private, gpu=start.gpu, bare=start.bare)
    _check_visible(program, mounts)
    environment = {
        name: value for name, value in environment.items() if name not in _COMPILERS or _is_seen(value, mounts)
    }
    return Plan(
        {
            "mode": mode,
            "argv": list(start.argv),
            "script": [],
            "environment": worker_environment(private, program, dict(environment)),
            "folder": str(private),
            "mounts": mounts,
            "scratch_bytes": start.limits.scratch_mb << 20,
            "scratch_files": _SCRATCH_FILES,
            "limits": start.limits.resources(gpu=start.gpu),
            "tasks": start.limits.tasks + (0 if mode in ("root", "user") else _count_user_tasks()),
            "output_bytes": start.limits.output_bytes,
            "judge": os.getpid(),
            "gpu": start.gpu,
        }
    )


_COMPILERS = ("CC", "CXX", "CUDAHOSTCXX")


def _is_seen(command: str, mounts: Mounts) -> bool:
    """Whether a worker sees the compiler that a variable names; if not, it looks for one itself."""
    place = Path(command.split()[0]) if command.split() else Path("/")
    if not place.is_absolute():
        return True
    return any(place.is_relative_to(where) for kind, _, where in mounts if kind == "read")


def _check_visible(program: Path, mounts: Mounts) -> None:
    places = (program, Path(os.path.realpath(program.parent)) / program.name)
    if not any(place.is_relative_to(where) for kind, _, where in mounts if kind == "read" for place in places):
        raise WorldError(
            f"{program}: a worker is to run it and would not see it; name its folder among what it may read"
        )


def _count_user_tasks() -> int:
    """Processes and threads that the kernel counts with the worker's where it has no count of its own."""
    user, tasks = os.geteuid(), 0
    for process in Path("/proc").iterdir():
        with suppress(OSError):  # gone meanwhile
            if process.name.isdigit() and process.stat().st_uid == user:
                tasks += sum(1 for _ in (process / "task").iterdir())
    return tasks


def _withhold_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    for name in environment:
        if SECRET.search(name):
            logger.warning("%s is withheld from a worker: its name says it is a secret", name)
    return {name: value for name, value in environment.items() if not SECRET.search(name)}


_WITHOUT_NAMESPACES = ("mounts of its own", "processes of its own", "a network of its own", "another user")
_TOOLS: dict[IsolationMode, Literal["bubblewrap", "own", "none"]] = {
    "root": "own",
    "user": "own",
    "bubblewrap": "bubblewrap",
    "weak": "none",
}


@dataclass(frozen=True)
class Isolation:
    """How well workers are shut in on this machine."""

    level: Literal["namespaces", "weak"]
    """`weak`: a session that is killed as a whole and folders of its own, and every layer that is not missing."""
    tool: Literal["bubblewrap", "own", "none"]
    missing: tuple[str, ...]
    """Layers that this machine does not have, in words: `seccomp`, `landlock`, `memory of all processes`, ..."""
    why: tuple[str, ...] = ()
    """What became of each better way that was tried, in one line each."""


def machine_isolation() -> Isolation:
    """What `launch` does on this machine, found by doing it once.

    Raises WorldError where not even a weakly isolated process can be started.
    """
    return _find_isolation()[1]


def launch(
    program: Sequence[str] | WarmProgram,
    *,
    readable: Sequence[Path],
    private: Path,
    limits: WorkerLimits,
    pass_fds: Sequence[int],
    gpu: bool,
    environment: Mapping[str, str],
    bare: bool = False,
) -> ConfinedProcess:
    """Start a worker. It runs when this returns, with nothing open but `pass_fds`, which keep their numbers.

    It sees system programs and libraries, the Python installation of argv[0] (a whole path), and `readable` under the
    names given (files, or folders with all that is in them, readable by everybody). `private` is an empty folder for
    it alone, where it starts: under that name it finds its home, caches and temporary files, gone when it ends.
    `environment` is added to a short one that says nothing of the purpose; names of secrets are withheld. With `gpu`
    the cards' files are there too. What it prints is `worker.read_output()`. A `WarmProgram` says what it imports first:
    where the way of isolation allows it, the worker is a copy of a process that has imported that. `bare`: it is this
    interpreter, and sees no programs and no libraries but its own and the runtime of C.

    Raises:
        ProgramMissing: argv[0] is not a whole path of a program.
        WorldError: something that it is to see is not there or not readable, or the isolation did not come about.
    """
    mode, _ = _find_isolation()
    warm = program if isinstance(program, WarmProgram) else None
    argv = program.argv if isinstance(program, WarmProgram) else tuple(program)
    start = StartRequest(
        argv=argv, readable=tuple(readable), private=private, limits=limits, gpu=gpu, warm=warm, bare=bare
    )
    return start_process(mode, start, pass_fds=pass_fds, environment=environment)


def end_process(process: ConfinedProcess | Popen[bytes]) -> None:
    """Kill the worker and everything it started, and collect it. Nothing of it runs when this returns.

    A second time does nothing. What it printed, and why it ended if it had, can still be asked.
    """
    if isinstance(process, ConfinedProcess):
        process.end()
    else:
        process.kill()
        process.wait()


@functools.cache
def _find_isolation() -> tuple[IsolationMode, Isolation]:
    faults: list[str] = []
    for mode in _list_modes():
        try:
            return mode, replace(try_mode(mode), why=tuple(faults))
        except WorldError as error:
            faults.append(f"{mode}: {error}")
    raise WorldError(f"no worker can be started on this machine ({'; '.join(faults)})")


def try_mode(mode: IsolationMode) -> Isolation:
    """What this way comes to on this machine, found by starting one process. Raises WorldError if it fails."""
    program = shutil.which("true", path="/usr/bin:/bin")
    if program is None:
        raise ProgramMissing("true")
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        start = StartRequest(argv=(program,), readable=(), private=Path(folder), limits=WorkerLimits(), gpu=False)
        worker = start_process(mode, start, pass_fds=(), environment={})
        code = worker.wait()
        worker.end()
    if code != 0:
        raise WorldError(f"a process in it ended with {code}: {worker.read_output().strip()}")
    weak = mode == "weak"
    missing = (*(_WITHOUT_NAMESPACES if weak else ()), *worker.missing)
    return Isolation("weak" if weak else "namespaces", _TOOLS[mode], missing)


def _list_modes() -> tuple[IsolationMode, ...]:
    """Ways to isolate a worker, the best first. For root it is our own: bubblewrap would not really change the user."""
    tool: tuple[IsolationMode, ...] = ("bubblewrap",) if shutil.which("bwrap") else ()
    return ("root", *tool, "user", "weak") if os.geteuid() == 0 else (*tool, "user", "weak")


# Control groups: a bound on what all processes of one worker use together.


def make_control_groups(limits: WorkerLimits, controllers: Collection[str]) -> tuple[list[str], list[str]]:
    """New groups beneath that of this process, and which of the wanted controllers (memory, pids) none holds.

    One group for each hierarchy; ask for no more than is needed, as joining one of the old kind takes milliseconds.
    Whoever uses them removes them. Nothing is left behind for controllers that are not to be had.
    """
    name = f"ridgeline-{secrets.token_hex(8)}"
    groups: list[str] = []
    bounding: set[str] = set()
    for parent in dict.fromkeys(_parent_groups(controllers)):
        group = parent / name
        with suppress(OSError):
            group.mkdir()
            if bound := _bounding_controllers(group, limits):
                bounding |= bound
                groups.append(str(group))
            else:
                group.rmdir()
    return groups, [controller for controller in controllers if controller not in bounding]


def remove_control_groups(groups: list[str]) -> None:
    """Remove groups that have no processes any more; those that are gone or in use are left."""
    for group in groups:
        with suppress(OSError):
            Path(group).rmdir()


def _bounding_controllers(group: Path, limits: WorkerLimits) -> set[str]:
    """Which control group controllers hold an isolated worker now."""
    bounding = set()
    size = str(limits.memory_mb << 20)
    for controller, name, value in (
        ("memory", "memory.max", size),
        ("", "memory.swap.max", "0"),
        ("memory", "memory.limit_in_bytes", size),
        ("pids", "pids.max", str(limits.tasks)),
    ):
        if (group / name).exists():
            with suppress(OSError):
                (group / name).write_text(value, encoding="ascii")
                bounding.add(controller)
    return bounding - {""}


def _parent_groups(requested: Collection[str]) -> Iterator[Path]:
    """Folders of this process's own groups, for wanted controllers of the old kind and for the new hierarchy."""
    mine: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        mine.update(dict.fromkeys(controllers.split(","), path))
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        root, where = before.split()[3:5]
        hierarchies = {"": kind == "cgroup2"} | {
            name: kind == "cgroup" and name in options.split(",") for name in requested
        }
        for controller, here in hierarchies.items():
            path = mine.get(controller, "")
            if here and path and (path + "/").startswith(root.rstrip("/") + "/"):
                yield Path(where + path.removeprefix(root.rstrip("/")))
