"""Float results that a rounding decides: elements that jump from one value to another when the inputs hardly move.

As where numbers are rounded to steps, or kept only above their row's mean. Either side of such a jump is right, for
that element alone; a smooth operator has none, however hard it is to compute.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import DType, Precision, Task
from ridgeline.sandbox.judge.bounds import Oracle, is_free, limit, scale_of, there_and_back, yardstick
from ridgeline.sandbox.judge.dtypes import SMALLEST, Floats, Raw, is_float

Flags = NDArray[np.bool_]
Places = NDArray[np.intp]
MOST = 0.01
"""Share of elements that may be excused, and share that may jump before none is excused; one element always may."""
APART = 16.0
"""A jump is so many times as wide as all that was seen on either side of it. Moves come in pairs, one the other way:
what a smooth operator makes of them lies on both sides of its exact result, and no such gap is between."""
SAMPLE = 1 << 14
"""Elements by chance that say what share jumps."""


def jumps(
    task: Task,
    inputs: Mapping[str, Raw],
    oracle: Oracle,
    rng: np.random.Generator,
    *,
    exact: Mapping[str, Floats],
    got: Mapping[str, Floats],
) -> dict[str, Floats]:
    """What an honest program may have had in mind, of the outputs in `got` that jump where they are far off.

    At each element that jumps it is the number nearest to what was got of those that moved inputs give; elsewhere the
    exact result. Asks the oracle 16 times, or never where nothing is far off, or too much is.
    """
    if not any(is_free(one) for one in task.inputs):
        return {}
    least = {name: _least(exact[name], task.dtype_of(name), task.precision) for name in got}
    looked: dict[str, tuple[Places, Places]] = {}
    for name, values in got.items():
        with np.errstate(invalid="ignore"):
            far = np.flatnonzero(np.abs(values - exact[name]).reshape(-1) > least[name])
        if 0 < far.size <= _most(values.size):
            looked[name] = far, _sample(values.size, rng)
    seen = {name: [_at(exact[name], places)] for name, places in looked.items()}
    for moved in there_and_back(task, inputs, rng) if looked else ():
        answer = oracle(moved)
        for name, places in looked.items():
            seen[name].append(_at(answer[name], places))
    found: dict[str, Floats] = {}
    for name, (far, sample) in looked.items():
        values = np.stack(seen[name])
        jump = _split(values, least[name][np.concatenate((far, sample))])
        if not jump[: far.size].any() or np.count_nonzero(jump[far.size :]) > _most(sample.size):
            continue
        there = np.flatnonzero(jump[: far.size])
        found[name] = _nearest(exact[name], far[there], values[:, there], got[name])
    return found


def shares(
    task: Task,
    inputs: Mapping[str, Raw],
    oracle: Oracle,
    rng: np.random.Generator,
    *,
    exact: Mapping[str, Floats],
) -> dict[str, float]:
    """Of every float output, the share of elements that jump. Asks the oracle 16 times."""
    names = [one.name for one in task.outputs if is_float(one.dtype) and exact[one.name].size]
    if not names or not any(is_free(one) for one in task.inputs):
        return {}
    looked = {name: _sample(exact[name].size, rng) for name in names}
    seen = {name: [exact[name].reshape(-1)[looked[name]]] for name in names}
    for moved in there_and_back(task, inputs, rng):
        answer = oracle(moved)
        for name in names:
            seen[name].append(answer[name].reshape(-1)[looked[name]])
    least = {name: _least(exact[name], task.dtype_of(name), task.precision)[looked[name]] for name in names}
    return {name: float(np.mean(_split(np.stack(seen[name]), least[name]))) for name in names}


def _nearest(exact: Floats, places: Places, values: Floats, got: Floats) -> Floats:
    """The exact result, with the nearest of these values at these places."""
    sides = exact.reshape(-1).copy()
    nearest = np.argmin(np.abs(values - got.reshape(-1)[places]), axis=0)
    sides[places] = np.take_along_axis(values, nearest[None], axis=0)[0]
    return sides.reshape(exact.shape)


def _split(values: Floats, least: Floats) -> Flags:
    """Of each column: whether its numbers lie in two narrow places that are far apart."""
    ordered = np.sort(np.where(np.isfinite(values), values, 0.0), axis=0)
    gaps = np.diff(ordered, axis=0)
    at = np.argmax(gaps, axis=0)[None]
    gap = np.take_along_axis(gaps, at, axis=0)[0]
    below = np.take_along_axis(ordered, at, axis=0)[0] - ordered[0]
    above = ordered[-1] - np.take_along_axis(ordered, at + 1, axis=0)[0]
    split: Flags = (gap > least) & (gap > APART * np.maximum(below, above)) & np.isfinite(values).all(axis=0)
    return split


def _least(exact: Floats, dtype: DType, precision: Precision) -> Floats:
    """How far off an element may be in any case; flat."""
    one = yardstick(scale_of(exact), None, dtype=dtype, precision=precision) + SMALLEST[dtype]
    return (2 * limit(dtype, precision).peak * one).reshape(-1)


def _at(values: Floats, places: tuple[Places, Places]) -> Floats:
    return values.reshape(-1)[np.concatenate(places)]


def _most(size: int) -> int:
    return max(1, int(MOST * size))


def _sample(size: int, rng: np.random.Generator) -> Places:
    return np.arange(size) if size <= SAMPLE else rng.integers(size, size=SAMPLE)
