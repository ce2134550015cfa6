"""Profiles a version on the processor: hardware counters, else simulated ones, and what the compiler said."""

import math
import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os.path import normpath
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import ProgramMissing
from ridgeline.graph.evidence import Exit, Machine, Profiled
from ridgeline.graph.ports import Artifacts, Device
from ridgeline.graph.values import Named, Value
from ridgeline.knowledge.definitions import reach
from ridgeline.knowledge.source import line_of, scan
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.isolation.directory_pool import fresh_folder, list_files, read_left
from ridgeline.sandbox.isolation.process import run
from ridgeline.sandbox.workspace.builder import BuildBroken, ContractBuilder
from ridgeline.sandbox.workspace.checkouts import scratch_copy
from ridgeline.sandbox.workspace.commands import Commands, summarize_exit, tail
from ridgeline.sandbox.workspace.globs import matches

# What one instrument saw, or why it could not look.


class CounterReading(Value):
    """Counters and remarks of one instrument."""

    counters: tuple[Named, ...]
    notes: tuple[str, ...] = ()
    report: bytes | None = None
    """The instrument's own file."""
    seconds: float = 0.0


class Unavailable(Value):
    """The instrument does not work here, or not on this program."""

    why: str


class Tree(Value):
    """What is looked at: a built folder, the profile command, the kernel's name, the last-level cache's bytes."""

    path: Path
    argv: tuple[str, ...]
    kernel: str | None
    cache_bytes: int | None


TIMEOUT_S = 60
Rung = Literal["perf", "cachegrind", "compiler_report", "timing_only"]
PRINTED = re.compile(r"^\s*(kernel_time_us|calls)=([0-9.eE+-]+)\s*$", re.MULTILINE)


class CpuProfiler:
    """`ports.Profiler` for C kernels: `perf stat`, valgrind's simulator, gcc's remarks, and time alone, in this order.

    Counters that a rung cannot see are missing, never zero; `notes` say why every better rung was passed over.
    """

    def __init__(
        self,
        commands: Commands,
        builder: ContractBuilder,
        *,
        artifacts: Artifacts,
        device: Device,
        wait_s: float = 3600,
    ) -> None:
        """`wait_s`: how long profiling waits for a busy device before `DeviceBusy`, in seconds."""
        self._commands = commands
        self._builder = builder
        self._artifacts = artifacts
        self._device = device
        self._wait_s = wait_s
        self._perf = Perf()

    def profile(self, commit: str, *, purpose: str) -> Profiled | None:
        """A CPU profiler's counters of `commit`; without a profile command what `inspect` sees. `purpose`: names the question."""
        profile = self._commands.contract.profile
        if profile is None:
            return self.inspect(commit, purpose=purpose)
        machine = self._device.machine()
        nothing = Profiled(commit=commit, machine=machine.fingerprint, rung="timing_only", counters=())
        try:
            path = self._builder.ensure_built(commit)
        except BuildBroken as error:
            return nothing.model_copy(update={"notes": (str(error),)})
        tree = Tree(path=path, argv=profile.command, kernel=profile.kernel, cache_bytes=_last_level(machine))
        native = self._native(commit, tree)
        if isinstance(native, Unavailable):
            return nothing.model_copy(update={"notes": (native.why,)})
        return self._climb(nothing, tree, native)

    def inspect(self, commit: str, *, purpose: str) -> Profiled | None:
        """For a CPU profile: gcc's remarks on `commit`; None without a profile command or a task in C. `purpose`: names the question."""
        if not is_profiled(self._commands.contract):
            return None
        machine = self._device.machine()
        nothing = Profiled(commit=commit, machine=machine.fingerprint, rung="timing_only", counters=())
        try:
            said_by_gcc = read_compiler_report(self._commands, self._builder.ensure_built(commit))
        except BuildBroken as error:
            return nothing.model_copy(update={"notes": (str(error),)})
        if isinstance(said_by_gcc, Unavailable):
            return nothing.model_copy(update={"notes": (said_by_gcc.why,)})
        return nothing.model_copy(
            update={
                "rung": "compiler_report",
                "counters": said_by_gcc.counters,
                "notes": said_by_gcc.notes,
                "seconds": said_by_gcc.seconds,
            }
        )

    def _climb(self, nothing: Profiled, tree: Tree, native: CounterReading) -> Profiled:
        """The first profiling rung that sees something, with the compiler's counters beside it."""
        passed_over: list[str] = []
        rung, best = self._count(tree, passed_over)
        said_by_gcc = read_compiler_report(self._commands, tree.path)
        if isinstance(said_by_gcc, Unavailable):
            passed_over.append(said_by_gcc.why)
            said_by_gcc = CounterReading(counters=())
        elif best is None:
            rung = "compiler_report"
        best = best or CounterReading(counters=())
        report = best.report or said_by_gcc.report
        by_name = {counter.name: counter for counter in (*native.counters, *said_by_gcc.counters, *best.counters)}
        return nothing.model_copy(
            update={
                "rung": rung,
                "counters": tuple(by_name.values()),
                "notes": (*passed_over, *native.notes, *best.notes, *said_by_gcc.notes),
                "report": self._artifacts.put(f"profile-{rung}.txt", report) if report else None,
                "seconds": native.seconds + best.seconds + said_by_gcc.seconds,
            }
        )

    def _count(self, tree: Tree, passed_over: list[str]) -> tuple[Rung, CounterReading | None]:
        """A CPU profiler's run-time counters, hardware or simulation; why one cannot look is added to `passed_over`."""
        with lease("cpu", wait_s=self._wait_s):
            hardware = self._perf.look(self._commands, tree)
        if isinstance(hardware, CounterReading):
            return "perf", hardware
        passed_over.append(hardware.why)
        simulated = simulate(self._commands, tree)
        if isinstance(simulated, CounterReading):
            return "cachegrind", simulated
        passed_over.append(simulated.why)
        return "timing_only", None

    def _native(self, commit: str, tree: Tree) -> CounterReading | Unavailable:
        """For a CPU profile: one undisturbed run of the profiled command, for the time it prints itself; none is made up."""
        with self._commands.device(wait_s=self._wait_s):
            ran = self._commands.run_guarded(
                "profile.command", tree.argv, commits=(commit,), cwd=tree.path, timeout_s=TIMEOUT_S, timed=True
            )
        if ran.tampered:
            return Unavailable(
                why=f"files that no run may change were changed by the profile command: {', '.join(ran.tampered)}"
            )
        if not ran.exit.ok:
            return Unavailable(why=f"the profile command failed: {summarize_exit(ran.exit)}")
        counters = tuple(Named(name=name, value=value) for name, value in parse_printed(ran.exit.output))
        untimed = all(counter.name != "kernel_time_us" for counter in counters)
        notes = ("the profile command printed no kernel_time_us=<microseconds>, so no kernel time is given",)
        return CounterReading(counters=counters, notes=notes if untimed else (), seconds=ran.exit.seconds)


def is_profiled(contract: Contract) -> bool:
    """Whether a profile of the contract's kernel exists: by its profile command, or by what gcc says of a task in C."""
    return contract.profile is not None or (contract.task_file is not None and contract.target_backend == "C")


def parse_printed(output: str) -> tuple[tuple[str, float], ...]:
    """For a profile: `kernel_time_us=<x>` and `calls=<n>` as the command printed them; the last of each, positive and finite."""
    values: dict[str, float] = {}
    for name, text in PRINTED.findall(output):
        try:
            value = float(text)
        except ValueError:
            continue
        if 0 < value < math.inf:
            values[name] = value
    return tuple(values.items())


def _last_level(machine: Machine) -> int | None:
    return machine.l3_bytes or machine.l2_bytes


# Hardware counters through `perf stat`, where the kernel and the processor permit them.

EVENTS = {
    "instructions": "instructions",
    "cycles": "cycles",
    "L1-dcache-load-misses": "d1_misses",
    "LLC-load-misses": "ll_misses",
    "branch-misses": "branch_misses",
}
"""perf's event and the counter it becomes."""


class Perf:
    """Asks once which events count here."""

    def __init__(self) -> None:
        self._events: tuple[str, ...] | Unavailable | None = None

    def look(self, commands: Commands, tree: Tree) -> CounterReading | Unavailable:
        """A CPU profiler's counters of the whole profile command: perf stat cannot stop at a function."""
        if self._events is None:
            self._events = _is_supported()
        if isinstance(self._events, Unavailable):
            return self._events
        with fresh_folder() as folder:
            out = folder / "perf.csv"
            argv = ("perf", "stat", "-x", ",", "-o", str(out), "-e", ",".join(self._events), "--", *tree.argv)
            process = commands.plain("profile.command", argv, cwd=tree.path, timeout_s=TIMEOUT_S, timed=True)
            if not process.ok:
                return Unavailable(why=f"perf: {summarize_exit(process)}")
            text = (read_left(out) or b"").decode(errors="replace")
        counters = parse_perf(text)
        if not counters:
            return Unavailable(why="perf: no event was counted")
        return CounterReading(
            counters=counters, notes=("perf counts the whole command",), report=text.encode(), seconds=process.seconds
        )


def parse_perf(text: str) -> tuple[Named, ...]:
    """A CPU profiler's counters in `perf stat -x,` output: `value,unit,event,...`; events not counted are left out."""
    counters: list[Named] = []
    for line in text.splitlines():
        cells = line.split(",")
        if len(cells) < 3 or line.startswith("#"):
            continue
        name = EVENTS.get(cells[2].split(":")[0])
        if name and cells[0].replace(".", "", 1).isdigit():
            counters.append(Named(name=name, value=float(cells[0])))
    return tuple(counters)


def _is_supported() -> tuple[str, ...] | Unavailable:
    try:
        process = run(("perf", "stat", "-x", ",", "-e", ",".join(EVENTS), "--", "true"), cwd=Path("/"), timeout_s=20)
    except ProgramMissing:
        return Unavailable(why="perf is not installed")
    if not process.ok:
        final_line = process.output.strip().splitlines()[-1:] or ["no output"]
        return Unavailable(why=f"perf stat is refused here: {final_line[0].strip()}")
    counted = {counter.name for counter in parse_perf(process.output)}
    if "instructions" not in counted:
        return Unavailable(why="perf: hardware events are <not supported> on this machine (usual in virtual machines)")
    return tuple(event for event, name in EVENTS.items() if name in counted)


# What gcc says about the loops it vectorized and those it did not, from a build in a scratch copy.

REMARK = re.compile(r"^(?P<file>[^:\s]+):(?P<at>(?P<line>\d+):\d+): (?P<kind>optimized|missed): +(?P<text>.*)$")
FLAGS = ("-fopt-info-vec-optimized", "-fopt-info-vec-missed", "-v")
STAYS_SCALAR = "couldn't vectorize loop"
KEPT = 8
"""Remarks that are quoted as notes."""
TEXT_BYTES = 400_000
MOST_REMARKS = 4_000_000
"""Bytes of a build's output that are read: a file of 5,000 lines brings 200,000."""


def read_compiler_report(commands: Commands, tree: Path) -> CounterReading | Unavailable:
    """For a CPU profile: build once more with CFLAGS_EXTRA in the environment, which the build must pass on to gcc.

    A task's sources are compiled as the judge compiles them.
    """
    contract = commands.contract
    if contract.task_file is not None:
        return _read_judged_report(tree / contract.task_file, tree)
    command = contract.rebuild.command
    if command is None:
        return Unavailable(why="compiler report: the contract has no rebuild.command")
    with scratch_copy(tree) as copy:
        sources = [path for path in _files(copy) if matches(path, contract.kernel_source)]
        texts = {path: _read(copy / path) for path in sources}
        for path in sources:
            os.utime(copy / path)  # newer than what was built from it, so that make compiles it again
        process = commands.plain(
            "rebuild.command",
            command,
            cwd=copy,
            timeout_s=contract.timeouts.build_s,
            extra={"CFLAGS_EXTRA": " ".join(FLAGS)},
            output_bytes=MOST_REMARKS,
        )
    if not process.ok:
        return Unavailable(why=f"compiler report: {summarize_exit(process)}")
    reading = read_remarks(process.output, texts, contract.function)
    if reading is None:
        mend = "let the build append $(CFLAGS_EXTRA) to gcc's flags"
        return Unavailable(why=f"compiler report: no vectorization remarks were printed; {mend}")
    return reading.model_copy(update={"seconds": process.seconds})


def _read_judged_report(task_file: Path, tree: Path) -> CounterReading | Unavailable:
    """For a CPU profile: the same of a task's sources, which the judge compiles by the task's flags, shut in."""
    from ridgeline.sandbox.judge.freeze import NotFrozen, freeze_sources
    from ridgeline.sandbox.judge.task_file import TaskError, load_task
    from ridgeline.sandbox.judge.worker import WorkerLost, explain_build

    began = time.monotonic()
    try:
        task, _ = load_task(task_file)
        with freeze_sources(task, tree) as frozen:
            output = explain_build(task, frozen.folder, FLAGS)
            texts = {name: _read(frozen.folder / name) for name in task.source}
    except (TaskError, NotFrozen, WorkerLost, ProgramMissing) as error:
        return Unavailable(why=f"compiler report: {error}")
    reading = read_remarks(output, texts, task.entry)
    if reading is None:
        return Unavailable(why="compiler report: the compiler says nothing of vectors")
    return reading.model_copy(update={"seconds": time.monotonic() - began})


def read_remarks(output: str, texts: Mapping[str, str], function: str | None) -> CounterReading | None:
    """For a CPU profile: what a build with `FLAGS` printed of the kernel's files `texts`; None where it printed no remark.

    `function`: only it and what it calls counts, where it is named.
    """
    lines = find_timed_lines(texts, function)
    counters, remarks = parse_remarks(output, texts, lines)
    if not counters:
        return None
    explicit = Named(name="explicit_vectors", value=count_vector_lines(texts, lines))
    flags = parse_flags(output, texts)
    notes = (f"compiled with {flags}",) if flags else ()
    report = "".join(f"{line}\n" for line in output.splitlines() if REMARK.match(line)).encode()[:TEXT_BYTES]
    return CounterReading(counters=(*counters, explicit), notes=(*notes, *remarks[:KEPT]), report=report)


COMPILED_BY = re.compile(r"^COLLECT_GCC_OPTIONS=(.*)$")
BY_THE_WAY = re.compile(r"-(?:c|v|shared|[ILMW].*|l.*|fopt-info.*|f?diagnostics.*)$")
WITH_VALUES = ("-o", "-dumpdir", "-dumpbase", "-dumpbase-ext", "-MF", "-MT", "-MQ", "-I", "-L", "-isystem", "-include")
"""Options of gcc that say nothing of the code that it makes; of the second kind the next word is their value."""


def parse_flags(output: str, sources: Iterable[str]) -> str:
    """For a CPU profile: the options that `gcc -v` says it compiled the kernel's files with; empty where it does not say it."""
    files, options, found = set(sources), "", dict[str, None]()
    for line in output.splitlines():
        match = COMPILED_BY.match(line)
        if match:
            options = match[1]
        elif re.match(r"\s*\S*/cc1(?:plus)? ", line) and files & {normpath(word) for word in line.split()}:
            found[" ".join(_list_flags(options))] = None
    return ", then with ".join(found)


def _list_flags(options: str) -> list[str]:
    try:
        words = shlex.split(options)
    except ValueError:
        return []
    values = {at + 1 for at, word in enumerate(words) if word in WITH_VALUES}
    values |= {at for at, word in enumerate(words) if word.startswith("-O")} - {_find_last_level(words)}
    return [
        word
        for at, word in enumerate(words)
        if at not in values and word not in WITH_VALUES and not BY_THE_WAY.match(word)
    ]


def _find_last_level(words: Sequence[str]) -> int:
    """Where the `-O` option stands that holds: the last of them; -1 without any."""
    return max((at for at, word in enumerate(words) if word.startswith("-O")), default=-1)


VECTOR_WORD = re.compile(
    r"__m(?:64|128|256|512)\w*|_mm\d*_\w+|_tile_\w+|__builtin_ia32_\w+|__builtin_shuffle\w*|vector_size|__vector_size__"
    r"|(?:u?int|float|bfloat)\d+x\d+_t|v(?:ld|st)\d\w*_[fsu]\d+|sv(?:ld|st)\w+|__riscv_\w+"
)
"""Names by which C itself is written in vectors: intrinsics and types of x86, Arm and RISC-V, and gcc's own vector types."""
TYPEDEF = re.compile(r"\btypedef\b[^;]*;")
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)", re.DOTALL)


def count_vector_lines(texts: Mapping[str, str], lines: Mapping[str, Sequence[range]]) -> int:
    """For a CPU profile: lines of the kernel that are written in vectors, of which gcc's remarks say that they stayed scalar.

    `lines`: which lines of a file count, where not all do.
    """
    named = {name for text in texts.values() for name in _list_vector_types(text)}
    places = {
        (path, line_of(text, start))
        for path, text in texts.items()
        for kind, word, start, _ in scan(text, "c")
        if kind == "name" and (word in named or VECTOR_WORD.fullmatch(word))
    }
    return sum(path not in lines or any(number in part for part in lines[path]) for path, number in places)


def _list_vector_types(text: str) -> Iterator[str]:
    """Names that a kernel's file gives to vector types."""
    for typedef in TYPEDEF.findall(text):
        words = re.findall(r"\w+", ATTRIBUTE.sub(" ", typedef))
        if any(VECTOR_WORD.fullmatch(word) for word in re.findall(r"\w+", typedef)):
            yield words[-1]


def find_timed_lines(texts: Mapping[str, str], function: str | None) -> dict[str, tuple[range, ...]]:
    """For a CPU profile: lines of the timed function and what it calls, by path; empty where nobody names or defines it."""
    if function is None:
        return {}
    lines: dict[str, list[range]] = {path: [] for path in texts}
    for place in reach(texts, [function]):
        text, definition = texts[place.path], place.definition
        first = text.count("\n", 0, definition.start) + 1
        lines[place.path].append(range(first, first + text.count("\n", definition.start, definition.end) + 1))
    return {path: tuple(ranges) for path, ranges in lines.items()} if any(lines.values()) else {}


def parse_remarks(
    output: str, sources: Iterable[str], lines: Mapping[str, Sequence[range]] = MappingProxyType({})
) -> tuple[tuple[Named, ...], tuple[str, ...]]:
    """For a CPU profile: counters of loops by place in the kernel's files, out of gcc's remarks, and those that stayed scalar.

    A loop that was vectorized for any of its versions counts as vectorized. Both are empty without any remark. `lines`:
    which lines of a file count, where not all do. A path may lead through other folders, as an included file's does.
    """
    kernel_files = set(sources)
    remarks = [
        (f"{file}:{match['at']}", match["kind"], match["text"])
        for match in map(REMARK.match, output.splitlines())
        if match and (file := normpath(match["file"])) in kernel_files
        if file not in lines or any(int(match["line"]) in part for part in lines[file])
    ]
    if not remarks:
        return (), ()
    vectorized = {place for place, kind, text in remarks if kind == "optimized" and "vectorized using" in text}
    scalar = {place for place, _, text in remarks if text.startswith(STAYS_SCALAR)} - vectorized
    missed = [
        (place, text)
        for place, kind, text in remarks
        if kind == "missed" and place not in vectorized and text.startswith((STAYS_SCALAR, "not vectorized"))
    ]
    explained = {place for place, text in missed if not text.startswith(STAYS_SCALAR)}
    why = [
        f"gcc: {place}: {text}" for place, text in missed if not (text.startswith(STAYS_SCALAR) and place in explained)
    ]
    counters = (
        Named(name="vectorized_loops", value=len(vectorized)),
        Named(name="missed_vectorizations", value=len(scalar)),
    )
    return counters, tuple(dict.fromkeys(why))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _files(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in list_files(folder)]


# Parses what valgrind's cachegrind and callgrind write; pure.
#
# Both write `events:`, then cost lines under `fn=`, and a `summary:` (callgrind also `totals:`). Callgrind writes a name
# as `(7) name` once and as `(7)` later, and adds `calls=` lines, each followed by the callee's cost, which is not the
# caller's own.
# Source: the valgrind manual, "Cachegrind output file format" and "Callgrind Format Specification".

NAME = re.compile(r"\((\d+)\)(?: (.*))?")
COST = re.compile(r"^(?:\+|-|\*|\d|0x)")
MEANING = {
    "instructions": ("Ir",),
    "data_reads": ("Dr",),
    "data_writes": ("Dw",),
    "d1_misses": ("D1mr", "D1mw"),
    "ll_misses": ("ILmr", "DLmr", "DLmw"),
    "branch_misses": ("Bcm", "Bim"),
}
"""Counter names of `Profiled` and the simulator's events that they are the sum of."""


class Costs(Value):
    """What was counted: totals by event, own instructions by function, and calls by callee."""

    totals: tuple[Named, ...]
    functions: tuple[Named, ...]
    """Own instructions (first event), largest first."""
    calls: tuple[Named, ...]

    def count_calls(self, function: str) -> int:
        """In a CPU profiler's output: how often a function was called; 0 when the tool did not record calls."""
        return int(next((item.value for item in self.calls if item.name == function), 0))

    def counters(self) -> tuple[Named, ...]:
        """A CPU profiler's totals under the names that `Profiled` uses; left out where none of a counter's events was on."""
        by_event = {item.name: item.value for item in self.totals}
        return tuple(
            Named(name=name, value=sum(by_event.get(event, 0.0) for event in events))
            for name, events in MEANING.items()
            if any(event in by_event for event in events)
        )


class MalformedFile(ValueError):
    """The text is not a complete file of either tool."""


def parse_cachegrind(text: str) -> Costs:
    """Read a CPU profiler's output file. Raises `MalformedFile` when it has no events or summary, as after a killed run."""
    reader = _Reader()
    for line in text.splitlines():
        reader.take(line)
    if not reader.events or not reader.totals:
        raise MalformedFile("no events or no summary: the run was cut off")
    totals = reader.totals + [0] * (len(reader.events) - len(reader.totals))  # trailing zeros are not written
    return Costs(
        totals=tuple(Named(name=e, value=v) for e, v in zip(reader.events, totals, strict=True)),
        functions=tuple(Named(name=name, value=cost) for name, cost in reader.own_costs.most_common()),
        calls=tuple(Named(name=name, value=count) for name, count in reader.calls.most_common()),
    )


class _Reader:
    """The state a line-oriented format needs."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.totals: list[int] = []
        self.own_costs: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._names: dict[str, str] = {}
        self._function = ""
        self._callee = ""
        self._inclusive = False

    def take(self, line: str) -> None:
        key, colon, rest = line.partition(":")
        if colon and key == "events":
            self.events = rest.split()
        elif colon and key in ("summary", "totals"):
            self.totals = [int(word) for word in rest.split()]
        elif COST.match(line):
            self._cost(line.split())
        else:
            self._names_and_calls(*line.partition("=")[::2])

    def _names_and_calls(self, key: str, value: str) -> None:
        if key == "fn":
            self._function = self._name(value)
        elif key == "cfn":
            self._callee = self._name(value)
        elif key == "calls":
            self.calls[self._callee] += int(value.split()[0])
            self._inclusive = True

    def _cost(self, words: list[str]) -> None:
        if self._inclusive:
            self._inclusive = False
        elif len(words) > 1:
            self.own_costs[self._function] += int(words[1])

    def _name(self, value: str) -> str:
        match = NAME.fullmatch(value)
        if match is None:
            return value
        if match[2] is not None:
            self._names[match[1]] = match[2]
        return self._names.get(match[1], value)


# Counters from valgrind's cache and branch simulation: exact, repeatable, and blind to time.

LINE_BYTES = 64
WAYS = 16
TOP = 3
ILLEGAL = ("SIGILL", "Unrecognised instruction", "unhandled instruction bytes")


def simulate(commands: Commands, tree: Tree) -> CounterReading | Unavailable:
    """A CPU profiler: Callgrind (cachegrind's simulator with a call graph), collecting only in the kernel and what it calls.

    Where the kernel is not named or not found, the whole command, and the notes say so. An interpreter is not simulated:
    its own start takes a minute, and nearly all instructions are that.
    """
    if Path(tree.argv[0]).name.startswith("python"):
        return Unavailable(why="valgrind: not tried on Python, whose own start it would count")
    inside = _simulate(commands, tree, tree.kernel)
    if isinstance(inside, Unavailable) or tree.kernel is None or inside.counters[0].value > 0:
        return inside
    whole_command = _simulate(commands, tree, None)
    if isinstance(whole_command, Unavailable):
        return whole_command
    note = f"no function named {tree.kernel!r} was called: counters are those of the whole command"
    return whole_command.model_copy(
        update={"notes": (note, *whole_command.notes), "seconds": inside.seconds + whole_command.seconds}
    )


def last_level(size: int | None) -> str | None:
    """For a CPU profiler: cachegrind's `--LL=`. It wants a power of two of sets: the size is rounded down; None: its own guess."""
    if size is None or size < LINE_BYTES * WAYS:
        return None
    sets = 1 << ((size // (LINE_BYTES * WAYS)).bit_length() - 1)
    return f"{sets * LINE_BYTES * WAYS},{WAYS},{LINE_BYTES}"


def _simulate(commands: Commands, tree: Tree, kernel: str | None) -> CounterReading | Unavailable:
    geometry = last_level(tree.cache_bytes)
    with fresh_folder() as folder:
        out = folder / "callgrind.out"
        argv = (
            *("valgrind", "--tool=callgrind", "--cache-sim=yes", "--branch-sim=yes"),
            *((f"--LL={geometry}",) if geometry else ()),
            *((f"--toggle-collect={kernel}",) if kernel else ()),
            f"--callgrind-out-file={out}",
            *tree.argv,
        )
        try:
            process = commands.plain("profile.command", argv, cwd=tree.path, timeout_s=TIMEOUT_S)
        except ProgramMissing:
            return Unavailable(why="valgrind is not installed")
        if not process.ok:
            return Unavailable(why=_why(process))
        report = read_left(out) or b""
    try:
        costs = parse_cachegrind(report.decode("utf-8", errors="replace"))
    except MalformedFile as error:
        return Unavailable(why=f"valgrind: {error}")
    notes = (f"simulated: {_scope(kernel)}; last-level cache {geometry or 'as valgrind guessed it'}", *_top(costs))
    counters = costs.counters() + _per_call(costs, kernel)
    return CounterReading(counters=counters, notes=notes, report=report, seconds=process.seconds)


def _why(process: Exit) -> str:
    if process.timed_out:
        return f"valgrind: the profile command did not end within {TIMEOUT_S} s under simulation"
    if any(word in process.output for word in ILLEGAL):
        return (
            "valgrind: stopped at an instruction it does not know (SIGILL; usual with AVX-512): "
            "build with -march=x86-64-v3 to have simulated counters"
        )
    return f"valgrind: exit code {process.returncode}: {tail(process.output, 500)}"


def _scope(kernel: str | None) -> str:
    return f"only inside {kernel} and what it calls" if kernel else "the whole command"


def _per_call(costs: Costs, kernel: str | None) -> tuple[Named, ...]:
    calls = costs.count_calls(kernel) if kernel else 0
    if not calls:
        return ()
    instructions = costs.counters()[0].value
    return Named(name="calls", value=calls), Named(name="instructions_per_call", value=instructions / calls)


def _top(costs: Costs) -> tuple[str, ...]:
    """Where a CPU profile has its instructions, when they are in more than one place."""
    total = sum(item.value for item in costs.functions)
    large = [item for item in costs.functions[:TOP] if total and item.value / total >= 0.02]
    if not large:
        return ()
    return (f"instructions by function: {', '.join(f'{i.name} {i.value / total:.0%}' for i in large)}",)
