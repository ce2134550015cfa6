"""Records a GPU program with the best profiler this machine permits, and says why each better one was passed over.

NVIDIA: counters by ncu. AMD: a timing run, counters in small passes, a thread trace of one launch. Where the vendor's
tool sees nothing, torch's own profiler, and else the time that the program itself prints. Nothing here runs under a
lease of its own: the caller holds the card.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.evidence import Exit
from ridgeline.graph.kernel_profile import KernelCalls, Launched, Recording, Vendor
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.profiles.profilers import gpu_commands, torch_rung
from ridgeline.sandbox.profiles.profilers.cpu import printed
from ridgeline.sandbox.profiles.readers import ncu as ncu_reader
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.names import category, display
from ridgeline.sandbox.profiles.readers.own_name import own_name
from ridgeline.sandbox.workspace.commands import said

REPLAYS = 20
"""A counter run repeats every kernel about so often: its time limit is as many times that of the plain program."""
PASSES = 32
"""Runs for counters at most, the retries with smaller sets included."""
COUNTER = re.compile(r"\b[A-Z][A-Z0-9]+_[A-Za-z0-9_]+\b")
SKIP = 5
"""Launches before the profiled ones: the first may load code."""


@dataclass(kw_only=True)
class Session:
    """One program to profile on one card. `out` exists and is empty; times in seconds."""

    program: tuple[str, ...]
    cwd: Path
    out: Path
    env: Mapping[str, str]
    timeout_s: float
    kernel: str | None = None
    """Regular expression for the kernel; None: the one that takes most time."""
    arch: str | None = None
    progress: Callable[[str], None] = lambda _: None
    notes: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    """Files and folders that hold a recording."""
    recordings: list[Recording] = field(default_factory=list)
    """What was recorded without a file."""

    def run(self, argv: tuple[str, ...], *, times: float = 1.0) -> Exit | None:
        """The command's exit; None where its program is not installed, which is noted.

        Profilers talk to the program over sockets of this machine, so it keeps the network.
        """
        environment = {**self.env, "LC_ALL": "C"}
        try:
            return run(argv, cwd=self.cwd, timeout_s=self.timeout_s * times, env=environment, network=True)
        except ProgramMissing as error:
            if argv[0] not in ("ncu", "rocprofv3"):
                raise
            self.notes.append(f"{argv[0]}: {error}")
            return None


def record(session: Session, vendor: Vendor) -> Exit | None:
    """Fill `session.paths`, `session.recordings` and `session.notes`. Raises ProgramMissing for the program itself.

    The program runs alone first. Where it fails, nothing is recorded of it, and its exit is what is returned.
    """
    session.progress("the program alone")
    alone = session.run(session.program)
    if alone is not None and not alone.ok:
        return alone
    instruments(session, vendor)
    if not session.paths:
        _printed(session, vendor, alone.output if alone is not None else "")
    return None


def instruments(session: Session, vendor: Vendor) -> None:
    """The same without the program's own time: where nothing sees the card, there are only notes that say why."""
    if vendor == "nvidia":
        _nvidia(session)
    else:
        _amd(session)
    if not session.paths:
        _torch(session)


def _nvidia(session: Session) -> None:
    """Three tries: all metrics after a warm-up, from the first launch, and without the metrics some chips lack."""
    for number, (skip, extra) in enumerate(((SKIP if session.kernel else 0, True), (0, True), (0, False)), start=1):
        out = session.out / f"ncu_{number}.csv"
        session.progress(f"ncu: counters, try {number}")
        ended = session.run(
            gpu_commands.ncu(session.program, out, kernel=session.kernel, skip=skip, extra=extra), times=REPLAYS
        )
        if ended is None:
            return
        problem = _unreadable(out)
        if problem is None:
            session.paths.append(out)
            return
        session.notes.append(f"{problem}{'' if ended.ok else f' ({said(ended)})'}")
        if isinstance(problem, ncu_reader.CountersForbidden):
            return


def _unreadable(out: Path) -> RecordingError | None:
    if not out.is_file():
        return RecordingError(out, "ncu wrote no log")
    try:
        ncu_reader.read(out)
    except RecordingError as error:
        return error
    return None


def _amd(session: Session) -> None:
    from ridgeline.sandbox.profiles.readers.detect import read

    folder = _folder(session, "timing")
    session.progress("rocprofv3: times")
    ended = session.run(gpu_commands.timing(session.program, folder), times=2)
    if ended is None:
        return
    try:
        timed = read(folder)
    except RecordingError as error:
        session.notes.append(f"{error}{'' if ended.ok else f' ({said(ended)})'}")
        return
    session.paths.append(folder)
    target = _target(session, timed)
    if target is None:
        session.notes.append("no kernel of the timing run is the one to count and to trace")
        return
    pattern = f".*{re.escape(own_name(target.name))}.*" if session.kernel is None else session.kernel
    arch = session.arch or next((one.arch for one in timed if one.arch), None)
    _count(session, arch, pattern)
    _trace(session, pattern, call=max(1, target.calls // 2 + 1 if target.calls > 1 else 1))


def _target(session: Session, timed: tuple[Recording, ...]) -> KernelCalls | None:
    kernels = [kernel for one in timed for kernel in one.kernels]
    if session.kernel is not None:
        wanted = re.compile(session.kernel)
        return next((kernel for kernel in kernels if wanted.search(kernel.name)), None)
    return next((kernel for kernel in kernels if kernel.category == "compute"), None)


def _count(session: Session, arch: str | None, kernel: str) -> None:
    """Small passes; one that fails is tried again as two halves, until single counters are left out by name."""
    passes, dropped = gpu_commands.plan(arch, _known(session))
    lost = list(dropped)
    waiting = list(passes)
    for number in range(1, PASSES + 1):
        if not waiting:
            break
        counters = waiting.pop(0)
        folder = _folder(session, f"pmc_{number}")
        session.progress(f"rocprofv3: {len(counters)} counters, pass {number}, {len(waiting)} to go")
        argv = gpu_commands.counting(session.program, folder, counters=counters, kernel=kernel)
        session.run(argv, times=REPLAYS)
        if any(file.stat().st_size for file in folder.rglob("*counter_collection.csv")):
            session.paths.append(folder)
        elif smaller := gpu_commands.halves(counters):
            waiting = [*smaller, *waiting]
        else:
            lost += counters
    lost += [name for counters in waiting for name in counters]
    if lost:
        session.notes.append(f"counters left out, unknown or refused here: {', '.join(lost)}")


def _known(session: Session) -> frozenset[str] | None:
    ended = session.run(("rocprofv3", "-L"))
    if ended is None or not ended.ok:
        return None
    names = frozenset(COUNTER.findall(ended.output))
    return names if "SQ_WAVES" in names else None


def _trace(session: Session, kernel: str, *, call: int) -> None:
    folder = _folder(session, "att")
    session.progress(f"rocprofv3: thread trace of launch {call}")
    ended = session.run(gpu_commands.tracing(session.program, folder, kernel=kernel, call=call), times=REPLAYS)
    if any(folder.rglob("code.json")):
        session.paths.append(folder)
    elif ended is not None:
        session.notes.append(f"no thread trace: {said(ended)}")


def _torch(session: Session) -> None:
    if not torch_rung.is_python(session.program, session.cwd):
        session.notes.append("torch profiler: the program is none of Python's")
        return
    folder = _folder(session, "torch")
    session.progress("torch profiler: launches and their times")
    ended = session.run(torch_rung.recorded_by(session.program, folder, session.env), times=torch_rung.SLOWER)
    found, why = torch_rung.traces(folder)
    session.paths += found
    session.notes += why
    if ended is not None and not ended.ok:
        session.notes.append(f"torch profiler: {said(ended)}")


def _printed(session: Session, vendor: Vendor, output: str) -> None:
    """The last rung that measures: the program's own `kernel_time_us=` and `calls=`."""
    told = dict(printed(output))
    if "kernel_time_us" not in told:
        session.notes.append("no time of the program itself: it printed no kernel_time_us=<microseconds>")
        return
    name = session.kernel or "(kernel name not recorded)"
    calls, mean = int(told.get("calls", 1)), told["kernel_time_us"] * 1e3
    session.recordings.append(
        Recording(
            format="printed",
            tool="program",
            vendor=vendor,
            grade="events",
            kernels=(
                KernelCalls(
                    name=name,
                    display=display(name),
                    category=category(name),
                    calls=calls,
                    total_ns=mean * calls,
                    mean_ns=mean,
                    last=Launched(calls=calls),
                ),
            ),
            rows=1,
            warnings=("a time alone: `ridgeline isa` shows registers, spills and occupancy without counters",),
        )
    )


def _folder(session: Session, name: str) -> Path:
    folder = session.out / name
    folder.mkdir()
    return folder
