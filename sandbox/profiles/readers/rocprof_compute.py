"""Reads rocprof-compute: a workload folder, its pmc_perf.csv (wide, or long from rocpd), and analysis databases."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median, stdev

from ridgeline.graph.kernel_profile import KernelCalls, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers import (
    csv_head,
    names,
    rocprof_compute_db,
    rocprof_compute_long,
    rocprof_compute_rows,
    rocprof_compute_table,
)
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.registers import registers
from ridgeline.sandbox.profiles.readers.rocprof_compute_rows import Kernel
from ridgeline.sandbox.profiles.readers.rocprof_compute_system import system

TABLE = "pmc_perf.csv"
VARIANTS = 16


def sniff(path: Path) -> bool:
    """Whether `path` is a workload folder, a table of one, or an analysis database. Reads one line or the schema."""
    if path.is_dir():
        return (path / TABLE).is_file() and sniff(path / TABLE)
    if path.is_file() and _is_database(path):
        return rocprof_compute_db.sniff(path)
    return set(rocprof_compute_table.KEYS) <= set(csv_head.columns(path))


def read(path: Path) -> Recording:
    """Counters per kernel, as means over its dispatches, with the device's constants from sysinfo.csv.

    Counter runs serialise dispatches, so times are of grade `serialised`. Raises RecordingError where a file is
    missing, cut, damaged, without dispatches or of an unknown version.
    """
    if path.is_file() and _is_database(path):
        return rocprof_compute_db.read(path)
    folder, table = (path, path / TABLE) if path.is_dir() else (path.parent, path)
    if not table.is_file():
        raise RecordingError(path, f"holds no {TABLE}: no counters were collected")
    kernels = _kernels(table)
    about = system(folder / "sysinfo.csv")
    listed = _listed(kernels, about.arch)
    times = [kernel.total_ns for kernel in listed]
    return Recording(
        format="rocprof_compute", tool="rocprof-compute", tool_version=about.version, vendor="amd", arch=about.arch,
        device=about.device, grade="serialised", kernels=listed, facts=about.facts,
        rows=sum(kernel.calls for kernel in listed),
        sum_ns=None if None in times else math.fsum(time for time in times if time is not None),
        files=(str(table), *about.files), warnings=(*about.warnings, *_warnings(kernels, listed)),
    )  # fmt: skip


def _kernels(table: Path) -> list[Kernel]:
    titles = csv_head.columns(table)
    if not any(titles):
        raise RecordingError(table, "is empty or no table; record again")
    missing = [name for name in rocprof_compute_table.KEYS if name not in titles]
    if missing:
        raise RecordingError(table, f"its header lacks {', '.join(missing)}", line=1)
    read_kernels = (
        rocprof_compute_long.kernels if rocprof_compute_long.is_long(titles) else rocprof_compute_rows.kernels
    )
    found = read_kernels(table)
    if not found:
        raise RecordingError(table, "has a header and no dispatch: nothing was profiled", line=1)
    if not any(kernel.sums for kernel in found):
        raise RecordingError(table, "holds no counter that is not 0: counters were not collected", line=2)
    return found


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(rocprof_compute_db.MAGIC)) == rocprof_compute_db.MAGIC


def _listed(kernels: Sequence[Kernel], arch: str | None) -> tuple[KernelCalls, ...]:
    whole = math.fsum(time for kernel in kernels for time in kernel.times)
    complete = not any(kernel.ruined for kernel in kernels)
    listed = [_kernel(kernel, whole if complete else None) for kernel in kernels]
    return registers(sorted(listed, key=lambda one: (-(one.total_ns or 0), one.name)), arch)


def _kernel(kernel: Kernel, whole: float | None) -> KernelCalls:
    times = kernel.times
    total = math.fsum(times) if times and not kernel.ruined else None
    variants = sorted(kernel.launches.values(), key=lambda launched: -launched.calls)[:VARIANTS]
    return KernelCalls(
        name=kernel.name, display=names.display(kernel.name), category=names.category(kernel.name),
        calls=kernel.calls, total_ns=total, mean_ns=math.fsum(times) / len(times) if times else None,
        median_ns=median(times) if times else None, min_ns=min(times, default=None), max_ns=max(times, default=None),
        stdev_ns=stdev(times) if len(times) > 1 else None,
        share=total / whole if total is not None and whole else None, last=kernel.last, variants=tuple(variants),
        metrics=tuple(Named(name=name, value=value) for name, value in sorted(kernel.means().items())),
    )  # fmt: skip


def _warnings(kernels: Sequence[Kernel], listed: Sequence[KernelCalls]) -> list[str]:
    found = ["grid and workgroup are told as products over their axes: blocks is their number, not their shape"]
    ruined = sum(kernel.ruined for kernel in kernels)
    if ruined:
        found.append(
            f"{ruined} of {sum(one.calls for one in listed)} dispatches have no usable time: end is not after start, "
            "or a spreadsheet rounded both"
        )
    absent = sorted({name for kernel in kernels for name in kernel.left_out})
    if absent:
        more = f" and {len(absent) - 8} more" if len(absent) > 8 else ""
        found.append(f"left out because 0 means that it was not collected: {', '.join(absent[:8])}{more}")
    return found
