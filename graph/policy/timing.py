"""What times alone suggest about the bottleneck: the weaker rules of 9.4, for when no counter could be read."""

from collections.abc import Callable, Sequence
from itertools import combinations

from graph.contract import Scoring
from graph.evidence import Row
from graph.policy.roofline import ABOVE_ROOF, bound_of, shares
from graph.record import ShapeRoof
from graph.values import Bottleneck, Value

SPREAD = 1.5
"""Rates closer than this are called uniform."""
CONCORDANT = 0.8
"""Share of pairs of shapes that must agree before a trend is called one."""
NEAR_ROOF = 0.6
"""Rules 9.3: memory-bound work at 60 % of its peak is healthy."""
MIN_SHAPES = 3


class Point(Value):
    """One shape: how much work, at which rate."""

    work: float
    rate: float
    depth: float | None
    """K of a matrix product: operations for each element that is loaded."""


def from_timing(roofs: Sequence[ShapeRoof], rows: Sequence[Row], scoring: Scoring) -> tuple[Bottleneck, str]:
    """Bottleneck and chain from the benchmark's numbers only; `unknown` when they do not point anywhere."""
    points = _points(roofs, rows, scoring)
    if len(points) >= MIN_SHAPES and _spread(points) >= SPREAD:
        if (found := _trend(points)) is not None:
            return found
    elif points and (found := _level(roofs, rows, scoring)) is not None:
        return found
    return "unknown", "the times of the shapes point to no single cause -> profile before choosing -> counters"


def _trend(points: Sequence[Point]) -> tuple[Bottleneck, str] | None:
    by_work = _concordance(points, lambda point: point.work)
    by_depth = _concordance(points, lambda point: point.depth or 0.0)
    spread = f"{_spread(points):.1f}x"
    if by_depth >= CONCORDANT and by_depth > by_work:
        return "memory", f"the rate grows {spread} with K -> data movement leads -> layout, prefetch, reuse"
    if by_work >= CONCORDANT:
        return "launch", f"the rate grows {spread} with the shape -> a fixed cost leads -> fewer, larger launches"
    return None


def _level(roofs: Sequence[ShapeRoof], rows: Sequence[Row], scoring: Scoring) -> tuple[Bottleneck, str] | None:
    found, bound = shares(rows, roofs, scoring), bound_of(roofs)
    if bound == "unknown" or not found or max(found.values()) > ABOVE_ROOF:
        return None
    low, high = (f"{100 * limit(found.values()):.0f} %" for limit in (min, max))
    if min(found.values()) >= NEAR_ROOF:
        return bound, f"{low} to {high} of the {bound} roof -> near the roof -> only less {_unit(bound)} can help"
    if max(found.values()) < NEAR_ROOF:
        return "compute", f"uniformly low, {low} to {high} of the roof -> the instruction stream leads -> better code"
    return None


def _unit(bound: str) -> str:
    return "arithmetic" if bound == "compute" else "data movement"


def _points(roofs: Sequence[ShapeRoof], rows: Sequence[Row], scoring: Scoring) -> list[Point]:
    known = {roof.label: roof for roof in roofs}
    points: list[Point] = []
    for row in rows:
        metrics = {item.name: item.value for item in row.metrics}
        roof = known.get(row.label)
        work = (roof.flops or roof.bytes) if roof else None
        rate = _rate(metrics, work, scoring)
        if work and rate:
            points.append(Point(work=work, rate=rate, depth=metrics.get("K")))
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
