"""Whole numbers and masks of each mix: any value of [low, high) is legal at any place, so shortcuts meet all of them.

Index-like numbers stay legal too, but how often one is named decides how long a sum of an honest kernel is; see CAP.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Input
from ridgeline.sandbox.judge.dtypes import Floats, Raw, is_float

Rows = NDArray[np.int64]
"""Two dimensions: the last axis of an input, and all others."""
Bend = Callable[[Rows, "Span", np.random.Generator], Rows]
CAP = 4096
"""Elements of an index that are bent in a task that has floats: of more, all naming one place, the sum of a plain loop
in float32 is off by more than the judge can tell from a mistake."""
INDEX_TYPES = ("int32", "int64")
ORDINARY = 1 / 32
"""Share of elements left as they were where all others are at one end."""
FEW = 3
"""Different values in a row of ties."""
LONE = 64
"""One of so many elements of a row stands out; at least one."""


class Span:
    """The smallest and the largest legal value, and whether a row of a mask may be empty."""

    def __init__(self, one: Input, *, empty: bool) -> None:
        self.mask = is_mask(one)
        self.low = 0 if self.mask else one.low
        self.last = 1 if self.mask else max(one.high - 1, one.low)
        self.empty = empty


def is_mask(one: Input) -> bool:
    """Whether its elements are 0 and 1."""
    return one.dtype == "bool" or one.values == "mask"


def is_whole(one: Input) -> bool:
    """Whether it is no measured number: a mask, a count, a code or an index."""
    return is_mask(one) or one.values == "integers" or not is_float(one.dtype)


def bent(
    one: Input, values: Raw | Floats, mix: str, rng: np.random.Generator, *, mild: bool, index: bool = False
) -> Raw:
    """The values of one such input, as `mix` has them, in the type they came in.

    `mild` leaves no row of a mask empty, where the operator has no number for one. Constant inputs are always mild:
    their values stay for a process. `index`: they say places in an array of floats, and few are bent.
    """
    if mix not in BENT or not values.size:
        return values
    rows = values.astype(np.int64).reshape(-1, values.shape[-1] if values.ndim else 1)
    span = Span(one, empty=not mild and one.constness != "const")
    found = BENT[mix](rows, span, rng)
    if span.mask and not span.empty:
        found = _filled(found, rng)
    if index and found.size > CAP:
        found = _capped(rows, found, rng)
    return found.reshape(values.shape).astype(values.dtype)


def _capped(rows: Rows, found: Rows, rng: np.random.Generator) -> Rows:
    start = int(rng.integers(rows.size - CAP))
    kept = rows.reshape(-1).copy()
    kept[start : start + CAP] = found.reshape(-1)[start : start + CAP]
    return kept.reshape(rows.shape)


def _filled(rows: Rows, rng: np.random.Generator) -> Rows:
    """One element set in each row of a mask that has none."""
    empty = np.flatnonzero(~rows.any(axis=1))
    filled = rows.copy()
    filled[empty, rng.integers(rows.shape[1], size=len(empty))] = 1
    return filled


def _wide(rows: Rows, span: Span, rng: np.random.Generator) -> Rows:
    """Each row in a narrow range of its own: at one end, around zero, or anywhere. A mask: rows of all densities."""
    count, length = rows.shape
    if span.mask:
        return (rng.random(rows.shape) < np.exp2(-rng.uniform(0, np.log2(length) + 1, size=(count, 1)))).astype(
            np.int64
        )
    bits = min(float(np.log2(float(span.last - span.low + 1))), 62.0)
    width = np.exp2(rng.uniform(0, bits, size=count)).astype(np.int64)
    zero = min(max(0, span.low), span.last)
    anywhere = rng.integers(span.low, span.last + 1, size=count)
    centres = np.choose(
        rng.integers(4, size=count),
        [np.full(count, span.low), np.full(count, span.last), np.full(count, zero), anywhere],
    )
    start = np.clip(centres - width // 2, span.low, np.maximum(span.last - width + 1, span.low))
    found: Rows = start[:, None] + np.floor(rng.random(rows.shape) * width[:, None]).astype(np.int64)
    return np.minimum(found, span.last)


def _high(rows: Rows, span: Span, rng: np.random.Generator) -> Rows:
    """Nearly all at the high end: what adds them up in too few bits overflows."""
    return np.where(rng.random(rows.shape) < ORDINARY, rows, span.last)


def _ends(rows: Rows, span: Span, rng: np.random.Generator) -> Rows:
    """Each row at one end as a whole: overflow to either side, ties everywhere, masks without and with everything."""
    ends = rng.choice((span.low, span.last), size=(len(rows), 1))
    if len(rows) > 1:
        ends[rng.permutation(len(rows))[:2], 0] = span.low, span.last
    return np.broadcast_to(ends, rows.shape).copy()


def _sorted(rows: Rows, span: Span, rng: np.random.Generator) -> Rows:
    """Each row up or down. A mask: a run at one side, of any length."""
    count, length = rows.shape
    found = np.sort(rows, axis=1)
    if span.mask:
        found = (np.arange(length) >= length - rng.integers(1, length + 1, size=(count, 1))).astype(np.int64)
    turned = rng.integers(0, 2, size=(count, 1)) == 1
    return np.where(turned, found[:, ::-1], found)


def _hot(rows: Rows, span: Span, rng: np.random.Generator) -> Rows:
    """Nearly all of a row is one value. A mask: all but one element, or only one."""
    count, length = rows.shape
    if span.mask:
        found = np.broadcast_to(rng.integers(0, 2, size=(count, 1)), rows.shape).copy()
        places = rng.integers(length, size=count)
        found[np.arange(count), places] = 1 - found[:, 0]
        return found
    hot = rng.integers(span.low, span.last + 1, size=(count, 1))
    return np.where(rng.random(rows.shape) < 1 / LONE, rows, hot)


def _alternating(rows: Rows, span: Span, rng: np.random.Generator) -> Rows:
    """From end to end at every element, or in two or four long runs."""
    count, length = rows.shape
    run = rng.choice((1, max(1, length // 4), max(1, length // 2)), size=(count, 1))
    turn = (np.arange(length) // run + rng.integers(0, 2, size=(count, 1))) % 2
    return np.where(turn == 1, span.last, span.low)


def _ties(rows: Rows, span: Span, rng: np.random.Generator) -> Rows:
    """Half of the rows hold few different values, some hold one, and some repeat another row."""
    count = len(rows)
    values = rng.integers(span.low, span.last + 1, size=(count, FEW))
    few = np.take_along_axis(values, rng.integers(FEW, size=rows.shape), axis=1)
    one = np.broadcast_to(values[:, :1], rows.shape)
    kind = rng.integers(0, 6, size=(count, 1)) if count > 1 else np.zeros((1, 1), np.int64)
    found: Rows = np.where(
        kind < 3, few, np.where(kind == 3, one, np.where(kind == 4, rows[rng.integers(count)], rows))
    )
    return found


def _lone(rows: Rows, span: Span, rng: np.random.Generator) -> Rows:
    """A few elements at the ends, the others near zero or the end that is nearest to it. A mask: sparse."""
    count, length = rows.shape
    near = min(max(0, span.low), span.last)
    width = max(1, (span.last - span.low) // LONE)
    start = min(max(near - width // 2, span.low), max(span.last - width + 1, span.low))
    found = start + rng.integers(0, width, size=rows.shape)
    for _ in range(max(1, length // (8 * LONE))):
        found[np.arange(count), rng.integers(length, size=count)] = rng.choice((span.low, span.last), size=count)
    return found


BENT: Mapping[str, Bend] = {
    "wide": _wide,
    "offset": _high,
    "shift": _ends,
    "tail": _sorted,
    "long_tail": _hot,
    "cancel": _alternating,
    "structure": _ties,
    "spike": _lone,
}
