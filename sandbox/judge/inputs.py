"""Values and sizes for judged calls, drawn from the task alone: ordinary ones, and those that shortcuts get wrong."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ridgeline.graph.formula import evaluate
from ridgeline.graph.task import Drawn, Input, Shape, Task, Tensor
from ridgeline.sandbox.judge.dtypes import STORAGE, Floats, Raw, from_float64, is_float
from ridgeline.sandbox.judge.mixes import MIXED, MIXES, PARTLY, PARTS, SPIKING, lead, partly, spiked
from ridgeline.sandbox.judge.whole import INDEX_TYPES, bent, is_mask, is_whole

__all__ = ["MIXES", "PARTS", "draw", "drawn_shapes", "extents", "near_pair", "placed", "stored", "values_of"]

LONGEST = 1 << 40
"""Elements along one axis; more is a mistake in a formula."""
DONORS = 64
"""Elements looked at for a value that differs."""
PRIMES = (2, 3, 5, 7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521)
"""Sizes that no tile divides, the largest prime below each power of two."""
TRIES = 20

Rule = Callable[[int, int, np.random.Generator], int]


def extents(tensor: Tensor, dims: Mapping[str, int]) -> tuple[int, ...]:
    """Lengths of the axes at one size. Raises ValueError (FormulaError is one) where one is no whole number above 0."""
    found = []
    for text in tensor.shape:
        length = evaluate(text, dims)
        if length != int(length) or not 0 < length <= LONGEST:
            raise ValueError(f"{tensor.name}: extent {text} is {length:g} for {dict(dims)}")
        found.append(int(length))
    return tuple(found)


def draw(
    task: Task, dims: Mapping[str, int], mix: str, rng: np.random.Generator, *, reach: float = 1.0
) -> dict[str, Raw]:
    """New inputs in their storage types. A mix never leaves the domain that an input's `values` declares.

    `reach` is how far it goes: below 1, outliers are smaller and no row of a mask is empty; at 0, values are ordinary
    ones (`settled` in calls.py says when that is needed). Raises KeyError for a mix that is not one of `MIXES` or
    `PARTS`.
    """
    if mix not in (*MIXES, *PARTS):
        raise KeyError(mix)
    part, mix = mix.startswith(PARTLY), mix.removeprefix(PARTLY)
    shapes = {one.name: extents(one, dims) for one in task.inputs}
    chosen, lines = lead(task, shapes, rng), bool(rng.integers(2))
    found: dict[str, Raw] = {}
    for number, one in enumerate(task.inputs):
        values = usual = _usual(one, shapes[one.name], rng)
        if is_whole(one):
            index = is_index(task, one, dims)
            values = bent(one, values, mix, rng, mild=reach < 1, index=index) if reach else values
        elif mix != SPIKING:
            values = MIXED[mix](one, values, rng, one.name == chosen)
        elif reach and one.constness != "const":  # an outlier in what stays the same would be in every call
            values = spiked(one, values, rng, reach=reach, whole=_counts(task), few=part)
        if part and (is_whole(one) or mix != SPIKING):
            values = partly(usual, values, rng, lines=lines, first=not number)
        values = placed(one, values)
        found[one.name] = from_float64(values, one.dtype) if values.dtype == np.float64 else values
    return found


def is_index(task: Task, one: Input, dims: Mapping[str, int]) -> bool:
    """Whether its numbers may say places in another array of a task that has floats."""
    if one.dtype not in INDEX_TYPES or one.low < 0 or is_mask(one) or all(is_whole(other) for other in task.inputs):
        return False
    others = (other for other in (*task.inputs, *task.outputs) if other.name != one.name)
    return any(one.high <= length for other in others for length in extents(other, dims))


def placed(one: Input, values: Raw | Floats) -> Raw | Floats:
    """Values of the usual range moved to the input's own, where it has one: what lies inside stays inside."""
    if one.within is None or is_whole(one):
        return values
    (low, high), (start, end) = one.within, (0.1, 1.0) if one.values == "positive" else (-1.0, 1.0)
    return np.clip(low + (values - start) * ((high - low) / (end - start)), low, high)


def values_of(one: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Raw | Floats:
    """Values as the input declares them: floats in float64, whole numbers and masks in their storage type."""
    return placed(one, _usual(one, shape, rng))


def _usual(one: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Raw | Floats:
    if is_mask(one):
        return rng.integers(0, 2, size=shape, dtype=np.uint8).astype(_storage(one))
    if is_whole(one):
        return rng.integers(one.low, max(one.high, one.low + 1), size=shape).astype(_storage(one))
    match one.values:
        case "uniform":
            return rng.uniform(-1.0, 1.0, size=shape)
        case "positive":
            return rng.uniform(0.1, 1.0, size=shape)
        case _:
            return rng.standard_normal(shape)


def stored(one: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Raw:
    """Values as the input declares them, in its storage type."""
    values = values_of(one, shape, rng)
    return from_float64(values, one.dtype) if values.dtype == np.float64 else values


def near_pair(
    inputs: Mapping[str, Raw], one: Input, rng: np.random.Generator
) -> tuple[dict[str, Raw], tuple[int, ...]]:
    """The inputs with one element of one of them changed, and where.

    It takes the value of another element, the most different of a few: what is legal there is legal here. Where all are
    alike, it takes another that could have been drawn, if there is one.
    """
    values = inputs[one.name].copy()
    place = tuple(int(rng.integers(length)) for length in values.shape)
    donors = values.reshape(-1)[rng.integers(0, values.size, size=DONORS)]
    kind = "bfloat16" if values.dtype == np.uint16 else "float64"
    numbers = _numbers(np.append(donors, values[place]), kind)
    distances = np.nan_to_num(np.abs(numbers[:-1] - numbers[-1]), nan=0.0)
    if distances.max() > 0:
        values[place] = donors[int(np.argmax(distances))]
    elif not is_whole(one):
        values[place] = _other(values[place], kind)[0]
    else:
        others = stored(one, (DONORS,), rng)
        values[place] = others[int(np.argmax(others != values[place]))]
    return {**inputs, one.name: values}, place


def drawn_shapes(task: Task, rng: np.random.Generator) -> tuple[Shape, ...]:
    """Sizes that no candidate has seen: the smallest, primes, odd ones, then any; others of a public size's numbers.

    Fewer than asked for where the ranges hold fewer.
    """
    if not task.drawn.ranges:
        return ()
    seen = {tuple(sorted(shape.dims.items())) for shape in task.shapes}
    found: list[Shape] = []
    for number in range(task.drawn.count):
        for attempt in range(TRIES):
            dims = _dims(task, RULES[min(number, len(RULES) - 1)] if attempt == 0 else _anywhere, rng)
            key = tuple(sorted(dims.items()))
            if key not in seen and _has_elements(task, dims):
                seen.add(key)
                found.append(Shape(label=f"drawn-{len(found) + 1}", dims=dims, config_class="drawn", timed=False))
                break
    return tuple(found)


def _storage(one: Input) -> np.dtype[np.generic]:
    """Masks and whole numbers of a float input are made in float64 and rounded with the rest."""
    return np.dtype(np.float64) if is_float(one.dtype) else STORAGE[one.dtype]


def _numbers(values: Raw, kind: str) -> Floats:
    if kind == "bfloat16":
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return values.astype(np.float64)


def _other(value: np.generic, kind: str) -> Raw:
    """A different value where all are equal: half of a number, 1 for zero, one less of a positive whole number."""
    array = np.array([value])
    if kind == "bfloat16":
        numbers = _numbers(array, kind)
        return from_float64(np.where(numbers == 0, 1.0, numbers / 2), "bfloat16")
    if np.issubdtype(array.dtype, np.floating):
        return np.where(array == 0, 1, array / 2).astype(array.dtype)
    return np.where(array > 0, array - 1, array + 1).astype(array.dtype)


def _counts(task: Task) -> bool:
    return any(not is_float(one.dtype) for one in task.outputs)


def _dims(task: Task, rule: Rule, rng: np.random.Generator) -> dict[str, int]:
    base = task.shapes[int(rng.integers(len(task.shapes)))].dims
    return {**base, **{name: _length(task.drawn, name, rule, rng) for name in task.drawn.ranges}}


def _length(drawn: Drawn, name: str, rule: Rule, rng: np.random.Generator) -> int:
    """One dimension by the rule, moved to a multiple where one is asked for; the low end where none fits."""
    low, high = drawn.ranges[name]
    step = drawn.multiples.get(name, 1)
    first, last = -(-low // step), high // step
    if first > last:
        return low
    return max(first, min(last, rule(first, last, rng))) * step


def _lowest(low: int, high: int, rng: np.random.Generator) -> int:
    return low


def _prime(low: int, high: int, rng: np.random.Generator) -> int:
    """A prime of the range, or any number where it has none of the list."""
    inside = [prime for prime in PRIMES if low <= prime <= high]
    return inside[int(rng.integers(len(inside)))] if inside else _anywhere(low, high, rng)


def _odd(low: int, high: int, rng: np.random.Generator) -> int:
    """One more or less than a power of two: the last tile has a single element, or lacks one."""
    powers = [1 << bits for bits in range(2, 41) if low < (1 << bits) < high]
    if not powers:
        return _anywhere(low, high, rng)
    return powers[int(rng.integers(len(powers)))] + (1 if rng.integers(2) else -1)


def _anywhere(low: int, high: int, rng: np.random.Generator) -> int:
    """Evenly by size of number: small sizes are as likely as large ones."""
    return round(math.exp(rng.uniform(math.log(max(low, 1)), math.log(max(high, 1)))))


RULES: Sequence[Rule] = (_lowest, _prime, _odd, _anywhere)


def _has_elements(task: Task, dims: Mapping[str, int]) -> bool:
    try:
        return all(extents(one, dims) for one in (*task.inputs, *task.outputs) if one.shape)
    except ValueError:
        return False
