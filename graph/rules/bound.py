"""What bounds a kernel: an ordered table of rules over one merged profile, with the evidence for each that was tried.

Thresholds are in `Thresholds`; a line of evidence names the number, the threshold and the number's source.
Occupancy alone never makes a class. What was not recorded is never taken as zero: the rule that needs it stays silent.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from ridgeline.graph.kernel_profile import Bound, BoundExplanation, KernelProfile, Stall
from ridgeline.graph.values import Value, add_up

# One profile while it is classified: the thresholds, its numbers, and the chain of what was looked at.


class Thresholds(Value):
    """Conventions of the field, in one place. Shares are 0..1."""

    min_calls: int = 3
    """Fewer timed calls decide nothing, unless counters were read."""
    helpers_of_span: float = 0.50
    """Copies, fills and communication above this share: the fix is outside the kernel."""
    short_ns: float = 5_000
    """Below it a kernel takes no longer than a launch."""
    busy_of_span: float = 0.30
    full_waves: float = 1.0
    tail_waves: float = 2.0
    tail_fraction: float = 0.5
    high: float = 0.60
    """Of the memory or compute peak."""
    lead: float = 0.10
    """How far memory and compute must differ for one of them to be the bound."""
    stall: float = 0.20
    """Share of wave time from which a stall class is worth naming."""
    waits_of_memory_bound: float = 0.20
    waits_of_compute_bound: float = 0.50
    l2_hit: float = 0.80
    dram_of_requests: float = 0.50
    low_occupancy: float = 0.25
    conflicts: float = 0.05
    sectors_per_request: float = 16.0
    """16 sectors of 32 bytes serve the widest access of a warp; more cannot be coalesced."""
    sectors_over_ideal: float = 2.0
    spread: float = 0.10
    """(slowest - fastest) / median of the timed calls."""


@dataclass
class Case:
    """One profile while the rules look at it; collects what they saw."""

    profile: KernelProfile
    limits: Thresholds
    evidence: list[str] = field(default_factory=list)

    def number(self, name: str) -> float | None:
        """A number of the profile; None when nobody told it."""
        return self.profile.number(name)

    def sum_stalls(self, classes: Iterable[Stall]) -> float:
        """Share of wave time in these stall classes; 0 where none was recorded."""
        names = set(classes)
        return add_up(item.share for item in self.profile.stalls if item.stall in names)

    def largest(self, names: Iterable[str]) -> tuple[str, float] | None:
        """The largest of these numbers and its name; None when nobody told any."""
        numbers = [(name, value) for name in names if (value := self.number(name)) is not None]
        return max(numbers, key=lambda item: item[1], default=None)

    def cite(self, name: str, threshold: str) -> None:
        """The rule of what bounds a kernel: put a number, its threshold and its source on the chain."""
        self.evidence.extend(
            f"{name} {number.value:.4g} ({threshold}) [{number.source}; {number.rung}]"
            for number in self.profile.numbers
            if number.name == name
        )

    def note(self, text: str) -> None:
        """Put a sentence on the chain of evidence for what bounds a kernel."""
        self.evidence.append(text)


THRESHOLDS = Thresholds()
MATRIX_NAMES = re.compile(r"gemm|matmul|attn|attention|flash|mla_|moe|conv\d?d|wgmma|mfma|Cijk_", re.IGNORECASE)
COMPUTE = ("comp.matrix_busy", "comp.vector_busy", "comp.pct_of_peak", "sol.compute")
MEMORY = ("mem.pct_of_peak", "sol.memory")
LEVELS = ("mem.pct_of_peak", "sol.l2")
"""Device memory and L2: what is left of the memory's load when shared memory is taken out."""
SPILLS = ("regs.scratch_bytes_per_thread", "regs.spill_ops")
LATENCY: tuple[tuple[str, tuple[Stall, ...]], ...] = (
    ("global_latency", ("mem_wait",)),
    ("memory_pipe", ("mem_issue", "store")),
    ("shared", ("lds_wait", "lds_issue")),
    ("barrier", ("barrier",)),
    ("dependency", ("dependency", "matrix", "math_pipe", "valu")),
    ("scalar_load", ("smem_wait", "smem_issue")),
    ("scalar_or_shared", ("lgkm_wait", "mixed_wait")),
    ("tail", ("tail",)),
)
"""Sub-classes of latency and the stall classes that each is the sum of."""
HOST_RECORDED = (
    "the host's pace was recorded, as of a harness that synchronises after each call: what bounds the kernel itself is "
    "unknown"
)
Confidence = Literal["high", "medium", "low"]


def classify_bound(profile: KernelProfile, thresholds: Thresholds = THRESHOLDS) -> BoundExplanation:
    """The class of `profile`, its sub-class, how sure, on which evidence, and what to look at next."""
    case = Case(profile=profile, limits=thresholds)
    bound, subclass = next(match for rule in RULES if (match := rule(case)) is not None)
    flags = _flags(case, bound)
    return BoundExplanation(
        bound=bound,
        subclass=subclass,
        confidence=_confidence(case, bound, flags),
        evidence=tuple(dict.fromkeys(case.evidence)),
        flags=flags,
        next=advise_next(bound, subclass, flags),
    )


BoundMatch = tuple[Bound, str] | None


def _invalid(case: Case) -> BoundMatch:
    """A recording that failed its checks or has too few calls to be classified; else None."""
    failed = [name for name, passed in case.profile.validators if not passed]
    if failed:
        case.note(f"failed checks of the recording: {', '.join(failed)}")
        return "invalid", "checks"
    counted = case.largest((*COMPUTE, *MEMORY)) is not None or case.profile.stalls
    if case.profile.calls < case.limits.min_calls and not counted:
        case.note(f"calls {case.profile.calls} (at least {case.limits.min_calls})")
        return "invalid", "few_calls"
    return None


def _not_compute(case: Case) -> BoundMatch:
    """A kernel that computes nothing, such as a copy, by its name or its helpers' share; else None."""
    helpers = case.number("time.helpers_of_span")
    if case.profile.category != "compute":
        case.note(f"{case.profile.display} is a {case.profile.category} kernel, by its name")
        return "not_compute", case.profile.category
    if helpers is not None and helpers > case.limits.helpers_of_span:
        case.cite("time.helpers_of_span", f"> {case.limits.helpers_of_span:g}")
        return "not_compute", "helpers"
    return None


def _launch_bound(case: Case) -> BoundMatch:
    """Short, with an idle queue before it; or a queue that is idle most of the time, also right before this kernel.

    The span of a recording holds imports and compilation: an idle span alone accuses no kernel. A kernel that outlasts
    its launch is not blamed for an idle queue either: then the host was recorded, and the kernel's bound is unknown.
    """
    median, gap, busy = (case.number(name) for name in ("time.median_ns", "time.gap_before_ns", "time.busy_of_span"))
    if median is None:
        return None
    short = median < case.limits.short_ns
    waits = gap is not None and gap >= median
    if gap is None and short:
        case.cite("time.median_ns", f"< {case.limits.short_ns:g}")
        case.note("gaps between launches were not recorded: a kernel this short seldom outlasts its launch")
        return "launch_bound", "short"
    if waits and short:
        case.cite("time.median_ns", f"< {case.limits.short_ns:g}")
        case.cite("time.gap_before_ns", "at least its own duration")
        return "launch_bound", "short"
    if waits and busy is not None and busy < case.limits.busy_of_span:
        case.cite("time.busy_of_span", f"< {case.limits.busy_of_span:g}")
        case.cite("time.gap_before_ns", "at least its own duration")
        if _has_no_load(case):
            case.note(HOST_RECORDED)
            return "host_bound", ""
    return None


def _has_no_load(case: Case) -> bool:
    """Whether nothing says what bounds the kernel itself: neither a loaded memory or pipe, nor stalls."""
    return not case.profile.stalls and not _near_peak(case)


def _near_peak(case: Case) -> bool:
    """The rule of what bounds a kernel: whether any recorded share of a peak is high."""
    load = case.largest((*COMPUTE, *MEMORY))
    return load is not None and load[1] >= case.limits.high


def _under_filled(case: Case) -> BoundMatch:
    """Too few blocks. A GPU near a peak all the same, as persistent kernels keep it, is not under-filled."""
    fill = case.number("occ.fill_waves")
    if fill is None:
        return None
    limits = case.limits
    few = fill < limits.full_waves
    tail = limits.full_waves < fill < limits.tail_waves and fill % 1 < limits.tail_fraction
    if few:
        case.cite("occ.fill_waves", f"< {limits.full_waves:g}: the grid does not fill the GPU once")
    elif tail:
        case.cite("occ.fill_waves", f"fraction < {limits.tail_fraction:g}: the last wave is mostly empty")
    if _near_peak(case) or not (few or tail):
        return None
    return "under_filled", "grid" if few else "tail"


def _match_load(case: Case) -> BoundMatch:
    """Memory, compute, or both near their peak; needs both, or one that is high while the other is not known."""
    memory, compute = _memory(case), case.largest(COMPUTE)
    high, lead = case.limits.high, case.limits.lead
    for load in (memory, compute):
        if load is not None:
            case.cite(load[0], f"high from {high:g}, {lead:g} ahead of the other")
    load_m, load_k = (load[1] if load is not None else 0.0 for load in (memory, compute))
    if memory is not None and load_m >= high and _ahead(load_m - load_k, lead):
        return "memory_bound", _memory_subclass(case)
    if compute is not None and load_k >= high and _ahead(load_k - load_m, lead):
        return "compute_bound", _compute_subclass(case, compute)
    return ("balanced", "") if load_m >= high and load_k >= high else None


def _memory(case: Case) -> tuple[str, float] | None:
    """The rule of what bounds a kernel: how loaded the memory is, by the level that is loaded most.

    A busy matrix unit is fed from shared memory, whose passes count in L1's share and so in the speed of light of all
    memory: then device memory and L2 alone say whether memory holds the kernel up. Seen on an H100, where a product
    that kept its tensor cores 97 % busy had 95 % there and 30 % of DRAM.
    """
    levels = case.largest(LEVELS)
    busy = case.number("comp.matrix_busy")
    if levels is None or busy is None or busy < case.limits.high:
        return case.largest(MEMORY)
    return levels


def _ahead(difference: float, lead: float) -> bool:
    """Whether a share leads another by at least `lead`, rounding aside."""
    return difference >= lead - 1e-9  # 0.70 - 0.60 is a little less than 0.10 in binary


def _memory_subclass(case: Case) -> str:
    """Which level of the memory is near its peak; a hit rate alone moves the blame only together with a busy L2."""
    hit, dram = (case.number(name) for name in ("mem.l2_hit", "mem.dram_of_requests"))
    l2, device = case.number("sol.l2") or 0.0, case.number("mem.pct_of_peak")
    if device is not None and device < case.limits.high:
        case.cite("mem.pct_of_peak", f"< {case.limits.high:g}: the traffic stays in the caches")
        return "l2" if l2 >= case.limits.high else "l1"
    if hit is not None and hit > case.limits.l2_hit and l2 >= case.limits.high:
        case.cite("mem.l2_hit", f"> {case.limits.l2_hit:g}")
        return "l2"
    if dram is not None and dram < case.limits.dram_of_requests:
        case.cite("mem.dram_of_requests", f"< {case.limits.dram_of_requests:g}")
        return "fabric"
    return "hbm"


def _compute_subclass(case: Case, compute: tuple[str, float]) -> str:
    matrix, vector, special = (case.number(f"comp.{pipe}_busy") or 0.0 for pipe in ("matrix", "vector", "sfu"))
    if special >= case.limits.high and special >= max(matrix, vector):
        return "sfu"
    if max(matrix, vector) == 0:
        is_matrix = MATRIX_NAMES.search(case.profile.kernel) is not None
        return "matrix" if compute[0] == "comp.pct_of_peak" and is_matrix else "vector"
    return "matrix" if matrix >= vector else "vector"


def _resources(case: Case) -> BoundMatch:
    """The rule of what bounds a kernel: spills while neither memory nor compute is near its peak."""
    spilled = case.largest(SPILLS)
    if spilled is None or spilled[1] <= 0:
        return None
    case.cite(spilled[0], "0 is healthy")
    return "resource_bound", "spills"


def _latency(case: Case) -> BoundMatch:
    """Latency where neither peak is near, mixed where one is or is unknown."""
    memory, compute = _memory(case), case.largest(COMPUTE)
    subclass = _waiting(case)
    if memory is None or compute is None:
        missing = "memory" if memory is None else "compute"
        has_rate = memory is None and case.number("mem.gbps") is not None
        why = "the product's bandwidth is not known" if has_rate else "no counter of it was recorded"
        if memory is None and not has_rate and case.number("mem.bytes") is not None:
            why = "the bytes are there, a usable time is not"
        case.note(f"share of the {missing} peak unknown: {why}")
        return "mixed", subclass
    if memory[1] < case.limits.high and compute[1] < case.limits.high:
        return "latency_bound", subclass
    return "mixed", subclass


def _waiting(case: Case) -> str:
    """The rule of what bounds a kernel: the class of stalls that leads; empty where none is frequent."""
    shares = [(case.sum_stalls(classes), name) for name, classes in LATENCY]
    share, name = max(shares)
    if share < case.limits.stall:
        return ""
    basis = case.profile.stalls[0].basis
    case.note(f"{name} {share:.3g} of {basis} (named from {case.limits.stall:g})")
    return name


RULES: tuple[Callable[[Case], BoundMatch], ...] = (
    _invalid, _not_compute, _launch_bound, _under_filled, _match_load, _resources, _latency,
)  # fmt: skip
"""In this order; the first that answers is the class, and the last always answers."""


def _missing_of_memory(case: Case) -> str:
    """Which part of a share of the memory's peak is not there: the peak, the time or the bytes."""
    if case.number("mem.gbps") is not None:
        return "peak_unknown"
    return "memory_unknown" if case.number("mem.bytes") is None else "time_unknown"


def _flags(case: Case, bound: Bound) -> tuple[str, ...]:
    """Names of what else is noteworthy, such as spills or low occupancy."""
    limits, profile = case.limits, case.profile
    waits = case.sum_stalls(("mem_wait",))
    low = case.number("occ.theoretical")
    memory_waits = case.sum_stalls(("mem_wait", "mem_issue", "store", "mixed_wait"))
    spilled = case.largest(SPILLS)
    checks = (
        ("spills", spilled is not None and spilled[1] > 0),
        ("low_occupancy", low is not None and low < limits.low_occupancy and waits >= limits.stall),
        ("bank_conflicts", (case.number("shm.conflict_rate") or 0) >= limits.conflicts),
        ("matrix_unused", _matrix_unused(case)),
        ("uncoalesced", _is_uncoalesced(case)),
        ("name_variant_mix", (case.number("launch.variants") or 1) > 1),
        ("few_calls", profile.grade in ("trace", "events") and profile.calls < limits.min_calls),
        (_missing_of_memory(case), bound == "mixed" and case.largest(MEMORY) is None),
        ("compute_unknown", bound == "mixed" and case.largest(COMPUTE) is None),
        (
            "suspicious_bytes",
            bound == "memory_bound" and bool(profile.stalls) and memory_waits < limits.waits_of_memory_bound,
        ),
        ("suspicious_waits", bound == "compute_bound" and waits > limits.waits_of_compute_bound),
    )
    return tuple(name for name, raised in checks if raised)


def _matrix_unused(case: Case) -> bool:
    busy = case.number("comp.matrix_busy")
    return busy == 0 and MATRIX_NAMES.search(case.profile.kernel) is not None


def _is_uncoalesced(case: Case) -> bool:
    return (case.number("mem.sectors_per_request") or 0) > case.limits.sectors_per_request or (
        case.number("mem.sectors_over_ideal") or 0
    ) > case.limits.sectors_over_ideal


def _confidence(case: Case, bound: Bound, flags: tuple[str, ...]) -> Confidence:
    """High where counters and stalls agree and the times hold still; low on resources and times alone."""
    counters = case.largest(MEMORY) is not None and case.largest(COMPUTE) is not None
    if bound in ("invalid", "mixed") or {"suspicious_bytes", "suspicious_waits"} & set(flags):
        return "low"
    if bound in ("launch_bound", "host_bound", "under_filled", "not_compute"):
        return "medium" if case.number("time.gap_before_ns") is not None or counters else "low"
    if not counters:
        return "low"
    steady = _spread(case)
    return "high" if case.profile.stalls and steady is not None and steady < case.limits.spread else "medium"


def _spread(case: Case) -> float | None:
    """The rule of what bounds a kernel: (slowest - fastest) / median; None below three calls."""
    fastest, median, slowest = (case.number(f"time.{name}_ns") for name in ("min", "median", "max"))
    if fastest is None or slowest is None or not median or case.profile.calls < case.limits.min_calls:
        return None
    return (slowest - fastest) / median


# What to look at next, by class, sub-class and flag of a kernel: one sentence each, none of them a promise.

BY_CLASS: dict[Bound, str] = {
    "invalid": "record again: no conclusion can rest on what is there",
    "not_compute": "look outside the kernel: copies, fills or communication take the time",
    "launch_bound": "count the launches: a graph capture, a fused or a persistent kernel removes them",
    "host_bound": "record counters of the kernel alone, or calls back to back (several before one synchronisation): the "
    "queue stood empty, and nothing here says what the kernel waits for",
    "under_filled": "give the GPU more blocks: smaller tiles, a split along the reduction, several problems per launch",
    "memory_bound": "move fewer bytes: reuse in registers or shared memory, fusion with the neighbour, narrower types",
    "compute_bound": "do less arithmetic or take a faster instruction: check the type, the shape and the issue slots",
    "balanced": "memory and arithmetic are both near their peak: only less work, or a better algorithm, helps",
    "latency_bound": "nothing is busy: find the wait with the largest share and overlap it",
    "resource_bound": "registers run out: a smaller tile, fewer live values, or another number of warps",
    "mixed": "no rule answers on what was recorded: counters first, then a trace of what the waves wait for",
}
BY_SUBCLASS = {
    "hbm": "compare the bytes with what the algorithm must move: the excess is what can be saved",
    "l2": "the second-level cache carries the traffic: larger tiles, or an order of blocks that shares rows",
    "l1": "the first-level cache or shared memory carries the traffic: wider accesses, fewer conflicts, registers",
    "fabric": "much is served beside the memory: order the blocks by die, and check what is remote",
    "matrix": "keep the matrix pipe fed: operands ready one step ahead, larger instruction shapes",
    "vector": "look at the instruction mix: conversions, index arithmetic and predicates that can leave the loop",
    "sfu": "exponentials and divisions fill their pipe: exp2 with a folded factor, or a polynomial",
    "global_latency": "ask for global data earlier: deeper prefetch, asynchronous copies, more bytes in flight",
    "memory_pipe": "fewer and wider memory instructions: 16 bytes per lane, no scalar stores",
    "shared": "change the layout in shared memory: padding or swizzle, wider reads, fewer round trips",
    "barrier": "waves wait for each other: fewer barriers, even work per wave, split or named barriers",
    "dependency": "independent work between dependent instructions: more accumulators, unrolling, interleaving",
    "scalar_load": "arguments and descriptors arrive late: load them once, early, or keep them in registers",
    "scalar_or_shared": "shared memory and scalar loads are not told apart: record a trace with its wave files",
    "tail": "waves drain at their end: stores earlier, or a persistent kernel",
    "spills": "remove the spills first: every other number suffers from their traffic",
}
BY_FLAG = {
    "low_occupancy": "few waves and they wait: fewer registers or less shared memory would let more hide it",
    "bank_conflicts": "shared-memory accesses collide in their banks: padding or swizzle",
    "matrix_unused": "a matrix product without matrix instructions: check the types and the layout that they need",
    "uncoalesced": "lanes of one access touch too many sectors: neighbouring lanes, neighbouring addresses",
    "suspicious_bytes": "memory looks busy and nobody waits for it: check the byte counters before believing them",
    "suspicious_waits": "arithmetic looks busy and most time is waiting: check the clock and the counters",
    "name_variant_mix": "one name, several launches: look at one shape alone",
    "few_calls": "record more calls, three at least",
    "memory_unknown": "record the bytes: waits on memory look the same whether it is full or only far away",
    "time_unknown": "the bytes are there, a usable time is not: take the files as the tool wrote them, or record a trace too",
    "peak_unknown": "bytes and time are there, the product's bandwidth is not: name the product with --gpu",
    "compute_unknown": "record how busy the matrix and vector pipes are",
}


def advise_next(bound: Bound, subclass: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    """Sentences in the order in which they help, most specific first; spills come before everything."""
    words = [BY_SUBCLASS["spills"]] if "spills" in flags else []
    words += [BY_SUBCLASS[subclass]] if subclass in BY_SUBCLASS else []
    words += [BY_CLASS[bound], *(BY_FLAG[flag] for flag in flags if flag in BY_FLAG)]
    return tuple(dict.fromkeys(words))
