"""New values for every call without drawing them anew: slices of a large random array with secret signs."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graph.task import Input, Task, Tensor
from sandbox.judge.dtypes import STORAGE, from_float64
from sandbox.judge.inputs import extents, values_of

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
FLOATS = ("float64", "float32", "float16", "bfloat16")
KINDS = ("nan", "noise", "decoy")
QUIET_NAN = {"float64": 0x7FF8 << 48, "float32": 0x7FC0 << 16, "float16": 0x7E00, "bfloat16": 0x7FC0}
"""Bits that, all set, make it no number, whatever the others are (IEEE 754)."""


@dataclass(kw_only=True)
class _Stock:
    """One input's array, and the signs that are laid over it."""

    values: Array
    signs: Array | None
    shape: tuple[int, ...]
    seen: set[tuple[int, int]]

    def __post_init__(self) -> None:
        self._count = math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.signs is None else self.signs.nbytes)

    def slice(self, dice: random.Random) -> Array | None:
        """A slice that was not taken before; None when there seems to be none left."""
        place = self.place(dice)
        return None if place is None else self.cut(*place)

    def place(self, dice: random.Random) -> Place | None:
        """Where such a slice begins, in the values and in the signs."""
        places = self.values.size - self._count + 1
        for _ in range(8):
            start, other = int(dice.random() * places), int(dice.random() * places) if self.signs is not None else 0
            if (start, other) not in self.seen:
                self.seen.add((start, other))
                return start, other
        return None

    def cut(self, start: int, other: int) -> Array:
        """The slice that begins there."""
        count = self._count
        values = self.values[start : start + count]
        if self.signs is None:
            return values.reshape(self.shape)
        bits: Array = np.bitwise_xor(values.view(self.signs.dtype), self.signs[other : other + count])
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

    def long(self) -> dict[str, tuple[Array, Array | None]]:
        """The long rows of every input: values, and signs as bits, for a card to keep."""
        return {name: (stock.values, stock.signs) for name, stock in self._stocks.items()}

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
        values = _long(one, shape, self._rng)
        signs = None
        if one.values in SIGNED and one.dtype in FLOATS:
            bits = np.dtype(f"uint{8 * values.itemsize}")
            signs = self._rng.integers(0, 2, values.size, dtype=np.uint8).astype(bits) << (8 * values.itemsize - 1)
        return _Stock(values=values, signs=signs, shape=shape, seen=set())


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


def _long(one: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Plain values of one input in one long row."""
    values = values_of(one, (_length(shape),), rng)
    return from_float64(values, one.dtype) if values.dtype == np.float64 else values


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
