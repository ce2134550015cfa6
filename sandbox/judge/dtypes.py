"""Number types of a task as the judge stores and reads them: bfloat16 as bit patterns, bool as bytes 0 and 1."""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import DType

Raw = NDArray[Any]
"""An array in its storage type."""
Floats = NDArray[np.float64]

STORAGE: dict[DType, np.dtype[Any]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
    "int64": np.dtype(np.int64),
    "int32": np.dtype(np.int32),
    "int16": np.dtype(np.int16),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.uint8),
}
"""No task type is stored as uint16 but bfloat16, so the storage type of a float array tells its type."""
SIGNIFICAND_BITS: dict[DType, int] = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""Bits of precision, the hidden one included (IEEE 754; bfloat16 is the upper half of float32)."""
LARGEST: dict[DType, float] = {
    "float64": float(np.finfo(np.float64).max),
    "float32": float(np.finfo(np.float32).max),
    "float16": 65504.0,
    "bfloat16": float.fromhex("0x1.fep127"),
}
SMALLEST: dict[DType, float] = {
    "float64": float(np.finfo(np.float64).tiny),
    "float32": float(np.finfo(np.float32).tiny),
    "float16": 2.0**-24,
    "bfloat16": float(np.finfo(np.float32).tiny),
}
"""Differences up to this are no error: below it, processors may flush to zero, and float16 has no finer step."""


def is_float(dtype: DType) -> bool:
    """Whether results of a judged type carry rounding errors."""
    return dtype in SIGNIFICAND_BITS


def unit(dtype: DType) -> float:
    """For the judge: unit round-off, the largest relative error of one rounding: 2**-24 for float32; 0 for integers and bool."""
    return 2.0 ** -SIGNIFICAND_BITS[dtype] if dtype in SIGNIFICAND_BITS else 0.0


def to_float64(raw: Raw, dtype: DType) -> Floats:
    """For the judge: the values of a stored array, exactly; only int64 beyond 2**53 is rounded."""
    if dtype == "bfloat16":
        raw = to_float32(raw, dtype)
    with np.errstate(invalid="ignore"):  # a NaN that signals is only a NaN
        return raw.astype(np.float64)


def to_float32(raw: Raw, dtype: DType) -> NDArray[np.float32]:
    """For the judge: the values in float32: exact for float32, float16 and bfloat16, rounded for wider types."""
    if dtype == "bfloat16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return raw.astype(np.float32, copy=False)


def from_float64(values: Floats, dtype: DType) -> Raw:
    """Judged values rounded to nearest, ties to even; too large becomes infinite, and for integers the type's nearest end."""
    values = np.asarray(values, dtype=np.float64)
    if dtype == "bfloat16":
        return _to_bfloat16(values)
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
