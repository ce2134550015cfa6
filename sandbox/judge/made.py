"""Was an array made, or does it only look like the answer? A fill or a copy comes near to many answers."""

from collections.abc import Iterator, Mapping

import numpy as np

from ridgeline.graph.task import DType
from ridgeline.sandbox.judge.dtypes import Floats, is_float, unit

NEAR = 0.1
"""An output that misses the right one by less than a tenth of what a fill or a copy misses it by, in L2 or in whole
numbers that differ, was made: what lies in memory by chance is not."""
MANY = 16
"""Elements from which on the best constant is a fill; of fewer it would be the answer itself."""
ROUNDINGS = 2.0
"""Of an output that was made, in units of its type."""


def made(
    values: Floats, right: Floats, *, dtype: DType, given: Mapping[str, Floats], before: Floats | None = None
) -> bool | None:
    """Whether `values` are the right ones, and not only as near to them as zeros, one number or a copy would be.

    `given`: the inputs; `before`: what a mutated array held. None where a fill or a copy is the right answer.
    """
    fills = [np.zeros(1) if before is None else before, *_copies(right, given)]
    if is_float(dtype):
        return _made_float(values, right, fills, given, ROUNDINGS * unit(dtype))
    missed = float(np.mean(values != right))
    if missed > NEAR:
        return False
    if right.size >= MANY:
        found, counts = np.unique(right, return_counts=True)
        fills.append(found[[np.argmax(counts)]])
    least = min(float(np.mean(right != fill)) for fill in fills)
    if missed > NEAR * least:
        return False
    return True if least else None


def _made_float(
    values: Floats, right: Floats, fills: list[Floats], given: Mapping[str, Floats], rounding: float
) -> bool | None:
    """The same in L2. First what any other array is: far away, when nothing else need be looked at."""
    where = np.isfinite(right)
    with np.errstate(all="ignore"):
        away = float(np.linalg.norm((values - right)[where]))
        size = float(np.linalg.norm(right[where]))
        if not away <= (NEAR + rounding) * size:
            return False
        if right.size >= MANY and where.any():
            fills = [*fills, np.full(1, np.mean(right[where]))]
        least = min(float(np.linalg.norm((right - fill)[where])) for fill in fills)
        # what only moves from an input to its place can be copied there by anybody
        taken = np.isin(right, np.concatenate([np.zeros(0), *(one.reshape(-1) for one in given.values())]))
        computed = float(np.linalg.norm(right[where & ~taken]))
    least = min(least, computed) if computed else least
    if not away <= NEAR * least + rounding * size:
        return False
    return True if least > 4 * rounding * size else None


def _copies(right: Floats, given: Mapping[str, Floats]) -> Iterator[Floats]:
    """Inputs as they are, where they fit."""
    for one in given.values():
        if one.size == right.size:
            yield one.reshape(right.shape)
        elif one.ndim <= right.ndim and all(
            a in (1, b) for a, b in zip(one.shape[::-1], right.shape[::-1], strict=False)
        ):
            yield one
