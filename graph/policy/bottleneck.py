"""What limits the best version, with the chain from evidence over inference to action.

Counters decide. Names read here, as far as a profiler gives them. Processor: `instructions`, `cycles`, `d1_misses`,
`ll_misses`, `branch_misses`, `vectorized_loops`, `missed_vectorizations`. Accelerator: `spills`, `occupancy`,
`gpu_busy_pct`, `dram_pct`, `compute_pct`, all shares in per cent; where a GPU's tools recorded the kernel itself, the
classes of `bound` decide, and these counters only where those are silent.
"""

from collections.abc import Iterator, Sequence

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Profiled, Row
from ridgeline.graph.kernel_profile import Bound, Bounded, KernelProfile
from ridgeline.graph.policy import bound
from ridgeline.graph.policy.bound_case import Case
from ridgeline.graph.policy.timing import from_timing
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.values import Bottleneck

Found = tuple[Bottleneck, str]

BUSY_LOW, OCCUPANCY_LOW, DRAM_HIGH, DRAM_LOW, COMPUTE_LOW = 30.0, 25.0, 60.0, 30.0, 40.0
"""Per cent."""
LL_MISSES, D1_MISSES, BRANCH_MISSES = 10.0, 30.0, 5.0
"""Per 1000 instructions. Ours: at three instructions per cycle, a miss of about 100, 14 and 15 cycles then costs as
much time as the instructions between two of them, or a sizeable part of it."""
IPC_LOW = 1.0
LINE = 64
"""Bytes of a cache line on every processor that `Target` knows."""
AGAIN = 2.0
"""Bytes of the lines that a call fetches into the first cache, over the least that it must move: from here on lines
come again. Ours: one pass misses once for each line, however few instructions it takes; a second pass doubles that."""
OF_BOUND: dict[Bound, Bottleneck] = {
    "memory_bound": "memory",
    "compute_bound": "compute",
    "latency_bound": "latency",
    "launch_bound": "launch",
    "resource_bound": "resource",
    "under_filled": "resource",
}
"""Classes of a recorded kernel that are a bottleneck as they stand."""
REORDER = "loop order, blocking"
EVIDENCE = 4
"""Lines of a chain that are quoted."""


def classify(
    profiled: Profiled | None,
    roofs: Sequence[ShapeRoof],
    rows: Sequence[Row],
    scoring: Scoring,
    *,
    cpu: bool = False,
) -> tuple[Bottleneck, str]:
    """The bottleneck and why. A claim without counters says in its text that it rests on timing alone (F087).

    `cpu`: the target is a processor, of which nothing is said that only a GPU has.
    """
    basis = "no counter of the kernel was read"
    if profiled is not None:
        for found in _rules(profiled, roofs):
            if isinstance(found, tuple):
                label, chain = found
                stand = profiled.rung_of(chain.split(maxsplit=1)[0])  # of the counter that a chain begins with
                return label, f"{chain} ({stand})"
            if found is not None:
                basis = f"what was recorded decides nothing: {found}"
    label, chain = from_timing(roofs, rows, scoring, cpu=cpu)
    return label, f"{chain} (rests on timing alone: {basis})"


def _rules(profiled: Profiled, roofs: Sequence[ShapeRoof]) -> Iterator[Found | str | None]:
    """What each rule finds, the strongest first; a text is why numbers that are there decide nothing."""
    if profiled.kernel is not None:
        yield _seen(profiled.kernel)
    yield _accelerator(profiled)
    found = _processor(profiled, roofs)
    yield found
    if found is None:
        yield _compiler(profiled)


def _seen(kernel: KernelProfile) -> Found | str:
    """What the recording of the kernel says, or the words of a class that is no bottleneck by itself."""
    seen = bound.classify(kernel)
    chain = _chain(seen)
    if (label := OF_BOUND.get(seen.bound)) is not None:
        return label, chain
    case = Case(profile=kernel, limits=bound.THRESHOLDS)
    memory, compute = case.largest(bound.MEMORY), case.largest(bound.COMPUTE)
    if seen.bound not in ("balanced", "mixed") or memory is None or compute is None:
        return chain
    return ("memory" if memory[1] > compute[1] else "compute"), chain


def _chain(seen: Bounded) -> str:
    named = f"{seen.bound}/{seen.subclass}" if seen.subclass else seen.bound
    because = "; ".join(seen.evidence[:EVIDENCE]) or "no number of it was recorded"
    return f"{because} -> {named}, {seen.confidence} confidence -> {seen.next[0]}"


def _accelerator(profiled: Profiled) -> Found | None:
    busy, occupancy = profiled.counter("gpu_busy_pct"), profiled.counter("occupancy")
    dram, compute = profiled.counter("dram_pct"), profiled.counter("compute_pct")
    spills = profiled.counter("spills")
    if spills:
        return "resource", f"spills {spills:g} -> registers run out -> smaller tile or fewer live values"
    if busy is not None and busy < BUSY_LOW:
        return (
            "launch",
            f"gpu_busy_pct {busy:g} -> the device waits for launches -> fewer dispatches, persistent kernel",
        )
    if dram is not None and dram >= DRAM_HIGH:
        return "memory", f"dram_pct {dram:g} -> memory is near its peak -> move fewer bytes: reuse, fusion, layout"
    if occupancy is not None and occupancy < OCCUPANCY_LOW:
        return "resource", f"occupancy {occupancy:g} % -> too few waves hide latency -> fewer registers, less LDS"
    if dram is None or compute is None:
        return None
    if dram < DRAM_LOW and compute < COMPUTE_LOW:
        return (
            "latency",
            f"dram_pct {dram:g}, compute_pct {compute:g} -> neither is busy -> prefetch, overlap, pipeline",
        )
    if compute >= dram:
        return "compute", f"compute_pct {compute:g} over dram_pct {dram:g} -> arithmetic leads -> better instructions"
    return "memory", f"dram_pct {dram:g} over compute_pct {compute:g} -> data movement leads -> layout, reuse, prefetch"


def _processor(profiled: Profiled, roofs: Sequence[ShapeRoof]) -> Found | str | None:
    instructions = profiled.counter("instructions")
    if not instructions or profiled.origins:  # those of a GPU are of its code, and say nothing of how often they ran
        return None
    branch, last, first = (
        _per_thousand(profiled, name, instructions) for name in ("branch_misses", "ll_misses", "d1_misses")
    )
    if last >= LL_MISSES:
        return "memory", f"ll_misses {last:.1f} per 1000 instructions -> loads reach memory -> blocking, reuse, fusion"
    if first >= D1_MISSES and (waits := _first_cache(profiled, roofs, first)) is not None:
        return waits
    if branch >= BRANCH_MISSES:
        return "latency", f"branch_misses {branch:.1f} per 1000 instructions -> the pipeline restarts -> fewer branches"
    return _compiler(profiled) or _instructions(profiled, instructions, overlapped=first >= D1_MISSES)


def _first_cache(profiled: Profiled, roofs: Sequence[ShapeRoof], rate: float) -> Found | str | None:
    """Whether misses of the first cache that the next one serves cost time; a text where nothing tells, None for no.

    Their number per instruction grows when only the instructions become fewer, so it alone accuses nobody: cycles must
    have been lost, or the same lines must come again.
    """
    instructions, cycles = profiled.counter("instructions"), profiled.counter("cycles")
    said = f"d1_misses {rate:.1f} per 1000 instructions"
    if instructions and cycles:
        if instructions / cycles >= IPC_LOW:
            return None
        return "memory", f"{said} at {instructions / cycles:.2f} a cycle -> loads leave the first cache -> {REORDER}"
    calls, misses = profiled.counter("calls"), profiled.counter("d1_misses")
    least = max((roof.bytes for roof in roofs if roof.bytes), default=0.0)
    if not calls or not misses or not least:
        return f"{said}, and neither cycles nor the bytes of a call say what they cost"
    fetched = misses * LINE / calls
    of = f"{fetched / 1e3:.4g} kB fetched in a call, where the largest shape moves {least / 1e3:.4g} kB"
    if fetched >= AGAIN * least:
        return "memory", f"{said}, {of} -> lines are fetched again -> {REORDER}"
    return f"{said}, but {of}: no line needs to come twice, and this rate rises when only the instructions fall"


def _instructions(profiled: Profiled, instructions: float, *, overlapped: bool) -> Found:
    cycles = profiled.counter("cycles")
    misses = "misses overlapped" if overlapped else "few misses"
    if cycles and instructions / cycles < IPC_LOW:
        ipc = instructions / cycles
        return "latency", f"{ipc:.2f} instructions per cycle, {misses} -> a chain of waits -> independent accumulators"
    return (
        "compute",
        f"instructions {instructions:.4g}, {misses} -> the number of instructions leads -> vectorise, do less work",
    )


def _compiler(profiled: Profiled) -> Found | None:
    done, missed = profiled.counter("vectorized_loops"), profiled.counter("missed_vectorizations")
    if done == 0 and missed:
        return "compute", f"vectorized_loops 0, missed_vectorizations {missed:g} -> scalar loops -> let them vectorise"
    return None


def _per_thousand(profiled: Profiled, name: str, instructions: float) -> float:
    """A counter that was not read accuses nobody."""
    return 1000 * (profiled.counter(name) or 0.0) / instructions
