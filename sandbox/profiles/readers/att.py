"""Reads AMD thread traces: `ui_output_*` folders of rocprofv3, one or several, and `stats_ui_output_*.csv`."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import median

from ridgeline.graph.kernel_profile import (
    Hotspot,
    KernelCalls,
    LaunchShape,
    Recording,
    Stall,
    StallShare,
    ThreadTrace,
    TracedKind,
)
from ridgeline.sandbox.profiles.readers import files, names
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.profiles.readers.names import own_name

# The instructions of a thread trace: rows of `code.json` or of `stats_ui_output_*.csv`, in the order of the code.

VERSIONS = ("2", "3")
"""Major versions of the viewer's files that are known: 3.0.0 is what was seen; 2 has the same columns."""
COLUMNS = ("isa", "linenumber", "source", "codeobj", "vaddr", "hit", "latency", "stall", "idle")
STATS = ("codeobj", "vaddr", "instruction", "hitcount", "latency", "stall", "idle", "source")
_STATS_LINE = re.compile(r'(\d+),(\d+),"?(.*?)"?,(\d+),(\d+),(\d+),(\d+),(".*"|[^"]*)$')
"""Names are written between quotes and quotes inside them are not escaped, so no CSV reader can take every line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """One instruction of the code; cycles are summed over all traced waves."""

    line: int
    """Its number in the viewer's listing, which wave files refer to."""
    isa: str
    kind: str
    source: str
    address: int
    hits: int
    latency: int
    stall: int
    idle: int
    kernel: str
    """The function it stands in, demangled where the listing does so; empty where it has no labels."""
    label: str
    """The same as the label spells it, which may be mangled."""


def from_viewer(path: Path) -> tuple[Instruction, ...]:
    """Reading a profile: instructions of a `code.json` with ATT columns; labels give `kernel` and are left out.

    Raises RecordingError where there is no code, a column is missing, a version unknown or a row damaged.
    """
    columns, rows = viewer_rows(path)
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise RecordingError(path, f"its header lacks {', '.join(missing)}")
    places = [columns.index(name) for name in COLUMNS]
    return tuple(_instructions(path, [[row[place] for place in places] for row in rows]))


def viewer_rows(path: Path) -> tuple[list[str], list[list[object]]]:
    """Reading a profile: the header in lower case, and the rows of a `code.json`, each as long as the header."""
    top = files.mapping(files.load(path), path, "the file")
    version = str(top.get("version", ""))
    if version.split(".")[0] not in VERSIONS:
        raise RecordingError(path, f"has version {version!r}; known are {', '.join(VERSIONS)}.x")
    if top.get("code") is None:
        raise RecordingError(path, "holds no code: nothing was decoded (no traced wave, or the decoder was missing)")
    header = top.get("header")
    names = header.split(",") if isinstance(header, str) else files.sequence(header, path, "header")
    columns = [str(name).strip().lower() for name in names]
    rows = []
    for number, row in enumerate(files.sequence(top["code"], path, "code")):
        cells = files.sequence(row, path, f"row {number} of code")
        if len(cells) != len(columns):
            raise RecordingError(path, f"row {number} of code has {len(cells)} cells, the header {len(columns)}")
        rows.append(cells)
    if not rows:
        raise RecordingError(path, "holds no instruction: nothing was traced")
    return columns, rows


def from_stats(path: Path) -> tuple[Instruction, ...]:
    """Reading a profile: instructions of a `stats_ui_output_*.csv`. Lines are numbered by row, as in the viewer's listing."""
    lines = files.read_text(path).replace("\r\n", "\n").split("\n")
    if files.titles(lines[0]) != STATS:
        raise RecordingError(path, f"its header is not {','.join(STATS)}", line=1)
    cells: list[Sequence[object]] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        match = _STATS_LINE.match(line)
        if match is None:
            raise RecordingError(path, "is cut or damaged: not eight columns", line=number)
        codeobj, address, isa, hits, latency, stall, idle, source = match.groups()
        counts = [int(digits) for digits in (codeobj, address, hits, latency, stall, idle) if len(digits) < 20]
        if len(counts) < 6:
            raise RecordingError(path, "holds a number of more than 64 bits", line=number)
        cells.append((isa, number - 2, source.strip('"'), *counts))
    if not cells:
        raise RecordingError(path, "has a header and no row: nothing was traced", line=1)
    return tuple(_instructions(path, cells))


def _instructions(path: Path, cells: Sequence[Sequence[object]]) -> Iterator[Instruction]:
    kernel, label, any_instruction = "", "", False
    for number, (isa, line, source, codeobj, address, *counts) in enumerate(cells):
        text = files.text_of(isa, path, f"ISA of row {number}")
        origin = files.text_of(source, path, f"Source of row {number}")
        if text.startswith("; "):
            label = text[2:].strip()
            kernel = origin or label
            continue
        place = files.read_integers((line, codeobj, address), path, f"LineNumber, Codeobj or Vaddr of row {number}")
        hits, latency, stall, idle = files.read_integers(counts, path, f"Hit, Latency, Stall or Idle of row {number}")
        any_instruction = True
        yield Instruction(
            line=place[0], isa=text, kind=kind(text), source=origin, address=place[2], hits=hits, latency=latency,
            stall=stall, idle=idle, kernel=kernel, label=label,
        )  # fmt: skip
    if not any_instruction:
        raise RecordingError(path, "holds labels and no instruction: nothing was traced")


# How long the matrix pipe of a SIMD works on one MFMA instruction, and which chip the code can only be for.

SIMDS = 4
"""Per compute unit, on every CDNA chip."""
PEAK = {
    "gfx90a": {"f64": 256, "f32": 256, "f16": 1024, "bf16": 1024, "i8": 1024},
    "gfx942": {"f64": 256, "f32": 256, "xf32": 1024, "f16": 2048, "bf16": 2048, "i8": 4096, "f8": 4096},
    "gfx950": {"f64": 128, "f32": 256, "f16": 4096, "bf16": 4096, "i8": 8192, "f8": 8192, "f6f4": 16384},
}
"""Floating-point operations per clock and compute unit. Sources: AMD's white papers of CDNA 2, 3 and 4."""
_MFMA = re.compile(r"v_(mfma|smfmac)_(?:scale_)?(f32|f64|i32)_(\d+)x(\d+)x(\d+)_?(?:(\d+)b_)?(\w+)")
_ONLY_GFX950 = re.compile(
    r"v_mfma_scale_|v_mfma_\w+_f8f6f4|ds_read_b(64|96)_tr_|v_permlane(16|32)_swap|v_cvt_scalef32_"
)


def arch(code: Sequence[Instruction], generation: str | None) -> str | None:
    """The chip, where an instruction exists on one alone; a trace names only its generation (9: gfx90a to gfx950)."""
    if generation != "9":
        return None
    return "gfx950" if any(_ONLY_GFX950.match(row.isa) for row in code) else None


def cycles(isa: str, chip: str | None) -> float | None:
    """Reading a profile: least cycles of a SIMD's matrix pipe for one MFMA: its operations over the peak of its type.

    An unknown chip counts as the fastest, so that use of the pipe is never overstated. None for what is not an MFMA of
    a known type. Older shapes run below the peak of a newer chip: a lower bound.
    """
    match = _MFMA.match(isa)
    if match is None:
        return None
    m, n, k, blocks = (int(digits or 1) for digits in match.group(3, 4, 5, 6))
    family = _family(match.group(7).split(" ")[0])
    chips = [PEAK[chip]] if chip in PEAK else list(PEAK.values())
    peak = max((peaks[family] for peaks in chips if family in peaks), default=None)
    # a structured-sparse instruction skips half of K
    operations = 2 * m * n * k * blocks / (2 if match.group(1) == "smfmac" else 1)
    return None if peak is None else operations / (peak / SIMDS)


def busy(code: Sequence[Instruction], busy_cycles: int, chip: str | None) -> float | None:
    """Reading a profile: share of `busy_cycles` in which the matrix pipe had work, at least; None where no MFMA is in the code."""
    costs = [(row.hits, cycles(row.isa, chip)) for row in code if row.kind == "mfma"]
    mfma_cycles = [hits * cost for hits, cost in costs if cost is not None]
    return sum(mfma_cycles) / busy_cycles if mfma_cycles and busy_cycles else None


def _family(types: str) -> str:
    for prefix, family in (
        ("f8f6f4", "f6f4"), ("fp8", "f8"), ("bf8", "f8"), ("bf16", "bf16"), ("f16", "f16"), ("i8", "i8"),
        ("xf32", "xf32"), ("f32", "f32"), ("f64", "f64"),
    ):  # fmt: skip
        if types.startswith(prefix):
            return family
    return types


# Where the time of traced waves went: shares of their lifetimes by class and by kind, and the hottest lines.

HOTSPOTS = 20
RAW_NAMES = 8
SPLIT = ("wait_lgkm", "wait_vm+lgkm")
"""Waits for one of several kinds of data: which, only the instructions they waited for can tell."""
_WAITED: dict[str, Stall] = {
    "smem": "smem_wait",
    "lds_read": "lds_wait",
    "lds_write": "lds_wait",
    "lds_other": "lds_wait",
}

Producers = Mapping[int, Mapping[int, int]]


def by_class(code: Sequence[Instruction], producers: Producers, wave_cycles: int) -> tuple[StallShare, ...]:
    """Reading a profile: shares of `wave_cycles`, largest first: stall cycles by class, then `tail`, `issue` and `idle`.

    `tail` is the latency of s_endpgm (draining stores); `issue` the latency of all others that was no stall. Together
    they are 1 in a trace whose checksum holds.
    """
    cycles: dict[Stall, float] = defaultdict(float)
    names: dict[Stall, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row, stall, amount in _attribute(code, producers):
        cycles[stall] += amount
        names[stall][row.isa.partition(" ")[0]] += amount
    cycles["idle"] = sum(row.idle for row in code)
    shares = [
        StallShare(stall=stall, share=amount / wave_cycles, basis="wave_time", raw_names=_largest(names[stall]))
        for stall, amount in cycles.items()
        if amount
    ]
    return tuple(sorted(shares, key=lambda share: -share.share))


def _attribute(code: Sequence[Instruction], producers: Producers) -> Iterator[tuple[Instruction, Stall, float]]:
    kinds = {row.line: row.kind for row in code}
    matrix = after_matrix(code)
    for row in code:
        if row.kind == "endpgm":
            yield row, "tail", row.latency
            continue
        yield row, "issue", max(0, row.latency - row.stall)
        for stall, part in _classes(row, kinds, producers, matrix):
            yield row, stall, row.stall * part


def _classes(
    row: Instruction, kinds: Mapping[int, str], producers: Producers, matrix: frozenset[int]
) -> Iterable[tuple[Stall, float]]:
    if row.line in matrix:
        return (("matrix", 1.0),)
    if row.kind not in SPLIT or row.line not in producers:
        return ((stall(row.kind), 1.0),)
    waited: dict[Stall, int] = defaultdict(int)
    for line, count in producers[row.line].items():
        waited[_wait_kinds(kinds.get(line, "other"))] += count
    total = sum(waited.values())
    return [(stall, count / total) for stall, count in waited.items()] if total else (("unknown_wait", 1.0),)


def _wait_kinds(kind: str) -> Stall:
    if kind.startswith("vmem_"):
        return "mem_wait"
    return _WAITED.get(kind, "unknown_wait")


def after_matrix(code: Sequence[Instruction]) -> frozenset[int]:
    """Reading a profile: lines of s_nop that stand directly after an MFMA: they wait for its result and belong to the matrix pipe."""
    lines, previous = [], ""
    for row in code:
        if row.kind == "nop":
            lines += [row.line] if previous == "mfma" else []
        else:
            previous = row.kind
    return frozenset(lines)


def _largest(amounts: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(amounts, key=lambda name: -amounts[name])[:RAW_NAMES])


def by_kind(code: Sequence[Instruction]) -> tuple[TracedKind, ...]:
    """Reading a profile: sums per kind of instruction, most stall cycles first."""
    rows: dict[str, list[Instruction]] = defaultdict(list)
    for row in code:
        rows[row.kind].append(row)
    kinds = [
        TracedKind(
            kind=kind, instructions=len(members), hits=sum(row.hits for row in members),
            latency=sum(row.latency for row in members), stall=sum(row.stall for row in members),
            idle=sum(row.idle for row in members),
        )
        for kind, members in rows.items()
    ]  # fmt: skip
    return tuple(sorted(kinds, key=lambda kind: (-kind.stall, -kind.latency, kind.kind)))


def hotspots(code: Sequence[Instruction], producers: Producers, wave_cycles: int) -> tuple[Hotspot, ...]:
    """Reading a profile: the instructions on which waves spent most of their time (latency: stall and issue), at most 20."""
    kinds = {row.line: row.kind for row in code}
    matrix = after_matrix(code)
    hottest = sorted((row for row in code if row.latency), key=lambda row: (-row.latency, row.line))[:HOTSPOTS]
    return tuple(
        Hotspot(
            isa=row.isa, pc=row.address, source=row.source, share=row.latency / wave_cycles, hits=row.hits,
            kernel=row.kernel,
            stall=_main_class(row, kinds, producers, matrix),
        )
        for row in hottest
    )  # fmt: skip


def _main_class(row: Instruction, kinds: Mapping[int, str], producers: Producers, matrix: frozenset[int]) -> Stall:
    if row.kind != "endpgm" and 2 * row.stall < row.latency:
        return "issue"
    return max(_classes(row, kinds, producers, matrix), key=lambda pair: pair[1])[0]


# The ways in which a thread trace misleads, each a named test that it passes or fails.

_UNNAMED = re.compile(r"\s*$|\d+ / 0x")
"""How the viewer's files name a dispatch of which they know only the code object and address."""
TOLERANCE = 0.01
"""Of the checksum: 22 whole traces lie between 0.9974 and 1.0005."""
MEANING = {
    "hits": "no instruction was executed: nothing was traced",
    "att_sum": "latency and idle do not add up to the waves' lifetimes: the trace is cut or was decoded wrongly",
    "rows": "an instruction stalled longer than it took",
    "mfma_hits": "the code holds MFMA and no traced wave executed one: these waves left early and say nothing about it",
    "label": "the code's label is none of the traced dispatches",
    "waves": "no wave was traced: no block ran on the traced unit; choose another unit or mask",
    "no_loss": "waves begin or end that the trace does not show whole: the buffer was full or decoding failed",
}
"""What a failed test means, for people."""


def validate(
    trace: ThreadTrace, code: Sequence[Instruction], *, dispatches: frozenset[str], stitched: bool, waves: int | None
) -> tuple[tuple[str, bool], ...]:
    """(name, passed) of every test that the recording has the data for; names are the keys of MEANING.

    `waves` is the number of lifetimes in the recording, None where it holds none. That the label is the kernel which
    was asked for, and that there are at least as many waves as a block has, only the caller can test.
    """
    tests = {"hits": trace.hits > 0, "rows": all(row.stall <= row.latency for row in code)}
    if trace.checksum is not None:
        tests["att_sum"] = adds_up(trace.latency + trace.idle, trace.wave_cycles)
    matrix = [row.hits for row in code if row.kind == "mfma"]
    if matrix:
        tests["mfma_hits"] = sum(matrix) > 0
    if trace.kernel and (dispatch_names := {own_name(name) for name in dispatches if not _UNNAMED.match(name)}):
        labels = {trace.kernel} | {row.label for row in code if row.kernel == trace.kernel}
        tests["label"] = any(name in label for name in dispatch_names for label in labels)
    if waves is not None:
        tests["waves"] = waves > 0
    ends = _ends(code)
    tests["no_loss"] = stitched and ends is not None
    if ends is not None and waves is not None:
        tests["no_loss"] &= adds_up(ends, waves) and _begins(code) >= (1 - TOLERANCE) * waves
    return tuple((name, tests[name]) for name in MEANING if name in tests)


def adds_up(count: int, expected: int) -> bool:
    """Reading a profile: whether two counts are the same within the tolerance; of counts and not ratios, so that 1 per cent is exact."""
    return abs(count - expected) <= TOLERANCE * expected


def _ends(code: Sequence[Instruction]) -> int | None:
    """Reading a profile: how often a wave ended: each ends once. None where the code has no end, so it is not all there."""
    hits = [row.hits for row in code if row.kind == "endpgm"]
    return sum(hits) if hits else None


def _begins(code: Sequence[Instruction]) -> int:
    """Reading a profile: how often the first instruction of a kernel was executed; more often than waves where it heads a loop."""
    first_hits = {row.kernel: row.hits for row in reversed(code)}
    return sum(first_hits.values())


# What a thread trace says beside its code: lifetimes of waves, what their waits waited for, residency and clock.

SAMPLED_FILES = 8
SAMPLED_BYTES = 8 * 2**20
"""A traced softmax has 2,056 wave files; what a wait waits for is the same in each, so a few are enough."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """One traced wave; times are shader clock cycles of its engine."""

    engine: str
    simd: str
    file: str
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """From the sampled wave files."""

    producers: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Line of a wait -> line of the instruction it waited for -> how often it is listed. Empty: waited for nothing."""
    sampled: int = 0
    present: int = 0
    """Wave files in the folder; fewer than waves where only a part was kept."""
    complete: bool = True
    """Every instruction of the sampled waves was matched to the code."""


def read_lives(path: Path) -> tuple[str | None, tuple[Life, ...]]:
    """The instruction set's generation (`gfxip`) and all traced waves of a `filenames.json`."""
    top = files.mapping(files.load(path), path, "the file")
    generation = top.get("gfxip")
    listing = top.get("wave_filenames")
    if listing is None:
        raise RecordingError(path, "lists no waves: thread trace was off or nothing was traced")
    return (None if generation is None else str(generation)), tuple(_lives(path, listing))


def _lives(path: Path, listing: object) -> Iterator[Life]:
    for engine, simds in files.mapping(listing, path, "wave_filenames").items():
        for simd, slots in files.mapping(simds, path, f"engine {engine}").items():
            for slot, waves in files.mapping(slots, path, f"SIMD {simd}").items():
                for wave in files.mapping(waves, path, f"slot {slot}").values():
                    cells = files.sequence(wave, path, "a wave")
                    if len(cells) != 3:
                        raise RecordingError(path, f"a wave has {len(cells)} entries, not file, begin and end")
                    begin, end = files.read_integers(cells[1:], path, "begin or end of a wave")
                    if end < begin:
                        raise RecordingError(path, f"a wave ends at {end}, before its begin {begin}")
                    file = files.text_of(cells[0], path, "file of a wave")
                    yield Life(engine=engine, simd=simd, file=file, begin=begin, end=end)


def busy_cycles(waves: Sequence[Life]) -> int:
    """Cycles in which the traced SIMDs held a traced wave, summed over SIMDs; overlapping waves count once."""
    spans: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for wave in waves:
        spans[wave.engine, wave.simd].append((wave.begin, wave.end))
    total = 0
    for intervals in spans.values():
        reached = 0
        for begin, end in sorted(intervals):
            total += max(0, end - max(begin, reached))
            reached = max(reached, end)
    return total


def read_waits(folder: Path, waves: Sequence[Life]) -> Waits:
    """Reading a profile: reads a bounded sample of the wave files that are there, spread over all waves."""
    there = {entry.name: entry for entry in folder.iterdir() if entry.name.startswith("se")}
    present = [there[wave.file] for wave in waves if wave.file in there]
    producers: dict[int, Counter[int]] = {}
    complete, sampled, size_bytes = True, 0, 0
    for path in _spread(present, SAMPLED_FILES):
        size_bytes += path.stat().st_size
        if sampled and size_bytes > SAMPLED_BYTES:
            break
        complete &= _add_wave(path, producers)
        sampled += 1
    return Waits(producers=producers, sampled=sampled, present=len(present), complete=complete)


def _spread(paths: Sequence[Path], most: int) -> list[Path]:
    count = min(most, len(paths))
    return [paths[index * len(paths) // count] for index in range(count)]


def _add_wave(path: Path, producers: dict[int, Counter[int]]) -> bool:
    top = files.mapping(files.load(path), path, "the file")
    wave = files.mapping(top.get("wave"), path, "wave")
    for entry in files.sequence(wave.get("waitcnt", []), path, "waitcnt"):
        cells = files.sequence(entry, path, "a wait")
        if len(cells) != 2:
            raise RecordingError(path, f"a wait has {len(cells)} entries, not its line and its producers")
        counted = producers.setdefault(files.read_integer(cells[0], path, "line of a wait"), Counter())
        for producer in files.sequence(cells[1], path, "producers of a wait"):
            line = files.sequence(producer, path, "a producer")
            if not line:
                raise RecordingError(path, "a producer of a wait is empty")
            counted[files.read_integer(line[0], path, "line of a producer")] += 1
    instructions, stitched = top.get("num_insts"), top.get("num_stitched")
    return instructions is None or stitched is None or instructions == stitched


def read_residency(path: Path, kernel: str) -> tuple[frozenset[str], float | None]:
    """Names of dispatches in an `occupancy.json`, and the mean number of `kernel`'s waves on a unit that had any.

    All dispatches count where none has this name. None where no wave began and ended.
    """
    top = files.mapping(files.load(path), path, "the file")
    dispatches = files.mapping(top.get("dispatches", {}), path, "dispatches")
    names = {index: files.text_of(name, path, "a dispatch") for index, name in dispatches.items()}
    kernel_ids = {int(index) for index, name in names.items() if name == kernel and index.isdecimal()}
    waves, busy = 0, 0
    for engine, events in top.items():
        if not engine.isdecimal():
            continue
        units: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for event in files.sequence(events, path, f"engine {engine}"):
            cells = files.read_integers(files.sequence(event, path, "an event"), path, "an event")
            if len(cells) != 6:
                raise RecordingError(path, f"an event has {len(cells)} entries, not 6")
            if not kernel_ids or cells[5] in kernel_ids:
                units[cells[1]].append((cells[0], 1 if cells[4] else -1))
        for changes in units.values():
            wave_cycles, active = _resident(changes)
            waves += wave_cycles
            busy += active
    return frozenset(names.values()), waves / busy if busy else None


def _resident(changes: list[tuple[int, int]]) -> tuple[int, int]:
    wave_cycles, active, now, before = 0, 0, 0, 0
    for time, change in sorted(changes):
        wave_cycles += now * (time - before)
        active += (time - before) if now else 0
        now, before = max(0, now + change), time
    return wave_cycles, active


def read_clock_mhz(path: Path) -> float | None:
    """Reading a profile: the shader clock between the first and last time stamp of a `realtime.json`; None where it holds too few."""
    top = files.mapping(files.load(path), path, "the file")
    meta = files.mapping(top.get("metadata", {}), path, "metadata")
    if "frequency" not in meta:
        return None
    frequency = files.read_integer(meta["frequency"], path, "frequency")
    clocks = []
    for engine, stamps in top.items():
        if not engine.startswith("SE"):
            continue
        pairs = [
            files.read_integers(files.sequence(pair, path, "a time stamp"), path, "a time stamp")
            for pair in files.sequence(stamps, path, engine)
        ]
        if any(len(pair) != 2 for pair in pairs):
            raise RecordingError(path, "a time stamp is not a pair of clocks")
        if len(pairs) >= 2 and pairs[-1][1] > pairs[0][1] and pairs[-1][0] > pairs[0][0]:
            clocks.append((pairs[-1][0] - pairs[0][0]) / (pairs[-1][1] - pairs[0][1]) * frequency / 1e6)
    return median(clocks) if clocks else None


HEAD = 65536
_NEEDED = ("code.json", "filenames.json")


@dataclass(frozen=True, kw_only=True)
class _Parts:
    code: tuple[Instruction, ...]
    lives: tuple[Life, ...] | None
    waits: Waits
    generation: str | None
    dispatches: frozenset[str] = frozenset()
    waves_per_unit: float | None = None
    clock_mhz: float | None = None
    files: tuple[str, ...]


def sniff(path: Path) -> bool:
    """Reading a profile: whether `path` is a viewer folder (or its code.json), a folder of such folders, or a stats CSV. Reads 64 KiB."""
    if path.is_dir():
        return bool(_folders(path))
    if path.name == "code.json":
        return _is_viewer(path.parent)
    return files.columns(path) == STATS


def read_recording(path: Path) -> Recording:
    """The trace at `path`, of several the one whose waves took most cycles; the others are named in the warnings.

    Raises RecordingError where a file is missing, cut, damaged or of an unknown version.
    """
    hottest, *rest = read_each(path)
    if not rest:
        return hottest
    listing = ", ".join(f"{recording.att.kernel if recording.att else ''} ({recording.files[0]})" for recording in rest)
    return hottest.model_copy(
        update={"warnings": (*hottest.warnings, f"{len(rest)} other traces beside this one, the hottest: {listing}")}
    )


def read_each(path: Path) -> tuple[Recording, ...]:
    """Every trace at `path`, most wave cycles first."""
    if path.is_file() and path.name != "code.json":
        return (_stats(path),)
    folders = _folders(path.parent if path.is_file() else path)
    if not folders:
        missing = " and ".join(name for name in _NEEDED if not (path / name).is_file())
        raise RecordingError(path, f"is no thread trace: {missing} missing")
    recordings = [_recording(_viewer(folder), folder) for folder in folders]
    return tuple(sorted(recordings, key=lambda recording: -(recording.att.wave_cycles if recording.att else 0)))


def _folders(path: Path) -> list[Path]:
    if _is_viewer(path):
        return [path]
    return [child for child in sorted(path.iterdir()) if child.is_dir() and _is_viewer(child)]


def _is_viewer(folder: Path) -> bool:
    if not all((folder / name).is_file() for name in _NEEDED):
        return False
    with (folder / "filenames.json").open("rb") as file:
        head = file.read(HEAD).replace(b" ", b"")
    # the same folder with samples in place of a trace is read by pc_sampling
    return b'"thread_trace":false' not in head and b'"wave_filenames":null' not in head


def _viewer(folder: Path) -> _Parts:
    code = from_viewer(folder / "code.json")
    generation, lives = read_lives(folder / "filenames.json")
    files = [*_NEEDED]
    dispatches, residency, clock = frozenset[str](), None, None
    if (folder / "occupancy.json").is_file():
        files.append("occupancy.json")
        dispatches, residency = read_residency(folder / "occupancy.json", _kernel(code))
    if (folder / "realtime.json").is_file():
        files.append("realtime.json")
        clock = read_clock_mhz(folder / "realtime.json")
    return _Parts(
        code=code, lives=lives, waits=read_waits(folder, lives), generation=generation, dispatches=dispatches,
        waves_per_unit=residency, clock_mhz=clock, files=tuple(str(folder / name) for name in files),
    )  # fmt: skip


def _stats(path: Path) -> Recording:
    code = from_stats(path)
    folder = path.with_name(path.stem.removeprefix("stats_"))
    if _is_viewer(folder):
        viewer = _viewer(folder)
        if [row.hits for row in viewer.code] != [row.hits for row in code]:
            raise RecordingError(path, f"does not agree with {folder.name}/code.json beside it: different traces")
        return _recording(viewer, folder, also=(str(path),))
    parts = _Parts(code=code, lives=None, waits=Waits(), generation=None, files=(str(path),))
    return _recording(parts, path)


def _recording(parts: _Parts, path: Path, also: tuple[str, ...] = ()) -> Recording:
    chip = arch(parts.code, parts.generation)
    trace = _trace(parts, chip, path)
    checked = validate(
        trace, parts.code, dispatches=parts.dispatches, stitched=parts.waits.complete,
        waves=None if parts.lives is None else len(parts.lives),
    )  # fmt: skip
    trace = trace.model_copy(update={"validators": checked})
    return Recording(
        format="att", tool="rocprofv3", vendor="amd", arch=chip, att=trace, stalls=trace.by_class,
        hotspots=trace.hotspots, rows=len(parts.code), files=(*parts.files, *also),
        kernels=_trace_kernel(trace.kernel), warnings=_warnings(parts, checked, path),
    )  # fmt: skip


def _trace_kernel(kernel: str) -> tuple[KernelCalls, ...]:
    """One traced dispatch, of which no time is known; nothing where the code has no label."""
    once = LaunchShape(calls=1)
    calls = KernelCalls(name=kernel, display=names.display(kernel), category=names.category(kernel), calls=1, last=once)
    return (calls,) if kernel else ()


def _trace(parts: _Parts, chip: str | None, path: Path) -> ThreadTrace:
    code, lives = parts.code, parts.lives
    latency, idle = sum(row.latency for row in code), sum(row.idle for row in code)
    cycles = sum(wave.end - wave.begin for wave in lives) if lives else latency + idle
    if cycles > files.LARGEST:
        raise RecordingError(path, "its cycles do not fit 64 bits: damaged")
    checksum = (latency + idle) / cycles if lives and cycles else None
    per = max(cycles, 1)
    return ThreadTrace(
        kernel=_kernel(code),
        instructions=len(code),
        waves=sum(row.hits for row in code if row.kind == "endpgm") if lives is None else len(lives),
        wave_cycles=cycles,
        hits=sum(row.hits for row in code),
        latency=latency,
        stall=sum(row.stall for row in code),
        idle=idle,
        by_class=by_class(code, parts.waits.producers, per),
        checksum=checksum,
        checksum_ok=None if checksum is None else adds_up(latency + idle, cycles),
        kinds=by_kind(code),
        clock_mhz=parts.clock_mhz,
        waves_per_unit=parts.waves_per_unit,
        matrix_busy=busy(code, busy_cycles(lives), chip) if lives else None,
        hotspots=hotspots(code, parts.waits.producers, per),
    )


def _kernel(code: Sequence[Instruction]) -> str:
    """The label with most cycles under it: a trace lists device functions and helper kernels too."""
    cycles = Counter[str]()
    for row in code:
        cycles[row.kernel] += row.latency + row.idle
    return max(cycles, key=lambda name: cycles[name])


def _warnings(parts: _Parts, checked: Sequence[tuple[str, bool]], path: Path) -> tuple[str, ...]:
    warnings = [f"{name}: {MEANING[name]}" for name, passed in checked if not passed]
    if not any(row.source for row in parts.code):
        warnings.append("no instruction has a source line: compile with line tables (-g) to see where the time goes")
    waits = parts.waits
    split = any(row.stall for row in parts.code if row.kind in SPLIT)
    if parts.lives is None:
        warnings.append(
            f"{path.name} alone holds no lifetimes of waves: shares are of latency + idle, with no checksum"
        )
    if split and not waits.sampled:
        warnings.append("no wave file: waits on lgkmcnt are not split into LDS and scalar loads")
    elif split and parts.lives and waits.sampled < len(parts.lives):
        warnings.append(
            f"what waits waited for is known from {waits.sampled} of {len(parts.lives)} waves, {waits.present} in files"
        )
    kernels = {row.kernel for row in parts.code if row.hits}
    if len(kernels) > 1:
        warnings.append(f"code of {len(kernels)} functions was executed; shares are of all of them")
    return tuple(warnings)


# Sorts AMD instructions into kinds, and kinds into the stall classes of a profile, in gfx9 and gfx12 spelling.

_WAITS = {
    "s_wait_loadcnt": "wait_vm",
    "s_wait_storecnt": "wait_vm",
    "s_wait_samplecnt": "wait_vm",
    "s_wait_bvhcnt": "wait_vm",
    "s_wait_asynccnt": "wait_vm",
    "s_wait_tensorcnt": "wait_vm",
    "s_waitcnt_vscnt": "wait_vm",
    "s_waitcnt_vmcnt": "wait_vm",
    "s_waitcnt_lgkmcnt": "wait_lgkm",
    "s_waitcnt_expcnt": "wait_exp",
    "s_waitcnt_depctr": "wait_alu",
    "s_wait_alu": "wait_alu",
    "s_wait_dscnt": "wait_ds",
    "s_wait_kmcnt": "wait_km",
    "s_wait_expcnt": "wait_exp",
    "s_wait_loadcnt_dscnt": "wait_vm+lgkm",
    "s_wait_storecnt_dscnt": "wait_vm+lgkm",
    "s_delay_alu": "wait_alu",
}
_SCALAR = (
    (re.compile(r"s_barrier"), "barrier"),
    (re.compile(r"s_endpgm"), "endpgm"),
    (re.compile(r"s_nop$"), "nop"),
    (re.compile(r"s_sleep"), "sleep"),
    (re.compile(r"s_(branch|cbranch|setpc|swappc|call)"), "branch"),
    (
        re.compile(r"s_(load|store|buffer|scratch|atomic|dcache|gl1|prefetch|memtime|memrealtime|atc_probe)"),
        "smem",
    ),
    (re.compile(r"s_wait"), "wait_other"),
    (re.compile(r"s_(sendmsg|trap|sethalt|icache|ttrace)"), "other"),
)
_VECTOR = (
    (re.compile(r"v_(mfma|smfmac|wmma|swmmac)"), "mfma"),
    (re.compile(r"v_"), "valu"),
    (re.compile(r"ds_(read|load)"), "lds_read"),
    (re.compile(r"ds_(write|store)"), "lds_write"),
    (re.compile(r"(ds|lds)_"), "lds_other"),
    (re.compile(r"(global|buffer)_load_(async_to_)?lds_|tensor_load_to_lds"), "vmem_lds_dma"),
    (re.compile(r"(t?buffer|global|flat|scratch|image|tensor)_(load|sample|gather)"), "vmem_load"),
    (re.compile(r"(t?buffer|global|flat|scratch|image|tensor)_store"), "vmem_store"),
    (re.compile(r"(t?buffer|global|flat|scratch|image)_atomic"), "vmem_atomic"),
    (re.compile(r"(t?buffer|global|flat|scratch|image)_"), "vmem_other"),
)
_STALLS: dict[str, Stall] = {
    "wait_vm": "mem_wait",
    "wait_lgkm": "lgkm_wait",
    "wait_ds": "lds_wait",
    "wait_km": "smem_wait",
    "wait_vm+lgkm": "mixed_wait",
    "wait_exp": "other",
    "wait_alu": "dependency",
    "wait_other": "unknown_wait",
    "barrier": "barrier",
    "sleep": "sleep",
    "nop": "nop",
    "branch": "branch",
    "endpgm": "tail",
    "mfma": "matrix",
    "valu": "valu",
    "salu": "salu",
    "smem": "smem_issue",
    "lds_read": "lds_issue",
    "lds_write": "lds_issue",
    "lds_other": "lds_issue",
    "vmem_lds_dma": "mem_issue",
    "vmem_load": "mem_issue",
    "vmem_atomic": "mem_issue",
    "vmem_other": "mem_issue",
    "vmem_store": "store",
    "other": "other",
}


@lru_cache(maxsize=65536)
def kind(isa: str) -> str:
    """Reading a profile: the kind of one instruction by its mnemonic and operands; `other` for one that is not known."""
    mnemonic, _, operands = isa.strip().partition(" ")
    if mnemonic == "s_waitcnt":
        return _waitcnt(operands)
    if mnemonic in _WAITS:
        return _WAITS[mnemonic]
    if mnemonic.startswith("s_"):
        return next((name for pattern, name in _SCALAR if pattern.match(mnemonic)), "salu")
    vector_kind = next((name for pattern, name in _VECTOR if pattern.match(mnemonic)), "other")
    # gfx9 spells a load that goes to LDS directly as a modifier, not as another mnemonic
    return "vmem_lds_dma" if vector_kind == "vmem_load" and re.search(r"\blds\b", operands) else vector_kind


def stall(name: str) -> Stall:
    """Reading a profile: the class that stall cycles of this kind belong to; cycles of `mem_wait` are waits for data of device memory."""
    return _STALLS[name]


def _waitcnt(operands: str) -> str:
    vector, scalar = "vmcnt" in operands, "lgkmcnt" in operands
    if vector and scalar:
        return "wait_vm+lgkm"
    if vector or scalar:
        return "wait_vm" if vector else "wait_lgkm"
    # a bare number waits for every counter at once
    return "wait_exp" if "expcnt" in operands else "wait_vm+lgkm"
