"""Whole numbers laid over others of the same range: a sum that goes round, in whatever type they are kept."""

import numpy as np

from ridgeline.graph.task import DType
from ridgeline.sandbox.judge.dtypes import SIGNIFICAND_BITS, STORAGE, Raw, to_float32

KINDS: dict[str, DType] = {"f8": "float64", "f4": "float32", "f2": "float16"}
EXACT: dict[DType, int] = {kind: 1 << (bits - 1) for kind, bits in SIGNIFICAND_BITS.items()}
"""Up to here a type holds all whole numbers and what they differ by."""


def around(values: Raw, over: Raw, low: int, high: int) -> Raw:
    """`values - over - 1` brought into the range: from `low` on, and a span more where that is below 0.

    Of two even numbers of a range that is an even one again, and the least and the largest that occur fit the type.
    `laid` of the card's worker does the same on a card, bit for bit.
    """
    if values.dtype.kind == "f" or values.dtype == STORAGE["bfloat16"]:
        return _floats(values, over, low, high)
    bits = np.dtype(f"uint{8 * values.itemsize}")
    every = (1 << (8 * bits.itemsize)) - 1
    found = values.view(bits) - over.view(bits)  # unsigned: it goes round at the type's end, and comes back
    found += np.array((low - 1) & every, dtype=bits)
    if span := (high - low) & every:  # the whole type: going round is all
        found += (values <= over).astype(bits) * np.array(span, dtype=bits)
    brought: Raw = found.view(values.dtype)
    return brought


def _floats(values: Raw, over: Raw, low: int, high: int) -> Raw:
    """The same of whole numbers in a float type, half precision in float32. Where the range has numbers that the type
    cannot hold, results are rounded as drawn ones are, and kept from its ends."""
    kind = KINDS.get(values.dtype.str[1:], "bfloat16")
    first, second = (one if kind == "float64" else to_float32(one, kind) for one in (values, over))
    found = _added(first, second, low, high)
    if max(-low, high) > EXACT[kind]:
        np.clip(found, *np.array([low, high - 1], dtype=np.float64).astype(found.dtype), out=found)
    if kind != "bfloat16":
        return found.astype(STORAGE[kind], copy=False)
    bits = found.view(np.uint32)
    bits += ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)  # to nearest, ties to even; none is infinite
    return (bits >> np.uint32(16)).astype(np.uint16)


def _added(first: Raw, second: Raw, low: int, high: int) -> Raw:
    """Which of two numbers is added is told by a product of bits: `where` takes five times as long."""
    words = np.dtype(f"uint{8 * first.itemsize}")
    top, bottom = (int(end) for end in np.array([high - 1, low - 1], np.float64).astype(first.dtype).view(words))
    added = (first <= second).astype(words)
    added *= np.array((top - bottom) & ((1 << (8 * words.itemsize)) - 1), dtype=words)
    added += np.array(bottom, dtype=words)
    found: Raw = first - second
    found += added.view(first.dtype)
    return found
