"""The numbers of one kernel that need no counter: its times, its resources, and how much of the GPU it can fill."""

from collections.abc import Iterator
from math import prod

from ridgeline.graph.kernel_profile import Grade, KernelCalls, Limiter, Recording, Rung, Said
from ridgeline.sandbox.profiles.isa.occupancy import occupancy
from ridgeline.sandbox.profiles.isa.targets import KNOWN, target_of
from ridgeline.sandbox.profiles.isa.values import Occupancy, Resources
from ridgeline.sandbox.profiles.readers.names import ESTIMATED, TORCH

TIMES = (
    ("time.total_ns", "total_ns"),
    ("time.mean_ns", "mean_ns"),
    ("time.median_ns", "median_ns"),
    ("time.min_ns", "min_ns"),
    ("time.max_ns", "max_ns"),
    ("time.stdev_ns", "stdev_ns"),
    ("time.share_of_sum", "share"),
    ("time.share_of_span", "share_of_span"),
    ("time.gap_before_ns", "gap_before_ns"),
)
RUNGS: dict[Grade, Rung] = {"trace": "trace", "events": "events", "replay": "counters", "serialised": "counters"}
COMPUTED = "torch computes it from the launch: nothing was measured"
HOST_SLOWED = "the profiler slows the host down: without it gaps are shorter"
STATIC_ONLY = "static part only: dynamic shared memory is not in this recording"


def times(kernel: KernelCalls, recording: Recording) -> tuple[Said, ...]:
    """Durations and shares of `kernel`, as `recording` has them; its grade says what they may decide."""
    where = place(recording)
    rung = stands(recording)
    said = [Said(name="time.calls", value=kernel.calls, source=f"{where}: calls", rung=rung)]
    for name, field in TIMES:
        if (value := getattr(kernel, field)) is not None:
            note = HOST_SLOWED if name == "time.gap_before_ns" and recording.tool == TORCH else ""
            source = f"{where}: {field} of {kernel.calls} calls"
            said.append(Said(name=name, value=value, source=source, rung=rung, corrected=note))
    if recording.span_ns and recording.busy_ns is not None:
        busy = recording.busy_ns / recording.span_ns
        said.append(Said(name="time.busy_of_span", value=busy, source=f"{where}: busy / span", rung=rung))
        helpers = sum(other.total_ns or 0.0 for other in recording.kernels if other.category != "compute")
        share = helpers / recording.span_ns
        said.append(Said(name="time.helpers_of_span", value=share, source=f"{where}: helper kernels / span", rung=rung))
    return tuple(said)


def resources(kernel: KernelCalls, recording: Recording) -> tuple[Said, ...]:
    """Registers, shared memory and scratch of the last launch."""
    last, where = kernel.last, place(recording)
    rung = stands(recording)
    estimated = next((metric.value for metric in kernel.metrics if metric.name == ESTIMATED), None)

    def said(name: str, value: float | None, note: str = "") -> Iterator[Said]:
        if value is not None:
            yield Said(name=name, value=value, source=f"{where}: last launch", rung=rung, corrected=note)

    amd = recording.vendor == "amd"
    return (
        *said("regs.arch", last.arch_vgpr if amd else None),
        *said("regs.accum", last.accum_vgpr),
        *said("regs.total_per_thread", kernel.vgpr_total, kernel.corrected),
        *said("regs.scalar", last.sgpr),
        *said("regs.scratch_bytes_per_thread", last.scratch_bytes),
        *said(
            "shared.static_bytes" if last.lds_static_only else "shared.total_bytes",
            last.lds_bytes,
            STATIC_ONLY if last.lds_static_only else "",
        ),
        *said("launch.threads_per_block", float(prod(last.workgroup)) if last.workgroup else None),
        *said("launch.blocks", float(prod(last.blocks)) if last.blocks else None),
        *said("launch.variants", float(len(kernel.variants)) if len(kernel.variants) > 1 else None),
        *said("occ.estimated", None if estimated is None else estimated / 100, COMPUTED),
    )


def residency(kernel: KernelCalls, arch: str | None, units: float | None) -> tuple[tuple[Said, ...], Limiter | None]:
    """Theoretical occupancy by the architecture's own constants, how often the grid fills the GPU, and the limiter.

    Nothing where the architecture, the registers or the block are not known.
    """
    last = kernel.last
    fits = _fits(kernel, arch)
    if fits is None or not last.workgroup:
        return (), None
    note = "an upper bound: dynamic shared memory is not known" if last.lds_static_only else ""
    said = [
        Said(
            name="occ.theoretical",
            value=fits.share,
            source=f"registers, shared memory and block; {fits.source}",
            rung="analytic",
            corrected=note,
        )
    ]
    limiter = fits.limiter
    if last.blocks and units and fits.blocks_per_unit:
        fill = prod(last.blocks) / (units * fits.blocks_per_unit)
        source = f"blocks / ({units:g} units * {fits.blocks_per_unit} blocks per unit)"
        said.append(Said(name="occ.fill_waves", value=fill, source=source, rung="analytic", corrected=note))
        limiter = "grid" if fill < 1 else limiter
    return tuple(said), limiter


def stands(recording: Recording) -> Rung:
    """The rung of what a recording tells of times and launches."""
    if recording.tool == TORCH:
        return "torch_profiler"
    return RUNGS[recording.grade] if recording.grade is not None else "counters"


def place(recording: Recording) -> str:
    """`rocprofv3 run_kernel_trace.csv`: the tool and the file's own name, which is all that a source needs."""
    file = recording.files[0].rpartition("/")[2] if recording.files else recording.format
    return f"{recording.tool} {file}"


def _fits(kernel: KernelCalls, arch: str | None) -> Occupancy | None:
    last = kernel.last
    if arch not in KNOWN or kernel.vgpr_total is None:
        return None
    held = Resources(
        arch_vgpr=last.arch_vgpr,
        vgpr_total=kernel.vgpr_total,
        sgpr=last.sgpr,
        lds_bytes=last.lds_bytes,
        threads=prod(last.workgroup) if last.workgroup else None,
    )
    return occupancy(target_of(arch), held)
