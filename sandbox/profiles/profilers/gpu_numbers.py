"""The counters that the loop reads by name, out of what GPU tools and the compiler said of one kernel; pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ridgeline.graph.evidence import Origin
from ridgeline.graph.kernel_profile import KernelProfile, Rung, Said
from ridgeline.graph.values import Named
from ridgeline.sandbox.profiles.isa.values import Kind, Report

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
MIXES: tuple[tuple[str, tuple[Kind, ...]], ...] = (
    ("mfma_instructions", ("matrix",)),
    ("load_instructions", ("global_load", "global_to_lds")),
    ("store_instructions", ("global_store",)),
    ("lds_instructions", ("lds_read", "lds_write", "lds_other")),
    ("barriers", ("barrier",)),
    ("atomics", ("atomic",)),
)
"""Counts in the compiled code: what is written there, not how often it runs."""
SPILLED = ("regs.spilled", "regs.spill_ops", "regs.scratch_bytes_per_thread")
"""What stands for `spills`, the compiler's own word first; two versions are compared only where it is the same."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A counter and where it comes from."""

    counter: Named
    origin: Origin


def counted(kernel: KernelProfile | None, report: Report | None) -> tuple[Counted, ...]:
    """Every counter once, each with its rung and source; what nobody told is missing, never zero.

    What was recorded goes before what the compiler says of one example launch, and that before what was computed from
    a recording: AMD's leaves dynamic shared memory out.
    """
    numbers = kernel.numbers if kernel else ()
    recorded = [said for said in numbers if said.rung != "analytic"]
    computed = [said for said in numbers if said.rung == "analytic"]
    told = {said.name: said for said in (*recorded, *resources(report), *computed)[::-1]}
    found = [
        *_listed(told),
        *_first("mem_throughput", told, ("sol.memory", "mem.pct_of_peak"), factor=100.0),
        *_first(_matrix(kernel), told, ("comp.matrix_busy",), factor=100.0),
        *_largest("compute_pct", [told[name] for name in COMPUTE if name in told]),
        *_first("spills", told, SPILLED),
        *(_timed(kernel, told) if kernel else ()),
        *(_stalled(kernel) if kernel else ()),
        *_mixed(report),
    ]
    return tuple(found)


def resources(report: Report | None) -> tuple[Said, ...]:
    """What the compiler says of registers, spills, shared memory and waves, under the names of a profile."""
    if report is None:
        return ()
    held, where = report.resources, f"{report.kernel} by {report.compiler} for {report.target.arch}"
    numbers: tuple[tuple[str, float | None], ...] = (
        ("regs.total_per_thread", held.vgpr_total if held.vgpr_total is not None else held.arch_vgpr),
        ("regs.spilled", held.vgpr_spills),
        ("regs.scratch_bytes_per_thread", held.scratch_bytes),
        ("shared.total_bytes", held.lds_bytes),
        ("occ.theoretical", report.occupancy.share if report.occupancy else None),
    )
    return tuple(Said(name=name, value=value, source=where, rung="isa") for name, value in numbers if value is not None)


def completed(kernel: KernelProfile, report: Report | None) -> KernelProfile:
    """The profile with what only the compiler could tell."""
    known = {said.name for said in kernel.numbers}
    added = tuple(said for said in resources(report) if said.name not in known)
    return kernel.model_copy(update={"numbers": (*kernel.numbers, *added)})


def _counted(name: str, value: float, *, rung: Rung, source: str) -> Counted:
    return Counted(counter=Named(name=name, value=value), origin=Origin(name=name, rung=rung, source=source))


def _listed(told: dict[str, Said]) -> Iterator[Counted]:
    for name, number, factor in PLAIN:
        if (said := told.get(number)) is not None:
            yield _counted(name, factor * said.value, rung=said.rung, source=said.source)


def _largest(name: str, known: Sequence[Said]) -> Iterator[Counted]:
    if known:
        said = max(known, key=lambda item: item.value)
        yield _counted(name, 100 * said.value, rung=said.rung, source=f"{said.name}: {said.source}")


def _first(name: str, told: dict[str, Said], numbers: Sequence[str], *, factor: float = 1.0) -> Iterator[Counted]:
    said = next((told[number] for number in numbers if number in told), None)
    if said is not None:
        yield _counted(name, factor * said.value, rung=said.rung, source=f"{said.name}: {said.source}")


def _matrix(kernel: KernelProfile | None) -> str:
    """The matrix pipe's name at the vendor."""
    return "mfma_util" if kernel is not None and kernel.vendor == "amd" else "tensor_pipe_active"


def _mixed(report: Report | None) -> Iterator[Counted]:
    if report is None or report.shape is None:
        return
    where = f"code of {report.kernel} by {report.compiler} for {report.target.arch}"
    yield _counted("instructions", report.shape.instructions, rung="isa", source=where)
    for name, kinds in MIXES:
        yield _counted(name, report.shape.count(*kinds), rung="isa", source=where)


def _timed(kernel: KernelProfile, told: dict[str, Said]) -> Iterator[Counted]:
    """The kernel's time, and how busy it kept the queue between two of its own launches.

    The share of a whole recording would count imports and compilation as the device's idleness.
    """
    if kernel.grade not in DECIDES:
        return
    said = told.get("time.median_ns") or told.get("time.mean_ns")
    if said is None:
        return
    yield _counted("kernel_time_us", said.value / 1e3, rung=said.rung, source=said.source)
    yield _counted("calls", kernel.calls, rung=said.rung, source=said.source)
    gap = told.get("time.gap_before_ns")
    if gap is not None and said.value > 0:
        busy = said.value / (said.value + gap.value)
        yield _counted("gpu_busy_pct", 100 * busy, rung=said.rung, source=f"{said.name} / ({said.name} + {gap.name})")


def _stalled(kernel: KernelProfile) -> Iterator[Counted]:
    rung: Rung = "trace" if kernel.stalls and kernel.stalls[0].basis == "wave_time" else "counters"
    for item in kernel.stalls[:STALLS]:
        yield _counted(
            f"stall_{item.stall}_pct", 100 * item.share, rung=rung, source=f"share of {item.basis.replace('_', ' ')}"
        )
