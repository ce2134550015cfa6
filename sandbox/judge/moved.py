"""Did others put the result where a kernel only moved it? What the arguments of kernels held that did nothing.

In the run without its kernels, a worker says what every argument held just before each launch: values at even
distances as they lie in memory, and of the same values sorted. It is a claim, and is only held against the candidate.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from ridgeline.graph.task import DType
from ridgeline.sandbox.judge.dtypes import Floats, is_float, unit

REPORT = TypeAdapter(dict[str, list[tuple[str, int, str]]])
SAMPLED = 64
"""Values of either order, as in the worker."""
CLOSE = 1e-3
"""Of the values' size: the slack of a result that was computed in another precision."""
FEW = 8
"""Of fewer elements all are compared, and none may be a plain 0 or 1."""
DISTINCT = 4
"""Values of a sample that must differ for equality to mean something."""
MEMBERS = 64
"""Elements of an output from which on single values can be found again in it."""
NEARER = 0.05
"""Of the distance between neighbours in the output: a stranger's value lies a quarter away."""
AGAIN = 10.0
"""So much farther from the inputs a value must lie than from the output to be none of theirs."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """One argument of one launch."""

    kernel: str
    size: int
    """Elements of the array."""
    lying: Floats
    """A sample in the order of the array."""
    sorted: Floats | None
    """A sample of the sorted values; None where sorting was too much."""


@dataclass(frozen=True, kw_only=True)
class Right:
    """What one output should be, beside the task's inputs."""

    dtype: DType
    values: Floats
    given: Mapping[str, Floats]


def held(report: bytes) -> tuple[Held, ...] | None:
    """The report of a worker whose kernels do nothing; None for one that is no report."""
    try:
        said = REPORT.validate_json(report).get("held", [])
        return tuple(one for kernel, size, packed in said if (one := _held(kernel, size, packed)))
    except (ValidationError, ValueError, binascii.Error):
        return None


def _held(kernel: str, size: int, packed: str) -> Held | None:
    values = np.frombuffer(base64.b64decode(packed, validate=True), np.float32).astype(np.float64)
    count = min(size, SAMPLED)
    if count < 1 or len(values) not in (count, 2 * count):
        return None
    return Held(
        kernel=kernel[:80], size=size, lying=values[:count], sorted=values[count:] if len(values) > count else None
    )


def moved(arguments: tuple[Held, ...], right: Right) -> str | None:
    """The kernel that was given the output ready-made; None when none was seen.

    The same numbers, in order or out of it, whole or a part among others. What an input holds as it is given counts
    for nothing: a kernel may move that, where moving is the task.
    """
    if right.values.size == 0 or not np.isfinite(right.values).any():
        return None
    return next((one.kernel for one in arguments if _whole(one, right) or _part(one, right)), None)


def sample(values: Floats) -> Floats:
    """Of an array as it lies, at the places where a worker takes it; in float32, as it is told."""
    flat = values.reshape(-1)
    if flat.size > SAMPLED:
        flat = flat[[k * (flat.size - 1) // (SAMPLED - 1) for k in range(SAMPLED)]]
    with np.errstate(over="ignore"):
        return flat.astype(np.float32).astype(np.float64)


def _whole(one: Held, right: Right) -> bool:
    """Whether an argument of the output's size is the output."""
    if one.size != right.values.size:
        return False
    wanted = sample(right.values)
    tight = _taken(one, right)
    if _same(one.lying, wanted, right.dtype, tight=tight):
        return not any(_same(sample(array), wanted, right.dtype) for array in _fitting(right))
    if one.sorted is None or not is_float(right.dtype):
        return False
    wanted = sample(np.sort(right.values, axis=None))
    if not _same(one.sorted, wanted, right.dtype, tight=tight):
        return False
    return not any(_same(sample(np.sort(array, axis=None)), wanted, right.dtype) for array in _fitting(right))


def _fitting(right: Right) -> list[Floats]:
    return [array for array in right.given.values() if array.size == right.values.size]


def _taken(one: Held, right: Right) -> bool:
    """Whether its values are those of inputs: then others may have moved them, and only equality tells the output."""
    inputs = [array.reshape(-1) for array in right.given.values()]
    return bool(inputs) and float(np.mean(np.isin(one.lying, np.concatenate(inputs).astype(np.float32)))) > 1 / 2


def _same(found: Floats, wanted: Floats, dtype: DType, *, tight: bool = False) -> bool:
    where = np.isfinite(wanted)
    if not where.any() or not np.array_equal(where, np.isfinite(found)):
        return False
    values = wanted[where]
    if len(wanted) < FEW:
        if np.isin(values, (0.0, 1.0, -1.0)).any():
            return False
    elif len(np.unique(values)) < DISTINCT:
        return False
    size = float(np.sqrt(np.mean(values**2)))
    slack = 4 * unit(dtype) + (CLOSE if is_float(dtype) and not tight else 0.0)
    return bool(np.all(np.abs(found[where] - values) <= slack * np.maximum(size, np.abs(values))))


def _part(one: Held, right: Right) -> bool:
    """Whether its values can be found again in the output one by one, and not in the inputs."""
    if not is_float(right.dtype):
        return False
    known = np.unique(right.values[np.isfinite(right.values)])
    values = np.unique(one.lying[np.isfinite(one.lying)])
    values = values[~np.isin(values, (0.0, 1.0, -1.0))]
    if len(known) < max(MEMBERS, right.values.size // 4) or len(values) < MEMBERS // 4:
        return False
    nearest, between = _nearest(values, known)
    if np.median(nearest) > NEARER * np.median(between):
        return False
    floats = [np.unique(array[np.isfinite(array)]) for array in right.given.values()]
    return all(np.median(_nearest(values, array)[0]) > AGAIN * np.median(nearest) for array in floats if len(array) > 1)


def _nearest(values: Floats, known: NDArray[np.float64]) -> tuple[Floats, Floats]:
    """How far each value is from the nearest known one, and how far its neighbours there are from each other."""
    at = np.clip(np.searchsorted(known, values), 1, len(known) - 1)
    low, high = known[at - 1], known[at]
    return np.minimum(np.abs(values - low), np.abs(high - values)), high - low
