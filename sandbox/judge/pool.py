"""New values for every call without drawing them anew: slices of two long random rows, one laid over the other.

A row's slices overlap. On a processor a call's floats are sums of a slice of either row, which are distributed as the
rows are: no element, sign or power of two is one that was there before. On a card what is laid over a slice leaves of a
float its power of two and the two bits behind. Of whole numbers and masks, whatever their type, nothing is left.
"""

import hashlib
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import DType, Input, Task, Tensor
from ridgeline.sandbox.judge.dtypes import (
    FLOAT8,
    LARGEST,
    SIGNIFICAND_BITS,
    STORAGE,
    Raw,
    from_float64,
    is_float,
    to_float8,
    to_float32,
)
from ridgeline.sandbox.judge.inputs import axis_lengths, declared_values

Array = NDArray[np.generic]
RowPlace = tuple[int, int]
ROW_FACTOR = 4
"""The array is so many times as large as the input: what the judge's own caches hold of it then matters little."""
SPARE_ELEMENTS = 1 << 16
"""Elements beyond the input at least, so that a small one has as many places to begin at."""
LARGE_ELEMENTS = 1 << 20
"""Elements from which on the array is one such number longer, not four times as long."""
SIGNED_DISTRIBUTIONS = ("normal", "uniform")
"""Distributions that are as before when signs are turned."""
KEPT_MANTISSA_BITS = 2
"""Of a mantissa, from above: so that values stay in the range that they were drawn from, up to an eighth. At least the last one turns."""
DRAW_BYTES = 24
"""Random bytes that say where one call's slices of an input begin, and how they are put together."""
POISON_KINDS = ("nan", "noise", "decoy")
QUIET_NAN: Mapping[DType, int] = {
    "float64": 0x7FF8 << 48,
    "float32": 0x7FC0 << 16,
    "float16": 0x7E00,
    "bfloat16": 0x7FC0,
    "float8_e4m3fn": 0x7F,
    "float8_e5m2": 0x7E,
}
"""Bits that, all set, make it no number, whatever the others are (IEEE 754)."""


@dataclass(frozen=True, kw_only=True)
class LongRows:
    """One input's rows."""

    values: Array
    over: Array | None
    """As many elements that are laid over a slice: bits that turn bits, or whole numbers; None: nothing is."""
    ring: tuple[int, int] | None = None
    """Whole numbers are taken away, and stay from the first to below the second by going round: see `around`."""


@dataclass(kw_only=True)
class _RowStock:
    """One input's rows, drawn when they are first needed, and which places in them a card was given."""

    tensor: Input
    shape: tuple[int, ...]
    seed: tuple[int, int]
    used_places: set[RowPlace] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._count = math.prod(self.shape)
        self._length = _row_length(self.shape)

    @property
    def nbytes(self) -> int:
        """For the judge: of both rows, whether they are drawn by now or not."""
        return 2 * self._length * STORAGE[self.tensor.dtype].itemsize

    @cached_property
    def long(self) -> LongRows:
        """The judge's rows of values as a card has them."""
        return _long_rows(self.tensor, self.shape, self._dice(0))

    @cached_property
    def addends(self) -> tuple[Raw, Raw]:
        """For the judge: two rows of floats, in a type that adds them up well, of which sums are distributed as the input is."""
        wide = np.float64 if self.tensor.dtype == "float64" else np.float32
        left, right = (declared_values(self.tensor, (self._length,), self._dice(part)) for part in (1, 2))
        if self.tensor.values == "normal":
            return (left * math.sqrt(0.5)).astype(wide), (right * math.sqrt(0.5)).astype(wide)
        return left.astype(wide), (right - _range_of(self.tensor)[0]).astype(wide)

    def place(self, dice: random.Random) -> RowPlace | None:
        """For the judge: a place not given before, in the values and what is laid over them; None when there seems none left."""
        places = self._length - self._count + 1
        for _ in range(8):
            start, over_start = (int(dice.random() * places) for _ in range(2))
            over_start = 0 if self.long.over is None else over_start
            if (start, over_start) not in self.used_places:
                self.used_places.add((start, over_start))
                return start, over_start
        return None

    def cut(self, start: int, over_start: int) -> Array:
        """What a card makes of that place in the judge's stock of values."""
        long, count = self.long, self._count
        values = long.values[start : start + count]
        if long.over is None:
            return values.reshape(self.shape)
        over = long.over[over_start : over_start + count]
        if long.ring is not None:
            return wrap_around(values, over, *long.ring, dtype=self.tensor.dtype).reshape(self.shape)
        bits: Array = np.bitwise_xor(values.view(over.dtype), over)
        return bits.view(values.dtype).reshape(self.shape)

    def draw(self, words: bytes) -> Array:
        """The values for judged calls that these random bytes stand for."""
        places = self._length - self._count + 1
        start, offset, way = (int.from_bytes(words[at : at + 8], "little") for at in (0, 8, 16))
        start, offset = start % places, offset % places
        if not is_float(self.tensor.dtype) or self.tensor.values in ("integers", "mask"):
            return np.ascontiguousarray(self.cut(start, offset))
        values, added = self.addends
        left, right = values[start : start + self._count], added[offset : offset + self._count]
        sums: Raw
        if self.tensor.values != "normal":
            sums = _wrap_range(left, right, *_range_of(self.tensor))
        elif way % 3 == 0:
            sums = left + right
        else:
            sums = left - right if way % 3 == 1 else right - left
        return _narrow(sums, self.tensor.dtype).reshape(self.shape)

    def _dice(self, part: int) -> np.random.Generator:
        return np.random.default_rng((*self.seed, part))


def _range_of(tensor: Input) -> tuple[float, float]:
    """For the judge: ends of the floats of an input that is `uniform` or `positive`."""
    return tensor.within or ((0.1, 1.0) if tensor.values == "positive" else (-1.0, 1.0))


def _wrap_range(values: Raw, added: Raw, low: float, high: float) -> Raw:
    """For the judge: sums that go round at the range's end: even over it, as either addend is."""
    sums: Raw = values + added
    sums -= (sums >= high) * np.array(high - low, sums.dtype)
    np.maximum(sums, np.array(low, sums.dtype), out=sums)
    return sums


def _narrow(sums: Raw, dtype: DType) -> Array:
    """Values for judged calls, rounded to the input's storage type."""
    if dtype in FLOAT8:
        return to_float8(sums, dtype)
    if dtype != "bfloat16":
        return sums.astype(STORAGE[dtype], copy=False)
    return _round_to_bfloat16(sums)


class InputPool:
    """Inputs for one size of a task. Every call gets others, of the same distribution."""

    def __init__(self, task: Task, dims: Mapping[str, int], rng: np.random.Generator | int) -> None:
        """Rows are drawn at the first call; later values need some microseconds and one pass over the data.

        `rng`: a generator, or the `seed` of another pool, whose values this one then has.
        """
        self.seed = rng if isinstance(rng, int) else int(rng.integers(1 << 62))
        self._task = task
        self._dice = random.Random(f"{self.seed}/card")
        self._stocks = {
            tensor.name: _RowStock(tensor=tensor, shape=axis_lengths(tensor, dims), seed=(self.seed, number))
            for number, tensor in enumerate(task.inputs)
        }
        self._consts: dict[str, Array] = {}
        self._fixed: dict[str, RowPlace] = {}
        self.process = 0
        """How often it was renewed: says which constant inputs there are."""
        self.draw_count = 0
        """Number of the last draw, from 1 on."""

    @property
    def nbytes(self) -> int:
        """For the judge: of the arrays that values are cut from."""
        return sum(stock.nbytes for stock in self._stocks.values())

    @property
    def has_constants(self) -> bool:
        """For the judge: whether any input stays the same in the life of a process."""
        return any(tensor.constness == "const" for tensor in self._task.inputs)

    def renew(self) -> None:
        """For another judged process: constant inputs get other values, and nothing that was taken comes again."""
        self._consts.clear()
        self._fixed.clear()
        self.process += 1

    def draw(self) -> dict[str, Array]:
        """Values of all inputs of a judged call, in storage types, contiguous. Constant ones are the same until `renew`.

        An input of few elements and few possible values repeats itself, as it must.
        """
        self.draw_count += 1
        return {**self.draw_again(self.draw_count), **self.consts()}

    def draw_again(self, number: int) -> dict[str, Array]:
        """For the judge: the inputs of the draw of that number which are not constant."""
        return {
            tensor.name: self._draw(tensor, f"call {number}")
            for tensor in self._task.inputs
            if tensor.constness != "const"
        }

    def consts_of(self, process: int) -> dict[str, Array]:
        """For the judge: the constant inputs after it was renewed so often, on a processor."""
        return {
            tensor.name: self._draw(tensor, f"process {process}")
            for tensor in self._task.inputs
            if tensor.constness == "const"
        }

    def long_rows(self) -> dict[str, LongRows]:
        """For the judge: the long rows of every input, for a card to keep."""
        return {name: stock.long for name, stock in self._stocks.items()}

    def consts(self) -> dict[str, Array]:
        """For the judge: the constant inputs of this process, which `draw` and `places` go on giving."""
        constant = [tensor.name for tensor in self._task.inputs if tensor.constness == "const"]
        if self._fixed:
            return {name: self.cut_at({name: self._fixed[name]})[name] for name in constant}
        if not self._consts:
            self._consts = self.consts_of(self.process)
        return self._consts

    def places(self) -> dict[str, RowPlace]:
        """For the judge: where the slices of the next call begin, on a card. With none left, one is taken a second time."""
        row_places: dict[str, RowPlace] = {}
        for tensor in self._task.inputs:
            place = self._fixed.get(tensor.name) or self._stocks[tensor.name].place(self._dice) or (0, 0)
            if tensor.constness == "const":
                self._fixed[tensor.name] = place
            row_places[tensor.name] = place
        return row_places

    def cut_at(self, places: Mapping[str, RowPlace]) -> dict[str, Array]:
        """For the judge: the values that a card has made of these places."""
        return {name: np.ascontiguousarray(self._stocks[name].cut(*place)) for name, place in places.items()}

    def _draw(self, tensor: Input, label: str) -> Array:
        words = hashlib.blake2b(f"{self.seed} {tensor.name} {label}".encode(), digest_size=DRAW_BYTES).digest()
        return self._stocks[tensor.name].draw(words)


class PoisonPool:
    """What outputs of one size hold before a call: no numbers, plausible ones, or a right answer to other inputs.

    One policy for every call, so that no kernel can tell a checked one by it.
    """

    def __init__(self, task: Task, dims: Mapping[str, int], rng: np.random.Generator) -> None:
        """Draws the arrays that slices are cut from."""
        self._dice = random.Random(rng.bytes(32))
        self._shapes = {tensor.name: axis_lengths(tensor, dims) for tensor in task.outputs}
        self._noise = {tensor.name: _random_row(tensor, self._shapes[tensor.name], rng) for tensor in task.outputs}
        self._nans = {tensor.name: _random_nans(tensor, self._shapes[tensor.name], rng) for tensor in task.outputs}

    @property
    def nbytes(self) -> int:
        """For the judge: of the arrays that slices are cut from."""
        return sum(row.nbytes for rows in (self._noise, self._nans) for row in rows.values())

    def draw(self, decoy: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """For the judge: bytes for every output, in storage types. `decoy`: a right answer to other inputs, if there is one yet."""
        kind = self._dice.choice(POISON_KINDS if decoy is not None else POISON_KINDS[:2])
        return {name: self._slice_of(kind, name, shape, decoy or {}) for name, shape in self._shapes.items()}

    def long_rows(self) -> dict[str, dict[str, Array]]:
        """For the judge: the long rows by kind and name, for a card to keep."""
        return {"nan": self._nans, "noise": self._noise}

    def places(self, *, decoy: bool) -> dict[str, tuple[str, int]]:
        """For the judge: kind and place of every output's filling; `decoy`: there is one."""
        kind = self._dice.choice(POISON_KINDS if decoy else POISON_KINDS[:2])
        return {name: (kind, 0 if kind == "decoy" else self._start(kind, name)) for name in self._shapes}

    def _start(self, kind: str, name: str) -> int:
        long, shape = (self._nans if kind == "nan" else self._noise)[name], self._shapes[name]
        return int(self._dice.random() * (long.size - math.prod(shape) + 1))

    def _slice_of(self, kind: str, name: str, shape: tuple[int, ...], decoy: Mapping[str, Array]) -> Array:
        if kind == "decoy" and decoy[name].shape == shape:
            return decoy[name]
        long = (self._nans if kind == "nan" else self._noise)[name]
        count, start = math.prod(shape), self._start(kind, name)
        return long[start : start + count].reshape(shape)


def _row_length(shape: tuple[int, ...]) -> int:
    count = math.prod(shape)
    return count + LARGE_ELEMENTS if count > LARGE_ELEMENTS else ROW_FACTOR * count + SPARE_ELEMENTS


def _long_rows(tensor: Input, shape: tuple[int, ...], rng: np.random.Generator) -> LongRows:
    """For the judge: drawn values of one input in one long row, from which inputs of many sizes are cut, and another to lay over them."""
    values = _plain_row(tensor, _row_length(shape), rng)
    bits = np.dtype(f"uint{8 * values.itemsize}")
    if tensor.dtype == "bool" or tensor.values == "mask":
        ones = _plain_row(tensor, values.size, rng)  # where both are set, or neither, the result is not
        return LongRows(values=values, over=ones.view(bits))
    if is_float(tensor.dtype):
        if tensor.values == "integers":
            return _wrapping_rows(tensor, values, rng)
        return LongRows(
            values=_keep_inside(values, bits, tensor), over=_sign_and_mantissa_mask(tensor, values.size, rng)
        )
    return _wrapping_rows(tensor, values, rng)


def _wrapping_rows(tensor: Input, values: Array, rng: np.random.Generator) -> LongRows:
    """Values to draw for judged calls: whole numbers over whole numbers, both of the input's range."""
    ring = tensor.low, max(tensor.high, tensor.low + 1)
    if is_float(tensor.dtype) and max(-ring[0], ring[1] - 1) > LARGEST[tensor.dtype]:  # some are infinite
        return LongRows(values=values, over=None)
    return LongRows(values=values, over=_plain_row(tensor, values.size, rng), ring=ring)


def _plain_row(tensor: Input, count: int, rng: np.random.Generator) -> Array:
    values = declared_values(tensor, (count,), rng)
    return from_float64(values, tensor.dtype) if values.dtype == np.float64 else values


def _keep_inside(values: Array, bits: np.dtype[np.generic], tensor: Input) -> Array:
    """Values for judged calls in a range, less those that rounding brought to its far ends: what is laid over them adds to those."""
    low, high = (0.0, 0.0) if tensor.values == "normal" else tensor.within or (-1.0, 1.0)
    ends = {size for size in (-low, high) if size > 0}
    if tensor.dtype == "float8_e4m3fn":
        ends.add(LARGEST[tensor.dtype])  # another last bit makes it no number
    if not ends:
        return values
    sign = np.array(1 << (8 * bits.itemsize - 1), dtype=bits)
    words = values.view(bits)
    for end in ends:
        at = from_float64(np.full(1, end), tensor.dtype).view(bits)
        words = np.where((words & ~sign) == at, words - np.array(1, dtype=bits), words)
    inside: Array = words.view(values.dtype)
    return inside


def _sign_and_mantissa_mask(tensor: Input, count: int, rng: np.random.Generator) -> Array:
    """For the judge: bits that turn the sign, where either sign is meant, and the mantissa but for its first bits."""
    bits = np.dtype(f"uint{8 * np.dtype(STORAGE[tensor.dtype]).itemsize}")
    sign = 1 << (8 * bits.itemsize - 1) if tensor.values in SIGNED_DISTRIBUTIONS and tensor.within is None else 0
    mask = sign | ((1 << max(SIGNIFICAND_BITS[tensor.dtype] - 1 - KEPT_MANTISSA_BITS, 1)) - 1)
    random_bits = np.frombuffer(rng.bytes(count * bits.itemsize), dtype=bits)
    pattern: Array = np.bitwise_and(random_bits, np.array(mask, dtype=bits))
    return pattern


def _random_row(tensor: Tensor, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return from_float64(rng.standard_normal(_row_length(shape)), tensor.dtype)


def _random_nans(tensor: Tensor, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Fillings for judged outputs: numbers that are none, each with another pattern; for whole numbers any bits."""
    storage = np.dtype(STORAGE[tensor.dtype])
    count = _row_length(shape)
    bits = np.frombuffer(rng.bytes(count * storage.itemsize), dtype=f"uint{8 * storage.itemsize}")
    if is_float(tensor.dtype):
        bits = bits | np.asarray(QUIET_NAN[tensor.dtype], dtype=bits.dtype)
    return bits.view(storage)


# Whole numbers laid over others of the same range: a sum that goes round, in whatever type they are kept.

EXACT_INTEGERS: dict[DType, int] = {kind: 1 << (bits - 1) for kind, bits in SIGNIFICAND_BITS.items()}
"""Up to here a type holds all whole numbers and what they differ by."""


def wrap_around(values: Raw, over: Raw, low: int, high: int, *, dtype: DType) -> Raw:
    """For the judge: `values - over - 1` brought into the range: from `low` on, and a span more where that is below 0.

    Of two even numbers of a range that is an even one again, and the least and the largest that occur fit the type.
    `laid` of the card's worker does the same on a card, bit for bit.
    """
    if is_float(dtype):
        return _wrap_floats(values, over, low, high, dtype)
    bits = np.dtype(f"uint{8 * values.itemsize}")
    every = (1 << (8 * bits.itemsize)) - 1
    sums = values.view(bits) - over.view(bits)  # unsigned: it goes round at the type's end, and comes back
    sums += np.array((low - 1) & every, dtype=bits)
    if span := (high - low) & every:  # the whole type: going round is all
        sums += (values <= over).astype(bits) * np.array(span, dtype=bits)
    brought: Raw = sums.view(values.dtype)
    return brought


def _wrap_floats(values: Raw, over: Raw, low: int, high: int, kind: DType) -> Raw:
    """The same of whole numbers in a float type, half precision in float32. Where the range has numbers that the type
    cannot hold, results are rounded as drawn ones are, and kept from its ends."""
    left, right = (operand if kind == "float64" else to_float32(operand, kind) for operand in (values, over))
    sums = _select_sum(left, right, low, high)
    if max(-low, high) > EXACT_INTEGERS[kind]:
        np.clip(sums, *np.array([low, high - 1], dtype=np.float64).astype(sums.dtype), out=sums)
    return _narrow(sums, kind)


def _round_to_bfloat16(sums: Raw) -> Raw:
    """For the judge: float32 numbers to the nearest bfloat16, ties to even; none is infinite. Overwrites its argument."""
    bits = sums.view(np.uint32)
    bits += ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)
    return (bits >> np.uint32(16)).astype(np.uint16)


def _select_sum(left: Raw, right: Raw, low: int, high: int) -> Raw:
    """For the judge: which of two numbers is added is told by a product of bits: `where` takes five times as long."""
    words = np.dtype(f"uint{8 * left.itemsize}")
    top, bottom = (int(end) for end in np.array([high - 1, low - 1], np.float64).astype(left.dtype).view(words))
    added = (left <= right).astype(words)
    added *= np.array((top - bottom) & ((1 << (8 * words.itemsize)) - 1), dtype=words)
    added += np.array(bottom, dtype=words)
    sums: Raw = left - right
    sums += added.view(left.dtype)
    return sums
