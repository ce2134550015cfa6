"""Number types of a task as the judge stores and reads them: bfloat16 and 8-bit floats as bit patterns, bool as bytes 0 and 1."""

import ctypes
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import FLOAT8_LARGEST, DType

Raw = NDArray[Any]
"""An array in its storage type."""
Floats = NDArray[np.float64]

STORAGE: dict[DType, np.dtype[Any]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
    "float8_e4m3fn": np.dtype(np.uint8),
    "float8_e5m2": np.dtype(np.uint8),
    "int64": np.dtype(np.int64),
    "int32": np.dtype(np.int32),
    "int16": np.dtype(np.int16),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.uint8),
}
"""bfloat16 and 8-bit floats share theirs with whole numbers: what an array holds is told by its type, never by its storage."""
SIGNIFICAND_BITS: dict[DType, int] = {
    "float64": 53,
    "float32": 24,
    "float16": 11,
    "bfloat16": 8,
    "float8_e4m3fn": 4,
    "float8_e5m2": 3,
}
"""Bits of precision, the hidden one included (IEEE 754; bfloat16 is the upper half of float32)."""
LARGEST: dict[DType, float] = {
    "float64": float(np.finfo(np.float64).max),
    "float32": float(np.finfo(np.float32).max),
    "float16": 65504.0,
    "bfloat16": float.fromhex("0x1.fep127"),
    **FLOAT8_LARGEST,
}
SMALLEST: dict[DType, float] = {
    "float64": float(np.finfo(np.float64).tiny),
    "float32": float(np.finfo(np.float32).tiny),
    "float16": 2.0**-24,
    "bfloat16": float(np.finfo(np.float32).tiny),
    "float8_e4m3fn": 2.0**-9,
    "float8_e5m2": 2.0**-16,
}
"""Differences up to this are no error: below it, processors may flush to zero, and float16 and 8 bits have no finer step."""
FLOAT8: tuple[DType, ...] = tuple(FLOAT8_LARGEST)
FLOAT8_INFINITY = 0x7C
"""Of e5m2. What is less, signs aside, is a number, and what is more is none; of e4m3fn only the last is none."""
FLOAT8_NAN = 0x7F


def _list_float8(dtype: DType) -> NDArray[np.float32]:
    """For the judge: the number that each of the 256 patterns of an 8-bit float stands for."""
    kept = SIGNIFICAND_BITS[dtype] - 1
    codes = np.arange(256)
    exponents, fractions = (codes & 0x7F) >> kept, codes & ((1 << kept) - 1)
    sizes = np.where(exponents > 0, (1 << kept) + fractions, fractions) * np.exp2(np.maximum(exponents, 1) - 1.0)
    values = np.where(codes & 0x80, -sizes, sizes) * SMALLEST[dtype]
    if dtype == "float8_e5m2":
        values[[FLOAT8_INFINITY, FLOAT8_INFINITY | 0x80]] = np.inf, -np.inf
        values[(codes & 0x7F) > FLOAT8_INFINITY] = np.nan
    values[(codes & 0x7F) == FLOAT8_NAN] = np.nan
    numbers: NDArray[np.float32] = values.astype(np.float32)
    return numbers


FLOAT8_VALUES: dict[DType, NDArray[np.float32]] = {dtype: _list_float8(dtype) for dtype in FLOAT8}
"""By pattern."""


def is_float(dtype: DType) -> bool:
    """Whether results of a judged type carry rounding errors."""
    return dtype in SIGNIFICAND_BITS


def unit(dtype: DType) -> float:
    """For the judge: unit round-off, the largest relative error of one rounding: 2**-24 for float32; 0 for integers and bool."""
    return 2.0 ** -SIGNIFICAND_BITS[dtype] if dtype in SIGNIFICAND_BITS else 0.0


def to_float64(raw: Raw, dtype: DType) -> Floats:
    """For the judge: the values of a stored array, exactly; only int64 beyond 2**53 is rounded."""
    if dtype == "bfloat16" or dtype in FLOAT8:
        raw = to_float32(raw, dtype)
    with np.errstate(invalid="ignore"):  # a NaN that signals is only a NaN
        return raw.astype(np.float64)


def to_float32(raw: Raw, dtype: DType) -> NDArray[np.float32]:
    """For the judge: the values in float32: exact for float32 and narrower floats, rounded for wider types."""
    if dtype == "bfloat16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype in FLOAT8:
        return np.asarray(FLOAT8_VALUES[dtype][raw])
    with np.errstate(over="ignore", invalid="ignore"):
        return raw.astype(np.float32, copy=False)


def from_float64(values: Floats, dtype: DType) -> Raw:
    """Judged values rounded to nearest, ties to even; too large becomes infinite, and the nearest end of a type without infinity."""
    values = np.asarray(values, dtype=np.float64)
    if dtype == "bfloat16":
        return _to_bfloat16(values)
    if dtype in FLOAT8:
        return to_float8(values, dtype)
    if dtype == "bool":
        flags: Raw = (values != 0).astype(np.uint8)
        return flags
    if not is_float(dtype):
        return _to_integers(values, STORAGE[dtype])
    with np.errstate(over="ignore", under="ignore"):
        rounded: Raw = values.astype(STORAGE[dtype])
    return rounded


def _to_integers(values: Floats, storage: np.dtype[Any]) -> Raw:
    """For the judge: clipped by comparison: float64 cannot hold the largest int64, so the ends are written as integers."""
    low, high = np.iinfo(storage).min, np.iinfo(storage).max
    rounded = np.rint(np.nan_to_num(values, nan=0.0))
    inside = (rounded > low) & (rounded < high)
    ends = np.where(rounded >= high, high, low).astype(storage)
    integers: Raw = np.where(inside, np.where(inside, rounded, 0.0).astype(storage), ends)
    return integers


def _to_bfloat16(values: Floats) -> NDArray[np.uint16]:
    """For the judge: rounded once: cut to float32 with the lost bits remembered in the last one, then to nearest even.

    Rounding to nearest twice, through float32, would turn some values just off a tie to the wrong side.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = np.asarray(values.astype(np.float32))
        away = np.abs(narrow.astype(np.float64)) > np.abs(values)
        inexact = narrow.astype(np.float64) != values
    bits = narrow.view(np.uint32).copy() - away.astype(np.uint32)
    bits |= inexact.astype(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.where(np.isnan(values), np.uint16(0x7FC0), (rounded >> np.uint32(16)).astype(np.uint16))


def to_float8(values: NDArray[Any], dtype: DType) -> NDArray[np.uint8]:
    """For the judge: floats rounded once to 8 bits, to nearest, ties to even, as a card's instructions and PyTorch do.

    Of e4m3fn what is too large becomes the largest, as cards convert; PyTorch before 2.13 made NaN of it.
    """
    sizes = np.minimum(np.abs(values), 2 * LARGEST[dtype])  # NaN stays
    sizes = np.where(np.isnan(sizes), 0, sizes)
    _, exponents = np.frexp(np.maximum(sizes, SMALLEST[dtype]))
    least = math.frexp(SMALLEST[dtype])[1] - 1
    powers = np.maximum(exponents - SIGNIFICAND_BITS[dtype], least)
    # steps of a power of two are counted from zero for the smallest numbers, and go over into the next power by themselves
    codes = np.rint(np.ldexp(sizes, -powers)).astype(np.int32) + ((powers - least) << (SIGNIFICAND_BITS[dtype] - 1))
    codes = np.minimum(codes, FLOAT8_INFINITY if dtype == "float8_e5m2" else FLOAT8_NAN - 1)
    codes = np.where(np.isnan(values), FLOAT8_NAN, codes) | (np.signbit(values).astype(np.int32) << 7)
    patterns: NDArray[np.uint8] = codes.astype(np.uint8)
    return patterns


# Where an array's bytes are, and whether two arrays have the same ones, in the quickest way: for every call.

_libc = ctypes.CDLL(None)
memcmp = _libc.memcmp
"""(address, address, bytes): not zero where they differ. Nothing is copied or allocated."""
memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
memcmp.restype = ctypes.c_int


def address(array: NDArray[Any]) -> int:
    """Address of a judged array's first element."""
    if array.flags.writeable and array.flags.c_contiguous and array.size:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))  # three times as fast as what follows
    return int(array.__array_interface__["data"][0])


def same_bytes(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """For the judge: whether two contiguous arrays of one size hold the same bytes: NaN equals itself here, and -0.0 is not 0.0."""
    return bool(memcmp(address(left), address(right), left.nbytes) == 0)
