"""Inputs whose results are exact in any order of right arithmetic, so that nothing but equality is accepted.

Whether they are exact for an operator is not assumed: `numerics.compare_exact` looks at the oracle and the trusted
program, and judges with the usual bounds where they are not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ridgeline.graph.task import Input, Task
from ridgeline.sandbox.judge.dtypes import SIGNIFICAND_BITS, Floats, Raw, from_float64
from ridgeline.sandbox.judge.inputs import extents, placed, values_of
from ridgeline.sandbox.judge.whole import is_whole

RICH_BITS = 13
"""More than the 11 of TF32 and float16, few enough that 2048 such numbers add up below 2**24."""
RICH_TERMS = 1024
STEPS = 2.0**17
SMALLEST_INTEGERS = 8
"""0 to 7: 4096 products add up beyond what a float16 sum holds exactly, and far below 2**24."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One set of inputs in storage types; `exact` asks for `compare_exact`."""

    name: str
    inputs: dict[str, Raw]
    exact: bool


def probes(task: Task, dims: Mapping[str, int], rng: np.random.Generator) -> tuple[Probe, ...]:
    """All probes of one size: selections by each matrix, small whole numbers, and numbers that need every bit."""
    shapes = {one.name: extents(one, dims) for one in task.inputs}
    free = [one for one in task.inputs if not is_whole(one)]
    found = list(_selections(task, free, shapes, rng))
    if free:
        small = {one.name: _small(one, shapes[one.name], rng) for one in free}
        found.append(_probe(task, "small integers", small, shapes, rng, exact=True))
    for one in free if task.precision != "tf32" else ():
        rich = {other.name: _powers(other, shapes[other.name], rng) for other in free}
        rich[one.name] = _rich(one, shapes[one.name], rng)
        found.append(_probe(task, f"many bits in {one.name}", rich, shapes, rng, exact=True))
    return tuple(found)


def _selections(
    task: Task, free: list[Input], shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator
) -> Iterator[Probe]:
    """One matrix picks rows or columns; the other inputs keep all their bits, which the result must show."""
    exact = task.precision == "strict"
    for one in free:
        shape = shapes[one.name]
        if len(shape) < 2 or one.values == "positive":
            continue
        rows = {one.name: _one_hot(shape, rng)}
        yield _probe(task, f"one-hot rows of {one.name}", rows, shapes, rng, exact=exact)
        if shape[-1] != shape[-2]:
            columns = {one.name: np.swapaxes(_one_hot((*shape[:-2], shape[-1], shape[-2]), rng), -1, -2)}
            yield _probe(task, f"one-hot columns of {one.name}", columns, shapes, rng, exact=exact)


def _probe(
    task: Task,
    name: str,
    given: Mapping[str, Floats],
    shapes: Mapping[str, tuple[int, ...]],
    rng: np.random.Generator,
    *,
    exact: bool,
) -> Probe:
    inputs: dict[str, Raw] = {}
    for one in task.inputs:
        values = placed(one, given[one.name]) if one.name in given else values_of(one, shapes[one.name], rng)
        if one.name not in given and not is_whole(one) and one.within is None:
            values = _steps(values)
        inputs[one.name] = from_float64(values, one.dtype) if values.dtype == np.float64 else values
    return Probe(name=name, inputs=inputs, exact=exact)


def _steps(values: Raw | Floats) -> Raw | Floats:
    """Floats as multiples of 2^-17 below 4: up to 19 bits, and many of them add up exactly in float32, in any order.

    A selection by a small kernel, such as a convolution's, adds a few picked numbers.
    """
    if values.dtype != np.float64:
        return values
    return np.clip(np.round(values * STEPS) / STEPS, -4 + 1 / STEPS, 4 - 1 / STEPS)


def _one_hot(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """One 1 in each row, every column as often as any other: a permutation where the matrix is square."""
    rows, columns = shape[-2:]
    found = np.zeros(shape)
    for matrix in found.reshape(-1, rows, columns):
        turns = np.concatenate([rng.permutation(columns) for _ in range(-(-rows // columns))])
        matrix[np.arange(rows), turns[:rows]] = 1.0
    return found


def _small(one: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """0 to 7; in eighths, which are exact too, where the domain ends at 1, and from 1/8 where it excludes 0."""
    low = 1 if one.values == "positive" else 0
    whole = rng.integers(low, SMALLEST_INTEGERS, size=shape).astype(np.float64)
    return whole if one.values == "normal" else whole / SMALLEST_INTEGERS


def _rich(one: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Odd numbers of as many bits as fit, few enough in each row that their sum is exact."""
    bits = min(SIGNIFICAND_BITS[one.dtype], RICH_BITS)
    odd = rng.integers(1 << (bits - 2), 1 << (bits - 1), size=shape) * 2.0 + 1.0
    if one.values == "positive":
        return odd / (1 << bits)
    signed = odd * rng.choice((-1.0, 1.0), size=shape)
    kept = rng.random(shape) < RICH_TERMS / max(shape[-1] if shape else 1, RICH_TERMS)
    return np.where(kept, signed, 0.0) / (1 if one.values == "normal" else 1 << bits)


def _powers(one: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """1 and 0; a half and 1 where the domain excludes 0."""
    picked = rng.integers(0, 2, size=shape).astype(np.float64)
    return (picked + 1) / 2 if one.values == "positive" else picked
