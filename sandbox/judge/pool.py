"""New values for every call without drawing them anew: slices of two long random rows, one laid over the other.

A row's slices overlap. What is laid over them, from another secret place, leaves of a float its power of two and the
two bits behind: no element is one that was there before, and sums over what two calls share differ. Of whole numbers
and masks, whatever their type, it leaves nothing.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import Input, Task, Tensor
from ridgeline.sandbox.judge.dtypes import LARGEST, STORAGE, from_float64
from ridgeline.sandbox.judge.inputs import extents, values_of
from ridgeline.sandbox.judge.rings import around

Array = NDArray[np.generic]
Place = tuple[int, int]
TIMES = 4
"""The array is so many times as large as the input: what the judge's own caches hold of it then matters little."""
SPARE = 1 << 16
"""Elements beyond the input at least, so that a small one has as many places to begin at."""
LARGE = 1 << 20
"""Elements from which on the array is one such number longer, not four times as long."""
SIGNED = ("normal", "uniform")
"""Distributions that are as before when signs are turned."""
KEPT_BITS = 2
"""Of a mantissa, from above: so that values stay in the range that they were drawn from, up to an eighth."""
MANTISSA = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
FLOATS = ("float64", "float32", "float16", "bfloat16")
KINDS = ("nan", "noise", "decoy")
QUIET_NAN = {"float64": 0x7FF8 << 48, "float32": 0x7FC0 << 16, "float16": 0x7E00, "bfloat16": 0x7FC0}
"""Bits that, all set, make it no number, whatever the others are (IEEE 754)."""


@dataclass(frozen=True, kw_only=True)
class Long:
    """One input's rows."""

    values: Array
    over: Array | None
    """As many elements that are laid over a slice: bits that turn bits, or whole numbers; None: nothing is."""
    ring: tuple[int, int] | None = None
    """Whole numbers are taken away, and stay from the first to below the second by going round: see `around`."""


@dataclass(kw_only=True)
class _Stock:
    """One input's rows, and which places in them were taken."""

    long: Long
    shape: tuple[int, ...]
    seen: set[tuple[int, int]]

    def __post_init__(self) -> None:
        self._count = math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.long.values.nbytes + (0 if self.long.over is None else self.long.over.nbytes)

    def slice(self, dice: random.Random) -> Array | None:
        """A slice that was not taken before; None when there seems to be none left."""
        place = self.place(dice)
        return None if place is None else self.cut(*place)

    def place(self, dice: random.Random) -> Place | None:
        """Where such a slice begins, in the values and in what is laid over them."""
        places = self.long.values.size - self._count + 1
        for _ in range(8):
            start, other = (int(dice.random() * places) for _ in range(2))
            other = 0 if self.long.over is None else other
            if (start, other) not in self.seen:
                self.seen.add((start, other))
                return start, other
        return None

    def cut(self, start: int, other: int) -> Array:
        """The slice that begins there."""
        long, count = self.long, self._count
        values = long.values[start : start + count]
        if long.over is None:
            return values.reshape(self.shape)
        over = long.over[other : other + count]
        if long.ring is not None:
            return around(values, over, *long.ring).reshape(self.shape)
        bits: Array = np.bitwise_xor(values.view(over.dtype), over)
        return bits.view(values.dtype).reshape(self.shape)


class Pool:
    """Inputs for one size of a task. Every call gets others, of the same distribution."""

    def __init__(self, task: Task, dims: Mapping[str, int], rng: np.random.Generator) -> None:
        """Draws the arrays; later values need some microseconds and one pass over the data."""
        self._task, self._dims, self._rng = task, dict(dims), rng
        self._dice = random.Random(rng.bytes(32))
        self._stocks = {one.name: self._drawn(one) for one in task.inputs}
        self._consts: dict[str, Array] = {}
        self._fixed: dict[str, Place] = {}

    @property
    def nbytes(self) -> int:
        """Of the arrays that values are cut from."""
        return sum(one.nbytes for one in self._stocks.values())

    def anew(self) -> None:
        """For another process: constant inputs get other values, and nothing that was taken comes again."""
        self._consts.clear()
        self._fixed.clear()

    def next(self) -> dict[str, Array]:
        """Values of all inputs, in storage types, contiguous. Constant ones are the same until `anew`.

        An input of few elements and few possible values repeats itself, as it must.
        """
        return {one.name: self._of(one) for one in self._task.inputs}

    def long(self) -> dict[str, Long]:
        """The long rows of every input, for a card to keep."""
        return {name: stock.long for name, stock in self._stocks.items()}

    def consts(self) -> dict[str, Array]:
        """The constant inputs of this process, which `next` and `places` will go on giving."""
        constant = [one.name for one in self._task.inputs if one.constness == "const"]
        if self._fixed:
            return {name: self.at({name: self._fixed[name]})[name] for name in constant}
        return {one.name: self._of(one) for one in self._task.inputs if one.name in constant}

    def places(self) -> dict[str, Place]:
        """Where the slices of the next call begin. The rows stay: with none left, one is taken a second time."""
        found: dict[str, Place] = {}
        for one in self._task.inputs:
            place = self._fixed.get(one.name) or self._stocks[one.name].place(self._dice) or (0, 0)
            if one.constness == "const":
                self._fixed[one.name] = place
            found[one.name] = place
        return found

    def at(self, places: Mapping[str, Place]) -> dict[str, Array]:
        """The values that a card has made of these places."""
        return {name: np.ascontiguousarray(self._stocks[name].cut(*place)) for name, place in places.items()}

    def _of(self, one: Input) -> Array:
        if one.name in self._consts:
            return self._consts[one.name]
        found = self._stocks[one.name].slice(self._dice)
        if found is None:
            self._stocks[one.name] = self._drawn(one)
            return self._of(one)
        if one.constness == "const":
            self._consts[one.name] = found
        return found

    def _drawn(self, one: Input) -> _Stock:
        shape = extents(one, self._dims)
        return _Stock(long=_long(one, shape, self._rng), shape=shape, seen=set())


class Poisons:
    """What outputs of one size hold before a call: no numbers, plausible ones, or a right answer to other inputs.

    One policy for every call, so that no kernel can tell a checked one by it.
    """

    def __init__(self, task: Task, dims: Mapping[str, int], rng: np.random.Generator) -> None:
        """Draws the arrays that slices are cut from."""
        self._dice = random.Random(rng.bytes(32))
        self._shapes = {one.name: extents(one, dims) for one in task.outputs}
        self._noise = {one.name: _noise(one, self._shapes[one.name], rng) for one in task.outputs}
        self._nans = {one.name: _nans(one, self._shapes[one.name], rng) for one in task.outputs}

    @property
    def nbytes(self) -> int:
        """Of the arrays that slices are cut from."""
        return sum(one.nbytes for rows in (self._noise, self._nans) for one in rows.values())

    def next(self, decoy: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Bytes for every output, in storage types. `decoy`: a right answer to other inputs, if there is one yet."""
        kind = self._dice.choice(KINDS if decoy is not None else KINDS[:2])
        return {name: self._of(kind, name, shape, decoy or {}) for name, shape in self._shapes.items()}

    def long(self) -> dict[str, dict[str, Array]]:
        """The long rows by kind and name, for a card to keep."""
        return {"nan": self._nans, "noise": self._noise}

    def places(self, *, decoy: bool) -> dict[str, tuple[str, int]]:
        """Kind and place of every output's filling; `decoy`: there is one."""
        kind = self._dice.choice(KINDS if decoy else KINDS[:2])
        return {name: (kind, 0 if kind == "decoy" else self._start(kind, name)) for name in self._shapes}

    def _start(self, kind: str, name: str) -> int:
        long, shape = (self._nans if kind == "nan" else self._noise)[name], self._shapes[name]
        return int(self._dice.random() * (long.size - math.prod(shape) + 1))

    def _of(self, kind: str, name: str, shape: tuple[int, ...], decoy: Mapping[str, Array]) -> Array:
        if kind == "decoy" and decoy[name].shape == shape:
            return decoy[name]
        long = (self._nans if kind == "nan" else self._noise)[name]
        count, start = math.prod(shape), self._start(kind, name)
        return long[start : start + count].reshape(shape)


def _length(shape: tuple[int, ...]) -> int:
    count = math.prod(shape)
    return count + LARGE if count > LARGE else TIMES * count + SPARE


def _long(one: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Long:
    """Plain values of one input in one long row, and another to lay over them."""
    values = _plain(one, _length(shape), rng)
    bits = np.dtype(f"uint{8 * values.itemsize}")
    if one.dtype == "bool" or one.values == "mask":
        ones = _plain(one, values.size, rng)  # where both are set, or neither, the result is not
        return Long(values=values, over=ones.view(bits))
    if one.dtype in FLOATS:
        if one.values == "integers":
            return _ringed(one, values, rng)
        return Long(values=_inside(values, bits, one), over=_turning(one, values.size, rng))
    return _ringed(one, values, rng)


def _ringed(one: Input, values: Array, rng: np.random.Generator) -> Long:
    """Whole numbers over whole numbers, both of the input's range: no span is too large for that."""
    ring = one.low, max(one.high, one.low + 1)
    if one.dtype in FLOATS and max(-ring[0], ring[1] - 1) > LARGEST[one.dtype]:  # some are infinite
        return Long(values=values, over=None)
    return Long(values=values, over=_plain(one, values.size, rng), ring=ring)


def _plain(one: Input, count: int, rng: np.random.Generator) -> Array:
    values = values_of(one, (count,), rng)
    return from_float64(values, one.dtype) if values.dtype == np.float64 else values


def _inside(values: Array, bits: np.dtype[np.generic], one: Input) -> Array:
    """Numbers of a range, less those that rounding brought to its far ends: what is laid over them adds to those."""
    if one.values == "normal":
        return values
    low, high = one.within or (-1.0, 1.0)
    sign = np.array(1 << (8 * bits.itemsize - 1), dtype=bits)
    words = values.view(bits)
    for end in {size for size in (-low, high) if size > 0}:
        at = from_float64(np.full(1, end), one.dtype).view(bits)
        words = np.where((words & ~sign) == at, words - np.array(1, dtype=bits), words)
    found: Array = words.view(values.dtype)
    return found


def _turning(one: Input, count: int, rng: np.random.Generator) -> Array:
    """Bits that turn the sign, where either sign is meant, and the mantissa but for its first bits."""
    bits = np.dtype(f"uint{8 * np.dtype(STORAGE[one.dtype]).itemsize}")
    sign = 1 << (8 * bits.itemsize - 1) if one.values in SIGNED and one.within is None else 0
    mask = sign | ((1 << (MANTISSA[one.dtype] - KEPT_BITS)) - 1)
    drawn = np.frombuffer(rng.bytes(count * bits.itemsize), dtype=bits)
    found: Array = np.bitwise_and(drawn, np.array(mask, dtype=bits))
    return found


def _noise(one: Tensor, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return from_float64(rng.standard_normal(_length(shape)), one.dtype)


def _nans(one: Tensor, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Numbers that are none, each with another pattern; for whole numbers any bits."""
    storage = np.dtype(STORAGE[one.dtype])
    count = _length(shape)
    bits = np.frombuffer(rng.bytes(count * storage.itemsize), dtype=f"uint{8 * storage.itemsize}")
    if one.dtype in FLOATS:
        bits = bits | np.asarray(QUIET_NAN[one.dtype], dtype=bits.dtype)
    return bits.view(storage)
