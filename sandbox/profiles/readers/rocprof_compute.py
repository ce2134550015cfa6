"""Reads rocprof-compute: a workload folder, its pmc_perf.csv (wide, or long from rocpd), and analysis databases."""

import csv
import json
import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, stdev

from ridgeline.graph.kernel_profile import KernelCalls, LaunchShape, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers import files, names
from ridgeline.sandbox.profiles.readers.agents import registers
from ridgeline.sandbox.profiles.readers.engine import Engine, open_engine
from ridgeline.sandbox.profiles.readers.files import RecordingError, is_ended, read_text

# The wide form of rocprof-compute's table: a row per dispatch with all its counters, and the level files beside it.

TIMES = ("start_timestamp", "end_timestamp")
_LEVEL_FILES = ("SQ_LEVEL_WAVES", "SQ_IFETCH_LEVEL", "SQ_INST_LEVEL_LDS", "SQ_INST_LEVEL_SMEM", "SQ_INST_LEVEL_VMEM")
_TIME = re.compile(r"\d{1,19}(\.\d+)?$")


@dataclass(kw_only=True)
class Kernel:
    """Running sums over one kernel's dispatches, so that memory does not grow with their number of counters."""

    name: str
    last_launch: LaunchShape = field(default_factory=lambda: LaunchShape(calls=0))
    launches: dict[LaunchShape, LaunchShape] = field(default_factory=dict)
    calls: int = 0
    times: list[float] = field(default_factory=list)
    ruined: int = 0
    """Dispatches without a usable time."""
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def means(self) -> dict[str, float]:
        """Counter -> mean over the dispatches that have it."""
        return {name: self.sums[name] / self.counts[name] for name in self.sums}

    def add(self, counter: str, value: float) -> None:
        """Adds one dispatch's counter."""
        self.sums[counter] = self.sums.get(counter, 0.0) + value
        self.counts[counter] = self.counts.get(counter, 0) + 1

    def launch(self, launched: LaunchShape) -> None:
        """Reading a profile: counts one call."""
        self.calls += 1
        calls = 1 + (self.launches[launched].calls if launched in self.launches else 0)
        self.last_launch = self.launches[launched] = launched.model_copy(update={"calls": calls})

    def time(self, time_ns: float) -> None:
        """Adds one dispatch's time; 0 where it has none that can be used."""
        if time_ns > 0:
            self.times.append(time_ns)
        else:
            self.ruined += 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """One dispatch of a wide table."""

    number: str
    kernel: str
    cells: Mapping[str, str]
    counters: Mapping[str, float]
    left_out: frozenset[str]


def dispatches(path: Path) -> Iterator[Dispatch]:
    """Reading a profile: rows of a wide table, with counters of the level files beside it that the table itself lacks."""
    extra = _levels(path.parent) if path.name == "pmc_perf.csv" else {}
    for cells, counters, left_out in wide(path):
        more = extra.get((cells["dispatch_id"], cells["gpu_id"]), {})
        yield Dispatch(
            number=cells["dispatch_id"],
            kernel=cells["kernel_name"],
            cells=cells,
            counters={**more, **counters},
            left_out=frozenset(left_out - set(more)),
        )


def kernels_of_wide_table(path: Path) -> list[Kernel]:
    """Reading a profile: all kernels of a wide table. Raises RecordingError where it is cut, damaged or empty."""
    kernels: dict[str, Kernel] = {}
    for row in dispatches(path):
        kernel = kernels.setdefault(row.kernel, Kernel(name=row.kernel))
        kernel.launch(read_launch(row.cells))
        kernel.time(duration(*(row.cells.get(name, "") for name in TIMES)))
        for name, value in row.counters.items():
            kernel.add(name, value)
        kernel.left_out |= row.left_out
    return list(kernels.values())


def _levels(folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Reading a profile: counters of the level files, where the accumulator's meaning is the file's name."""
    by_dispatch: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for stem in _LEVEL_FILES:
        path = folder / f"{stem}.csv"
        if not path.is_file():
            continue
        for cells, counters, _ in wide(path):
            accumulated = counters.pop("SQ_ACCUM_PREV_HIRES", None)
            counts = by_dispatch[cells["dispatch_id"], cells["gpu_id"]]
            counts |= {name: value for name, value in counters.items() if name not in counts}
            if accumulated is not None:
                counts[f"{stem}_ACCUM"] = accumulated
    return by_dispatch


def duration(start: str, end: str) -> float:
    """Reading a profile: nanoseconds from start to end; 0 where they give no time: missing, reversed, or rounded by a spreadsheet."""
    if not (_TIME.match(start.strip()) and _TIME.match(end.strip())):
        return 0.0
    return max(0.0, float(end) - float(start))


def read_launch(row: Mapping[str, str]) -> LaunchShape:
    """How a dispatch was launched; sizes are products over axes."""
    grid, group = read_integer(row.get("grid_size")), read_integer(row.get("workgroup_size"))
    return LaunchShape(
        calls=1,
        grid_items=grid,
        workgroup_items=group,
        blocks=(grid // group, 1, 1) if grid and group and grid % group == 0 else None,
        arch_vgpr=read_integer(row.get("arch_vgpr")), accum_vgpr=read_integer(row.get("accum_vgpr")), sgpr=read_integer(row.get("sgpr")),
        lds_bytes=read_integer(row.get("lds_per_workgroup")), lds_static_only=True,
        scratch_bytes=read_integer(row.get("scratch_per_workitem")),
    )  # fmt: skip


TABLE = "pmc_perf.csv"
PASS = "pmc_perf_0.csv"
"""The first pass; all of them become the table where the tool comes to its end."""
VARIANTS = 16


def sniff(path: Path) -> bool:
    """Reading a profile: whether `path` is a workload folder, a table of one, or an analysis database. Reads one line or the schema."""
    if path.is_dir():
        return sniff(path / TABLE) if (path / TABLE).is_file() else (path / PASS).is_file()
    if path.is_file() and _is_database(path):
        return is_database(path)
    return set(KEYS) <= set(files.columns(path))


def read_recording(path: Path) -> Recording:
    """Counters per kernel, as means over its dispatches, with the device's constants from sysinfo.csv.

    Counter runs serialise dispatches, so times are of grade `serialised`. Raises RecordingError where a file is
    missing, cut, damaged, without dispatches or of an unknown version.
    """
    if path.is_file() and _is_database(path):
        return read_database(path)
    folder, table = (path, path / TABLE) if path.is_dir() else (path.parent, path)
    if not table.is_file():
        why = "its passes were not joined: no dispatch fits the filter it was profiled with, or the run was ended"
        raise RecordingError(
            path, f"holds no {TABLE}: {why if (folder / PASS).is_file() else 'no counters were collected'}"
        )
    kernels = _kernels(table)
    about = system(folder / "sysinfo.csv")
    listed = _list(kernels, about.arch)
    times = [kernel.total_ns for kernel in listed]
    return Recording(
        format="rocprof_compute", tool="rocprof-compute", tool_version=about.version, vendor="amd", arch=about.arch,
        device=about.device, grade="serialised", kernels=listed, facts=about.facts,
        rows=sum(kernel.calls for kernel in listed),
        sum_ns=None if None in times else math.fsum(time for time in times if time is not None),
        files=(str(table), *about.files), warnings=(*about.warnings, *_warnings(kernels, listed)),
    )  # fmt: skip


def _kernels(table: Path) -> list[Kernel]:
    titles = files.columns(table)
    if not any(titles):
        raise RecordingError(table, "is empty or no table; record again")
    missing = [name for name in KEYS if name not in titles]
    if missing:
        raise RecordingError(table, f"its header lacks {', '.join(missing)}", line=1)
    read_kernels = kernels_of_long_table if is_long(titles) else kernels_of_wide_table
    kernels = read_kernels(table)
    if not kernels:
        raise RecordingError(table, "has a header and no dispatch: nothing was profiled", line=1)
    if not any(kernel.sums for kernel in kernels):
        raise RecordingError(table, "holds no counter that is not 0: counters were not collected", line=2)
    return kernels


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _list(kernels: Sequence[Kernel], arch: str | None) -> tuple[KernelCalls, ...]:
    all_kernels_ns = math.fsum(time for kernel in kernels for time in kernel.times)
    complete = not any(kernel.ruined for kernel in kernels)
    listed = [_kernel(kernel, all_kernels_ns if complete else None) for kernel in kernels]
    return registers(sorted(listed, key=lambda calls: (-(calls.total_ns or 0), calls.name)), arch)


def _kernel(kernel: Kernel, all_kernels_ns: float | None) -> KernelCalls:
    times = kernel.times
    total = math.fsum(times) if times and not kernel.ruined else None
    variants = sorted(kernel.launches.values(), key=lambda launched: -launched.calls)[:VARIANTS]
    return KernelCalls(
        name=kernel.name, display=names.display(kernel.name), category=names.category(kernel.name),
        calls=kernel.calls, total_ns=total, mean_ns=math.fsum(times) / len(times) if times else None,
        median_ns=median(times) if times else None, min_ns=min(times, default=None), max_ns=max(times, default=None),
        stdev_ns=stdev(times) if len(times) > 1 else None,
        share=total / all_kernels_ns if total is not None and all_kernels_ns else None, last=kernel.last_launch, variants=tuple(variants),
        metrics=tuple(Named(name=name, value=value) for name, value in sorted(kernel.means().items())),
    )  # fmt: skip


def _warnings(kernels: Sequence[Kernel], listed: Sequence[KernelCalls]) -> list[str]:
    warnings = ["grid and workgroup are told as products over their axes: blocks is their number, not their shape"]
    ruined = sum(kernel.ruined for kernel in kernels)
    if ruined:
        warnings.append(
            f"{ruined} of {sum(entry.calls for entry in listed)} dispatches have no usable time: end is not after start, "
            "or a spreadsheet rounded both"
        )
    absent = sorted({name for kernel in kernels for name in kernel.left_out})
    if absent:
        more = f" and {len(absent) - 8} more" if len(absent) > 8 else ""
        warnings.append(f"left out because 0 means that it was not collected: {', '.join(absent[:8])}{more}")
    return warnings


# The device and tool that rocprof-compute names in sysinfo.csv, where what it could not find stays unknown.

FACTS = {
    "units": "cu_per_gpu",
    "simds_per_unit": "simd_per_cu",
    "wave_size": "wave_size",
    "l2_domains": "num_xcd",
    "clock_mhz": "max_sclk",
    "memory_clock_mhz": "max_mclk",
    "memory_channels": "num_hbm_channels",
}
"""Name of a fact -> column. A 0 in any of them is a thing that the tool could not find out."""


@dataclass(frozen=True, kw_only=True)
class System:
    """What one sysinfo says."""

    arch: str | None = None
    device: str | None = None
    version: str | None = None
    facts: tuple[Named, ...] = ()
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def system(path: Path) -> System:
    """Reading a profile: the first device of a sysinfo.csv; an empty System with a warning where there is none.

    Raises RecordingError where the file is cut or damaged.
    """
    if not path.is_file():
        return System(warnings=("no sysinfo.csv beside the counters: device and architecture are not told",))
    try:
        rows = [cells for cells in csv.reader(read_text(path).splitlines(), strict=True) if cells]
    except csv.Error as error:
        raise RecordingError(path, f"is cut or damaged: {error}") from error
    if len(rows) < 2 or len(rows[1]) != len(rows[0]) or not is_ended(path):
        raise RecordingError(path, "is cut: not as many values as columns, or no end of the last line", line=2)
    fields = {name.strip().lower(): value.strip() for name, value in zip(rows[0], rows[1], strict=True)}
    return describe_system(fields, path)


def describe_system(fields: Mapping[str, str], path: Path) -> System:
    """Reading a profile: the same from column -> value, however it was stored."""
    arch = fields.get("gpu_arch", "").split(":")[0]
    facts = {name: value for name, column in FACTS.items() if (value := _positive(fields.get(column)))}
    waves, simds = _positive(fields.get("max_waves_per_cu")), facts.get("simds_per_unit")
    if waves and simds:
        facts["max_waves_per_simd"] = waves / simds
    if "memory_channels" not in facts and (gbps := _positive(fields.get("hbm_bw"))):
        facts["memory_gbps"] = gbps  # up to version 2, in place of the channels; of the die that ran, not of the board
    told = {*facts, *(("memory_channels",) if "memory_gbps" in facts else ())}
    unknown = [column for name, column in FACTS.items() if name not in told]
    return System(
        arch=arch if arch.startswith("gfx") else None,
        device=fields.get("gpu_model") or None,
        version=fields.get("version") or None,
        facts=tuple(Named(name=name, value=value) for name, value in facts.items()),
        files=(str(path),),
        warnings=(f"{path.name} does not know {', '.join(unknown)}",) if unknown else (),
    )


def _positive(text: str | None) -> float | None:
    """Reading a profile: columns hold plain numbers; what is empty, 0 or text is unknown."""
    digits = (text or "").strip()
    if not digits.replace(".", "", 1).isdecimal() or len(digits) > 15:
        return None
    return float(digits) or None


# Reads the SQLite database that `rocprof-compute analyze` writes: dispatches and named metric values per kernel.

MAGIC = b"SQLite format 3\0"
SCHEMAS = ("1",)
"""Major versions of the schema that are known; 1.3.0 was seen."""
KEPT = ("Avg", "Value", "Peak", "Pct of Peak", "Peak (Empirical)")
"""Kinds of value that describe a kernel; spreads over dispatches and the 128 channels of L2 are left in the file."""
LAUNCH = {
    "grid_items": ("Grid Size", "Work-items"),
    "workgroup_items": ("Workgroup Size", "Work-items"),
    "arch_vgpr": ("VGPRs", "Registers"),
    "accum_vgpr": ("AGPRs", "Registers"),
    "sgpr": ("SGPRs", "Registers"),
    "lds_bytes": ("LDS Allocation", "Bytes"),
    "scratch_bytes": ("Scratch Allocation", "Bytes per work-item"),
}
"""Field of a launch -> metric and unit."""
_TABLES = ("compute_metadata", "compute_kernel", "compute_dispatch", "compute_kernel_metric_value")
_DISPATCHES = """SELECT k.kernel_name, d.start_timestamp, d.end_timestamp FROM compute_dispatch d
    JOIN compute_kernel k ON k.kernel_uuid = d.kernel_uuid ORDER BY d.start_timestamp"""
_METRICS = """SELECT k.kernel_name, m.table_name, m.sub_table_name, m.name, m.unit, v.value_name, v.value
    FROM compute_kernel_metric_value v JOIN compute_metric_definition m ON m.metric_uuid = v.metric_uuid
    JOIN compute_kernel k ON k.kernel_uuid = v.kernel_uuid
    WHERE v.value IS NOT NULL AND v.value_name IN (?, ?, ?, ?, ?)"""


def is_database(path: Path) -> bool:
    """Reading a profile: whether a SQLite file has the tables of an analysis."""
    try:
        with _open_database(path) as base:
            return _has_tables(base)
    except RecordingError:
        return False


def read_database(path: Path) -> Recording:
    """Reading a profile: times per kernel and its metrics, named `table / sub-table / metric [value] (unit)` as the tool does.

    A metric without a value, or an infinite one, is left out. Raises RecordingError where the file is damaged or of an
    unknown schema.
    """
    with _open_database(path) as base:
        if not _has_tables(base):
            raise RecordingError(path, "is a database, but not one that rocprof-compute analyze writes")
        version = _version(base, path)
        times, ruined = _times(base, path)
        metrics = _metrics(base, path)
        about = _system(base, path)
    if not times:
        raise RecordingError(path, "holds no dispatch with a time: nothing was profiled")
    all_kernels_ns = math.fsum(time for durations in times.values() for time in durations)
    kernels = [
        _database_kernel(name, durations, all_kernels_ns, metrics.get(name, {})) for name, durations in times.items()
    ]
    return Recording(
        format="rocprof_compute_db", tool="rocprof-compute", tool_version=version, vendor="amd", arch=about.arch,
        device=about.device, grade="serialised", facts=about.facts, warnings=(*about.warnings, *_notes(ruined)),
        kernels=tuple(sorted(kernels, key=lambda kernel: (-(kernel.total_ns or 0), kernel.name))),
        rows=sum(len(durations) for durations in times.values()), rejected=ruined, sum_ns=all_kernels_ns, files=(str(path),),
    )  # fmt: skip


def _notes(ruined: int) -> tuple[str, ...]:
    return (f"{ruined} dispatches left out: their end is not after their start",) if ruined else ()


@contextmanager
def _open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Reading a profile: read-only, and without the locks that a folder of somebody else may not permit."""
    if not path.is_file():
        raise RecordingError(path, "is not there")
    try:
        base = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            yield base
        finally:
            base.close()
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise RecordingError(path, f"is cut or damaged: {error}") from error


def _has_tables(base: sqlite3.Connection) -> bool:
    tables = {row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return set(_TABLES) <= tables


def _version(base: sqlite3.Connection, path: Path) -> str | None:
    row = base.execute("SELECT compute_version, schema_version FROM compute_metadata").fetchone()
    if row is None or str(row[1]).split(".")[0] not in SCHEMAS:
        raise RecordingError(path, f"has schema {row and row[1]!r}; known are {', '.join(SCHEMAS)}.x")
    return None if row[0] is None else str(row[0])


def _times(base: sqlite3.Connection, path: Path) -> tuple[dict[str, list[float]], int]:
    times: dict[str, list[float]] = defaultdict(list)
    ruined = 0
    for name, start, end in base.execute(_DISPATCHES):
        if not isinstance(name, str):
            raise RecordingError(path, "a kernel's name is no text: damaged")
        if isinstance(start, int) and isinstance(end, int) and end > start:
            times[name].append(float(end - start))
        else:
            ruined += 1
    return times, ruined


def _metrics(base: sqlite3.Connection, path: Path) -> dict[str, dict[str, float]]:
    by_kernel: dict[str, dict[str, float]] = defaultdict(dict)
    for kernel, table, part, metric, unit, kind, value in base.execute(_METRICS, KEPT):
        if not isinstance(value, float | int):
            raise RecordingError(path, f"the value of {str(metric)[:60]!r} is no number: damaged")
        if not math.isfinite(value):
            continue  # the tool divided by a 0 that it did not know: not told
        where = str(table) if part in (None, table) else f"{table} / {part}"
        suffix = f" ({unit})" if unit else ""
        by_kernel[str(kernel)][f"{where} / {metric} [{kind}]{suffix}"] = float(value)
    return by_kernel


def _system(base: sqlite3.Connection, path: Path) -> System:
    row = base.execute("SELECT sys_info_extdata FROM compute_workload").fetchone()
    if row is None or row[0] is None:
        return System(warnings=("the database does not tell the device",))
    try:
        fields = json.loads(row[0])
    except (ValueError, TypeError, RecursionError) as error:
        raise RecordingError(path, f"its description of the system is damaged: {error}") from error
    if not isinstance(fields, dict):
        raise RecordingError(path, "its description of the system is no object: damaged")
    return describe_system({str(name): "" if value is None else str(value) for name, value in fields.items()}, path)


def _database_kernel(name: str, times: list[float], all_kernels_ns: float, metrics: Mapping[str, float]) -> KernelCalls:
    return KernelCalls(
        name=name, display=names.display(name), category=names.category(name), calls=len(times),
        total_ns=math.fsum(times), mean_ns=math.fsum(times) / len(times), median_ns=median(times), min_ns=min(times),
        max_ns=max(times), stdev_ns=stdev(times) if len(times) > 1 else None, share=math.fsum(times) / all_kernels_ns,
        last=_launch_of(len(times), metrics),
        metrics=tuple(Named(name=metric, value=value) for metric, value in sorted(metrics.items())),
    )  # fmt: skip


def _launch_of(calls: int, metrics: Mapping[str, float]) -> LaunchShape:
    """From the metrics of the wavefront's launch, where every dispatch had the same."""
    place = "Wavefront / Wavefront Launch Stats"
    values = {name: metrics.get(f"{place} / {metric} [Avg] ({unit})") for name, (metric, unit) in LAUNCH.items()}
    integers = {name: int(value) for name, value in values.items() if value is not None and value.is_integer()}
    return LaunchShape.model_validate({"calls": calls, **integers})


# Cells of rocprof-compute's tables: which columns are counters, which zeros mean that nothing was collected.

KEYS = ("dispatch_id", "gpu_id", "kernel_name", "grid_size", "workgroup_size", "lds_per_workgroup")
LARGEST = 1e30
"""No counter comes near; what is larger is damage, and sums of it would be infinite."""
ALIVE = ("GRBM_GUI_ACTIVE", "SQ_WAVES", "SQ_BUSY_CYCLES")
"""Never 0 where a kernel ran: a dispatch in which one is 0 was not counted, and its other zeros say nothing."""
_COUNTER = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+(_[a-z]+)?(\[\d+\])?$")
_CHANNEL = re.compile(r"(.+)\[\d+\]$")
_REPEAT = re.compile(r"(.+)_\d+$")
_ACCUMULATED = re.compile(r"SQ_(LEVEL_WAVES|ACCUM_PREV_HIRES|IFETCH_LEVEL|INST_LEVEL_\w+)(_ACCUM)?$")
"""Filled only by the pass that asked for them; every other pass writes 0."""

Row = dict[str, str]


def wide(path: Path) -> Iterator[tuple[Row, dict[str, float], set[str]]]:
    """Reading a profile: per row of a wide table: its other columns, its counters, and names of counters that it did not collect."""
    columns: list[tuple[int, str]] = []
    pick: Callable[[Sequence[str]], Row] | None = None
    for number, cells in lines(path):
        if pick is None:
            pick = picker(path, cells)
            columns = counters(cells)
            continue
        row = pick(cells)
        check(path, row, number)
        values = {name: number_of(path, cells[at], name, number) for at, name in columns if cells[at].strip()}
        yield row, *fold_channels(values)


def fold_channels(counts: Mapping[str, float]) -> tuple[dict[str, float], set[str]]:
    """Reading a profile: counters with channels folded into `_sum`, without zeros that mean `not collected`; and the names of those."""
    channels: dict[str, list[float]] = defaultdict(list)
    summed: dict[str, float] = {}
    for name, value in counts.items():
        match = _CHANNEL.match(name)
        if match:
            channels[match.group(1) + "_sum"].append(value)
        else:
            summed[name] = value
    summed = {name: math.fsum(values) for name, values in channels.items()} | summed
    dead = any(summed.get(name) == 0 for name in ALIVE)
    left_out = {name for name, value in summed.items() if value == 0 and (dead or _ACCUMULATED.match(name))}
    return {name: value for name, value in summed.items() if name not in left_out}, left_out


def counters(titles: Sequence[str]) -> list[tuple[int, str]]:
    """Reading a profile: places of counters; `X_1` beside `X` is the same column of another pass."""
    names = {name.strip() for name in titles}
    places = []
    for at, text in enumerate(titles):
        name = text.strip()
        repeat = _REPEAT.match(name)
        if _COUNTER.match(name) and name.lower() not in KEYS and not (repeat and repeat.group(1) in names):
            places.append((at, name))
    return places


def picker(path: Path, titles: Sequence[str]) -> Callable[[Sequence[str]], Row]:
    """Reading a profile: a function from a row to its columns that are no counters, by name in lower case."""
    names = lower_titles(titles)
    missing = [name for name in ("dispatch_id", "gpu_id", "kernel_name") if name not in names]
    if missing:
        raise RecordingError(path, f"its header lacks {', '.join(missing)}", line=1)
    counted = {at for at, _ in counters(titles)}
    places = [(name, at) for at, name in enumerate(names) if at not in counted and not _REPEAT.match(name)]
    return lambda cells: {name: cells[at] for name, at in places}


def check(path: Path, row: Mapping[str, str], number: int | None) -> None:
    """Raises RecordingError where a dispatch has no number, size or kernel."""
    for name in ("dispatch_id", "grid_size", "workgroup_size"):
        if name in row and read_integer(row[name]) is None:
            raise RecordingError(path, f"{name} is {row[name][:40]!r}, not a whole number", line=number)
    if not row["kernel_name"].strip():
        raise RecordingError(path, "a dispatch names no kernel", line=number)


def number_of(path: Path, text: str, name: str, number: int) -> float:
    """Reading a profile: the value of a counter. Raises RecordingError where it is none: text, negative, not finite."""
    try:
        value = float(text)
    except ValueError as error:
        raise RecordingError(path, f"{name[:80]} is {text[:40]!r}, not a number", line=number) from error
    if not 0 <= value < LARGEST:
        raise RecordingError(path, f"{name[:80]} is {text[:40]!r}, no count", line=number)
    return value


def lower_titles(titles: Sequence[str]) -> list[str]:
    """Reading a profile: names of columns as they are compared."""
    return [name.strip().lower() for name in titles]


def lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Reading a profile: line numbers and cells, the header first; every row as long as the header."""
    number, width = 1, 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                number = reader.line_num
                if width and cells and len(cells) != width:
                    raise RecordingError(path, f"has {len(cells)} cells, the header {width}: cut", line=number)
                width = width or len(cells)
                if cells:
                    yield number, cells
    except OSError as error:
        raise RecordingError(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordingError(path, f"is not UTF-8: {error.reason}", line=number + 1) from error
    except csv.Error as error:
        raise RecordingError(path, f"is cut or damaged: {error}", line=number + 1) from error
    if not width:
        raise RecordingError(path, "is empty; record again")
    if not files.is_ended(path):
        raise RecordingError(path, "is cut: its last line has no end", line=number)


def read_integer(text: str | None) -> int | None:
    """Reading a profile: a whole number of a cell; None where there is none."""
    digits = (text or "").strip().removesuffix(".0")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else None


# The long form of rocprof-compute's table: a row per dispatch and counter, streamed because it can have gigabytes.

NEEDED = (*KEYS, "counter_name", "counter_value")
_LAUNCH = (
    "grid_size", "workgroup_size", "lds_per_workgroup", "scratch_per_workitem", "arch_vgpr", "accum_vgpr", "sgpr",
)  # fmt: skip


def is_long(titles: Sequence[str]) -> bool:
    """Reading a profile: whether columns, in lower case, are those of the long form."""
    return set(NEEDED) <= set(titles)


def kernels_of_long_table(path: Path) -> list[Kernel]:
    """Reading a profile: all kernels of the table. Raises RecordingError where it is cut, damaged or holds what is no counter."""
    titles = files.columns(path)
    with open_engine(path) as engine:
        source = _source(engine, path, titles)
        counted = engine.rows(
            "select kernel_name, counter_name, count(*), count(counter_value), fsum(counter_value), "
            f"min(counter_value), max(counter_value) {source} group by all order by all"
        )
        dispatch_rows = engine.rows(_dispatches(source, titles))
    if not files.is_ended(path):
        raise RecordingError(path, "is cut: its last line has no end")
    kernels: dict[str, Kernel] = {}
    for name, counter, *sums in counted:
        _count(path, kernels.setdefault(str(name or ""), Kernel(name=str(name or ""))), str(counter or ""), sums)
    _launch(path, kernels, titles, dispatch_rows)
    for kernel in kernels.values():
        values, left_out = fold_channels(kernel.means())
        kernel.sums, kernel.counts, kernel.left_out = dict(values), dict.fromkeys(values, 1), left_out
    return list(kernels.values())


def _source(engine: Engine, path: Path, titles: Sequence[str]) -> str:
    if len(set(titles)) < len(titles):
        raise RecordingError(path, "names a column twice", line=1)
    kinds = {"counter_value": "DOUBLE"}
    quoted = (title.replace("'", "''") for title in titles)
    columns = ", ".join(f"'{title}': '{kinds.get(title, 'VARCHAR')}'" for title in quoted)
    return (
        f"from read_csv('{engine.link(path)}', header=true, auto_detect=false, delim=',', quote='\"', escape='\"', "
        f"columns={{{columns}}})"
    )


def _dispatches(source: str, titles: Sequence[str]) -> str:
    times = ", ".join(name if name in titles else f"'' as {name}" for name in TIMES)
    launch = ", ".join(f"any_value({name})" for name in _LAUNCH if name in titles)
    return f"select kernel_name, dispatch_id, gpu_id, {times}, {launch} {source} group by all"


def _count(path: Path, kernel: Kernel, counter: str, sums: Sequence[float | None]) -> None:
    rows, values, total, least, most = sums
    if rows != values or not counter or total is None or least is None or most is None:
        raise RecordingError(path, f"{kernel.name[:80]!r} has a row without a counter or its value")
    if not 0 <= least <= most < LARGEST:
        raise RecordingError(path, f"{counter[:80]} holds {least} to {most}, which are no counts")
    kernel.sums[counter], kernel.counts[counter] = total, int(values or 0)


def _launch(
    path: Path, kernels: dict[str, Kernel], titles: Sequence[str], dispatch_rows: Sequence[Sequence[object]]
) -> None:
    """A dispatch is replayed once per pass of counters: its time is the mean over its passes."""
    columns = [name for name in _LAUNCH if name in titles]
    times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in sorted(dispatch_rows, key=_order):
        name, dispatch, gpu, start, end, *cells = (str(cell or "") for cell in row)
        if (name, dispatch, gpu) not in times:
            launch_cells = {
                "kernel_name": name,
                "dispatch_id": dispatch,
                "gpu_id": gpu,
                **dict(zip(columns, cells, strict=True)),
            }
            check(path, launch_cells, None)
            kernels[name].launch(read_launch(launch_cells))
        times[name, dispatch, gpu].append(duration(start, end))
    for (name, _, _), passes in times.items():
        kernels[name].time(math.fsum(passes) / len(passes) if all(passes) else 0.0)


def _order(row: Sequence[object]) -> tuple[int, str, list[str]]:
    """Reading a profile: as the kernels ran: by number, where the cells hold one."""
    name, dispatch, *rest = (str(cell or "") for cell in row)
    return int(dispatch) if dispatch.isdecimal() else -1, name, rest
