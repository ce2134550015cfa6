"""Reads the SQLite database that `rocprof-compute analyze` writes: dispatches and named metric values per kernel."""

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median, stdev

from ridgeline.graph.kernel_profile import KernelCalls, Launched, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers import names
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.rocprof_compute_system import System, described

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


def sniff(path: Path) -> bool:
    """Whether a SQLite file has the tables of an analysis."""
    try:
        with _opened(path) as base:
            return _has_tables(base)
    except RecordingError:
        return False


def read(path: Path) -> Recording:
    """Times per kernel and its metrics, named `table / sub-table / metric [value] (unit)` as the tool does.

    A metric without a value, or an infinite one, is left out. Raises RecordingError where the file is damaged or of an
    unknown schema.
    """
    with _opened(path) as base:
        if not _has_tables(base):
            raise RecordingError(path, "is a database, but not one that rocprof-compute analyze writes")
        version = _version(base, path)
        times, ruined = _times(base, path)
        metrics = _metrics(base, path)
        about = _system(base, path)
    if not times:
        raise RecordingError(path, "holds no dispatch with a time: nothing was profiled")
    whole = math.fsum(time for taken in times.values() for time in taken)
    kernels = [_kernel(name, taken, whole, metrics.get(name, {})) for name, taken in times.items()]
    return Recording(
        format="rocprof_compute_db", tool="rocprof-compute", tool_version=version, vendor="amd", arch=about.arch,
        device=about.device, grade="serialised", facts=about.facts, warnings=(*about.warnings, *_notes(ruined)),
        kernels=tuple(sorted(kernels, key=lambda one: (-(one.total_ns or 0), one.name))),
        rows=sum(len(taken) for taken in times.values()), rejected=ruined, sum_ns=whole, files=(str(path),),
    )  # fmt: skip


def _notes(ruined: int) -> tuple[str, ...]:
    return (f"{ruined} dispatches left out: their end is not after their start",) if ruined else ()


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Read-only, and without the locks that a folder of somebody else may not permit."""
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
    found = {row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return set(_TABLES) <= found


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
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for kernel, table, part, metric, unit, kind, value in base.execute(_METRICS, KEPT):
        if not isinstance(value, float | int):
            raise RecordingError(path, f"the value of {str(metric)[:60]!r} is no number: damaged")
        if not math.isfinite(value):
            continue  # the tool divided by a 0 that it did not know: not told
        where = str(table) if part in (None, table) else f"{table} / {part}"
        suffix = f" ({unit})" if unit else ""
        found[str(kernel)][f"{where} / {metric} [{kind}]{suffix}"] = float(value)
    return found


def _system(base: sqlite3.Connection, path: Path) -> System:
    row = base.execute("SELECT sys_info_extdata FROM compute_workload").fetchone()
    if row is None or row[0] is None:
        return System(warnings=("the database does not tell the device",))
    try:
        told = json.loads(row[0])
    except (ValueError, TypeError, RecursionError) as error:
        raise RecordingError(path, f"its description of the system is damaged: {error}") from error
    if not isinstance(told, dict):
        raise RecordingError(path, "its description of the system is no object: damaged")
    return described({str(name): "" if value is None else str(value) for name, value in told.items()}, path)


def _kernel(name: str, times: list[float], whole: float, metrics: Mapping[str, float]) -> KernelCalls:
    return KernelCalls(
        name=name, display=names.display(name), category=names.category(name), calls=len(times),
        total_ns=math.fsum(times), mean_ns=math.fsum(times) / len(times), median_ns=median(times), min_ns=min(times),
        max_ns=max(times), stdev_ns=stdev(times) if len(times) > 1 else None, share=math.fsum(times) / whole,
        last=_launched(len(times), metrics),
        metrics=tuple(Named(name=metric, value=value) for metric, value in sorted(metrics.items())),
    )  # fmt: skip


def _launched(calls: int, metrics: Mapping[str, float]) -> Launched:
    """From the metrics of the wavefront's launch, where every dispatch had the same."""
    place = "Wavefront / Wavefront Launch Stats"
    told = {name: metrics.get(f"{place} / {metric} [Avg] ({unit})") for name, (metric, unit) in LAUNCH.items()}
    whole = {name: int(value) for name, value in told.items() if value is not None and value.is_integer()}
    return Launched.model_validate({"calls": calls, **whole})
