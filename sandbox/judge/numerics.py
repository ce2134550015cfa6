"""Are these numbers right? Held against a float64 oracle, in units of what an honest program of that type may err."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import DType, Precision
from ridgeline.sandbox.judge.agreement import agree as agree
from ridgeline.sandbox.judge.bounds import Noise, Reach, limit, row_rms, scale_of, yardstick
from ridgeline.sandbox.judge.dtypes import (
    LARGEST,
    SMALLEST,
    STORAGE,
    Floats,
    Raw,
    from_float64,
    is_float,
    to_float64,
    unit,
)

Flags = NDArray[np.bool_]
EXACT_UNITS: dict[DType, float] = {"float64": 8, "float32": 8}
"""Roundings that an exact result may be off: a division by way of a reciprocal, a transform. A product with factors cut
to TF32, or to two bfloat16, is off by hundreds. In half precision libraries round partial sums, and are right by the
usual bounds: those tell sums that are carried in the type itself."""
SHORT_BITS = 40
"""A float64 result of so few bits came about without rounding; both programs compute in float64 and agree anyway."""


@dataclass(frozen=True)
class Fault:
    """One way in which an output is wrong; the numbers are ratios unless the detail says otherwise."""

    kind: Literal["shape", "nonfinite", "relative_l2", "max_norm", "bound", "exact", "probe"]
    output: str
    detail: str
    measured: float
    allowed: float


def compare(
    candidate: Raw,
    oracle: Floats,
    trusted: Floats,
    *,
    dtype: DType,
    precision: Precision,
    output: str,
    noise: Noise | Reach | None = None,
) -> tuple[Fault, ...]:
    """Faults of one output; empty when it is right.

    `candidate` is in its storage type, `oracle` exact, `trusted` what a program of the task's types computes. Without
    `noise` the trusted program's error alone says what is hard to compute: cheap, and strict where it was lucky. A
    fault found that way is certain only when it is found with `noise` too: a `Noise`, for whole numbers a `Reach`.
    """
    if fault := _form(candidate, oracle, dtype, output):
        return (fault,)
    if not is_float(dtype):
        return _whole(candidate, oracle, trusted, output, noise if isinstance(noise, Reach) else None)
    if isinstance(noise, Reach):
        raise TypeError(f"{output}: a float output has no reach")
    values = to_float64(candidate, dtype)
    if noise is None and plainly_right(values, oracle, trusted, dtype=dtype, precision=precision):
        return ()
    scale = scale_of(oracle)
    unit_error = yardstick(scale, noise, dtype=dtype, precision=precision) + SMALLEST[dtype]
    if noise is None:
        unit_error = unit_error * _excess(oracle, trusted, unit_error)
    factors = limit(dtype, precision)
    rounded = to_float64(from_float64(oracle, dtype), dtype)
    values = _at_the_end(values, rounded, np.abs(oracle) + 2 * factors.peak * unit_error >= LARGEST[dtype])
    if fault := _unlike(values, rounded, trusted, output):
        return (fault,)
    return _far(values, oracle, trusted, unit_error, (factors.l2, factors.peak), output)


def plainly_right(values: Floats, oracle: Floats, trusted: Floats, *, dtype: DType, precision: Precision) -> bool:
    """Whether `compare` without noise finds nothing, told by a few passes; where they do not tell, it says no.

    They do where all numbers are finite and far from the type's end, and the trusted program's luck is not needed.
    """
    factors, length = limit(dtype, precision), oracle.shape[-1] if oracle.ndim > 1 else oracle.size
    right, usual, errors = (one.reshape(-1, length) for one in (oracle, trusted, values))
    with np.errstate(invalid="ignore", over="ignore"):
        rows = np.sqrt(_squares(right) / length)
        if not rows.max() * np.sqrt(length) < LARGEST[dtype] / 4:
            return False
        unit_error = np.maximum(np.abs(right), rows[:, None])
        unit_error *= yardstick(np.ones(1), None, dtype=dtype, precision=precision)
        unit_error += SMALLEST[dtype]
        missed = np.subtract(usual, right)
        missed /= unit_error
        excess = np.sqrt(_squares(missed) / length)
        excess = np.maximum(excess, max(_middle(excess), 1.0))
        np.subtract(errors, right, out=missed)
        missed /= unit_error
        sums = _squares(missed) / np.square(excess)
        if not (np.isfinite(excess).all() and sums.sum() <= factors.l2**2 * right.size):
            return False
        if sums.max() <= (2 * factors.peak) ** 2:  # no element is more than its row together
            return True
        return bool((np.abs(missed, out=missed).max(axis=1) <= 2 * factors.peak * excess).all())


def _middle(values: Floats) -> float:
    """Their median; NumPy's own takes as long as five passes over what it is the median of."""
    ordered = np.sort(values)
    return float(ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2


def _squares(rows: Floats) -> Floats:
    found: Floats = np.einsum("ij,ij->i", rows, rows)
    return found


def compare_exact(
    candidate: Raw,
    oracle: Floats,
    trusted: Floats,
    *,
    dtype: DType,
    precision: Precision,
    output: str,
    noise: Noise | Reach | None = None,
) -> tuple[Fault, ...]:
    """Like `compare`, with next to no tolerance where `is_exact` says that none is needed.

    A whole number made of floats, even of exact ones, may hang on a rounding on the way, as a half that is rounded.
    """
    if dtype not in EXACT_UNITS or not is_exact(oracle, trusted, dtype):
        return compare(candidate, oracle, trusted, dtype=dtype, precision=precision, output=output, noise=noise)
    if fault := _form(candidate, oracle, dtype, output):
        return (fault,)
    right, values = to_float64(from_float64(oracle, dtype), dtype), to_float64(candidate, dtype)
    with np.errstate(invalid="ignore"):
        near: Flags = np.abs(values - right) <= EXACT_UNITS[dtype] * unit(dtype) * scale_of(right)
    return _counted(~(near | (values == right)), values, right, output)


def is_exact(oracle: Floats, trusted: Floats, dtype: DType) -> bool:
    """Whether right programs have no freedom here: the sums fit their type, and the trusted program has them all."""
    if not np.isfinite(oracle).all():
        return False
    if not is_float(dtype):
        return bool(np.array_equal(trusted, oracle))
    if dtype == "float64":
        parts, _ = np.frexp(oracle)
        return bool(np.array_equal(np.round(parts * 2.0**SHORT_BITS), parts * 2.0**SHORT_BITS))
    fits = np.array_equal(to_float64(from_float64(oracle, "float32"), "float32"), oracle)
    return bool(fits and np.array_equal(trusted, to_float64(from_float64(oracle, dtype), dtype)))


def _form(candidate: Raw, oracle: Floats, dtype: DType, output: str) -> Fault | None:
    if candidate.shape == oracle.shape and candidate.dtype == STORAGE[dtype] and candidate.size:
        return None
    detail = f"{candidate.dtype}{list(candidate.shape)} instead of {STORAGE[dtype]}{list(oracle.shape)}"
    return Fault(
        "shape", output, detail if oracle.size else "there are no elements to judge", candidate.size, oracle.size
    )


def _whole(candidate: Raw, oracle: Floats, trusted: Floats, output: str, reach: Reach | None) -> tuple[Fault, ...]:
    """Equality. Where a result hangs on rounding, the trusted program's answer is as right as the oracle's.

    So is what lies within `reach`, which is more than one number only at places that a rounding of the inputs changes.
    """
    wrong: Flags = ~((candidate == oracle) | (candidate == trusted))
    if reach is not None:
        wrong &= ~((candidate >= reach.low) & (candidate <= reach.high))
    return _counted(wrong, candidate, oracle, output)


def _counted(wrong: Flags, values: Raw, oracle: Floats, output: str) -> tuple[Fault, ...]:
    count = int(np.count_nonzero(wrong))
    if not count:
        return ()
    where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    detail = (
        f"{count} of {wrong.size} elements are not the exact result, the first at {_place(where)}: "
        f"{_value(values, where)} instead of {_value(oracle, where)}"
    )
    return (Fault("exact", output, detail, float(count), 0.0),)


def _excess(oracle: Floats, trusted: Floats, unit_error: Floats) -> Floats:
    """How many units the trusted program is off in each row; at least 1, and at least what is usual.

    By row, so that one that is hard to compute does not loosen the bounds of the others.
    """
    with np.errstate(invalid="ignore"):
        errors = (trusted - oracle) / unit_error
    rows = row_rms(np.where(np.isfinite(errors), errors, 0.0))
    return np.maximum(np.maximum(rows, np.median(rows)), 1.0)


def _at_the_end(values: Floats, rounded: Floats, near: Flags) -> Floats:
    """Infinity counts as the result itself where that is so near the type's largest that one rounding decides."""
    same_side = np.signbit(values) == np.signbit(rounded)
    found: Floats = np.where(np.isinf(values) & np.isfinite(rounded) & near & same_side, rounded, values)
    return found


def _unlike(values: Floats, rounded: Floats, trusted: Floats, output: str) -> Fault | None:
    """Infinite and NaN exactly where the result is; where exact and trusted differ in that, either will do."""
    right = (np.isfinite(values) & (np.isfinite(rounded) | np.isfinite(trusted))) | _same(values, rounded)
    wrong: Flags = ~(right | _same(values, trusted))
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    detail = (
        f"{count} of {wrong.size} elements, the first at {_place(where)}: "
        f"{_value(values, where)} instead of {_value(rounded, where)}"
    )
    return Fault("nonfinite", output, detail, float(count), 0.0)


def _same(left: Floats, right: Floats) -> Flags:
    same: Flags = ~np.isfinite(left) & ((left == right) | (np.isnan(left) & np.isnan(right)))
    return same


def _far(
    values: Floats, oracle: Floats, trusted: Floats, unit_error: Floats, factors: tuple[float, float], output: str
) -> tuple[Fault, ...]:
    """The two norms of the error, each against the trusted program's own. Written so that NaN is a fault."""
    judged = np.isfinite(values) & np.isfinite(oracle)
    if not judged.any():
        return ()
    with np.errstate(invalid="ignore"):
        errors = np.where(judged, np.abs(values - oracle), 0.0) / unit_error
        usual = np.where(judged & np.isfinite(trusted), np.abs(trusted - oracle), 0.0) / unit_error
    where = np.unravel_index(int(np.argmax(errors)), errors.shape)
    told = f"worst at {_place(where)}: {_value(values, where)} instead of {_value(oracle, where)}"
    share = np.sqrt(judged.mean())
    found: list[Fault] = []
    measured, allowed = _rms(errors) / share, factors[0] * max(_rms(usual) / share, 1.0)
    if not measured <= allowed:
        found.append(
            Fault("relative_l2", output, f"root mean square error in units of rounding; {told}", measured, allowed)
        )
    measured, allowed = float(errors.max()) / 2, factors[1] * max(float(usual.max()) / 2, 1.0)
    if not measured <= allowed:
        found.append(Fault("max_norm", output, f"largest error in units of rounding; {told}", measured, allowed))
    return tuple(found)


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _place(where: tuple[np.intp, ...]) -> str:
    return str([int(index) for index in where])


def _value(values: Raw, where: tuple[np.intp, ...]) -> str:
    return f"{float(values[where]):.9g}"
