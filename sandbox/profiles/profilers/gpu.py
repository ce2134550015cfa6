"""Records a GPU program with the best profiler this machine permits, and says why each better one was passed over.

NVIDIA: counters by ncu, and where the driver refuses them each launch by nsys. AMD: a timing run, counters in small
passes, a thread trace of one launch. Where the vendor's tools see nothing, torch's own profiler, and else the time that
the program itself prints. Nothing here runs under a lease of its own: the caller holds the card.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath
from typing import Literal

from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.evidence import Exit
from ridgeline.graph.kernel_profile import KernelCalls, LaunchShape, Recording, Vendor
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.profiles.profilers.cpu import parse_printed
from ridgeline.sandbox.profiles.readers import ncu as ncu_reader
from ridgeline.sandbox.profiles.readers import nsys, torch_trace
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.profiles.readers.names import category, display, own_name
from ridgeline.sandbox.workspace.commands import itself, summarize_exit

TOOLS = ("ncu", "nsys", "rocprofv3")
"""Profilers that are tried; one that is not installed is noted."""
REPLAYS = 20
"""A counter run repeats every kernel about so often: its time limit is as many times that of the plain program."""
PASSES = 32
"""Runs for counters at most, the retries with smaller sets included."""
COUNTER = re.compile(r"\b[A-Z][A-Z0-9]+_[A-Za-z0-9_]+\b")
Only = Literal["asm", "att", "pmc"]
"""Assembly of the compiler, a thread trace, counters: the documents' names."""
ASSEMBLY = frozenset({".amdgcn", ".s", ".ptx", ".sass", ".isa"})
SKIP = 5
"""Launches before the profiled ones: the first may load code."""
FROM_THE_FIRST = ((0, True), (0, False))
"""Tries of ncu after that with a warm-up: launches before the profiled ones, and whether all metrics are asked for."""


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
    others: tuple[str, ...] = ()
    """Names of the other kernels of the program's sources: looked for where no launch is of `kernel`."""
    arch: str | None = None
    only: Only | None = None
    """The one kind of evidence that is wanted; the kernel is always found by a timing run. None: all."""
    progress: Callable[[str], None] = lambda _: None
    notes: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    """Files and folders that hold a recording."""
    recordings: list[Recording] = field(default_factory=list)
    """What was recorded without a file."""

    def run(self, argv: tuple[str, ...], *, times: float = 1.0) -> Exit | None:
        """Run a profiler: the command's exit; None where its program is not installed, which is noted.

        Profilers talk to the program over sockets of this machine, so it keeps the network.
        """
        environment = {**self.env, "LC_ALL": "C"}
        try:
            return run(argv, cwd=self.cwd, timeout_s=self.timeout_s * times, env=environment, network=True)
        except ProgramMissing as error:
            if argv[0] not in TOOLS:
                raise
            self.notes.append(f"{argv[0]}: {error}")
            return None

    def take_others(self) -> bool:
        """Look for the sources' other kernels from now on in place of one that the program never launches; whether there are any."""
        if not self.others:
            return False
        names = ", ".join(self.others)
        self.notes.append(f"the program launches no {self.kernel}: looked for the sources' other kernels, {names}")
        self.kernel, self.others = match_any(self.others), ()
        return True


def match_any(names: Sequence[str]) -> str:
    """Regular expression of a GPU profiler for kernels with one of these names."""
    return f"(?:{'|'.join(names)})"


def record(session: Session, vendor: Vendor) -> Exit | None:
    """Run the best GPU profiler: fill `session.paths`, `.recordings` and `.notes`. Raises ProgramMissing for the program itself.

    The program runs alone first. Where it fails, nothing is recorded of it, and its exit is what is returned.
    """
    session.progress("the program alone")
    alone = session.run(session.program)
    if alone is not None and not alone.ok:
        return alone
    if session.only == "asm":
        return None
    instruments(session, vendor)
    if not session.paths:
        _keep_output(session, vendor, alone.output if alone is not None else "")
    return None


def dump_assembly(session: Session) -> tuple[Path, ...]:
    """For a GPU profile: run the program once with its compiler's caches in `out`, and name the assembly it left there.

    Triton writes into TRITON_CACHE_DIR, FlyDSL where FLYDSL_DUMP_DIR says; nobody's own cache is touched.
    """
    folder = _folder(session, "asm")
    caches = {"TRITON_CACHE_DIR": str(folder), "FLYDSL_DUMP_IR": "1", "FLYDSL_DUMP_DIR": str(folder)}
    own = replace(session, env={**session.env, **caches})
    session.progress("the program, its assembly kept")
    own.run(session.program)
    return tuple(sorted(path for path in folder.rglob("*") if path.suffix in ASSEMBLY))


def instruments(session: Session, vendor: Vendor) -> None:
    """Profile without the program's own time: where nothing sees the card, there are only notes that say why."""
    if vendor == "nvidia":
        _nvidia(session)
        if not session.paths and session.only is None:
            _nsys(session)
    else:
        _amd(session)
    if not session.paths:
        _torch(session)


def _nvidia(session: Session) -> None:
    """A GPU profiler's three tries of ncu: all metrics after a warm-up, from the first launch, and without those some chips lack.

    Where the program launches no kernel of the name that was asked for, the same three with the names of the sources' other kernels.
    """
    tries = [(SKIP if session.kernel else 0, True), *FROM_THE_FIRST]
    number = 0
    missed: list[str] = []
    while tries:
        skip, extra = tries.pop(0)
        number += 1
        out = session.out / f"ncu_{number}.csv"
        session.progress(f"ncu: counters, try {number}")
        process = session.run(ncu(session.program, out, kernel=session.kernel, skip=skip, extra=extra), times=REPLAYS)
        if process is None:
            return
        problem = _unreadable(out)
        if problem is None:
            session.paths.append(out)
            break
        missed.append(f"{problem}{'' if process.ok else f' ({summarize_exit(process)})'}")
        if isinstance(problem, ncu_reader.CountersForbidden):
            break
        if isinstance(problem, ncu_reader.NoLaunch) and skip == 0 and session.take_others():
            tries, missed = [(SKIP, True), *FROM_THE_FIRST], []
    session.notes += missed


def _nsys(session: Session) -> None:
    """A GPU profiler's run of nsys: every launch with time, registers and shared memory: needs no permission to read counters."""
    folder = _folder(session, "nsys")
    report, database = folder / "run.nsys-rep", folder / "run.sqlite"
    session.progress("nsys: launches and their times")
    process = session.run(launches(session.program, report), times=SLOWER)
    if process is None:
        return
    exported = session.run(export(report, database)) if report.is_file() else None
    try:
        if exported is None or not exported.ok or not database.is_file():
            what = summarize_exit(exported if exported is not None else process)
            raise RecordingError(report, f"nsys wrote nothing that can be read: {what}")
        nsys.read_recordings(database)
    except RecordingError as error:
        session.notes.append(str(error).removeprefix(f"{folder}/"))
        return
    session.paths.append(database)


def _unreadable(out: Path) -> RecordingError | None:
    if not out.is_file():
        return RecordingError(out, "ncu wrote no log")
    try:
        ncu_reader.read_recording(out)
    except RecordingError as error:
        return error
    return None


def _amd(session: Session) -> None:
    from ridgeline.sandbox.profiles.readers.detect import read_recordings

    folder = _folder(session, "timing")
    session.progress("rocprofv3: times")
    process = session.run(timing(session.program, folder), times=2)
    if process is None:
        return
    try:
        timed = read_recordings(folder)
    except RecordingError as error:
        session.notes.append(f"{error}{'' if process.ok else f' ({summarize_exit(process)})'}")
        return
    session.paths.append(folder)
    target = _target(session, timed)
    if target is None:
        session.notes.append("no kernel of the timing run is the one to count and to trace")
        return
    pattern = f".*{re.escape(own_name(target.name))}.*" if session.kernel is None else session.kernel
    arch = session.arch or next((recording.arch for recording in timed if recording.arch), None)
    if session.only != "att":
        _count(session, arch, pattern)
    if session.only != "pmc":
        _trace(session, pattern, call=max(1, target.calls // 2 + 1 if target.calls > 1 else 1))


def _target(session: Session, timed: tuple[Recording, ...]) -> KernelCalls | None:
    kernels = [kernel for recording in timed for kernel in recording.kernels]
    if session.kernel is not None:
        pattern = re.compile(session.kernel)
        found = next((kernel for kernel in kernels if pattern.search(kernel.name)), None)
        return _target(session, timed) if found is None and session.take_others() else found
    return next((kernel for kernel in kernels if kernel.category == "compute"), None)


def _count(session: Session, arch: str | None, kernel: str) -> None:
    """GPU counters by small passes of the profiler; a failed one is tried again as two halves, until single ones are left out by name."""
    passes, dropped = plan(arch, _known_counters(session))
    left_out = list(dropped)
    waiting = list(passes)
    for number in range(1, PASSES + 1):
        if not waiting:
            break
        counters = waiting.pop(0)
        folder = _folder(session, f"pmc_{number}")
        session.progress(f"rocprofv3: {len(counters)} counters, pass {number}, {len(waiting)} to go")
        argv = counting(session.program, folder, counters=counters, kernel=kernel)
        session.run(argv, times=REPLAYS)
        if any(file.stat().st_size for file in folder.rglob("*counter_collection.csv")):
            session.paths.append(folder)
        elif smaller := halves(counters):
            waiting = [*smaller, *waiting]
        else:
            left_out += counters
    left_out += [name for counters in waiting for name in counters]
    if left_out:
        session.notes.append(f"counters left out, unknown or refused here: {', '.join(left_out)}")


def _known_counters(session: Session) -> frozenset[str] | None:
    process = session.run(("rocprofv3", "-L"))
    if process is None or not process.ok:
        return None
    names = frozenset(COUNTER.findall(process.output))
    return names if "SQ_WAVES" in names else None


def _trace(session: Session, kernel: str, *, call: int) -> None:
    folder = _folder(session, "att")
    session.progress(f"rocprofv3: thread trace of launch {call}")
    process = session.run(tracing(session.program, folder, kernel=kernel, call=call), times=REPLAYS)
    if any(folder.rglob("code.json")):
        session.paths.append(folder)
    elif process is not None:
        session.notes.append(f"no thread trace: {summarize_exit(process)}")


def _torch(session: Session) -> None:
    if not is_python(session.program, session.cwd):
        session.notes.append("torch profiler: the program is none of Python's")
        return
    folder = _folder(session, "torch")
    session.progress("torch profiler: launches and their times")
    process = session.run(recorded_by(session.program, folder, session.env), times=SLOWER)
    paths, why = traces(folder)
    session.paths += paths
    session.notes += why
    if process is not None and not process.ok:
        session.notes.append(f"torch profiler: {summarize_exit(process)}")


def _keep_output(session: Session, vendor: Vendor, output: str) -> None:
    """The last profiling rung that measures: the program's own `kernel_time_us=` and `calls=`."""
    printed = dict(parse_printed(output))
    if "kernel_time_us" not in printed:
        session.notes.append("no time of the program itself: it printed no kernel_time_us=<microseconds>")
        return
    name = session.kernel or "(kernel name not recorded)"
    calls, mean = int(printed.get("calls", 1)), printed["kernel_time_us"] * 1e3
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
                    last=LaunchShape(calls=calls),
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


# Command lines of the GPU profilers, and how a list of counters is cut into passes; pure.
#
# Sources: `ncu --help` of Nsight Compute 2025.3; `rocprofv3 --help` of ROCm 6.4 to 7.2; slots per hardware block from
# `counter_defs.yaml` of rocprofiler-sdk.

SECTIONS = (
    "SpeedOfLight", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "Occupancy", "LaunchStats", "SchedulerStats",
    "WarpStateStats",
)  # fmt: skip
EXTRA_METRICS = (
    "dram__bytes_read.sum", "dram__bytes_write.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum",
)  # fmt: skip
"""What the sections leave out; left out in turn where this ncu or this chip does not know them."""
UNFILTERED_LAUNCHES = 60
"""Without a kernel's name the first launches are setup: as many are taken as a small program has."""

SLOTS = {"SQ": 8, "GRBM": 2, "TCC": 4, "TCP": 4, "TA": 2, "TD": 2, "CPC": 2, "CPF": 2, "SPI": 6}
"""Counters of one hardware block that fit a pass, gfx942 and gfx950 alike."""
COMMON = (
    "GRBM_GUI_ACTIVE SQ_WAVES SQ_WAVE_CYCLES SQ_BUSY_CU_CYCLES SQ_WAIT_ANY SQ_WAIT_INST_ANY SQ_ACTIVE_INST_ANY "
    "SQ_ACTIVE_INST_VALU SQ_VALU_MFMA_BUSY_CYCLES",
    "GRBM_GUI_ACTIVE SQ_INSTS_VALU_MFMA_MOPS_F16 SQ_INSTS_VALU_MFMA_MOPS_BF16 SQ_INSTS_VALU_MFMA_MOPS_F8 "
    "SQ_INSTS_VALU_MFMA_MOPS_F32 SQ_INSTS_VALU_MFMA_MOPS_F64 SQ_INSTS_VALU_MFMA_MOPS_I8 SQ_INSTS_VALU",
    "GRBM_GUI_ACTIVE SQ_LDS_BANK_CONFLICT SQ_LDS_IDX_ACTIVE SQ_INSTS_LDS SQ_INSTS_VMEM_RD SQ_INSTS_VMEM_WR "
    "SQ_WAIT_INST_LDS",
)
TRAFFIC = {
    "gfx90a": (
        "TCC_HIT_sum TCC_MISS_sum TCC_EA_RDREQ_sum TCC_EA_RDREQ_32B_sum",
        "TCC_EA_WRREQ_sum TCC_EA_WRREQ_64B_sum",
    ),
    "gfx942": (
        "TCC_HIT_sum TCC_MISS_sum TCC_EA0_RDREQ_sum TCC_EA0_RDREQ_32B_sum",
        "TCC_BUBBLE_sum TCC_EA0_RDREQ_DRAM_sum TCC_EA0_WRREQ_sum TCC_EA0_WRREQ_64B_sum",
    ),
    "gfx950": (
        "TCC_HIT_sum TCC_MISS_sum TCC_EA0_RDREQ_sum TCC_EA0_RDREQ_32B_sum",
        "TCC_EA0_RDREQ_128B_sum TCC_EA0_RDREQ_64B_sum TCC_EA0_WRREQ_sum TCC_EA0_WRREQ_64B_sum",
    ),
}
ATT_BUFFER = "0x18000000"


def ncu(program: Sequence[str], out: Path, *, kernel: str | None, skip: int, extra: bool) -> tuple[str, ...]:
    """One run of the profiler ncu on `program` that writes the raw page to `out`; `kernel` is a regex for the function's own name.

    Three launches are counted of each name that it has beside others.
    """
    chosen = ("--kernel-name", f"regex:{kernel}") if kernel is not None else ()
    count = 3 * (kernel.count("|") + 1) if kernel is not None else UNFILTERED_LAUNCHES
    sections = tuple(word for section in SECTIONS for word in ("--section", section))
    metrics = ("--metrics", ",".join(EXTRA_METRICS)) if extra else ()
    return (
        "ncu", "--csv", "--page", "raw", "--print-units", "base",
        "--log-file", str(out), "--target-processes", "all", *chosen,
        "--launch-skip", str(skip), "--launch-count", str(count),
        "--clock-control", "none", "--cache-control", "all", *sections, *metrics, *program,
    )  # fmt: skip


def launches(program: Sequence[str], out: Path) -> tuple[str, ...]:
    """The nsys command that profiles CUDA alone: samples of the processor would only slow it."""
    return (
        "nsys", "profile", "--trace", "cuda", "--sample", "none", "--cpuctxsw", "none", "--force-overwrite", "true",
        "--output", str(out), *program,
    )  # fmt: skip


def export(report: Path, out: Path) -> tuple[str, ...]:
    """The nsys command that makes a profiler's report a database, as it is read here."""
    return ("nsys", "export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(out), str(report))


def timing(program: Sequence[str], out: Path) -> tuple[str, ...]:
    """The only rocprofv3 run of a profile whose times may decide anything: no counters, no trace."""
    return (
        "rocprofv3",
        "--kernel-trace",
        "--stats",
        "--output-format",
        "csv",
        "-d",
        str(out),
        "-o",
        "run",
        "--",
        *program,
    )


def counting(program: Sequence[str], out: Path, *, counters: Sequence[str], kernel: str) -> tuple[str, ...]:
    """A rocprofv3 profiler's pass of counters over the launches of `kernel`, a regex."""
    return (
        "rocprofv3", "--pmc", *counters, "--kernel-include-regex", kernel,
        "--output-format", "csv", "-d", str(out), "-o", "pass", "--", *program,
    )  # fmt: skip


def tracing(program: Sequence[str], out: Path, *, kernel: str, call: int) -> tuple[str, ...]:
    """A rocprofv3 profiler's thread trace of the `call`-th launch of `kernel` (from 1), a regex."""
    return (
        "rocprofv3", "--att", "--att-target-cu", "1", "--att-shader-engine-mask", "0xf", "--att-simd-select", "0xf",
        "--att-buffer-size", ATT_BUFFER, "--kernel-include-regex", kernel,
        "--kernel-iteration-range", f"[{call}-{call}]", "--output-format", "json", "csv", "-d", str(out),
        "--", *program,
    )  # fmt: skip


def plan(
    arch: str | None, available: frozenset[str] | None = None
) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """A profiler's passes for an architecture, and the counters left out because the installed tool does not list them.

    `available`: what the tool lists; None where it could not be asked, and nothing is left out.
    """
    lines = (*COMMON, *TRAFFIC.get(arch or "", TRAFFIC["gfx942"]))
    rows = [line.split() for line in lines]
    dropped = tuple(
        sorted({name for names in rows for name in names if available is not None and name not in available})
    )
    passes = [[name for name in names if name not in dropped] for names in rows]
    return tuple(piece for names in passes if names for piece in fitting(names)), dropped


def fitting(counters: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Counters of a profiler's pass cut so that no piece asks more of a hardware block than it has slots, in the given order."""
    pieces: list[list[str]] = [[]]
    used: Counter[str] = Counter()
    for name in counters:
        block = name.partition("_")[0]
        if used[block] >= SLOTS.get(block, 2):
            pieces.append([])
            used.clear()
        used[block] += 1
        pieces[-1].append(name)
    return tuple(tuple(piece) for piece in pieces if piece)


def halves(counters: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """A profiler's pass that the hardware refused, as two smaller ones; nothing where it was a single counter."""
    if len(counters) < 2:
        return ()
    middle = len(counters) // 2
    return (tuple(counters[:middle]), tuple(counters[middle:]))


# The rung below hardware counters: a Python program once more, recorded by the torch.profiler of its own torch.

START = "torch_start"
"""The folder of harness/ whose start-up module records; that module says what it writes."""
FOLDER = "RIDGELINE_TORCH_TRACE"
PATH = "PYTHONPATH"
SHEBANG = 200
"""Bytes in which a script names its interpreter."""
SLOWER = 3
"""Of the plain program's time limit: writing a long trace takes longer than recording it."""


def is_python(program: Sequence[str], cwd: Path) -> bool:
    """Whether the program to profile is Python: by the interpreter's name, a script's ending, or a script's first line."""
    executable = program[0]
    names = (PurePosixPath(word).name for word in program[:3])  # `env python3 x.py` and `timeout 5 python3 x.py`
    if any(name.startswith("python") or name.endswith(".py") for name in names) or itself(tuple(program)) != program:
        return True
    script = cwd / executable
    if "/" not in executable or not script.is_file():
        return False
    with script.open("rb") as stream:
        line = stream.read(SHEBANG).split(b"\n", 1)[0]
    return line.startswith(b"#!") and b"python" in line


def recorded_by(program: Sequence[str], out: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """The command to profile with our start-up module before the program's own modules; traces go to `out`."""
    with as_file(files("ridgeline.sandbox") / "harness" / START) as start:
        path = ":".join((str(start), *filter(None, (env.get(PATH),))))
    return ("env", f"{FOLDER}={out}", f"{PATH}={path}", *itself(tuple(program)))


def traces(out: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """For a profile: torch's profiler traces with work of a GPU, and why there are none or why one was left out."""
    readable, why = [], []
    for path in sorted(out.glob("trace-*.json")):
        try:
            torch_trace.read_recordings(path)
        except RecordingError as error:
            why.append(str(error).removeprefix(f"{out}/"))
        else:
            readable.append(path)
    why += [path.read_text(encoding="utf-8").strip() for path in sorted(out.glob("why-*.txt"))]
    if not readable and not why:
        why.append("nothing in it imported torch, or it ended without Python's exit handlers")
    return tuple(readable), tuple(f"torch profiler: {text}" for text in dict.fromkeys(why))
