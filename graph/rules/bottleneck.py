"""What limits the best version, with the chain from evidence over inference to action.

Counters decide. Names read here, as far as a profiler gives them. Processor: `instructions`, `cycles`, `d1_misses`,
`ll_misses`, `branch_misses`, `vectorized_loops`, `missed_vectorizations`, `explicit_vectors`. Accelerator: `spills`, `occupancy`,
`gpu_busy_pct`, `dram_pct`, `compute_pct`, all shares in per cent; where a GPU's tools recorded the kernel itself, the
classes of `bound` decide, and these counters only where those are silent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, groupby
from math import inf, log
from typing import Literal

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Profiled, Row
from ridgeline.graph.kernel_profile import Bound, BoundExplanation, KernelProfile
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.rules import bound
from ridgeline.graph.rules.bound import Case
from ridgeline.graph.rules.roofline import ABOVE_ROOF, RooflineBound, bound_of, compute_shares
from ridgeline.graph.values import Bottleneck, Value

BottleneckMatch = tuple[Bottleneck, str]

BUSY_LOW, OCCUPANCY_LOW, DRAM_HIGH, DRAM_LOW, COMPUTE_LOW = 30.0, 25.0, 60.0, 30.0, 40.0
"""Per cent."""
LL_MISSES, D1_MISSES, BRANCH_MISSES = 10.0, 30.0, 5.0
"""Per 1000 instructions. Ours: at three instructions per cycle, a miss of about 100, 14 and 15 cycles then costs as
much time as the instructions between two of them, or a sizeable part of it."""
IPC_LOW = 1.0
LINE = 64
"""Bytes of a cache line on every processor that `Target` knows."""
REFETCHED = 2.0
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
MOST_EVIDENCE = 4
"""Lines of a chain that are quoted."""


def classify_bottleneck(
    profiled: Profiled | None,
    roofs: Sequence[ShapeRoof],
    rows: Sequence[Row],
    scoring: Scoring,
    *,
    cpu: bool = False,
) -> tuple[Bottleneck, str]:
    """The bottleneck and why. A claim without counters says in its text that it rests on timing alone.

    `cpu`: the target is a processor, of which nothing is said that only a GPU has.
    """
    basis = "no counter of the kernel was read"
    if profiled is not None:
        for match_or_reason in _match_rules(profiled, roofs):
            if isinstance(match_or_reason, tuple):
                label, chain = match_or_reason
                stand = profiled.rung_of(chain.split(maxsplit=1)[0])  # of the counter that a chain begins with
                return label, f"{chain} ({stand})"
            if match_or_reason is not None:
                basis = f"what was recorded decides nothing: {match_or_reason}"
    label, chain = classify_by_timing(roofs, rows, scoring, cpu=cpu)
    return label, f"{chain} (rests on timing alone: {basis})"


def _match_rules(profiled: Profiled, roofs: Sequence[ShapeRoof]) -> Iterator[BottleneckMatch | str | None]:
    """What each rule finds, the strongest first; a text is why numbers that are there decide nothing."""
    if profiled.kernel is not None:
        yield _match_recording(profiled.kernel)
    yield _accelerator(profiled)
    match = _processor(profiled, roofs)
    yield match
    if match is None:
        yield _compiler(profiled)


def _match_recording(kernel: KernelProfile) -> BottleneckMatch | str:
    """What bounds the kernel as a profiler's recording says; None for a class that is no bottleneck by itself."""
    bounded = bound.classify_bound(kernel)
    chain = _chain(bounded)
    if (label := OF_BOUND.get(bounded.bound)) is not None:
        return label, chain
    case = Case(profile=kernel, limits=bound.THRESHOLDS)
    memory, compute = case.largest(bound.MEMORY), case.largest(bound.COMPUTE)
    if bounded.bound not in ("balanced", "mixed") or memory is None or compute is None:
        return chain
    return ("memory" if memory[1] > compute[1] else "compute"), chain


def _chain(bounded: BoundExplanation) -> str:
    """Evidence, class, confidence and advice of a recording, as one chain."""
    bound_class = f"{bounded.bound}/{bounded.subclass}" if bounded.subclass else bounded.bound
    because = "; ".join(bounded.evidence[:MOST_EVIDENCE]) or "no number of it was recorded"
    return f"{because} -> {bound_class}, {bounded.confidence} confidence -> {bounded.next[0]}"


def _accelerator(profiled: Profiled) -> BottleneckMatch | None:
    """The bottleneck that a GPU's counters show; None where they show none."""
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


def _processor(profiled: Profiled, roofs: Sequence[ShapeRoof]) -> BottleneckMatch | str | None:
    """The bottleneck that a processor's misses and instructions show; a text where they decide nothing."""
    instructions = profiled.counter("instructions")
    if not instructions or profiled.origins:  # those of a GPU are of its code, and say nothing of how often they ran
        return None
    branch, last_level_rate, first_level_rate = (
        _per_thousand(profiled, name, instructions) for name in ("branch_misses", "ll_misses", "d1_misses")
    )
    if last_level_rate >= LL_MISSES:
        return (
            "memory",
            f"ll_misses {last_level_rate:.1f} per 1000 instructions -> loads reach memory -> blocking, reuse, fusion",
        )
    if first_level_rate >= D1_MISSES and (waits := _first_cache(profiled, roofs, first_level_rate)) is not None:
        return waits
    if branch >= BRANCH_MISSES:
        return "latency", f"branch_misses {branch:.1f} per 1000 instructions -> the pipeline restarts -> fewer branches"
    scalar = _compiler(profiled)
    if isinstance(scalar, tuple):
        return scalar
    return _instructions(profiled, instructions, overlapped=first_level_rate >= D1_MISSES)


def _first_cache(profiled: Profiled, roofs: Sequence[ShapeRoof], rate: float) -> BottleneckMatch | str | None:
    """Whether misses of the first cache that the next one serves cost time; a text where nothing tells, None for no.

    Their number per instruction grows when only the instructions become fewer, so it alone accuses nobody: cycles must
    have been lost, or the same lines must come again.
    """
    instructions, cycles = profiled.counter("instructions"), profiled.counter("cycles")
    reading = f"d1_misses {rate:.1f} per 1000 instructions"
    if instructions and cycles:
        if instructions / cycles >= IPC_LOW:
            return None
        return "memory", f"{reading} at {instructions / cycles:.2f} a cycle -> loads leave the first cache -> {REORDER}"
    calls, misses = profiled.counter("calls"), profiled.counter("d1_misses")
    least = max((roof.bytes for roof in roofs if roof.bytes), default=0.0)
    if not calls or not misses or not least:
        return f"{reading}, and neither cycles nor the bytes of a call say what they cost"
    fetched = misses * LINE / calls
    of = f"{fetched / 1e3:.4g} kB fetched in a call, where the largest shape moves {least / 1e3:.4g} kB"
    if fetched >= REFETCHED * least:
        return "memory", f"{reading}, {of} -> lines are fetched again -> {REORDER}"
    return f"{reading}, but {of}: no line needs to come twice, and this rate rises when only the instructions fall"


def _instructions(profiled: Profiled, instructions: float, *, overlapped: bool) -> BottleneckMatch:
    """Latency or compute, by instructions per cycle, where no miss is to blame."""
    cycles = profiled.counter("cycles")
    misses = "misses overlapped" if overlapped else "few misses"
    if cycles and instructions / cycles < IPC_LOW:
        ipc = instructions / cycles
        return "latency", f"{ipc:.2f} instructions per cycle, {misses} -> a chain of waits -> independent accumulators"
    return (
        "compute",
        f"instructions {instructions:.4g}, {misses} -> the number of instructions leads -> {_advise_on_vectors(profiled)}",
    )


def _advise_on_vectors(profiled: Profiled) -> str:
    """What may make a processor's instructions fewer: not what the compiler or the source has done already."""
    done, missed = profiled.counter("vectorized_loops"), profiled.counter("missed_vectorizations")
    if profiled.counter("explicit_vectors"):
        return "do less work for each element: the source is written in vectors"
    if not done:
        return "vectorise, do less work"
    if missed:
        return f"do less work; {done:g} loops are vectors, {missed:g} stay scalar"
    return "do less work for each element: the loops are vectors already"


def _compiler(profiled: Profiled) -> BottleneckMatch | str | None:
    """Compute, where the compiler vectorized no loop and reported some that it could not; else None.

    Of source that is written in vectors the compiler says the same, so that there it is no evidence: a text.
    """
    vector_loops, missed = profiled.counter("vectorized_loops"), profiled.counter("missed_vectorizations")
    if vector_loops or not missed or vector_loops is None:
        return None
    if explicit := profiled.counter("explicit_vectors"):
        return f"{explicit:g} lines are written in vectors, of which gcc's remarks on scalar loops say nothing"
    return "compute", f"vectorized_loops 0, missed_vectorizations {missed:g} -> scalar loops -> let them vectorise"


def _per_thousand(profiled: Profiled, name: str, instructions: float) -> float:
    """A miss counter per thousand instructions; one that was not read accuses nobody."""
    return 1000 * (profiled.counter(name) or 0.0) / instructions


# Each shape's share of its own peak, grouped by what that suggests: chains of evidence, inference and action.

NEAR_ROOF = 0.6
"""Memory-bound work at 60 % of its peak is healthy."""
AT_ROOF = 0.85
"""From here on nothing but less work helps. Ours: kernels that only copy stay within some 10 % of the peak."""
MOST_NAMED = 4
"""Shapes of a group that are named."""
SPREAD = 1.5
"""Shares of one peak that lie this far apart differ for the shape's sake, not for what all of them do."""
Cause = Literal["launch", "latency", "compute", "unknown", "below", "at"]
WORDS: Mapping[Cause, tuple[str, str]] = {
    "launch": ("calls so short are ruled by the cost of a launch", "fewer, larger launches"),
    "latency": (
        "shapes differ, so too few loads are in flight; no launch takes so long",
        "more blocks or threads, wider or deeper loads",
    ),
    "unknown": (
        "either too few loads are in flight, or more passes over memory are made than the least that is counted",
        "count launches and passes first",
    ),
    "compute": (
        "the instruction stream leads, or more is computed than the least that is counted",
        "better instructions, larger tiles",
    ),
    "below": ("some time goes elsewhere", "wider or deeper loads, fewer instructions for each element"),
    "at": ("at the peak", "only less work of that kind can help"),
}
"""What follows from the share of a group's shapes, and what may be done about it."""
ON_CPU: Mapping[Cause, tuple[str, str]] = {
    **WORDS,
    "latency": (
        "shapes differ, so too few loads are in flight",
        "wider loads, more independent ones, prefetch",
    ),
    "unknown": (WORDS["unknown"][0], "count the passes over the data first"),
}
"""The same of a processor, which launches nothing: a call costs it nanoseconds, so that `launch` is no cause there."""


class PlacedShape(Value):
    """One shape on its own roof."""

    label: str
    bound: RooflineBound
    share: float
    """Of the peak that bounds it: floor time / measured time."""
    us: float
    """Microseconds of one call."""


def time_us(row: Row, scoring: Scoring) -> float:
    """Microseconds of one call by the contract's time column. Raises KeyError where the row lacks it."""
    return 1e3 * row.metric(scoring.time_ms or "")


def chain(placed: Sequence[PlacedShape], *, bound: RooflineBound, launch_us: float | None) -> tuple[Bottleneck, str]:
    """Label of the shape group that has most to gain, and one chain of evidence for each group.

    Of shapes that all come near their peaks the label is what bounds most of their time. `launch_us`: calls shorter
    than this may be ruled by a launch; None on a processor, which has none.
    """
    groups, words = _groups(placed, launch_us or 0.0), WORDS if launch_us is not None else ON_CPU
    chains = (f"{_shares(cause, shapes)} -> {' -> '.join(words[cause])}" for cause, shapes in groups)
    causes: list[Bottleneck] = [cause for cause, _ in groups if cause != "below" and cause != "at"]
    return (causes or [bound])[0], "; ".join(chains)


def _groups(placed: Sequence[PlacedShape], launch_us: float) -> list[tuple[Cause, list[PlacedShape]]]:
    """Shapes by cause and peak, the group with the most to gain in the geometric mean first."""
    low = [shape.share for shape in placed if _cause(shape, launch_us, spread_out=True) == "latency"]
    spread_out = bool(low) and max(low) >= SPREAD * min(low)
    order = sorted(
        placed, key=lambda shape: (_cause(shape, launch_us, spread_out=spread_out), shape.bound, shape.share)
    )
    groups = [
        (cause, list(shapes))
        for (cause, _), shapes in groupby(
            order, key=lambda shape: (_cause(shape, launch_us, spread_out=spread_out), shape.bound)
        )
    ]
    return sorted(groups, key=lambda group: sum(log(min(shape.share, 1.0)) for shape in group[1]))


def _cause(shape: PlacedShape, launch_us: float, *, spread_out: bool) -> Cause:
    """`spread_out`: the low shares of the memory peak differ from shape to shape."""
    if shape.share >= NEAR_ROOF:
        return "at" if shape.share >= AT_ROOF else "below"
    if shape.us < launch_us:
        return "launch"
    if shape.bound == "compute":
        return "compute"
    return "latency" if spread_out else "unknown"


def _shares(cause: Cause, shapes: Sequence[PlacedShape]) -> str:
    """The share of the peak that each shape reaches, in words."""
    peak = f"of the {shapes[0].bound} peak"
    least = (
        f" in {min(shape.us for shape in shapes):.3g} us or more" if cause in ("launch", "latency", "unknown") else ""
    )
    if len(shapes) > MOST_NAMED:
        low, high = (f"{100 * limit(shape.share for shape in shapes):.0f}" for limit in (min, max))
        return f"{_names(shapes)} reach {low} to {high} % {peak}{least}"
    each = ", ".join(f"{shape.label} {100 * shape.share:.0f} %" for shape in shapes)
    return f"{each} {peak}{least}"


def _names(shapes: Sequence[PlacedShape]) -> str:
    """For a bottleneck's evidence: labels of the first few shapes, and how many more there are."""
    more = f" and {len(shapes) - MOST_NAMED} more" if len(shapes) > MOST_NAMED else ""
    return f"{', '.join(shape.label for shape in shapes[:MOST_NAMED])}{more}"


# What times alone suggest about the bottleneck: the weaker rules, for when no counter could be read.
#
# Where floors are known each shape is judged by its own share of its own peak: rates of shapes that different peaks bound
# are never compared. Without floors, a rate that grows from shape to shape is all there is to go by.

TIMING_SPREAD = 1.5
"""Rates closer than this are called uniform."""
CONCORDANT = 0.8
"""Share of pairs of shapes that must agree before a trend is called one."""
LAUNCH_US = 10.0
"""Only a call about as short as a launch, some microseconds, can be ruled by what a launch costs."""
MIN_SHAPES = 3
UNKNOWN: tuple[Bottleneck, str] = (
    "unknown",
    "the times of the shapes point to no single cause -> profile before choosing -> counters",
)


class Point(Value):
    """One shape: how much work, at which rate."""

    work: float
    rate: float
    depth: float | None
    """K of a matrix product: operations for each element that is loaded."""
    us: float
    """Microseconds of one call; infinite where the contract names no time, so that nothing is blamed on launches."""


def classify_by_timing(
    roofs: Sequence[ShapeRoof], rows: Sequence[Row], scoring: Scoring, *, cpu: bool = False
) -> tuple[Bottleneck, str]:
    """Bottleneck and chain from the benchmark's numbers only; `unknown` when they do not point anywhere.

    `cpu`: on a processor nothing is launched, so no launch is blamed or spoken of.
    """
    placed = _place_shapes(roofs, rows, scoring)
    if not placed:
        points = _points(roofs, rows, scoring)
        trends = len(points) >= MIN_SHAPES and _spread(points) >= TIMING_SPREAD
        return _trend(points, cpu=cpu) or UNKNOWN if trends else UNKNOWN
    return chain(placed, bound=bound_of(roofs), launch_us=None if cpu else LAUNCH_US)


def _place_shapes(roofs: Sequence[ShapeRoof], rows: Sequence[Row], scoring: Scoring) -> tuple[PlacedShape, ...]:
    """Every shape on its own roof; none when one has no roof or is above it, for then these peaks do not govern."""
    shares = compute_shares(rows, roofs, scoring)
    bounds = {roof.label: roof.bound for roof in roofs}
    if len(shares) != len(rows) or not shares or max(shares.values()) > ABOVE_ROOF:
        return ()
    return tuple(
        PlacedShape(label=row.label, bound=bound, share=shares[row.label], us=time_us(row, scoring))
        for row in rows
        if (bound := bounds[row.label]) != "unknown"
    )


def _trend(points: Sequence[Point], *, cpu: bool) -> tuple[Bottleneck, str] | None:
    """The bottleneck by how the rate grows with depth or work; None where it follows neither."""
    by_work = _concordance(points, lambda point: point.work)
    by_depth = _concordance(points, lambda point: point.depth or 0.0)
    spread = f"{_spread(points):.1f}x"
    if by_depth >= CONCORDANT and by_depth > by_work:
        return "memory", f"the rate grows {spread} with K -> data movement leads -> layout, prefetch, reuse"
    if by_work < CONCORDANT:
        return None
    if cpu:
        text = f"the rate grows {spread} with the shape"
        return "latency", f"{text} -> a cost that does not grow leads in small ones -> less work before and after loops"
    least = min(point.us for point in points)
    if least < LAUNCH_US:
        text = f"the rate grows {spread} with the shape, and a call takes {least:.3g} us or more"
        return "launch", f"{text} -> a fixed cost leads -> fewer, larger launches"
    return (
        "latency",
        f"the rate grows {spread} with the shape -> small ones do not fill the device -> more parallel work",
    )


def _points(roofs: Sequence[ShapeRoof], rows: Sequence[Row], scoring: Scoring) -> list[Point]:
    """Work, rate, depth and time of each shape that has them, for the class of bottleneck."""
    by_label = {roof.label: roof for roof in roofs}
    points: list[Point] = []
    for row in rows:
        metrics = {item.name: item.value for item in row.metrics}
        roof = by_label.get(row.label)
        work = (roof.flops or roof.bytes) if roof else None
        rate = _rate(metrics, work, scoring)
        if work and rate:
            us = 1e3 * metrics.get(scoring.time_ms or "", inf)
            points.append(Point(work=work, rate=rate, depth=metrics.get("K"), us=us))
    return points


def _rate(metrics: dict[str, float], work: float | None, scoring: Scoring) -> float | None:
    """Work per time: from the time column, else a throughput metric as it stands."""
    time_ms = metrics.get(scoring.time_ms or "")
    if work and time_ms and time_ms > 0:
        return work / time_ms
    return metrics.get(scoring.primary_metric[0]) if scoring.higher_is_better else None


def _spread(points: Sequence[Point]) -> float:
    """The rule of the bottleneck: the greatest rate over the smallest."""
    rates = [point.rate for point in points]
    return max(rates) / min(rates)


def _concordance(points: Sequence[Point], key: Callable[[Point], float]) -> float:
    """Share of the pairs with different keys in which the larger key has the larger rate; 0 without such a pair."""
    pairs = [(a, b) for a, b in combinations(points, 2) if key(a) != key(b)]
    if not pairs:
        return 0.0
    return sum((a.rate < b.rate) == (key(a) < key(b)) for a, b in pairs) / len(pairs)
