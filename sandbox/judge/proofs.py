"""Outputs that stay on a card: eight sums with secret signs, compared between sides, and with the outputs themselves.

Signs of element (r, c), in rows of `ROW`, are the product of two slices of a long row of signs at secret places.
"""

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import DType
from ridgeline.sandbox.judge.dtypes import to_float64
from ridgeline.sandbox.judge.lost import Lost

Array = NDArray[np.generic]
ROW, SUBSET = 4096, 4096
SUMS = 8
SPARE = 1 << 16
"""Places at which a slice of signs may begin."""
REACH = 6.0
"""Standard deviations of a sum of errors with random signs (measurement 2.6)."""
EXACT = 1e-11
"""Two programs that add the same float64 numbers in other orders differ by less, as a share of the numbers' size."""
WIDE = np.int64(0x9E3779B97F4A7C15 - (1 << 64))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked about a call's outputs after it has ended."""

    places: tuple[tuple[int, int], ...]
    subset: tuple[int, int]
    whole: bool

    @classmethod
    def drawn(cls, dice: random.Random, *, whole: bool) -> "Asked":
        """Secret places; `whole`: all outputs are wanted too."""
        places = tuple((dice.randrange(SPARE), dice.randrange(SPARE)) for _ in range(SUMS))
        return cls(places=places, subset=(dice.randrange(1, 1 << 31) | 1, dice.randrange(1 << 31)), whole=whole)

    @classmethod
    def nothing(cls) -> "Asked":
        """No sums, only everything."""
        return cls(places=(), subset=(1, 0), whole=True)

    def words(self) -> bytes:
        """For the worker."""
        return json.dumps({"places": self.places, "subset": self.subset, "whole": self.whole}).encode()


@dataclass(frozen=True, kw_only=True)
class Summed:
    """What the worker says of one output."""

    sums: NDArray[np.float64]
    same: bool
    """Whether it was the same when everything on the device had ended."""
    bits: tuple[int, int]
    """Of some elements, at once and at the end."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What the worker says of all outputs, of the inputs and of the memory between."""

    outputs: Mapping[str, Summed]
    inputs: Mapping[str, int]
    guards: bool


def read(words: bytes) -> Proof:
    """The worker's words. Raises Lost for words that are none."""
    try:
        said = json.loads(words)
        outputs = {str(name): _summed(one) for name, one in said.get("outputs", {}).items()}
        inputs = {str(name): int(one) for name, one in said.get("inputs", {}).items()}
        return Proof(outputs=outputs, inputs=inputs, guards=said.get("guards", True) is True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise Lost("protocol", "the worker's words about its outputs are none") from error


def _summed(one: Mapping[str, object]) -> Summed:
    sums, bits = one["sums"], one["bits"]
    if not isinstance(sums, list) or len(sums) != SUMS or not isinstance(bits, list):
        raise ValueError("not the sums that were asked for")
    numbers = np.array([float.fromhex(str(value)) for value in sums])
    return Summed(sums=numbers, same=one["same"] is True, bits=(int(bits[0]), int(bits[1])))


def rows_of(count: int) -> int:
    """Rows of so many elements, the last one filled up."""
    return -(-max(count, 1) // ROW)


def signs(count: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """A long row of one and minus one, for outputs of at most so many elements."""
    length = max(rows_of(count), ROW) + SPARE
    return (2 * rng.integers(0, 2, length, dtype=np.int8) - 1).astype(np.int8)


def sums_of(raw: Array, dtype: DType, row: NDArray[np.int8], asked: Asked) -> NDArray[np.float64]:
    """The sums as the worker must have them."""
    count = rows_of(raw.size)
    numbers = np.zeros(count * ROW)
    numbers[: raw.size] = to_float64(raw.reshape(-1), dtype)
    table = numbers.reshape(count, ROW)
    across = np.stack([row[first : first + ROW] for first, _ in asked.places]).astype(np.float64)
    down = np.stack([row[second : second + count] for _, second in asked.places]).astype(np.float64)
    with np.errstate(invalid="ignore"):
        found: NDArray[np.float64] = ((table @ across.T) * down.T).sum(axis=0)
    return found


def bits_of(raw: Array, asked: Asked) -> int:
    """Bits of some elements as the worker must have them."""
    if not raw.size:
        return 0
    step, first = asked.subset
    at = (step * np.arange(SUBSET, dtype=np.int64) + first) % raw.size
    kind = np.uint8 if raw.itemsize == 1 else np.dtype(f"int{8 * raw.itemsize}")
    values = np.ascontiguousarray(raw).reshape(-1).view(kind)[at].astype(np.int64)
    with np.errstate(over="ignore"):
        return int((values * ((at * WIDE + first) | 1)).sum())


def told_truly(said: Summed, raw: Array, dtype: DType, row: NDArray[np.int8], asked: Asked) -> bool:
    """Whether the sums and bits that a worker told are those of the output that it then gave."""
    there = sums_of(raw, dtype, row, asked)
    if said.bits != (bits_of(raw, asked),) * 2:
        return False
    numbers = to_float64(raw.reshape(-1), dtype)
    if not np.isfinite(numbers).all():
        return True  # sums that are no numbers say nothing, and everything is here
    size = float(np.sqrt(np.square(numbers).sum())) * math.sqrt(max(raw.size, 1))
    return bool((np.abs(there - said.sums) <= EXACT * size + np.finfo(float).tiny).all())


def near(a: Summed, b: Summed, *, count: int, apart: float) -> bool:
    """Whether sums of two sides may be those of right answers that differ by `apart` in the mean square's root.

    False says only that all of the outputs are to be looked at.
    """
    if a.bits[0] != a.bits[1] or b.bits[0] != b.bits[1] or not (a.same and b.same):
        return False
    limit = REACH * apart * math.sqrt(count)
    return bool((np.abs(a.sums - b.sums) <= limit).all())
