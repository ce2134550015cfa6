"""What times alone suggest about the bottleneck: the weaker rules, for when no counter could be read.

Where floors are known each shape is judged by its own share of its own peak: rates of shapes that different peaks bound
are never compared. Without floors, a rate that grows from shape to shape is all there is to go by.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import inf

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Row
from ridgeline.graph.policy.roofline import ABOVE_ROOF, bound_of, shares
from ridgeline.graph.policy.timing_words import Placed, chain, time_us
from ridgeline.graph.record import ShapeRoof
from ridgeline.graph.values import Bottleneck, Value

SPREAD = 1.5
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


def from_timing(
    roofs: Sequence[ShapeRoof], rows: Sequence[Row], scoring: Scoring, *, cpu: bool = False
) -> tuple[Bottleneck, str]:
    """Bottleneck and chain from the benchmark's numbers only; `unknown` when they do not point anywhere.

    `cpu`: on a processor nothing is launched, so no launch is blamed or spoken of.
    """
    placed = _placed(roofs, rows, scoring)
    if not placed:
        points = _points(roofs, rows, scoring)
        trends = len(points) >= MIN_SHAPES and _spread(points) >= SPREAD
        return _trend(points, cpu=cpu) or UNKNOWN if trends else UNKNOWN
    return chain(placed, bound=bound_of(roofs), launch_us=None if cpu else LAUNCH_US)


def _placed(roofs: Sequence[ShapeRoof], rows: Sequence[Row], scoring: Scoring) -> tuple[Placed, ...]:
    """Every shape on its own roof; none when one has no roof or is above it, for then these peaks do not govern."""
    found = shares(rows, roofs, scoring)
    bounds = {roof.label: roof.bound for roof in roofs}
    if len(found) != len(rows) or not found or max(found.values()) > ABOVE_ROOF:
        return ()
    return tuple(
        Placed(label=row.label, bound=bound, share=found[row.label], us=time_us(row, scoring))
        for row in rows
        if (bound := bounds[row.label]) != "unknown"
    )


def _trend(points: Sequence[Point], *, cpu: bool) -> tuple[Bottleneck, str] | None:
    by_work = _concordance(points, lambda point: point.work)
    by_depth = _concordance(points, lambda point: point.depth or 0.0)
    spread = f"{_spread(points):.1f}x"
    if by_depth >= CONCORDANT and by_depth > by_work:
        return "memory", f"the rate grows {spread} with K -> data movement leads -> layout, prefetch, reuse"
    if by_work < CONCORDANT:
        return None
    if cpu:
        said = f"the rate grows {spread} with the shape"
        return "latency", f"{said} -> a cost that does not grow leads in small ones -> less work before and after loops"
    least = min(point.us for point in points)
    if least < LAUNCH_US:
        said = f"the rate grows {spread} with the shape, and a call takes {least:.3g} us or more"
        return "launch", f"{said} -> a fixed cost leads -> fewer, larger launches"
    return (
        "latency",
        f"the rate grows {spread} with the shape -> small ones do not fill the device -> more parallel work",
    )


def _points(roofs: Sequence[ShapeRoof], rows: Sequence[Row], scoring: Scoring) -> list[Point]:
    known = {roof.label: roof for roof in roofs}
    points: list[Point] = []
    for row in rows:
        metrics = {item.name: item.value for item in row.metrics}
        roof = known.get(row.label)
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
    rates = [point.rate for point in points]
    return max(rates) / min(rates)


def _concordance(points: Sequence[Point], key: Callable[[Point], float]) -> float:
    """Share of the pairs with different keys in which the larger key has the larger rate; 0 without such a pair."""
    pairs = [(a, b) for a, b in combinations(points, 2) if key(a) != key(b)]
    if not pairs:
        return 0.0
    return sum((a.rate < b.rate) == (key(a) < key(b)) for a, b in pairs) / len(pairs)
