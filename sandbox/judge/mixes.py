"""Kinds of values, each made to show a class of shortcuts: it bends ordinary values of one input."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Input, Task
from ridgeline.sandbox.judge.dtypes import Floats, Raw, is_float

Mix = Callable[[Input, Floats, np.random.Generator, bool], Floats]
"""Of an input, its ordinary values, and whether it is the one chosen input; the result is in the same domain."""
WIDE = (-4.0, 8.0)
"""Powers of two between rows. Not lower: formulas like exp(x) - 1 lose digits there that no reordering would."""
WIDE_HALF = (-4.0, 4.0)
"""For float16, whose largest number is 65504."""
OFFSET = 100.0
SHIFT = 80.0
TAIL = 16
"""The last one of so many parts of a row carries the weight."""
SMALL = 2.0**-10
SPECIAL = 0.25
"""Share of rows or matrices of a batch that have a structure."""
MOST_SPECIAL = 4096
"""They are made one by one."""
SPIKE = {"float16": (4.0, 11.0)}
SPIKE_WIDE = (6.0, 26.0)
"""Powers of two of lone outliers: beyond what exp() takes, int16 holds, and 2^23 where float32 has no halves left."""
SPIKE_WHOLE = 10.0
"""The largest where an output is a whole number: what does not fit its type is nobody's fault."""
SPIKED = 0.5
"""Share of rows with outliers."""
ALONE = 256
"""One of so many elements of a single row is an outlier, at least one and at most MOST_ALONE."""
MOST_ALONE = 1024
IN_ALL = 5
"""Outliers of a call that is ordinary but for them, at most: each from another part of their range. With fewer of them,
a look at half of the call is likelier to meet none."""
QUIET = 2.0**-6
"""What is around an outlier that may not be more than 1."""


def lead(task: Task, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> str:
    """The input that offsets go to: the largest of those that may take any value, by chance among equals; or none.

    One alone: a product of two offsets overflows half precision and shows nothing.
    """
    free = {
        one.name: math.prod(shapes[one.name]) for one in task.inputs if is_float(one.dtype) and one.values == "normal"
    }
    most = [name for name, size in free.items() if size == max(free.values())]
    return most[int(rng.integers(len(most)))] if most else ""


def _normal(one: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    return values


def _wide(one: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """Each row at a scale of its own; each element where there is one row."""
    low, high = WIDE_HALF if one.dtype == "float16" else WIDE
    shape = (*values.shape[:-1], 1) if values.ndim > 1 else values.shape
    powers = rng.uniform(low, high, size=shape)
    if one.values == "normal":
        return values * np.exp2(powers)
    if one.values == "uniform":
        return values * np.exp2(-np.abs(powers))
    return np.clip(values, 0.1, np.exp2(rng.uniform(np.log2(0.1), 0.0, size=shape)))


def _offset(one: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """Mean 100, deviation 1: squares of the mean drown a variance."""
    return values + OFFSET if chosen else values


def _shift(one: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """Rows far up or far down: exp() of them is no number unless the row's maximum is taken off first."""
    if not chosen:
        return values
    shape = (*values.shape[:-1], 1) if values.ndim > 1 else (1,) * values.ndim
    return values + SHIFT * rng.choice((-1.0, 1.0), size=shape)


def _tail(one: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """The end of each row carries what the row amounts to."""
    if not values.ndim:
        return values
    length = values.shape[-1]
    start = length - max(1, length // TAIL)
    bent = values.copy()
    if one.values == "positive":
        bent[..., :start] = 0.1 + (values[..., :start] - 0.1) / TAIL
        return bent
    bent[..., :start] /= TAIL
    return bent if one.values == "uniform" else bent * 4.0


def _long_tail(one: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """One element stands out, the others together weigh as much after exp()."""
    if not chosen or not values.ndim:
        return values
    length = values.shape[-1]
    bent = values * 0.5
    peaks = rng.integers(0, length, size=(*values.shape[:-1], 1))
    np.put_along_axis(bent, peaks, np.log(length) + 0.125, axis=-1)
    return bent


def _cancel(one: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """Pairs of x and -x in any order, and a small signal that is all that is left of a sum."""
    if one.values == "positive" or not values.ndim:
        return values
    half = values.shape[-1] // 2
    order = rng.permutation(values.shape[-1])
    signal = SMALL * rng.standard_normal(values.shape)
    bent = values.copy()
    bent[..., order[half : 2 * half]] = -bent[..., order[:half]]
    bent[..., order[2 * half :]] = 0.0
    return np.clip(bent + signal, -1.0, 1.0) if one.values == "uniform" else bent + signal


def _structure(one: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """Some rows, or matrices of a batch, are special, at secret places among ordinary ones."""
    if values.ndim < 2:
        return _special_row(one, values, rng) if values.ndim and rng.random() < SPECIAL else values
    bent = values.copy()
    if values.ndim == 2:
        for place in _places(values.shape[0], rng):
            bent[place] = (
                bent[rng.integers(len(bent))] if rng.random() < SPECIAL else _special_row(one, bent[place], rng)
            )
        return bent
    items = bent.reshape(-1, *values.shape[-2:])
    for place in _places(len(items), rng):
        items[place] = _special_matrix(one, items, place, rng)
    return items.reshape(values.shape)


def spiked(
    one: Input, values: Floats, rng: np.random.Generator, *, reach: float, whole: bool, few: bool = False
) -> Floats:
    """Lone outliers at secret places, some rows without any. `reach` 1 is all of their range; less ends it earlier.

    `whole`: an output of the task is a whole number. `few`: there are one to five in all, among ordinary values.
    """
    if not values.size or one.values == "positive":
        return values
    bent = values * QUIET if one.values == "uniform" and not few else values.copy()
    flat = bent.reshape(-1, values.shape[-1] if values.ndim else 1)
    low, high = SPIKE.get(one.dtype, SPIKE_WIDE)
    high = min(high, SPIKE_WHOLE) * reach if whole else high * reach
    number = int(rng.integers(1, IN_ALL + 1))
    rows, columns = (rng.integers(size, size=number) for size in flat.shape) if few else _outliers(flat.shape, rng)
    drawn = rng.random(len(rows))
    if few:
        drawn = (drawn + rng.permutation(IN_ALL)[:number]) / IN_ALL
    low = min(low, high / 2)
    powers = low + (high - low) * drawn if one.values == "normal" else np.zeros(len(rows))
    flat[rows, columns] = rng.choice((-1.0, 1.0), size=len(rows)) * np.exp2(powers)
    return flat.reshape(values.shape)


def _outliers(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns: one to three in half of many rows, more in a single one."""
    count, length = shape
    if count == 1:
        number = min(max(1, length // ALONE), MOST_ALONE)
        return np.zeros(number, np.intp), rng.integers(length, size=number)
    picked = rng.permutation(count)[: max(1, round(count * SPIKED))]
    rows = np.repeat(picked, rng.integers(1, 4, size=len(picked)))
    return rows, rng.integers(length, size=len(rows))


def _places(count: int, rng: np.random.Generator) -> list[int]:
    return [int(place) for place in rng.permutation(count)[: min(max(1, round(count * SPECIAL)), MOST_SPECIAL)]]


def _special_row(one: Input, row: Floats, rng: np.random.Generator) -> Floats:
    """Constant, or zero where that is allowed; or mostly zero.

    A constant of four bits adds up exactly: the sum of a longer one drifts by a whole unit at every step of a plain
    loop, which is no fault of the loop.
    """
    fraction, power = np.frexp(row.flat[int(rng.integers(row.size))])
    constant = np.full_like(row, np.ldexp(np.ceil(fraction * 16) / 16, power))
    if one.values == "positive":
        return constant
    sparse = np.where(rng.random(row.shape) < SPECIAL, row, 0.0)
    return (constant, np.zeros_like(row), sparse)[int(rng.integers(3))]


def _special_matrix(one: Input, items: Floats, place: int, rng: np.random.Generator) -> Floats:
    matrix = items[place]
    rank_one: Floats = matrix[:, :1] * matrix[:1, :]
    if one.values == "positive":
        return (items[rng.integers(len(items))], np.clip(rank_one, 0.1, 1.0))[int(rng.integers(2))]
    diagonal = matrix * np.eye(*matrix.shape)
    near = diagonal + SMALL * matrix
    choices = (np.zeros_like(matrix), items[rng.integers(len(items))], rank_one, diagonal, near)
    found: Floats = choices[int(rng.integers(len(choices)))].copy()
    return found


MIXED: Mapping[str, Mix] = {
    "normal": _normal,
    "wide": _wide,
    "offset": _offset,
    "shift": _shift,
    "tail": _tail,
    "long_tail": _long_tail,
    "cancel": _cancel,
    "structure": _structure,
}
SPIKING = "spike"
MIXES = (*MIXED, SPIKING)
"""The first is the declared distribution itself."""
PARTLY = "partly "
"""Before the name of a mix: it bends one line, or the far part of each row, of otherwise ordinary values. What looks at
a sample of a call, or at how its rows begin, before it takes a shortcut, is not warned."""
PARTS = tuple(f"{PARTLY}{mix}" for mix in (SPIKING, "shift", "offset"))
"""Not of milder ones: a plain loop that adds a thousand small numbers to one that is 2^23 times as large is honest."""
ALONG = 0.85
"""Share of lines of the first input that are rows: a result mostly sums over those. Of other inputs any line."""
NEAR = 8
"""Elements from which on the far part of a row begins at the earliest, where there are so many."""


def partly(values: Raw | Floats, bent: Raw | Floats, rng: np.random.Generator, *, lines: bool, first: bool) -> Raw:
    """Ordinary values with a part of the bent ones: one line, or what lies behind a secret place of each row."""
    if not values.ndim:
        return bent
    length = values.shape[-1]
    place: tuple[int | slice, ...]
    if lines and values.ndim > 1:
        along = values.ndim - 1 if first and rng.random() < ALONG else int(rng.integers(values.ndim))
        place = tuple(slice(None) if at == along else int(rng.integers(size)) for at, size in enumerate(values.shape))
    else:
        start = min(NEAR, length - 1) * (length / NEAR) ** rng.random() if length > NEAR else rng.integers(length)
        place = (*(slice(None) for _ in values.shape[1:]), slice(int(start), None))
    found = values.copy()
    found[place] = bent[place]
    return found
