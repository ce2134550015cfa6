"""What Nsight Compute (`ncu --csv`) wrote, as a `Recording`: raw, details and source page, metric lists, any locale."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from ridgeline.graph.kernel_profile import KernelCalls, Launched, Recording
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.readers import hopper
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.names import category, display
from ridgeline.sandbox.profiles.readers.ncu_pages import Launch, details, listed, mean, raw
from ridgeline.sandbox.profiles.readers.ncu_source import Listing, hotspots, listings
from ridgeline.sandbox.profiles.readers.ncu_text import CountersForbidden, NothingProfiled, Table, sniff_text, table

__all__ = ["CountersForbidden", "NothingProfiled", "read", "sniff"]

REPORT_MAGIC = b"NVR\0"
"""First bytes of a .ncu-rep."""
COMMAND_LINE = "Command line profiler metrics"
KERNELS_WITH_HOTSPOTS = 8
VARIANTS = 16
FACTS = {
    "units": ("device__attribute_multiprocessor_count", "launch__sm_count", "Launch Statistics/# SMs [SM]"),
    "simds_per_unit": ("device__attribute_num_schedulers_per_multiprocessor",),
    "wave_size": ("device__attribute_warp_size",),
    "max_waves_per_simd": ("device__attribute_max_warps_per_scheduler",),
    "lds_bytes_per_unit": ("device__attribute_max_shared_memory_per_multiprocessor",),
}
CLOCK_KHZ = "device__attribute_clock_rate"
SAID_ONCE = "times are ncu's own, with replays and its clocks: good for shares, never for a decision"


def sniff(path: Path) -> bool:
    """Whether `path` is a file of ncu, by its first 64 KiB. False for folders and what cannot be read."""
    return path.is_file() and (_is_report(path) or sniff_text(path))


def read(path: Path) -> Recording:
    """One file of ncu, its kernels by their own time, hottest first, metrics in base units as means over the launches.

    Raises:
        CountersForbidden: the file holds the driver's refusal and no table.
        NothingProfiled: ncu ran and found no kernel.
        RecordingError: unreadable, cut, damaged, of two locales, or of an unknown layout. Names the line.
    """
    if path.is_file() and _is_report(path):
        raise RecordingError(path, "ncu's binary report; convert it: ncu -i REPORT --csv --page raw > OUT.csv")
    found = table(path)
    first_line, header = found.rows[0]
    if header[0] == "metric":
        return _recording(path, "ncu_values", found, listed(found.rows, path))
    if header[:2] != ["ID", "Process ID"]:
        return _source(path, found)
    if "Metric Value" not in header:
        return _recording(path, "ncu_raw", found, raw(found.rows, path))
    if not {"Metric Name", "Metric Unit", "Section Name"} <= set(header):
        raise RecordingError(path, "metrics without a column of names, units or sections", line=first_line)
    sections = {row[header.index("Section Name")] for _, row in found.rows[1:] if len(row) == len(header)}
    layout = "ncu_metrics" if sections == {COMMAND_LINE} else "ncu_details"
    return _recording(path, layout, found, details(found.rows, path))


def _recording(path: Path, layout: str, found: Table, told: tuple[list[Launch], str]) -> Recording:
    launches, warning = told
    kernels = _kernels(launches)
    device = next((launch.device for launch in launches if launch.device), None)
    arches = {_arch(launch.capability) for launch in launches if launch.capability}
    metrics = mean(launches)
    total = math.fsum(kernel.total_ns for kernel in kernels if kernel.total_ns is not None) or None
    return Recording(
        format=layout,
        tool="ncu",
        vendor="nvidia",
        arch=arches.pop() if len(arches) == 1 else None,
        device=device,
        grade="replay" if total else None,
        kernels=kernels,
        facts=_facts(metrics),
        rows=len(launches),
        sum_ns=total,
        files=(str(path),),
        warnings=_warnings(
            launches, (*found.warnings, *((warning,) if warning else ()), *((SAID_ONCE,) if total else ()))
        ),
    )


def _source(path: Path, found: Table) -> Recording:
    kept, warning = listings(found.rows, path)
    kernels = tuple(_listed_kernel(listing) for listing in kept)
    hottest = kernels[0].metrics
    notes = (f"stalls are those of {kernels[0].display}; hotspots name their kernel",) if len(kernels) > 1 else ()
    return Recording(
        format="ncu_source",
        tool="ncu",
        vendor="nvidia",
        kernels=kernels,
        stalls=hopper.stalls(hottest),
        hotspots=tuple(spot for listing in kept[:KERNELS_WITH_HOTSPOTS] for spot in hotspots(listing)),
        rows=sum(len(listing.lines) for listing in kept),
        files=(str(path),),
        warnings=(*found.warnings, *((warning,) if warning else ()), *notes),
    )


def _listed_kernel(listing: Listing) -> KernelCalls:
    totals = (Named(name=name, value=count / listing.sections) for name, count in sorted(listing.totals.items()))
    return KernelCalls(
        name=listing.name,
        display=display(listing.name),
        category=category(listing.name),
        calls=listing.sections,
        last=Launched(calls=listing.sections),
        metrics=tuple(totals),
    )


def _kernels(launches: Sequence[Launch]) -> tuple[KernelCalls, ...]:
    by_name: dict[str, list[Launch]] = {}
    for launch in launches:
        by_name.setdefault(launch.name, []).append(launch)
    whole = math.fsum(time for launch in launches if (time := hopper.duration(launch.metrics)) is not None)
    kernels = [_kernel(name, group, whole) for name, group in by_name.items()]
    return tuple(sorted(kernels, key=lambda kernel: -(kernel.total_ns or 0)))


def _kernel(name: str, group: Sequence[Launch], whole: float) -> KernelCalls:
    times = [time for launch in group if (time := hopper.duration(launch.metrics)) is not None]
    if len(times) < len(group):
        times = []  # a sum over some of the launches would be no sum
    variants: dict[Launched, list[Launch]] = {}
    for launch in group:
        variants.setdefault(_launched(launch), []).append(launch)
    total = math.fsum(times) if times else None
    return KernelCalls(
        name=name,
        display=display(name),
        category=category(name),
        calls=len(group),
        total_ns=total,
        mean_ns=total / len(times) if total is not None else None,
        median_ns=statistics.median(times) if times else None,
        min_ns=min(times, default=None),
        max_ns=max(times, default=None),
        stdev_ns=statistics.stdev(times) if len(times) > 1 else None,
        share=total / whole if total is not None and whole else None,
        last=_launched(group[-1]).model_copy(update={"calls": len(group)}),
        variants=tuple(
            shape.model_copy(update={"calls": len(members)})
            for shape, members in sorted(variants.items(), key=lambda item: -len(item[1]))[:VARIANTS]
        ),
        vgpr_total=_launched(group[-1]).arch_vgpr,
        metrics=tuple(Named(name=key, value=value) for key, value in mean(group).items()),
    )


def _launched(launch: Launch) -> Launched:
    told = {said.name: said.value for said in hopper.numbers(_named(launch.metrics), tool="ncu")}
    shared, registers = told.get("shared.total_bytes"), told.get("regs.total_per_thread")
    return Launched(
        calls=1,
        grid=launch.grid,
        workgroup=launch.block,
        blocks=launch.grid,
        arch_vgpr=int(registers) if registers is not None else None,
        lds_bytes=int(shared) if shared is not None else None,
    )


def _named(metrics: dict[str, float]) -> tuple[Named, ...]:
    return tuple(Named(name=name, value=value) for name, value in metrics.items())


def _facts(metrics: dict[str, float]) -> tuple[Named, ...]:
    facts = [
        Named(name=fact, value=metrics[name])
        for fact, names in FACTS.items()
        if (name := next((name for name in names if name in metrics), None)) is not None
    ]
    if CLOCK_KHZ in metrics:
        facts.append(Named(name="clock_mhz", value=metrics[CLOCK_KHZ] / 1e3))
    return tuple(facts)


def _warnings(launches: Sequence[Launch], said: tuple[str, ...]) -> tuple[str, ...]:
    unknown = sorted(set().union(*(launch.unknown for launch in launches)))
    if unknown:
        said = (*said, f"not available on this device, so unknown here: {', '.join(unknown[:8])}")
    swapped = [launch for launch in launches if _contradicts(launch)]
    if swapped:
        said = (*said, f"{len(swapped)} launches: Block Size and launch__block_size differ; check the recording")
    if launches and all(not launch.metrics for launch in launches):
        said = (*said, "no metric of any launch could be read")
    return said


def _contradicts(launch: Launch) -> bool:
    size = launch.metrics.get("launch__block_size")
    return size is not None and launch.block is not None and math.prod(launch.block) != size


def _arch(capability: str) -> str:
    return f"sm_{capability.replace('.', '').replace(',', '')}"


def _is_report(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(REPORT_MAGIC)) == REPORT_MAGIC
    except OSError:
        return False
