"""Each shape's share of its own peak, grouped by what that suggests: chains of evidence, inference and action."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import log
from typing import Literal

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Row
from ridgeline.graph.policy.roofline import Bound
from ridgeline.graph.values import Bottleneck, Value

NEAR_ROOF = 0.6
"""Rules 9.3: memory-bound work at 60 % of its peak is healthy."""
AT_ROOF = 0.85
"""From here on nothing but less work helps. Ours: kernels that only copy stay within some 10 % of the peak."""
NAMED = 4
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


class Placed(Value):
    """One shape on its own roof."""

    label: str
    bound: Bound
    share: float
    """Of the peak that bounds it: floor time / measured time."""
    us: float
    """Microseconds of one call."""


def time_us(row: Row, scoring: Scoring) -> float:
    """Microseconds of one call by the contract's time column. Raises KeyError where the row lacks it."""
    return 1e3 * row.metric(scoring.time_ms or "")


def chain(placed: Sequence[Placed], *, bound: Bound, launch_us: float | None) -> tuple[Bottleneck, str]:
    """The label of the group that has most to gain, and one chain for each group of shapes.

    Of shapes that all come near their peaks the label is what bounds most of their time. `launch_us`: calls shorter
    than this may be ruled by a launch; None on a processor, which has none.
    """
    groups, words = _groups(placed, launch_us or 0.0), WORDS if launch_us is not None else ON_CPU
    chains = (f"{_shares(cause, shapes)} -> {' -> '.join(words[cause])}" for cause, shapes in groups)
    causes: list[Bottleneck] = [cause for cause, _ in groups if cause != "below" and cause != "at"]
    return (causes or [bound])[0], "; ".join(chains)


def _groups(placed: Sequence[Placed], launch_us: float) -> list[tuple[Cause, list[Placed]]]:
    """Shapes by cause and peak, the group with the most to gain in the geometric mean first."""
    low = [shape.share for shape in placed if _cause(shape, launch_us, apart=True) == "latency"]
    apart = bool(low) and max(low) >= SPREAD * min(low)
    order = sorted(placed, key=lambda shape: (_cause(shape, launch_us, apart=apart), shape.bound, shape.share))
    groups = [
        (cause, list(shapes))
        for (cause, _), shapes in groupby(order, key=lambda shape: (_cause(shape, launch_us, apart=apart), shape.bound))
    ]
    return sorted(groups, key=lambda group: sum(log(min(shape.share, 1.0)) for shape in group[1]))


def _cause(shape: Placed, launch_us: float, *, apart: bool) -> Cause:
    """`apart`: the low shares of the memory peak differ from shape to shape."""
    if shape.share >= NEAR_ROOF:
        return "at" if shape.share >= AT_ROOF else "below"
    if shape.us < launch_us:
        return "launch"
    if shape.bound == "compute":
        return "compute"
    return "latency" if apart else "unknown"


def _shares(cause: Cause, shapes: Sequence[Placed]) -> str:
    peak = f"of the {shapes[0].bound} peak"
    least = (
        f" in {min(shape.us for shape in shapes):.3g} us or more" if cause in ("launch", "latency", "unknown") else ""
    )
    if len(shapes) > NAMED:
        low, high = (f"{100 * limit(shape.share for shape in shapes):.0f}" for limit in (min, max))
        return f"{_names(shapes)} reach {low} to {high} % {peak}{least}"
    each = ", ".join(f"{shape.label} {100 * shape.share:.0f} %" for shape in shapes)
    return f"{each} {peak}{least}"


def _names(shapes: Sequence[Placed]) -> str:
    more = f" and {len(shapes) - NAMED} more" if len(shapes) > NAMED else ""
    return f"{', '.join(shape.label for shape in shapes[:NAMED])}{more}"
