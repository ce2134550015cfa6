"""Profiles a version on a GPU: counters, a trace, the program's own time, torch's profiler, the compiler's report.

Every number says on which rung it stands, and notes say why better rungs were passed over. Nothing of it is a time that
decides acceptance, but the times of undisturbed launches: what was timed while counters were read is not told.
"""

import ast
import contextlib
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.evidence import Exit, Machine, Origin, Profiled
from ridgeline.graph.kernel_profile import KernelProfile, ProfileNumber, Recording, Rung, Vendor
from ridgeline.graph.ports import Artifacts, Device
from ridgeline.graph.values import Artifact, Named, Value
from ridgeline.sandbox.isolation.directory_pool import fresh_folder, list_files
from ridgeline.sandbox.isolation.environment import select_variables
from ridgeline.sandbox.isolation.rooms import CACHES
from ridgeline.sandbox.profiles.isa import tools
from ridgeline.sandbox.profiles.isa.report import TIMEOUT_S, inspect
from ridgeline.sandbox.profiles.isa.tools import is_compiled
from ridgeline.sandbox.profiles.isa.triton import FILE_NAME, CompileRequest, is_jit, read_request
from ridgeline.sandbox.profiles.isa.values import (
    CompilerMissing,
    Kind,
    NotCompiled,
    Report,
    Shape,
    Target,
    UnknownTarget,
    target_of,
)
from ridgeline.sandbox.profiles.profilers.cpu import parse_printed
from ridgeline.sandbox.profiles.profilers.gpu import TOOLS, Session, instruments, match_any
from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import Member, RecordingError, pack
from ridgeline.sandbox.profiles.readers.names import own_name
from ridgeline.sandbox.profiles.readers.profiles import profile as merged
from ridgeline.sandbox.workspace.builder import BuildBroken, ContractBuilder
from ridgeline.sandbox.workspace.commands import Commands, fill, summarize_exit
from ridgeline.sandbox.workspace.globs import matches

# A version's profile command under GPU profilers: bounded in time together, its evaluation files kept as committed.


class FileTampering(Exception):
    """A run changed files that no run may change; `paths` are they."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        super().__init__(f"files that no run may change were changed by the profile command: {', '.join(paths)}")


@dataclass(kw_only=True)
class GuardedSession(Session):
    """A session whose runs are the contract's own commands. `budget_s`: seconds of all of them together."""

    commands: Commands
    commit: str
    budget_s: float
    spent_s: float = 0.0
    compiled: Mapping[str, str] = field(default_factory=dict)
    """Variables that say where the version's runs leave what they compile, and find what others of its runs had."""

    def run(self, argv: tuple[str, ...], *, times: float = 1.0) -> Exit | None:
        """Run a profiler as `Session.run`; one that the budget has no time for did not end in time. Raises `FileTampering`."""
        left = self.budget_s - self.spent_s
        if left <= 0:
            self._note(f"the {self.budget_s:g} s for profiling one version (timeouts.profile_s) were used up")
            return Exit(argv=argv, returncode=None, timed_out=True, seconds=0.0, output="not started: no time is left")
        tool = argv[0] in TOOLS
        try:
            ran = self.commands.run_guarded(
                "" if tool else "profile.command",
                argv,
                commits=(self.commit,),
                cwd=self.cwd,
                timeout_s=min(self.timeout_s * times, left),
                profiler=True,
                extra=self.compiled,
            )
        except ProgramMissing:
            if not tool:
                raise
            self._note(f"{argv[0]} is not installed")
            return None
        self.spent_s += ran.exit.seconds
        if ran.tampered:
            raise FileTampering(ran.tampered)
        return ran.exit

    def own_times(self) -> dict[str, float] | None:
        """For a profile: `kernel_time_us` and `calls` as the program prints them unwatched; None when it failed."""
        process = self.run(self.program)
        if process is None or not process.ok:
            self._note(
                f"the profile command failed: {summarize_exit(process)}"
                if process
                else "the profile command did not run"
            )
            return None
        return dict(parse_printed(process.output))

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


# The compiler's rung: registers, spills and waves of a version's kernel, compiled ahead of time for this card.

FILES = 4
"""Kernel files that are tried; the first that gives code is the one."""
LAUNCHED = (".py", *tools.CUDA_SUFFIXES, *tools.HIP_SUFFIXES)


class CompilerFindings(Value):
    """A report, or why there is none."""

    report: Report | None = None
    why: tuple[str, ...] = ()
    seconds: float = 0.0


def look(contract: Contract, tree: Path, machine: Machine) -> CompilerFindings:
    """What the code of the profiled kernel says, from the first of the contract's kernel files that compiles here.

    A Triton kernel is compiled as the `isa.toml` beside its file says that it is launched.
    """
    began = time.monotonic()
    try:
        target = target_of(machine.arch)
    except UnknownTarget as error:
        return CompilerFindings(why=(f"compiler report: {error}",))
    why: list[str] = []
    for path in _files(contract, tree)[:FILES]:
        outcome = _inspect(path, contract, tree, target)
        if isinstance(outcome, Report):
            return CompilerFindings(report=outcome, seconds=time.monotonic() - began)
        why.append(f"compiler report: {path.name}: {outcome}")
    nothing = "compiler report: none of the kernel's files is Triton, CUDA, HIP or compiled code"
    return CompilerFindings(why=tuple(why) or (nothing,), seconds=time.monotonic() - began)


def _files(contract: Contract, tree: Path) -> list[Path]:
    candidates = (path for path in list_files(tree) if path.suffix in LAUNCHED or is_compiled(path))
    return [
        path
        for path in candidates
        if path.is_file() and matches(path.relative_to(tree).as_posix(), contract.kernel_source)
    ]


def _read_sources(contract: Contract, tree: Path) -> dict[str, str]:
    """The profiled kernel's own files, by name."""
    return {
        path.name: path.read_text(encoding="utf-8", errors="replace")
        for path in list_files(tree)
        if path.is_file() and matches(path.relative_to(tree).as_posix(), contract.kernel_source)
    }


COMPILED_KERNEL = re.compile(
    r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?:[\w:<>*&]+\s+)+?(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\("
)
"""A kernel's name in CUDA and HIP."""


def choose_kernels(kernel: str | None, sources: Mapping[str, str]) -> tuple[str | None, str, tuple[str, ...]]:
    """A regex for what profilers look at, the names of kernels that stand in for one that is gone, and names for a second look.

    A candidate may rename or split the kernel that the contract names. Then what its sources define is looked at too; a
    name that is of no source at all, as of a library's, is looked for as it is. It may also keep that kernel for other
    sizes than the profiled one: the last is for the sources' other kernels, for where that one is not launched.
    """
    if kernel is None:
        return None, "", ()
    pattern = re.escape(kernel)
    names = sorted({name for file, text in sources.items() for name in _list_kernels(file, text)} - {kernel})
    if any(re.search(rf"\b{pattern}\b", text) for text in sources.values()):
        return pattern, "", tuple(names)
    return (match_any([pattern, *names]), ", ".join(names), ()) if names else (pattern, "", ())


def _list_kernels(file: str, text: str) -> Iterator[str]:
    """For a profile: kernels that a source defines: what `jit` decorates in Python, else what is `__global__`."""
    if not file.endswith(".py"):
        yield from COMPILED_KERNEL.findall(text)
        return
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and any(is_jit(decorator) for decorator in node.decorator_list):
                yield node.name


def _inspect(path: Path, contract: Contract, tree: Path, target: Target) -> Report | str:
    """One profiled file's report of code, or why it gives none. Of a kernel that a candidate renamed or split, the first that compiles.

    Of one that the profiled call does not launch, a kernel that it launches: one whose name has that one's in it, or the first.
    """
    kernel = contract.profile.kernel if contract.profile else None
    try:
        request = _ask_compiler(path, kernel)
    except (NotCompiled, CompilerMissing, ProgramMissing) as error:
        return str(error)
    if request is None:
        return f"no {FILE_NAME} beside it says how its kernel is launched"
    text = path.read_text(encoding="utf-8", errors="replace") if path.suffix == ".py" else ""
    names: list[str | None] = [request.kernel]
    if (
        text
        and request.call is not None
        and request.kernel
        and not re.search(rf"\b{re.escape(request.kernel)}\b", text)
    ):
        names = [*_list_kernels(path.name, text)] or names
    why = ""
    for name in names:  # grows while it is read
        try:
            asked = request.model_copy(update={"kernel": name})
            answer = inspect(asked, (target,), python=_python(contract, tree), timeout_s=TIMEOUT_S)
            return answer.inspections[0].report
        except (NotCompiled, CompilerMissing, ProgramMissing) as error:
            why = why or str(error)
            launched = error.launched if isinstance(error, NotCompiled) else ()
            alike = [other for other in launched if name and name in other]
            names += [other for other in dict.fromkeys((*alike, *launched)) if other not in names]
    return why


def _ask_compiler(path: Path, kernel: str | None) -> CompileRequest | None:
    if path.suffix != ".py" or tools.is_flydsl(path):
        return CompileRequest(file=path, kernel=kernel)
    return read_request(path, kernel) or read_request(path, None)


def _python(contract: Contract, tree: Path) -> str:
    """The profiled project's own interpreter, where its commands name one: it has the compiler that the project uses.

    A relative path begins in the checkout, where the commands run; compilers run in a folder of their own.
    """
    argv = fill(contract.profile.command if contract.profile else contract.test_command, {})
    program = PurePosixPath(argv[0])
    if not program.name.startswith("python"):
        return sys.executable
    return str(tree / program) if len(program.parts) > 1 else argv[0]


# The counters that the loop reads by name, out of what GPU tools and the compiler said of one kernel; pure.

DECIDES = ("trace", "events")
"""Grades of a time that may decide; what was timed while counters were read is not told as a time at all."""
STALLS = 5
"""Stall classes that are told by name, largest first."""
COMPUTE = ("comp.matrix_busy", "comp.vector_busy", "comp.pct_of_peak", "sol.compute")
PLAIN: tuple[tuple[str, str, float], ...] = (
    ("dram_pct", "mem.pct_of_peak", 100.0),
    ("l2_hit_rate", "mem.l2_hit", 100.0),
    ("dram_bytes", "mem.bytes", 1.0),
    ("hbm_bandwidth", "mem.gbps", 1.0),
    ("vector_pct", "comp.vector_busy", 100.0),
    ("achieved_occupancy", "occ.achieved", 100.0),
    ("occupancy", "occ.theoretical", 100.0),
    ("waves_per_multiprocessor", "occ.fill_waves", 1.0),
    ("registers", "regs.total_per_thread", 1.0),
    ("scratch_bytes", "regs.scratch_bytes_per_thread", 1.0),
    ("spill_ops", "regs.spill_ops", 1.0),
    ("lds_bytes", "shared.total_bytes", 1.0),
    ("bank_conflict_pct", "shm.conflict_rate", 100.0),
)
"""Counter, number of the profile, and the factor between them; shares become per cent. Names are those that the cards
of `knowledge/` predict by, where one of them means the same."""
GLOBAL_LOADS: tuple[Kind, ...] = ("global_load", "global_to_lds")
LDS_ACCESSES: tuple[Kind, ...] = ("lds_read", "lds_write", "lds_other")
MIXES: tuple[tuple[str, tuple[Kind, ...]], ...] = (
    ("mfma_instructions", ("matrix",)),
    ("load_instructions", GLOBAL_LOADS),
    ("store_instructions", ("global_store",)),
    ("lds_instructions", LDS_ACCESSES),
    ("barriers", ("barrier",)),
    ("atomics", ("atomic",)),
)
"""Counts in the compiled code: what is written there, not how often it runs."""
SPILLED = ("regs.spilled", "regs.spill_ops", "regs.scratch_bytes_per_thread")
"""What stands for `spills`, the compiler's own word first; two versions are compared only where it is the same."""


@dataclass(frozen=True, kw_only=True)
class SourcedCounter:
    """A counter and where it comes from."""

    counter: Named
    origin: Origin


def collect_counters(kernel: KernelProfile | None, report: Report | None) -> tuple[SourcedCounter, ...]:
    """Every counter of a GPU profile once, each with its rung and source; one without a source is absent, never zero.

    What was recorded goes before what the compiler says of one example launch, and that before what was computed from
    a recording: AMD's leaves dynamic shared memory out.
    """
    numbers = kernel.numbers if kernel else ()
    recorded = [number for number in numbers if number.rung != "analytic"]
    computed = [number for number in numbers if number.rung == "analytic"]
    by_name = {number.name: number for number in (*recorded, *resources(report), *computed)[::-1]}
    counters = [
        *_list_counters(by_name),
        *_first_line("mem_throughput", by_name, ("sol.memory", "mem.pct_of_peak"), factor=100.0),
        *_first_line(_matrix(kernel), by_name, ("comp.matrix_busy",), factor=100.0),
        *_largest("compute_pct", [by_name[name] for name in COMPUTE if name in by_name]),
        *_first_line("spills", by_name, SPILLED),
        *(_time_counters(kernel, by_name) if kernel else ()),
        *(_stall_counters(kernel) if kernel else ()),
        *_instruction_mix(report),
    ]
    return tuple(counters)


def resources(report: Report | None) -> tuple[ProfileNumber, ...]:
    """For a GPU profile: what the compiler says of registers, spills, shared memory and waves, under a profile's names."""
    if report is None:
        return ()
    usage, where = report.resources, f"{report.kernel} by {report.compiler} for {report.target.arch}"
    numbers: tuple[tuple[str, float | None], ...] = (
        ("regs.total_per_thread", usage.vgpr_total if usage.vgpr_total is not None else usage.arch_vgpr),
        ("regs.spilled", usage.vgpr_spills),
        ("regs.scratch_bytes_per_thread", usage.scratch_bytes),
        ("shared.total_bytes", usage.lds_bytes),
        ("occ.theoretical", report.occupancy.share if report.occupancy else None),
    )
    return tuple(
        ProfileNumber(name=name, value=value, source=where, rung="isa") for name, value in numbers if value is not None
    )


def complete_profile(kernel: KernelProfile, report: Report | None) -> KernelProfile:
    """The profile with what only the compiler could tell."""
    names = {number.name for number in kernel.numbers}
    added = tuple(number for number in resources(report) if number.name not in names)
    return kernel.model_copy(update={"numbers": (*kernel.numbers, *added)})


def _counters_of(name: str, value: float, *, rung: Rung, source: str) -> SourcedCounter:
    return SourcedCounter(counter=Named(name=name, value=value), origin=Origin(name=name, rung=rung, source=source))


def _list_counters(by_name: dict[str, ProfileNumber]) -> Iterator[SourcedCounter]:
    for name, number, factor in PLAIN:
        if (entry := by_name.get(number)) is not None:
            yield _counters_of(name, factor * entry.value, rung=entry.rung, source=entry.source)


def _largest(name: str, numbers: Sequence[ProfileNumber]) -> Iterator[SourcedCounter]:
    if numbers:
        largest = max(numbers, key=lambda item: item.value)
        yield _counters_of(name, 100 * largest.value, rung=largest.rung, source=f"{largest.name}: {largest.source}")


def _first_line(
    name: str, by_name: dict[str, ProfileNumber], numbers: Sequence[str], *, factor: float = 1.0
) -> Iterator[SourcedCounter]:
    entry = next((by_name[number] for number in numbers if number in by_name), None)
    if entry is not None:
        yield _counters_of(name, factor * entry.value, rung=entry.rung, source=f"{entry.name}: {entry.source}")


def _matrix(kernel: KernelProfile | None) -> str:
    """A profiled card's name for the matrix pipe, by vendor."""
    return "mfma_util" if kernel is not None and kernel.vendor == "amd" else "tensor_pipe_active"


def _instruction_mix(report: Report | None) -> Iterator[SourcedCounter]:
    if report is None or report.shape is None:
        return
    where = f"code of {report.kernel} by {report.compiler} for {report.target.arch}"
    yield _counters_of("instructions", report.shape.instructions, rung="isa", source=where)
    for name, kinds in MIXES:
        yield _counters_of(name, report.shape.count(*kinds), rung="isa", source=where)
    for name, all_kinds, counts in _list_shares(report.shape):
        if all_kinds:
            yield _counters_of(name, 100 * counts / all_kinds, rung="isa", source=where)


WIDE_BYTES = 16
"""Of one lane: `buffer_load_dwordx4`, `ds_read_b128`, `LDG.E.128`."""


def _list_shares(shape: Shape) -> Iterator[tuple[str, int, int]]:
    """For a GPU profile: counter, accesses of its kind, and those of them that it is the share of."""
    wide = {
        kinds: sum(width.count for width in shape.widths if width.kind in kinds and width.lane_bytes >= WIDE_BYTES)
        for kinds in (GLOBAL_LOADS, LDS_ACCESSES)
    }
    yield "wide_load_pct", shape.count(*GLOBAL_LOADS), wide[GLOBAL_LOADS]
    yield "wide_lds_pct", shape.count(*LDS_ACCESSES), wide[LDS_ACCESSES]
    yield "async_load_pct", shape.count(*GLOBAL_LOADS), shape.count("global_to_lds")


def _time_counters(kernel: KernelProfile, by_name: dict[str, ProfileNumber]) -> Iterator[SourcedCounter]:
    """For a GPU profile: the kernel's time, and how busy it kept the queue between two of its own launches.

    The share of a whole recording would count imports and compilation as the device's idleness.
    """
    if kernel.grade not in DECIDES:
        return
    duration = by_name.get("time.median_ns") or by_name.get("time.mean_ns")
    if duration is None:
        return
    yield _counters_of("kernel_time_us", duration.value / 1e3, rung=duration.rung, source=duration.source)
    yield _counters_of("calls", kernel.calls, rung=duration.rung, source=duration.source)
    gap = by_name.get("time.gap_before_ns")
    if gap is not None and duration.value > 0:
        busy = duration.value / (duration.value + gap.value)
        yield _counters_of(
            "gpu_busy_pct", 100 * busy, rung=duration.rung, source=f"{duration.name} / ({duration.name} + {gap.name})"
        )


def _stall_counters(kernel: KernelProfile) -> Iterator[SourcedCounter]:
    rung: Rung = "trace" if kernel.stalls and kernel.stalls[0].basis == "wave_time" else "counters"
    for item in kernel.stalls[:STALLS]:
        yield _counters_of(
            f"stall_{item.stall}_pct", 100 * item.share, rung=rung, source=f"share of {item.basis.replace('_', ' ')}"
        )


COMPILED, PACK = "RIDGELINE_COMPILED", "compiled.pack"
"""Variable that names the file with what was compiled before, for `harness/profile_calls.py`; and the file."""
NOTE = 300
"""Characters of one note."""
SPOTS = 3
NATIVE = re.compile(
    r"SQ_(WAIT_\w+|LDS_BANK_CONFLICT|INSTS_\w+|VALU_MFMA_BUSY_CYCLES)|TCC_(HIT|MISS)_sum|MfmaUtil|OccupancyPercent"
    r"|smsp__average_warps_issue_stalled_(long_scoreboard|barrier|lg_throttle|mio_throttle)_per_issue_active\.ratio"
    r"|launch__(registers_per_thread|waves_per_multiprocessor)|lts__t_sectors_op_read\.sum|lts__t_sector_hit_rate\.pct"
    r"|l1tex__data_bank_conflicts_pipe_lsu_mem_shared\.sum|dram__bytes_(read|write)\.sum"
    r"|sm__pipe_tensor_cycles_active\.avg\.pct_of_peak_sustained_active"
)
"""What predictions name in a tool's own words; all else is in the report."""
TORCH_RUNG = "torch_profiler"
WARNINGS = 6
NAMES = 4
UNTIMED = "no kernel time: the profile command printed no kernel_time_us=<microseconds>, and no trace was recorded"


class RecordedProfile(Value):
    """What the card told."""

    kernel: KernelProfile | None = None
    own_times: tuple[Named, ...] = ()
    """The program's own words about its time."""
    native: tuple[Named, ...] = ()
    """Counters under the names of the tool, per call."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


class Document(Value):
    """The report that goes with the counters: everything that was seen, whole."""

    commit: str
    kernel: KernelProfile | None
    compiler: Report | None
    notes: tuple[str, ...]


class GpuProfiler:
    """`ports.Profiler` for kernels on an accelerator. Counters that no rung can see are missing, never zero."""

    def __init__(
        self,
        commands: Commands,
        builder: ContractBuilder,
        *,
        artifacts: Artifacts,
        device: Device,
        wait_s: float = 3600,
    ) -> None:
        """`wait_s`: for the device where no gate guards it; a gate has its own patience. In seconds."""
        self._commands = commands
        self._builder = builder
        self._artifacts = artifacts
        self._device = device
        self._wait_s = wait_s

    def profile(self, commit: str, *, purpose: str) -> Profiled | None:
        """A GPU profiler's counters of `commit`; None when the contract has no profile command. `purpose`: names the question.

        Raises DeviceBusy and DeviceLost, and ProgramMissing where the profile command itself cannot be started.
        """
        if self._commands.contract.profile is None:
            return None
        machine = self._device.machine()
        nothing = Profiled(commit=commit, machine=machine.fingerprint, rung="timing_only", counters=())
        try:
            tree = self._builder.ensure_built(commit)
            with ThreadPoolExecutor(max_workers=1) as beside:  # the compiler needs no card
                compiling = beside.submit(look, self._commands.contract, tree, machine)
                recorded = self._record(commit, tree, machine)
                compiled = compiling.result()
        except (BuildBroken, FileTampering) as error:
            return nothing.model_copy(update={"notes": (str(error),)})
        evidence = recorded.model_copy(
            update={
                "notes": (*recorded.notes, *compiled.why),
                "seconds": max(recorded.seconds, compiled.seconds),
                "kernel": complete_profile(recorded.kernel, compiled.report) if recorded.kernel else None,
            }
        )
        return self._build_profile(nothing, evidence, compiled.report)

    def inspect(self, commit: str, *, purpose: str) -> Profiled | None:
        """For a GPU profile: the compiler's report on `commit`, without a card; None without a profile command."""
        if self._commands.contract.profile is None:
            return None
        machine = self._device.machine()
        nothing = Profiled(commit=commit, machine=machine.fingerprint, rung="timing_only", counters=())
        try:
            tree = self._builder.ensure_built(commit)
            compiled = look(self._commands.contract, tree, machine)
        except (BuildBroken, FileTampering) as error:
            return nothing.model_copy(update={"notes": (str(error),)})
        evidence = RecordedProfile(notes=compiled.why, seconds=compiled.seconds)
        profiled = self._build_profile(nothing, evidence, compiled.report)
        return profiled.model_copy(update={"notes": tuple(note for note in profiled.notes if note != UNTIMED[:NOTE])})

    def _build_profile(self, nothing: Profiled, evidence: RecordedProfile, report: Report | None) -> Profiled:
        rung = _rung(evidence.kernel, report)
        own_times = _attribute_counters(evidence.own_times, rung="events", source="printed by the profile command")
        candidates = (
            *(own_times if rung == TORCH_RUNG else ()),  # taken while nothing watched, and so before torch's
            *collect_counters(evidence.kernel, report),
            *own_times,
            *_attribute_counters(evidence.native, rung="counters", source=f"{rung}, per call"),
        )
        unique = {item.counter.name: item for item in candidates[::-1]}  # the first of a name stands
        counters = [unique[name] for name in dict.fromkeys(item.counter.name for item in candidates)]
        if all(item.counter.name != "kernel_time_us" for item in counters):
            evidence = evidence.model_copy(update={"notes": (*evidence.notes, UNTIMED)})
        notes = tuple(dict.fromkeys(note[:NOTE] for note in (*evidence.notes, *_highlights(evidence.kernel, report))))
        return nothing.model_copy(
            update={
                "rung": rung,
                "counters": tuple(item.counter for item in counters),
                "origins": tuple(item.origin for item in counters),
                "kernel": _light(evidence.kernel),
                "notes": notes,
                "report": self._keep(nothing.commit, evidence, report),
                "seconds": evidence.seconds,
            }
        )

    def _keep(self, commit: str, evidence: RecordedProfile, report: Report | None) -> Artifact | None:
        if evidence.kernel is None and report is None:
            return None
        document = Document(commit=commit, kernel=evidence.kernel, compiler=report, notes=evidence.notes)
        return self._artifacts.put("profile.json", document.model_dump_json(indent=1).encode())

    def _record(self, commit: str, tree: Path, machine: Machine) -> RecordedProfile:
        """Everything of profiling that needs the card, in one go under the gate. Raises `FileTampering`."""
        contract = self._commands.contract
        assert contract.profile is not None
        assert machine.kind != "cpu"
        pattern, renamed, others = choose_kernels(contract.profile.kernel, _read_sources(contract, tree))
        peak = self._peak(machine)
        with fresh_folder() as folder:
            session = GuardedSession(
                program=contract.profile.command,
                cwd=tree,
                out=folder,
                env=select_variables(contract.pass_environment),
                timeout_s=contract.timeouts.benchmark_s,
                kernel=pattern,
                others=others,
                arch=machine.arch or None,
                commands=self._commands,
                commit=commit,
                compiled=self._lend_compiled(folder, tree),
                budget_s=contract.timeouts.profile_s,
                notes=[f"profile.kernel {contract.profile.kernel} is not in the sources; looked for {renamed}"]
                if renamed
                else [],
            )
            with self._commands.device(wait_s=self._wait_s):
                own_times = (
                    session.own_times()
                )  # first: a program that fails has nothing to record, one that hangs costs less
                if own_times is not None:
                    instruments(session, machine.kind)
            evidence = self._recording(_summarize_session(session, machine.kind, peak), session)
            return evidence.model_copy(update={"own_times": _name_counter(own_times or {}), "seconds": session.spent_s})

    def _lend_compiled(self, folder: Path, tree: Path) -> dict[str, str]:
        """For a GPU profile of a task: a cache of its runs' own, which begins with what the version's tests had compiled."""
        judge, contract = self._commands.judge, self._commands.contract
        if judge is None or contract.task_file is None:
            return {}
        packed = judge.read_compiled(tree / contract.task_file, tree)
        (folder / PACK).write_bytes(packed)
        caches = {name: str(folder / place) for name, place in CACHES.items() if name != "PYTHONPYCACHEPREFIX"}
        return {**caches, **({COMPILED: str(folder / PACK)} if packed else {})}

    def _recording(self, evidence: RecordedProfile, session: GuardedSession) -> RecordedProfile:
        """A GPU profile with what the tools wrote put beside the ledger, where it tells of the kernel."""
        if evidence.kernel is None:
            return evidence
        data, notes = archive_files(session.paths, session.out)
        recorded = self._artifacts.put(NAME, data) if data is not None else None
        kernel = evidence.kernel.model_copy(update={"recorded": recorded})
        return evidence.model_copy(update={"kernel": kernel, "notes": (*evidence.notes, *notes)})

    def _peak(self, machine: Machine) -> Named | None:
        """The profiled card's bandwidth as the roofline has it, for tools that count bytes and know no peak."""
        ceilings = self._device.ceilings(self._commands.contract.dtype) if machine.kind == "amd" else None
        if ceilings is None or ceilings.copy_gbps is None:
            return None
        return Named(name=ceilings.copy_source or "copy bandwidth measured here", value=ceilings.copy_gbps)


def _name_counter(values: Mapping[str, float]) -> tuple[Named, ...]:
    return tuple(Named(name=name, value=value) for name, value in values.items())


def _summarize_session(session: GuardedSession, vendor: Vendor, peak: Named | None) -> RecordedProfile:
    """The target kernel over all of a profile's recordings, and counters of it under the tools' own names."""
    recordings: list[Recording] = []
    for path in session.paths:
        try:
            recordings += read_recordings(path)
        except RecordingError as error:
            session.notes.append(str(error))
    if not recordings:
        return RecordedProfile(notes=tuple(session.notes))
    card = Recording(format="card", tool="the card's own tool", vendor=vendor, arch=session.arch)
    devices = {recording.device or "" for recording in recordings}
    bandwidths = dict.fromkeys(devices, peak) if peak is not None else {}
    profiles = merged([*recordings, card], target=session.kernel, most=1, bandwidths=bandwidths)
    if not profiles and session.take_others():
        profiles = merged([*recordings, card], target=session.kernel, most=1, bandwidths=bandwidths)
    if not profiles:
        names = list(dict.fromkeys(kernel.display for recording in recordings for kernel in recording.kernels))[:NAMES]
        session.notes.append(f"profile.kernel {session.kernel} was not recorded; recorded were {', '.join(names)}")
        return RecordedProfile(notes=tuple(session.notes))
    session.notes += _describe_others(recordings, profiles[0])
    target_kernels = (
        kernel
        for recording in recordings
        for kernel in recording.kernels
        if own_name(kernel.name) == own_name(profiles[0].kernel)
    )
    metrics = {
        metric.name: metric.value
        for kernel in target_kernels
        for metric in kernel.metrics
        if NATIVE.fullmatch(metric.name)
    }
    return RecordedProfile(kernel=profiles[0], native=_name_counter(metrics), notes=tuple(session.notes))


def _describe_others(recordings: Sequence[Recording], chosen: KernelProfile) -> list[str]:
    """In a GPU profile: that its counters are of one kernel of several, and how long the others took; else nothing."""
    others: dict[str, float | None] = {}
    for kernel in (kernel for recording in recordings for kernel in recording.kernels):
        if own_name(kernel.name) != own_name(chosen.kernel):
            others[kernel.display] = others.get(kernel.display) or kernel.total_ns
    if not others:
        return []
    order = sorted(others, key=lambda name: -(others[name] or 0.0))
    named = [
        f"{name} ({total_ns / 1000:.4g} us in all)" if (total_ns := others[name]) else name for name in order[:NAMES]
    ]
    more = f" and {len(order) - NAMES} more" if len(order) > NAMES else ""
    return [f"counters are of {chosen.display} alone; the same command also ran {', '.join(named)}{more}"]


def _attribute_counters(numbers: Sequence[Named], *, rung: Rung, source: str) -> list[SourcedCounter]:
    return [
        SourcedCounter(counter=number, origin=Origin(name=number.name, rung=rung, source=source)) for number in numbers
    ]


def _rung(kernel: KernelProfile | None, report: Report | None) -> str:
    """The best profiling instrument that saw anything."""
    if kernel is not None:
        stands = {number.rung for number in kernel.numbers}
        if TORCH_RUNG in stands and stands.isdisjoint(("counters", "trace")):
            return TORCH_RUNG
        return "ncu" if kernel.vendor == "nvidia" else "rocprofv3"
    return "isa" if report is not None else "timing_only"


def _light(kernel: KernelProfile | None) -> KernelProfile | None:
    """What the ledger keeps of a profiler's recording."""
    if kernel is None:
        return None
    return kernel.model_copy(update={"hotspots": (), "warnings": kernel.warnings[:WARNINGS]})


def _highlights(kernel: KernelProfile | None, report: Report | None) -> list[str]:
    """Remarks of a GPU profile worth reading: warnings, instructions that waves wait at, what the compiler made of the kernel."""
    words: list[str] = []
    if kernel is not None:
        words += kernel.warnings[:WARNINGS]
        words += [
            f"hot: {spot.share:.1%} {spot.stall or 'issue'} at {spot.isa}{f' ({spot.source})' if spot.source else ''}"
            for spot in kernel.hotspots[:SPOTS]
        ]
    if report is not None and report.shape is not None:
        mix = ", ".join(f"{kind.name} {kind.count}" for kind in report.shape.kinds)
        words.append(f"compiled for {report.target.arch}: {report.shape.instructions} instructions: {mix}")
    if report is not None and report.occupancy is not None:
        words.append(f"waves are limited by {report.occupancy.limiter}: {report.occupancy.waves_per_simd:g} per SIMD")
    return words


# What profilers wrote, kept with the campaign: whole recordings in one archive of bounded size, the rest named.

RAW = 64 << 20
"""Bytes of all recordings of one version together, before they are packed."""
PACKED = 8 << 20
"""Bytes of the archive."""
NAME = "recordings.tar.gz"
LEFT_OUT = re.compile(r"results\.json$|\.(db|att|out|pftrace|part)$")
"""Files that no reader needs beside the others, and that hold the command line, the environment or code objects."""
HOST = re.compile(rb'("host_name"\s*:\s*)"[^"]*"')
HEAD = 1 << 16


def archive_files(paths: Sequence[Path], root: Path) -> tuple[bytes | None, tuple[str, ...]]:
    """The archive of a profiler's files and folders below `root`, and a note on each that is left out for its size.

    A recording is kept whole or not at all: half of a thread trace would be read as another one. None for nothing.
    """
    entries: list[tuple[str, list[Member]]] = []
    notes: list[str] = []
    room = RAW
    for path in paths:
        files = [file for file in _written_files(path) if not LEFT_OUT.search(file.name)]
        size = sum(file.stat().st_size for file in files)
        name = path.relative_to(root).as_posix()
        if size > room:
            notes.append(_elide(name, len(files), size))
            continue
        room -= size
        entries.append((name, [(file.relative_to(root).as_posix(), _read_written(file)) for file in files]))
    while entries:
        data = pack([member for _, members in entries for member in members])
        if len(data) <= PACKED:
            return data, tuple(notes)
        largest = max(entries, key=lambda entry: _size(entry[1]))
        entries.remove(largest)
        notes.append(_elide(largest[0], len(largest[1]), _size(largest[1])))
    return None, tuple(notes)


def _written_files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from list_files(path)
    else:
        yield path


def _read_written(file: Path) -> bytes:
    """What a profiler wrote, without the name of the machine that torch writes at the top."""
    data = file.read_bytes()
    return HOST.sub(rb'\1""', data[:HEAD]) + data[HEAD:] if file.suffix == ".json" else data


def _size(members: Sequence[Member]) -> int:
    return sum(len(data) for _, data in members)


def _elide(name: str, files: int, size: int) -> str:
    return f"not kept for its size: the recording {name} ({files} files, {size / 1e6:.1f} MB)"
