"""Values and sizes for judged calls, drawn from the task alone: ordinary ones, and those that shortcuts get wrong."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.formula import evaluate
from ridgeline.graph.task import DrawnSizes, DType, Input, Shape, Task, Tensor
from ridgeline.sandbox.judge.dtypes import SIGNIFICAND_BITS, STORAGE, Floats, Raw, from_float64, is_float, to_float64

LONGEST = 1 << 40
"""Elements along one axis; more is a mistake in a formula."""
DONORS = 64
"""Elements looked at for a value that differs."""
PRIMES = (2, 3, 5, 7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521)
"""Sizes that no tile divides, the largest prime below each power of two."""
TRIES = 20

Rule = Callable[[int, int, np.random.Generator], int]


def axis_lengths(tensor: Tensor, dims: Mapping[str, int]) -> tuple[int, ...]:
    """For the judge: lengths of the axes at one size. Raises ValueError (FormulaError is one) where one is no whole number above 0."""
    lengths = []
    for text in tensor.shape:
        length = evaluate(text, dims)
        if length != int(length) or not 0 < length <= LONGEST:
            raise ValueError(f"{tensor.name}: extent {text} is {length:g} for {dict(dims)}")
        lengths.append(int(length))
    return tuple(lengths)


def draw(
    task: Task, dims: Mapping[str, int], mix: str, rng: np.random.Generator, *, reach: float = 1.0
) -> dict[str, Raw]:
    """New inputs for judged calls in their storage types. A mix never leaves the domain that an input's `values` declares.

    `reach` is how far it goes: below 1, outliers are smaller and no row of a mask is empty; at 0, values are ordinary
    ones (`draw_with_truth` in correctness.py says when that is needed). Raises KeyError for a mix that is not one of `MIXES` or
    `PARTS`.
    """
    if mix not in (*MIXES, *PARTS):
        raise KeyError(mix)
    part, mix = mix.startswith(PARTIAL_PREFIX), mix.removeprefix(PARTIAL_PREFIX)
    shapes = {tensor.name: axis_lengths(tensor, dims) for tensor in task.inputs}
    chosen, lines = leading_input(task, shapes, rng), bool(rng.integers(2))
    inputs: dict[str, Raw] = {}
    for number, tensor in enumerate(task.inputs):
        values = usual = _ordinary(tensor, shapes[tensor.name], rng)
        if is_integer_like(tensor):
            index = is_index(task, tensor, dims)
            values = perturb_integers(tensor, values, mix, rng, mild=reach < 1, index=index) if reach else values
        elif mix != SPIKING:
            values = MIXED[mix](tensor, values, rng, tensor.name == chosen)
        elif reach and tensor.constness != "const":  # an outlier in what stays the same would be in every call
            values = add_spikes(tensor, values, rng, reach=reach, integer_output=_counts(task), few=part)
        if part and (is_integer_like(tensor) or mix != SPIKING):
            values = mix_part(usual, values, rng, lines=lines, is_leading=not number)
        values = scale_to_domain(tensor, values)
        inputs[tensor.name] = from_float64(values, tensor.dtype) if values.dtype == np.float64 else values
    return inputs


def is_index(task: Task, tensor: Input, dims: Mapping[str, int]) -> bool:
    """Whether a judged input's numbers may say places in another array of a task that has floats."""
    if (
        tensor.dtype not in INDEX_TYPES
        or tensor.low < 0
        or is_mask(tensor)
        or all(is_integer_like(array) for array in task.inputs)
    ):
        return False
    arrays = (array for array in (*task.inputs, *task.outputs) if array.name != tensor.name)
    return any(tensor.high <= length for array in arrays for length in axis_lengths(array, dims))


def scale_to_domain(tensor: Input, values: Raw | Floats) -> Raw | Floats:
    """For the judge: values of the usual range moved to the input's own, where it has one: what lies inside stays inside."""
    if tensor.within is None or is_integer_like(tensor):
        return values
    (low, high), (start, end) = tensor.within, (0.1, 1.0) if tensor.values == "positive" else (-1.0, 1.0)
    return np.clip(low + (values - start) * ((high - low) / (end - start)), low, high)


def declared_values(tensor: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Raw | Floats:
    """For the judge: values as the input declares them: floats in float64, whole numbers and masks in their storage type."""
    return scale_to_domain(tensor, _ordinary(tensor, shape, rng))


def _ordinary(tensor: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Raw | Floats:
    if is_mask(tensor):
        return rng.integers(0, 2, size=shape, dtype=np.uint8).astype(_draw_storage(tensor))
    if is_integer_like(tensor):
        return rng.integers(tensor.low, max(tensor.high, tensor.low + 1), size=shape).astype(_draw_storage(tensor))
    match tensor.values:
        case "uniform":
            return rng.uniform(-1.0, 1.0, size=shape)
        case "positive":
            return rng.uniform(0.1, 1.0, size=shape)
        case _:
            return rng.standard_normal(shape)


def to_storage(tensor: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Raw:
    """For the judge: values as the input declares them, in its storage type."""
    values = declared_values(tensor, shape, rng)
    return from_float64(values, tensor.dtype) if values.dtype == np.float64 else values


NEAR_CHANGES = 3
"""Elements of each input that are changed one at a time: a change can be too small to show in the outputs."""


def change_one_element(
    inputs: Mapping[str, Raw], tensor: Input, rng: np.random.Generator
) -> tuple[dict[str, Raw], tuple[int, ...]]:
    """For the judge: the inputs with one element of one of them changed, and where.

    It takes the value of another element, the most different of a few: what is legal there is legal here. Where all are
    alike, it takes another that could have been drawn, if there is one.
    """
    values = inputs[tensor.name].copy()
    place = tuple(int(rng.integers(length)) for length in values.shape)
    donors = values.reshape(-1)[rng.integers(0, values.size, size=DONORS)]
    numbers = to_float64(np.append(donors, values[place]), tensor.dtype)
    distances = np.nan_to_num(np.abs(numbers[:-1] - numbers[-1]), nan=0.0)
    if distances.max() > 0:
        values[place] = donors[int(np.argmax(distances))]
    elif not is_integer_like(tensor):
        values[place] = _different_value(values[place], tensor)[0]
    else:
        fresh_values = to_storage(tensor, (DONORS,), rng)
        values[place] = fresh_values[int(np.argmax(fresh_values != values[place]))]
    return {**inputs, tensor.name: values}, place


def draw_sizes(task: Task, rng: np.random.Generator) -> tuple[Shape, ...]:
    """For the judge: sizes that no candidate has seen: the smallest, primes, odd ones, then any; others of a public size's numbers.

    The last has its constant inputs' extents from one of them or a public one, where they do not make up the size: they have other
    values, which what was packed for the other's does not fit. Fewer than asked for where the ranges hold fewer.
    """
    if not task.drawn.ranges:
        return ()
    used_sizes = {tuple(sorted(shape.dims.items())) for shape in task.shapes}
    shapes: list[Shape] = []
    for number in range(task.drawn.count):
        for attempt in range(TRIES):
            dims = _dims(task, RULES[min(number, len(RULES) - 1)] if attempt == 0 else _log_uniform, rng)
            if number and number == task.drawn.count - 1:
                others = shapes if shapes and rng.integers(2) else task.shapes
                dims = _with_constants_of(task, others[int(rng.integers(len(others)))].dims, dims)
            key = tuple(sorted(dims.items()))
            if key not in used_sizes and _has_elements(task, dims):
                used_sizes.add(key)
                shapes.append(Shape(label=f"drawn-{len(shapes) + 1}", dims=dims, config_class="drawn", timed=False))
                break
    return tuple(shapes)


def _with_constants_of(task: Task, other: Mapping[str, int], dims: dict[str, int]) -> dict[str, int]:
    """For the judge: a drawn size with the numbers of another that its constant inputs' extents hang on; itself where all do."""
    const = [tensor for tensor in task.inputs if tensor.constness == "const"]
    try:
        extents = [axis_lengths(tensor, other) for tensor in const]
        free = {
            name: size
            for name, size in dims.items()
            if [axis_lengths(tensor, {**other, name: size}) for tensor in const] == extents
        }
    except ValueError:  # extents that are no whole numbers
        return dims
    return {**other, **free} if const and {**other, **free} != other else dims


def _draw_storage(tensor: Input) -> np.dtype[np.generic]:
    """For the judge: masks and whole numbers of a float input are made in float64 and rounded with the rest."""
    return np.dtype(np.float64) if is_float(tensor.dtype) else STORAGE[tensor.dtype]


def _different_value(value: np.generic, tensor: Input) -> Raw:
    """For the judge: another value of an input where all are equal: half of a number, 1 for zero, one less of a positive integer."""
    array = np.array([value])
    if is_float(tensor.dtype):
        numbers = to_float64(array, tensor.dtype)
        return from_float64(np.where(numbers == 0, 1.0, numbers / 2), tensor.dtype)
    return np.where(array > 0, array - 1, array + 1).astype(array.dtype)


def _counts(task: Task) -> bool:
    return any(not is_float(tensor.dtype) for tensor in task.outputs)


def _dims(task: Task, rule: Rule, rng: np.random.Generator) -> dict[str, int]:
    base = task.shapes[int(rng.integers(len(task.shapes)))].dims
    return {**base, **{name: _length(task.drawn, name, rule, rng) for name in task.drawn.ranges}}


def _length(size_rules: DrawnSizes, name: str, rule: Rule, rng: np.random.Generator) -> int:
    """For the judge: one dimension of a drawn size by the rule, moved to a multiple where one is asked for; the low end where none fits."""
    low, high = size_rules.ranges[name]
    step = size_rules.multiples.get(name, 1)
    low_step, high_step = -(-low // step), high // step
    if low_step > high_step:
        return low
    return max(low_step, min(high_step, rule(low_step, high_step, rng))) * step


def _low_end(low: int, high: int, rng: np.random.Generator) -> int:
    return low


def _prime(low: int, high: int, rng: np.random.Generator) -> int:
    """For the judge: a prime of the range for a drawn size, or any number where it has none of the list."""
    inside = [prime for prime in PRIMES if low <= prime <= high]
    return inside[int(rng.integers(len(inside)))] if inside else _log_uniform(low, high, rng)


def _off_power_of_two(low: int, high: int, rng: np.random.Generator) -> int:
    """For the judge: a drawn size one more or less than a power of two: the last tile has a single element, or lacks one."""
    powers = [1 << bits for bits in range(2, 41) if low < (1 << bits) < high]
    if not powers:
        return _log_uniform(low, high, rng)
    return powers[int(rng.integers(len(powers)))] + (1 if rng.integers(2) else -1)


def _log_uniform(low: int, high: int, rng: np.random.Generator) -> int:
    """For the judge: a drawn size, evenly by size of number: small sizes are as likely as large ones."""
    return round(math.exp(rng.uniform(math.log(max(low, 1)), math.log(max(high, 1)))))


RULES: Sequence[Rule] = (_low_end, _prime, _off_power_of_two, _log_uniform)


def _has_elements(task: Task, dims: Mapping[str, int]) -> bool:
    try:
        return all(axis_lengths(tensor, dims) for tensor in (*task.inputs, *task.outputs) if tensor.shape)
    except ValueError:
        return False


# Kinds of values, each made to show a class of shortcuts: it bends ordinary values of one input.

Mix = Callable[[Input, Floats, np.random.Generator, bool], Floats]
"""Of an input, its ordinary values, and whether it is the one chosen input; the result is in the same domain."""
WIDE = (-4.0, 8.0)
"""Powers of two between rows. Not lower: formulas like exp(x) - 1 lose digits there that no reordering would."""
WIDE_NARROW: Mapping[DType, tuple[float, float]] = dict.fromkeys(
    ("float16", "float8_e4m3fn", "float8_e5m2"), (-4.0, 4.0)
)
"""For types whose largest number is small: 65504, 448, 57344."""
OFFSET = 100.0
SHIFT = 80.0
TAIL = 16
"""The last one of so many parts of a row carries the weight."""
SMALL = 2.0**-10
SPECIAL = 0.25
"""Share of rows or matrices of a batch that have a structure."""
MOST_SPECIAL = 4096
"""They are made one by one."""
SPIKE: Mapping[DType, tuple[float, float]] = {
    "float16": (4.0, 11.0),
    "float8_e4m3fn": (4.0, 8.0),
    "float8_e5m2": (4.0, 11.0),
}
SPIKE_WIDE = (6.0, 26.0)
"""Powers of two of lone outliers: beyond what exp() takes, int16 holds, and 2^23 where float32 has no halves left."""
SPIKE_WHOLE = 10.0
"""The largest where an output is a whole number: what does not fit its type is nobody's fault."""
SPIKED = 0.5
"""Share of rows with outliers."""
SPIKE_EVERY = 256
"""One of so many elements of a single row is an outlier, at least one and at most MOST_SPIKES."""
MOST_SPIKES = 1024
OUTLIERS_IN_ALL = 5
"""Outliers of a call that is ordinary but for them, at most: each from another part of their range. With fewer of them,
a look at half of the call is likelier to meet none."""
QUIET = 2.0**-6
"""What is around an outlier that may not be more than 1."""


def leading_input(task: Task, shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> str:
    """The judged input that offsets go to: the largest of those that may take any value, by chance among equals; or none.

    One alone: a product of two offsets overflows half precision and shows nothing.
    """
    free = {
        tensor.name: math.prod(shapes[tensor.name])
        for tensor in task.inputs
        if is_float(tensor.dtype) and tensor.values == "normal"
    }
    most = [name for name, size in free.items() if size == max(free.values())]
    return most[int(rng.integers(len(most)))] if most else ""


def _normal(tensor: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    return values


def _wide(tensor: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """For the judge: inputs with each row at a scale of its own; each element where there is one row."""
    low, high = WIDE_NARROW.get(tensor.dtype, WIDE)
    shape = (*values.shape[:-1], 1) if values.ndim > 1 else values.shape
    powers = rng.uniform(low, high, size=shape)
    if tensor.values == "normal":
        return values * np.exp2(powers)
    if tensor.values == "uniform":
        return values * np.exp2(-np.abs(powers))
    return np.clip(values, 0.1, np.exp2(rng.uniform(np.log2(0.1), 0.0, size=shape)))


def _offset(tensor: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """For the judge: inputs with mean 100 and deviation 1: squares of the mean drown a variance."""
    return values + OFFSET if chosen else values


def _shift(tensor: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """For the judge: rows far up or far down: exp() of them is no number unless the row's maximum is taken off first."""
    if not chosen:
        return values
    shape = (*values.shape[:-1], 1) if values.ndim > 1 else (1,) * values.ndim
    return values + SHIFT * rng.choice((-1.0, 1.0), size=shape)


def _tail(tensor: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """For the judge: inputs whose last sixteenth of each row has the large values."""
    if not values.ndim:
        return values
    length = values.shape[-1]
    start = length - max(1, length // TAIL)
    perturbed = values.copy()
    if tensor.values == "positive":
        perturbed[..., :start] = 0.1 + (values[..., :start] - 0.1) / TAIL
        return perturbed
    perturbed[..., :start] /= TAIL
    return perturbed if tensor.values == "uniform" else perturbed * 4.0


def _long_tail(tensor: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """For the judge: inputs of which one element stands out, the others together weigh as much after exp()."""
    if not chosen or not values.ndim:
        return values
    length = values.shape[-1]
    perturbed = values * 0.5
    peaks = rng.integers(0, length, size=(*values.shape[:-1], 1))
    np.put_along_axis(perturbed, peaks, np.log(length) + 0.125, axis=-1)
    return perturbed


def _cancel(tensor: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """For the judge: inputs with pairs of x and -x in any order, and a small signal that is all that is left of a sum."""
    if tensor.values == "positive" or not values.ndim:
        return values
    half = values.shape[-1] // 2
    order = rng.permutation(values.shape[-1])
    signal = SMALL * rng.standard_normal(values.shape)
    perturbed = values.copy()
    perturbed[..., order[half : 2 * half]] = -perturbed[..., order[:half]]
    perturbed[..., order[2 * half :]] = 0.0
    return np.clip(perturbed + signal, -1.0, 1.0) if tensor.values == "uniform" else perturbed + signal


def _structure(tensor: Input, values: Floats, rng: np.random.Generator, chosen: bool) -> Floats:
    """For the judge: inputs of which some rows, or matrices of a batch, are special, at secret places among ordinary ones."""
    if values.ndim < 2:
        return _special_row(tensor, values, rng) if values.ndim and rng.random() < SPECIAL else values
    perturbed = values.copy()
    if values.ndim == 2:
        for place in _places(values.shape[0], rng):
            perturbed[place] = (
                perturbed[rng.integers(len(perturbed))]
                if rng.random() < SPECIAL
                else _special_row(tensor, perturbed[place], rng)
            )
        return perturbed
    items = perturbed.reshape(-1, *values.shape[-2:])
    for place in _places(len(items), rng):
        items[place] = _special_matrix(tensor, items, place, rng)
    return items.reshape(values.shape)


def add_spikes(
    tensor: Input, values: Floats, rng: np.random.Generator, *, reach: float, integer_output: bool, few: bool = False
) -> Floats:
    """For the judge: inputs with lone outliers at secret places, some rows without. `reach` 1: all of their range; less ends earlier.

    `integer_output`: an output of the task is a whole number. `few`: there are one to five in all, among ordinary values.
    """
    if not values.size or tensor.values == "positive":
        return values
    perturbed = values * QUIET if tensor.values == "uniform" and not few else values.copy()
    flat = perturbed.reshape(-1, values.shape[-1] if values.ndim else 1)
    low, high = SPIKE.get(tensor.dtype, SPIKE_WIDE)
    high = min(high, SPIKE_WHOLE) * reach if integer_output else high * reach
    number = int(rng.integers(1, OUTLIERS_IN_ALL + 1))
    rows, columns = (rng.integers(size, size=number) for size in flat.shape) if few else _outliers(flat.shape, rng)
    quantiles = rng.random(len(rows))
    if few:
        quantiles = (quantiles + rng.permutation(OUTLIERS_IN_ALL)[:number]) / OUTLIERS_IN_ALL
    low = min(low, high / 2)
    powers = low + (high - low) * quantiles if tensor.values == "normal" else np.zeros(len(rows))
    flat[rows, columns] = rng.choice((-1.0, 1.0), size=len(rows)) * np.exp2(powers)
    return flat.reshape(values.shape)


def _outliers(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For the judge: inputs with outlying rows and columns: one to three in half of many rows, more in a single one."""
    count, length = shape
    if count == 1:
        number = min(max(1, length // SPIKE_EVERY), MOST_SPIKES)
        return np.zeros(number, np.intp), rng.integers(length, size=number)
    picked = rng.permutation(count)[: max(1, round(count * SPIKED))]
    rows = np.repeat(picked, rng.integers(1, 4, size=len(picked)))
    return rows, rng.integers(length, size=len(rows))


def _places(count: int, rng: np.random.Generator) -> list[int]:
    return [int(place) for place in rng.permutation(count)[: min(max(1, round(count * SPECIAL)), MOST_SPECIAL)]]


def _special_row(tensor: Input, row: Floats, rng: np.random.Generator) -> Floats:
    """For the judge: a row that is constant, zero where the domain allows it, or mostly zero.

    A constant of four bits adds up exactly: the sum of a longer one drifts by a whole unit at every step of a plain
    loop, which is no fault of the loop.
    """
    fraction, power = np.frexp(row.flat[int(rng.integers(row.size))])
    constant = np.full_like(row, np.ldexp(np.ceil(fraction * 16) / 16, power))
    if tensor.values == "positive":
        return constant
    sparse = np.where(rng.random(row.shape) < SPECIAL, row, 0.0)
    return (constant, np.zeros_like(row), sparse)[int(rng.integers(3))]


def _special_matrix(tensor: Input, items: Floats, place: int, rng: np.random.Generator) -> Floats:
    matrix = items[place]
    rank_one: Floats = matrix[:, :1] * matrix[:1, :]
    if tensor.values == "positive":
        return (items[rng.integers(len(items))], np.clip(rank_one, 0.1, 1.0))[int(rng.integers(2))]
    diagonal = matrix * np.eye(*matrix.shape)
    near_diagonal = diagonal + SMALL * matrix
    choices = (np.zeros_like(matrix), items[rng.integers(len(items))], rank_one, diagonal, near_diagonal)
    replacement: Floats = choices[int(rng.integers(len(choices)))].copy()
    return replacement


MIXED: Mapping[str, Mix] = {
    "normal": _normal,
    "wide": _wide,
    "offset": _offset,
    "shift": _shift,
    "tail": _tail,
    "long_tail": _long_tail,
    "cancel": _cancel,
    "structure": _structure,
}
SPIKING = "spike"
MIXES = (*MIXED, SPIKING)
"""The first is the declared distribution itself."""
PARTIAL_PREFIX = "partly "
"""Before the name of a mix: it bends one line, or the far part of each row, of otherwise ordinary values. What looks at
a sample of a call, or at how its rows begin, before it takes a shortcut, is not warned."""
PARTS = tuple(f"{PARTIAL_PREFIX}{mix}" for mix in (SPIKING, "shift", "offset"))
"""Not of milder ones: a plain loop that adds a thousand small numbers to one that is 2^23 times as large is honest."""
ALONG = 0.85
"""Share of lines of the first input that are rows: a result mostly sums over those. Of other inputs any line."""
NEAR_EDGE = 8
"""Elements from which on the far part of a row begins at the earliest, where there are so many."""


def mix_part(
    values: Raw | Floats, perturbed: Raw | Floats, rng: np.random.Generator, *, lines: bool, is_leading: bool
) -> Raw:
    """For the judge: inputs with ordinary values and a part of the perturbed: one line, or what lies behind a secret place of each row."""
    if not values.ndim:
        return perturbed
    length = values.shape[-1]
    place: tuple[int | slice, ...]
    if lines and values.ndim > 1:
        along = values.ndim - 1 if is_leading and rng.random() < ALONG else int(rng.integers(values.ndim))
        place = tuple(slice(None) if at == along else int(rng.integers(size)) for at, size in enumerate(values.shape))
    else:
        start = (
            min(NEAR_EDGE, length - 1) * (length / NEAR_EDGE) ** rng.random()
            if length > NEAR_EDGE
            else rng.integers(length)
        )
        place = (*(slice(None) for _ in values.shape[1:]), slice(int(start), None))
    blend = values.copy()
    blend[place] = perturbed[place]
    return blend


# Whole numbers and masks of each mix: any value of [low, high) is legal at any place, so shortcuts meet all of them.
#
# Index-like numbers stay legal too, but how often one is named decides how long a sum of an honest kernel is; see CAP.

Rows = NDArray[np.int64]
"""Two dimensions: the last axis of an input, and all others."""
IntegerMix = Callable[[Rows, "IntegerSpan", np.random.Generator], Rows]
INTEGER_CAP = 4096
"""Elements of an index that are bent in a task that has floats: of more, all naming one place, the sum of a plain loop
in float32 is off by more than the judge can tell from a mistake."""
INDEX_TYPES = ("int32", "int64")
ORDINARY_SHARE = 1 / 32
"""Share of elements left as they were where all others are at one end."""
TIED_VALUES = 3
"""Different values in a row of ties."""
LONE_EVERY = 64
"""One of so many elements of a row stands out; at least one."""


class IntegerSpan:
    """The smallest and the largest legal value, and whether a row of a mask may be empty."""

    def __init__(self, tensor: Input, *, empty: bool) -> None:
        self.mask = is_mask(tensor)
        self.low = 0 if self.mask else tensor.low
        self.largest = 1 if self.mask else max(tensor.high - 1, tensor.low)
        self.empty = empty


def is_mask(tensor: Input) -> bool:
    """For the judge: whether an input's elements are 0 and 1."""
    return tensor.dtype == "bool" or tensor.values == "mask"


def is_integer_like(tensor: Input) -> bool:
    """Whether a judged input is no measured number: a mask, a count, a code or an index."""
    return is_mask(tensor) or tensor.values == "integers" or not is_float(tensor.dtype)


def perturb_integers(
    tensor: Input, values: Raw | Floats, mix: str, rng: np.random.Generator, *, mild: bool, index: bool = False
) -> Raw:
    """The values of one judged input of whole numbers, as `mix` has them, in the type they came in.

    `mild` leaves no row of a mask empty, where the operator has no number for one. Constant inputs are always mild:
    their values stay for a process. `index`: they say places in an array of floats, and few are bent.
    """
    if mix not in INTEGER_MIXES or not values.size:
        return values
    rows = values.astype(np.int64).reshape(-1, values.shape[-1] if values.ndim else 1)
    span = IntegerSpan(tensor, empty=not mild and tensor.constness != "const")
    perturbed = INTEGER_MIXES[mix](rows, span, rng)
    if span.mask and not span.empty:
        perturbed = _fill_empty_rows(perturbed, rng)
    if index and perturbed.size > INTEGER_CAP:
        perturbed = _cap(rows, perturbed, rng)
    return perturbed.reshape(values.shape).astype(values.dtype)


def _cap(rows: Rows, perturbed: Rows, rng: np.random.Generator) -> Rows:
    start = int(rng.integers(rows.size - INTEGER_CAP))
    limited = rows.reshape(-1).copy()
    limited[start : start + INTEGER_CAP] = perturbed.reshape(-1)[start : start + INTEGER_CAP]
    return limited.reshape(rows.shape)


def _fill_empty_rows(rows: Rows, rng: np.random.Generator) -> Rows:
    """For the judge: one element set in each row of a mask that has none."""
    empty = np.flatnonzero(~rows.any(axis=1))
    filled = rows.copy()
    filled[empty, rng.integers(rows.shape[1], size=len(empty))] = 1
    return filled


def _narrow_rows(rows: Rows, span: IntegerSpan, rng: np.random.Generator) -> Rows:
    """For the judge: an input with each row in a narrow range: at one end, around zero, anywhere. A mask: rows of all densities."""
    count, length = rows.shape
    if span.mask:
        return (rng.random(rows.shape) < np.exp2(-rng.uniform(0, np.log2(length) + 1, size=(count, 1)))).astype(
            np.int64
        )
    bits = min(float(np.log2(float(span.largest - span.low + 1))), 62.0)
    width = np.exp2(rng.uniform(0, bits, size=count)).astype(np.int64)
    zero = min(max(0, span.low), span.largest)
    anywhere = rng.integers(span.low, span.largest + 1, size=count)
    centres = np.choose(
        rng.integers(4, size=count),
        [np.full(count, span.low), np.full(count, span.largest), np.full(count, zero), anywhere],
    )
    start = np.clip(centres - width // 2, span.low, np.maximum(span.largest - width + 1, span.low))
    numbers: Rows = start[:, None] + np.floor(rng.random(rows.shape) * width[:, None]).astype(np.int64)
    return np.minimum(numbers, span.largest)


def _at_high_end(rows: Rows, span: IntegerSpan, rng: np.random.Generator) -> Rows:
    """For the judge: an input nearly all at the high end: what adds them up in too few bits overflows."""
    return np.where(rng.random(rows.shape) < ORDINARY_SHARE, rows, span.largest)


def _rows_at_ends(rows: Rows, span: IntegerSpan, rng: np.random.Generator) -> Rows:
    """For the judge: each row at one end as a whole: overflow to either side, ties everywhere, masks without and with everything."""
    ends = rng.choice((span.low, span.largest), size=(len(rows), 1))
    if len(rows) > 1:
        ends[rng.permutation(len(rows))[:2], 0] = span.low, span.largest
    return np.broadcast_to(ends, rows.shape).copy()


def _sorted_rows(rows: Rows, span: IntegerSpan, rng: np.random.Generator) -> Rows:
    """For the judge: each row up or down. A mask: a run at one side, of any length."""
    count, length = rows.shape
    monotone = np.sort(rows, axis=1)
    if span.mask:
        monotone = (np.arange(length) >= length - rng.integers(1, length + 1, size=(count, 1))).astype(np.int64)
    turned = rng.integers(0, 2, size=(count, 1)) == 1
    return np.where(turned, monotone[:, ::-1], monotone)


def _one_hot_value(rows: Rows, span: IntegerSpan, rng: np.random.Generator) -> Rows:
    """For the judge: an input of which nearly all of a row is one value. A mask: all but one element, or only one."""
    count, length = rows.shape
    if span.mask:
        flags = np.broadcast_to(rng.integers(0, 2, size=(count, 1)), rows.shape).copy()
        places = rng.integers(length, size=count)
        flags[np.arange(count), places] = 1 - flags[:, 0]
        return flags
    hot = rng.integers(span.low, span.largest + 1, size=(count, 1))
    return np.where(rng.random(rows.shape) < 1 / LONE_EVERY, rows, hot)


def _alternate_ends(rows: Rows, span: IntegerSpan, rng: np.random.Generator) -> Rows:
    """For the judge: an input from end to end at every element, or in two or four long runs."""
    count, length = rows.shape
    run = rng.choice((1, max(1, length // 4), max(1, length // 2)), size=(count, 1))
    turn = (np.arange(length) // run + rng.integers(0, 2, size=(count, 1))) % 2
    return np.where(turn == 1, span.largest, span.low)


def _tied_rows(rows: Rows, span: IntegerSpan, rng: np.random.Generator) -> Rows:
    """For the judge: half of the rows hold few different values, some hold one, and some repeat another row."""
    count = len(rows)
    values = rng.integers(span.low, span.largest + 1, size=(count, TIED_VALUES))
    few = np.take_along_axis(values, rng.integers(TIED_VALUES, size=rows.shape), axis=1)
    single = np.broadcast_to(values[:, :1], rows.shape)
    kind = rng.integers(0, 6, size=(count, 1)) if count > 1 else np.zeros((1, 1), np.int64)
    mixture: Rows = np.where(
        kind < 3, few, np.where(kind == 3, single, np.where(kind == 4, rows[rng.integers(count)], rows))
    )
    return mixture


def _lone_extremes(rows: Rows, span: IntegerSpan, rng: np.random.Generator) -> Rows:
    """For the judge: a few elements at the ends, the others near zero or the end that is nearest to it. A mask: sparse."""
    count, length = rows.shape
    center = min(max(0, span.low), span.largest)
    width = max(1, (span.largest - span.low) // LONE_EVERY)
    start = min(max(center - width // 2, span.low), max(span.largest - width + 1, span.low))
    values = start + rng.integers(0, width, size=rows.shape)
    for _ in range(max(1, length // (8 * LONE_EVERY))):
        values[np.arange(count), rng.integers(length, size=count)] = rng.choice((span.low, span.largest), size=count)
    return values


INTEGER_MIXES: Mapping[str, IntegerMix] = {
    "wide": _narrow_rows,
    "offset": _at_high_end,
    "shift": _rows_at_ends,
    "tail": _sorted_rows,
    "long_tail": _one_hot_value,
    "cancel": _alternate_ends,
    "structure": _tied_rows,
    "spike": _lone_extremes,
}


# Inputs whose results are exact in any order of right arithmetic, so that nothing but equality is accepted.
#
# Whether they are exact for an operator is not assumed: `numerics.compare_exact` looks at the oracle and the trusted
# program, and judges with the usual bounds where they are not.

RICH_BITS = 13
"""More than the 11 of TF32 and float16, few enough that 2048 such numbers add up below 2**24."""
RICH_TERMS = 1024
STEPS_PER_UNIT = 2.0**17
SMALLEST_INTEGERS = 8
"""0 to 7: 4096 products add up beyond what a float16 sum holds exactly, and far below 2**24."""


@dataclass(frozen=True, kw_only=True)
class ExactProbe:
    """One set of inputs in storage types; `exact` asks for `compare_exact`."""

    name: str
    inputs: dict[str, Raw]
    exact: bool


def make_probes(task: Task, dims: Mapping[str, int], rng: np.random.Generator) -> tuple[ExactProbe, ...]:
    """For the judge: all probes of one size: selections by each matrix, small whole numbers, and numbers that need every bit."""
    shapes = {tensor.name: axis_lengths(tensor, dims) for tensor in task.inputs}
    free = [tensor for tensor in task.inputs if not is_integer_like(tensor)]
    probes = list(_selections(task, free, shapes, rng))
    if free:
        small = {tensor.name: _small_integers(tensor, shapes[tensor.name], rng) for tensor in free}
        probes.append(_make_probe(task, "small integers", small, shapes, rng, exact=task.precision != "relaxed"))
    for tensor in free if task.precision != "tf32" else ():
        rich = {operand.name: _powers_of_two(operand, shapes[operand.name], rng) for operand in free}
        rich[tensor.name] = _full_precision(tensor, shapes[tensor.name], rng)
        exact = task.precision != "relaxed"
        probes.append(_make_probe(task, f"many bits in {tensor.name}", rich, shapes, rng, exact=exact))
    return tuple(probes)


def _selections(
    task: Task, free: list[Input], shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator
) -> Iterator[ExactProbe]:
    """For the judge: probe inputs of which one matrix picks rows or columns; the others keep all their bits, which the result must show."""
    exact = task.precision == "strict"
    for tensor in free:
        shape = shapes[tensor.name]
        if len(shape) < 2 or tensor.values == "positive":
            continue
        rows = {tensor.name: _one_hot_rows(shape, rng)}
        yield _make_probe(task, f"one-hot rows of {tensor.name}", rows, shapes, rng, exact=exact)
        if shape[-1] != shape[-2]:
            columns = {tensor.name: np.swapaxes(_one_hot_rows((*shape[:-2], shape[-1], shape[-2]), rng), -1, -2)}
            yield _make_probe(task, f"one-hot columns of {tensor.name}", columns, shapes, rng, exact=exact)


def _make_probe(
    task: Task,
    name: str,
    fixed_values: Mapping[str, Floats],
    shapes: Mapping[str, tuple[int, ...]],
    rng: np.random.Generator,
    *,
    exact: bool,
) -> ExactProbe:
    inputs: dict[str, Raw] = {}
    for tensor in task.inputs:
        values = (
            scale_to_domain(tensor, fixed_values[tensor.name])
            if tensor.name in fixed_values
            else declared_values(tensor, shapes[tensor.name], rng)
        )
        if tensor.name not in fixed_values and not is_integer_like(tensor) and tensor.within is None:
            values = _fraction_steps(values)
        inputs[tensor.name] = from_float64(values, tensor.dtype) if values.dtype == np.float64 else values
    return ExactProbe(name=name, inputs=inputs, exact=exact)


def _fraction_steps(values: Raw | Floats) -> Raw | Floats:
    """For the judge: floats as multiples of 2^-17 below 4: up to 19 bits, and many of them add up exactly in float32, in any order.

    A selection by a small kernel, such as a convolution's, adds a few picked numbers.
    """
    if values.dtype != np.float64:
        return values
    return np.clip(np.round(values * STEPS_PER_UNIT) / STEPS_PER_UNIT, -4 + 1 / STEPS_PER_UNIT, 4 - 1 / STEPS_PER_UNIT)


def _one_hot_rows(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """For the judge: one 1 in each row, every column as often as any other: a permutation where the matrix is square."""
    rows, columns = shape[-2:]
    selection = np.zeros(shape)
    for matrix in selection.reshape(-1, rows, columns):
        turns = np.concatenate([rng.permutation(columns) for _ in range(-(-rows // columns))])
        matrix[np.arange(rows), turns[:rows]] = 1.0
    return selection


def _small_integers(tensor: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """For the judge: probe inputs 0 to 7; in eighths, which are exact too, where the domain ends at 1, and from 1/8 where it excludes 0."""
    low = 1 if tensor.values == "positive" else 0
    integers = rng.integers(low, SMALLEST_INTEGERS, size=shape).astype(np.float64)
    return integers if tensor.values == "normal" else integers / SMALLEST_INTEGERS


def _full_precision(tensor: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """For the judge: probe inputs of odd numbers of as many bits as fit, few enough in each row that their sum is exact."""
    bits = min(SIGNIFICAND_BITS[tensor.dtype], RICH_BITS)
    odd = rng.integers(1 << (bits - 2), 1 << (bits - 1), size=shape) * 2.0 + 1.0
    if tensor.values == "positive":
        return odd / (1 << bits)
    signed = odd * rng.choice((-1.0, 1.0), size=shape)
    nonzero = rng.random(shape) < RICH_TERMS / max(shape[-1] if shape else 1, RICH_TERMS)
    return np.where(nonzero, signed, 0.0) / (1 if tensor.values == "normal" else 1 << bits)


def _powers_of_two(tensor: Input, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """For the judge: probe inputs 1 and 0; a half and 1 where the domain excludes 0."""
    picked = rng.integers(0, 2, size=shape).astype(np.float64)
    return (picked + 1) / 2 if tensor.values == "positive" else picked
