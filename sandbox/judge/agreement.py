"""A quick comparison of two sides that had the same inputs: a few passes over the output, and no oracle."""

from dataclasses import dataclass

import numpy as np

from ridgeline.graph.task import DType, Precision
from ridgeline.sandbox.judge.bounds import Noise, limit, row_rms, scale_of, yardstick
from ridgeline.sandbox.judge.dtypes import SMALLEST, Floats, Raw, is_float, to_float32, unit
from ridgeline.sandbox.judge.memory import same_bytes

CHUNK = 1 << 18
"""Elements at a time: they and the differences stay in a processor's cache."""
BIG = 1e18
"""Beyond it, squares leave float32 and both sides are compared in float64."""
SMALL = 1e-15
"""Below it, squares near the end of float32 could vanish, and hide what they are squares of."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """By how much two right answers may differ: a share of the size of the numbers, and an amount besides."""

    l2: float
    l2_amount: float
    peak: float
    peak_amount: float


def tolerance(
    oracle: Floats, trusted: Floats, *, dtype: DType, precision: Precision, noise: Noise | None = None
) -> Tolerance:
    """Twice what `compare` allows one answer, taken from one case; it holds for inputs drawn in the same way."""
    factors, scale = limit(dtype, precision), scale_of(oracle)
    amounts = yardstick(scale, noise, dtype=dtype, precision=precision) - yardstick(
        scale, None, dtype=dtype, precision=precision
    )
    with np.errstate(invalid="ignore"):
        missed = np.nan_to_num(np.abs(trusted - oracle), nan=0.0, posinf=0.0, neginf=0.0)
    usual, worst = row_rms(missed), float(missed.max(initial=0.0))
    plain = default(dtype, precision)
    return Tolerance(
        l2=plain.l2,
        l2_amount=2 * factors.l2 * float(np.sqrt(np.mean(np.square(np.maximum(amounts, usual))))),
        peak=plain.peak,
        peak_amount=2 * factors.peak * max(float(np.max(amounts, initial=0.0)), worst),
    )


def default(dtype: DType, precision: Precision = "strict") -> Tolerance:
    """For a case of which nothing is known: twice the floors of the table."""
    factors, least = limit(dtype, precision), unit(dtype)
    least = max(least, limit(dtype, precision).product)
    return Tolerance(l2=factors.l2 * least, l2_amount=0.0, peak=2 * factors.peak * least, peak_amount=0.0)


def agree(a: Raw, b: Raw, *, dtype: DType, within: Tolerance | None = None) -> bool:
    """Whether `a` may be the same result as `b`, the side that is trusted more: sizes are taken from it.

    False says only that the oracle must decide. Equal bytes agree at once; NaN and infinities must be the same.
    """
    if a.shape != b.shape or a.dtype != b.dtype or not a.size:
        return False
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if same_bytes(a, b):
        return True
    if not is_float(dtype):
        return False
    allowed = within or default(dtype)
    length = b.shape[-1] if b.ndim > 1 else b.size
    left, right = a.reshape(-1, length), b.reshape(-1, length)
    step = max(1, CHUNK // length)
    total = 0.0
    for start in range(0, len(left), step):
        part = _part(left[start : start + step], right[start : start + step], dtype, allowed)
        if part is None:
            return False
        total += part
    return total <= a.size


def _part(a: Raw, b: Raw, dtype: DType, allowed: Tolerance) -> float | None:
    """Sum of squared differences of some rows, in units of what is allowed; None where one alone is too large.

    No difference is larger than the root of its row's sum of squares. Where that is allowed, as it mostly is, nothing
    need be looked at element by element; and sums that are finite and not large show that all numbers are.
    """
    left, right = (a, b) if dtype == "float64" else (to_float32(a, dtype), to_float32(b, dtype))
    with np.errstate(invalid="ignore", over="ignore"):
        sizes = np.einsum("ij,ij->i", right, right)
        apart = left - right
        squares = np.einsum("ij,ij->i", apart, apart)
        rows = np.sqrt(sizes / right.shape[1])
        limits = allowed.peak * rows + allowed.peak_amount + SMALLEST[dtype]
        if not (sizes.max() < BIG**2 and limits.min() > SMALL):
            return _closely(*_wide(left, right, dtype), dtype, allowed)
        far = np.flatnonzero(~(squares <= np.square(limits)))
    if far.size and not _each(np.abs(apart[far]), right[far], rows[far], allowed, dtype):
        return None
    return _shares(squares, rows, allowed, dtype)


def _each(apart: Raw, right: Raw, rows: Raw, allowed: Tolerance, dtype: DType) -> bool:
    """Whether no difference is too large for its row, or for its element where that is larger."""
    floor = SMALLEST[dtype]
    limits = allowed.peak * rows + allowed.peak_amount + floor
    for row in np.flatnonzero(~(apart.max(axis=1) <= limits)):
        sizes = np.maximum(np.abs(right[row]), rows[row])
        if not (apart[row] <= allowed.peak * sizes + allowed.peak_amount + floor).all():
            return False
    return True


def _shares(squares: Raw, rows: Raw, allowed: Tolerance, dtype: DType) -> float:
    allowances = (allowed.l2 * rows + allowed.l2_amount + SMALLEST[dtype]).astype(np.float64)
    return float((squares / np.square(allowances)).sum())


def _closely(left: Raw, right: Raw, dtype: DType, allowed: Tolerance) -> float | None:
    """The same with every element looked at."""
    finite = np.isfinite(right)
    if not finite.all():
        if not np.array_equal(np.where(finite, 0.0, right), np.where(np.isfinite(left), 0.0, left), equal_nan=True):
            return None
        left, right = np.where(finite, left, 0.0), np.where(finite, right, 0.0)
    rows = np.sqrt(np.einsum("ij,ij->i", right, right) / right.shape[1])
    with np.errstate(invalid="ignore"):
        apart = np.abs(left - right)
    if not _each(apart, right, rows, allowed, dtype):
        return None
    return _shares(np.einsum("ij,ij->i", apart, apart), rows, allowed, dtype)


def _wide(left: Raw, right: Raw, dtype: DType) -> tuple[Raw, Raw]:
    """Both as they are where float32 holds their squares, otherwise in float64."""
    if dtype == "float64":
        return left, right
    with np.errstate(invalid="ignore"):
        big = not (np.abs(right).max() < BIG and np.abs(left).max() < BIG)
        return (left.astype(np.float64), right.astype(np.float64)) if big else (left, right)
