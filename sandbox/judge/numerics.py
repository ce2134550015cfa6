"""Are these numbers right? Held against a float64 oracle, in units of what an honest program of that type may err."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import DType, Input, Precision, Task
from ridgeline.sandbox.judge.dtypes import (
    FLOAT8,
    LARGEST,
    SMALLEST,
    STORAGE,
    Floats,
    Raw,
    from_float64,
    is_float,
    same_bytes,
    to_float32,
    to_float64,
    unit,
)
from ridgeline.sandbox.judge.inputs import change_one_element, to_storage

# How far a right answer may be from the exact one: limits by type, and an unknown operator's own sensitivity.
#
# Nothing is known of the operator but its oracle, so its conditioning is measured: every input moves by one unit in its
# last place, and whatever that does to an output, rounding in a right program may do too.

Oracle = Callable[[Mapping[str, Raw]], Mapping[str, Floats]]
"""Outputs by name, in float64, of inputs in their storage types."""
MOVE_COUNT = 4
"""Moves whose effects are averaged; outputs of one dimension have no neighbours to pool with and take twice as many."""
CAREFUL_MOVE_COUNT = 16
"""The same before anything is refused that `is_close`: of a hundred million elements some are hardly moved by four moves by chance,
and an honest program's rounding of those would be held against it."""
CLOSE = 8.0
"""Times what is allowed: what is further off than that is no chance of few moves."""
SERIAL_MOVES = 8.0
"""A plain loop over n numbers errs by 0.4 sqrt(n) of these moves (random walk of partial sums). The limit of float32,
16 times sqrt(n) / SERIAL_MOVES, leaves five times that. A loop over terms of one sign may err by more: see
`LOOP_ALLOWANCE`."""
LOOP_ALLOWANCE = 1.5
"""Times what the worst plain loop over terms of one sign errs by, which is tried on these inputs."""
BF16_SPLIT_ERROR = 2.0**-20
"""float32 from two bfloat16 terms each keeps 16 bits of a factor; times c2 = 32 that is twice its largest error."""
RELAXED_ERROR = 2.0**-14
"""Strassen's products and a variance from one pass err by hundreds of roundings and more. With its factor it is as much as
products in TF32 may err, so those pass too; products in bfloat16 do not."""
DRIFT_PER_TERM = 0.25
"""Equal numbers added one by one err by up to this times n of these moves: every step rounds the same way."""
EQUAL_PARTS = 8
"""One part of so many of a row that is equal makes sums of it drift."""
ROWS_SAMPLED = 64
"""Looked at for that."""
INTERMEDIATE_ERROR = 0.8
"""Half precision: one result inside the operator may be rounded to the type, as the weights of attention are before
their product with the values. That errs by 0.58 of a unit round-off; an fp8 factor by 9."""
LARGEST_MOVES = {"bfloat16": 3}
LARGEST_MOVE = 31
"""Units in the last place. Moves of one size would cancel exactly in differences, and show no noise where there is."""
PERTURBED_PAIRS = 8
"""Moves there and back that show which whole numbers hang on rounding: one of the two goes over a tie that is near."""
HASH_RANGE = 1 << 16
HASH_MULTIPLIER = 0x9E3779B97F4A7C15


@dataclass(frozen=True, kw_only=True)
class ErrorLimit:
    """One row of the table of thresholds."""

    l2: float
    """Times the trusted program's relative L2 error, or half a unit round-off, whichever is more."""
    peak: float
    """Times its largest error, or one unit round-off."""
    accumulate: float
    """Unit round-off of sums."""
    product: float
    """Relative error of one factor that the type's policy allows besides."""


@dataclass(frozen=True, kw_only=True)
class RoundingNoise:
    """What rounding does to one output."""

    spread: Floats
    """Change of each element, divided by the relative change of the inputs that made it."""
    terms: float
    """How many input elements one output element depends on, of the input it depends on most; more where sums of so
    many drift."""


@dataclass(frozen=True, kw_only=True)
class IntegerRange:
    """The whole numbers that one output may have: from the lowest to the highest, both included."""

    low: Floats
    high: Floats


def error_limit(dtype: DType, precision: Precision) -> ErrorLimit:
    """For the judge: factors for a float output of this type. `precision` matters for float32 only."""
    if dtype == "float16":
        return ErrorLimit(l2=2, peak=4, accumulate=unit("float32"), product=INTERMEDIATE_ERROR / 2 * unit(dtype))
    if dtype == "bfloat16":
        return ErrorLimit(l2=1.5, peak=3, accumulate=unit("float32"), product=INTERMEDIATE_ERROR / 1.5 * unit(dtype))
    if dtype in FLOAT8:  # of a result as a whole; `compare` looks at each element
        return ErrorLimit(l2=1, peak=1, accumulate=unit("float32"), product=0.0)
    if dtype == "float64":
        return ErrorLimit(l2=16, peak=16, accumulate=unit("float64"), product=0.0)
    match precision:
        case "strict":
            return ErrorLimit(l2=16, peak=16, accumulate=unit("float32"), product=0.0)
        case "tf32":
            # of a hundred million elements with errors of a normal distribution one is 5.7 times the usual off
            return ErrorLimit(l2=3, peak=6, accumulate=unit("float32"), product=2.0**-11)
        case "relaxed":
            return ErrorLimit(l2=24, peak=64, accumulate=unit("float32"), product=RELAXED_ERROR)
        case "emulated":
            return ErrorLimit(l2=32, peak=32, accumulate=unit("float32"), product=BF16_SPLIT_ERROR)


def measure_rounding_noise(
    task: Task,
    inputs: Mapping[str, Raw],
    oracle: Oracle,
    rng: np.random.Generator,
    *,
    exact: Mapping[str, Floats],
    moves: int = MOVE_COUNT,
) -> dict[str, RoundingNoise]:
    """For the judge: sensitivity of every output at these inputs; asks the oracle some 6 to 15 times. `exact` is its answer here.

    `moves`: of all inputs; an output of one dimension takes twice as many.
    """
    flat = all(values.ndim < 2 for values in exact.values())
    count = 2 * moves if flat else moves
    total = {name: np.zeros(values.shape) for name, values in exact.items()}
    for _ in range(count):
        perturbed, relative = _perturb(task, inputs, rng)
        for name, values in oracle(perturbed).items():
            with np.errstate(invalid="ignore", over="ignore"):
                change = (values - exact[name]) / relative
                total[name] += np.square(np.where(np.isfinite(change), change, 0.0))
    terms = _count_terms(task, inputs, oracle, rng)
    drifts = any(_has_equal_runs(inputs[tensor.name], rng) for tensor in task.inputs if is_continuous(tensor))
    floats = {
        tensor.name: to_float32(inputs[tensor.name], tensor.dtype) for tensor in task.inputs if is_continuous(tensor)
    }
    sums = {
        term_count: worst_loop_error(floats, term_count, rng) * LOOP_ALLOWANCE * SERIAL_MOVES / 16
        for term_count in set(terms.values())
    }
    return {
        name: RoundingNoise(
            spread=np.sqrt(_pool_neighbours(squares / count)),
            terms=max(terms[name], sums[terms[name]] ** 2, (terms[name] * DRIFT_PER_TERM) ** 2 if drifts else 0.0),
        )
        for name, squares in total.items()
    }


def measure_integer_ranges(
    task: Task, inputs: Mapping[str, Raw], oracle: Oracle, rng: np.random.Generator, *, exact: Mapping[str, Floats]
) -> dict[str, IntegerRange]:
    """For the judge: which whole numbers rounding may make of every output that is no float; asks the oracle 16 times.

    None where no input is a float that may take any value: nothing is rounded then. Equal inputs move alike, so a tie
    of equal numbers stays one. Half precision moves in float32, in which its sums are, and reaches the oracle so.
    Where more than two numbers were seen, as in an iteration that is chaos, there may be more on either side.
    """
    integer_outputs = [tensor for tensor in task.outputs if not is_float(tensor.dtype)]
    if not any(is_continuous(tensor) for tensor in task.inputs):
        return {}
    low = {tensor.name: exact[tensor.name] for tensor in integer_outputs}
    high, inner = dict(low), {name: np.zeros(values.shape, dtype=np.bool_) for name, values in low.items()}
    for perturbed in perturbed_pairs(task, inputs, rng):
        answer = oracle(perturbed)
        for name in low:
            numbers, least, most = answer[name], low[name], high[name]
            inner[name] |= (numbers != least) & (numbers != most) & (least < most)
            low[name], high[name] = np.fmin(least, numbers), np.fmax(most, numbers)
    more = {name: np.where(inner[name], high[name] - low[name], 0.0) for name in low}
    return {name: IntegerRange(low=low[name] - more[name], high=high[name] + more[name]) for name in low}


def local_scale(exact: Floats) -> Floats:
    """For the judge: size of the numbers around each element: the root mean square of its row, or its own if that is more.

    A row is the last axis; arrays of one dimension are one row. Elements that are not finite count as zero.
    """
    sizes = np.abs(np.where(np.isfinite(exact), exact, 0.0))
    scale: Floats = np.maximum(sizes, row_rms(sizes))
    return scale


def row_rms(values: Floats) -> Floats:
    """For the judge: root mean square of each row, in a shape that broadcasts against `values`."""
    axis = -1 if values.ndim > 1 else None
    with np.errstate(over="ignore"):  # of an output that overflows in float64
        rows: Floats = np.sqrt(np.mean(np.square(values), axis=axis, keepdims=True))
    return rows


def honest_error(scale: Floats, noise: RoundingNoise | None, *, dtype: DType, precision: Precision) -> Floats:
    """For the judge: error of each element that an honest program of this type may make, to be multiplied by the table's factors."""
    limits = error_limit(dtype, precision)
    if noise is None:
        return max(unit(dtype), limits.product) / 2 * scale
    chain = max(1.0, np.sqrt(noise.terms) / SERIAL_MOVES) * 16 / limits.l2
    spread = np.hypot(scale, noise.spread)
    error: Floats = unit(dtype) / 2 * scale + np.hypot(limits.accumulate * chain, limits.product) * spread
    return error


def _pool_neighbours(squares: Floats) -> Floats:
    """For the judge: a mean of few squares may be small by chance: no element counts for less than its row and column suggest."""
    if squares.ndim < 2 or not squares.any():
        return squares
    with np.errstate(over="ignore", invalid="ignore"):  # of an output that overflows in float64
        rows = squares.mean(axis=-1, keepdims=True)
        columns = squares.mean(axis=tuple(range(squares.ndim - 1)), keepdims=True)
        steadied: Floats = np.maximum(squares, rows * (columns / squares.mean()))
    return steadied


def _has_equal_runs(raw: Raw, rng: np.random.Generator) -> bool:
    """For the judge: whether some row, or the array, is equal to a large part. Of a sorted row, equal numbers are neighbours."""
    if raw.size < EQUAL_PARTS:
        return False
    rows = raw.reshape(-1, raw.shape[-1])[rng.permutation(raw.size // raw.shape[-1])[:ROWS_SAMPLED]]
    for sample in (rows, rows.reshape(1, -1)):
        distance = max(1, sample.shape[1] // EQUAL_PARTS)
        ordered = np.sort(sample, axis=1)
        if sample.shape[1] >= EQUAL_PARTS and (ordered[:, distance:] == ordered[:, :-distance]).any():
            return True
    return False


def _count_terms(task: Task, inputs: Mapping[str, Raw], oracle: Oracle, rng: np.random.Generator) -> dict[str, float]:
    """For the judge: counted by changing one element of each input: those that change with it are as many as it feeds.

    On ordinary values: others may hide it, as a large number hides all else in a softmax.
    """
    usual = {tensor.name: to_storage(tensor, inputs[tensor.name].shape, rng) for tensor in task.inputs}
    before = oracle(usual)
    terms = dict.fromkeys(before, 1.0)
    for tensor in task.inputs:
        if not is_float(tensor.dtype) or tensor.values == "mask":
            continue
        changed, _ = change_one_element(usual, tensor, rng)
        for name, values in oracle(changed).items():
            fed = int(np.count_nonzero(values != before[name])) * usual[tensor.name].size
            terms[name] = max(terms[name], fed / max(values.size, 1))
    return terms


def _perturb(task: Task, inputs: Mapping[str, Raw], rng: np.random.Generator) -> tuple[dict[str, Raw], float]:
    """For the judge: the inputs, each up or down by chance, and the relative size of half such a move.

    Half, since rounding moves a number by half a unit in the last place at most. Wider types move by as many of
    their units as make one of the narrowest. Of 8 bits a unit is an eighth of a number, of which nothing small could
    be learned: they move in float32, and reach the oracle so.
    """
    free = {tensor.name: move_dtype(tensor.dtype) for tensor in task.inputs if is_continuous(tensor)}
    coarsest: DType = max(free.values(), key=unit) if free else "float64"
    largest = LARGEST_MOVES.get(coarsest, LARGEST_MOVE)
    perturbed = {}
    for name, dtype in free.items():
        raw = inputs[name] if dtype == task.dtype_of(name) else to_float32(inputs[name], task.dtype_of(name))
        sizes = rng.integers(1, largest + 1, size=raw.shape)
        perturbed[name] = _step_by_chance(raw, dtype, sizes * round(unit(coarsest) / unit(dtype)), rng)
    usual = float(np.sqrt(np.mean(np.square(np.arange(1.0, largest + 1)))))
    return {**inputs, **perturbed}, 2 * unit(coarsest) * usual


def perturbed_pairs(task: Task, inputs: Mapping[str, Raw], rng: np.random.Generator) -> Iterator[dict[str, Raw]]:
    """For the judge: the inputs with every value moved by what depends on the value alone, and moved the other way; none or 16."""
    free = {tensor.name: _sum_dtype(tensor.dtype) for tensor in task.inputs if is_continuous(tensor)}
    values = {
        tensor.name: _cast_wide(inputs[tensor.name], tensor.dtype) for tensor in task.inputs if tensor.name in free
    }
    coarsest = max(free.values(), key=unit)
    factor = max(1, round(error_limit(coarsest, task.precision).product / unit(coarsest)))
    largest = LARGEST_MOVE if factor == 1 else LARGEST_MOVES["bfloat16"]
    for _ in range(PERTURBED_PAIRS):
        sizes = rng.integers(1, largest + 1, size=HASH_RANGE) * factor
        signs = rng.integers(0, 2, size=HASH_RANGE) == 1
        for turn in (signs, ~signs):
            perturbed = {}
            for name, raw in values.items():
                at = _hash_values(raw)
                steps = sizes[at] * round(unit(coarsest) / unit(free[name]))
                perturbed[name] = _step_ulps(raw, free[name], steps, turn[at])
            yield {**inputs, **perturbed}


def move_dtype(dtype: DType) -> DType:
    """The type in which the judge moves an input by units in the last place: its own but for 8 bits, which move in float32."""
    return "float32" if dtype in FLOAT8 else dtype


def _sum_dtype(dtype: DType) -> DType:
    return "float64" if dtype == "float64" else "float32"


def _cast_wide(raw: Raw, dtype: DType) -> Raw:
    return raw if dtype == "float64" else to_float32(raw, dtype)


def _hash_values(raw: Raw) -> NDArray[np.intp]:
    """A number below HASH_RANGE for each value of a judged array; equal ones have the same."""
    bits = np.ascontiguousarray(raw).view(f"u{raw.dtype.itemsize}").astype(np.uint64).reshape(raw.shape)
    return ((bits * np.uint64(HASH_MULTIPLIER)) >> np.uint64(48)).astype(np.intp)


def is_continuous(tensor: Input) -> bool:
    """For the judge: whether it is a float that may take any value of its range, and so may be moved by roundings."""
    return is_float(tensor.dtype) and tensor.values in ("normal", "uniform", "positive")


def _step_by_chance(raw: Raw, dtype: DType, units: NDArray[np.int64], rng: np.random.Generator) -> Raw:
    """Each element of a judged array so many units further from zero or nearer to it, by chance."""
    return _step_ulps(raw, dtype, units, rng.integers(0, 2, size=raw.shape, dtype=np.uint8) == 1)


def _step_ulps(raw: Raw, dtype: DType, units: NDArray[np.int64], up: NDArray[np.bool_]) -> Raw:
    """Each element of a judged array so many units from zero or nearer; zero and what would leave the range stay."""
    word = np.dtype(f"u{raw.dtype.itemsize}")
    bits = np.ascontiguousarray(raw).view(word)
    sign = word.type(1 << (8 * word.itemsize - 1))
    sizes = bits & ~sign
    steps = units.astype(word)
    top = word.type(from_float64(np.array([LARGEST[dtype]]), dtype).view(word)[0])
    free = (sizes > steps) & (sizes <= top - steps)
    changed = np.where(up, sizes + steps, sizes - np.minimum(sizes, steps))
    result: Raw = (np.where(free, changed, sizes) | (bits & sign)).astype(word).view(STORAGE[dtype])
    return result.reshape(raw.shape)


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


def is_close(faults: Sequence[Fault]) -> bool:
    """For the judge: whether all faults are so near to what is allowed that the chance of few moves may have made them."""
    norms = all(fault.kind in ("relative_l2", "max_norm") and fault.allowed > 0 for fault in faults)
    return bool(faults) and norms and all(fault.measured <= CLOSE * fault.allowed for fault in faults)


def compare(
    candidate: Raw,
    oracle: Floats,
    trusted: Floats,
    *,
    dtype: DType,
    precision: Precision,
    output: str,
    noise: RoundingNoise | IntegerRange | None = None,
) -> tuple[Fault, ...]:
    """Faults of one output that is judged; empty when it is right.

    `candidate` is in its storage type, `oracle` exact, `trusted` what a program of the task's types computes. Without
    `noise` the trusted program's error alone says what is hard to compute: cheap, and strict where it was lucky. A
    fault found that way is certain only when it is found with `noise` too: a `Noise`, for whole numbers a `Reach`.
    """
    if fault := _check_form(candidate, oracle, dtype, output):
        return (fault,)
    if not is_float(dtype):
        return _compare_integers(candidate, oracle, trusted, output, noise if isinstance(noise, IntegerRange) else None)
    if isinstance(noise, IntegerRange):
        raise TypeError(f"{output}: a float output has no reach")
    values = to_float64(candidate, dtype)
    if noise is None and is_plainly_right(values, oracle, trusted, dtype=dtype, precision=precision):
        return ()
    if dtype in FLOAT8:
        wrong = _is_no_rounding(values, oracle, trusted, noise, dtype=dtype, precision=precision)
        return _count_no_roundings(wrong, values, oracle, output, dtype)
    scale = local_scale(oracle)
    unit_error = honest_error(scale, noise, dtype=dtype, precision=precision) + SMALLEST[dtype]
    if noise is None:
        unit_error = unit_error * _trusted_excess(oracle, trusted, unit_error)
    factors = error_limit(dtype, precision)
    rounded = to_float64(from_float64(oracle, dtype), dtype)
    values = _saturate(values, rounded, np.abs(oracle) + 2 * factors.peak * unit_error >= LARGEST[dtype])
    if fault := _compare_non_finite(values, rounded, trusted, output):
        return (fault,)
    return _compare_norms(values, oracle, trusted, unit_error, (factors.l2, factors.peak), (output, dtype))


def is_plainly_right(values: Floats, oracle: Floats, trusted: Floats, *, dtype: DType, precision: Precision) -> bool:
    """For the judge: whether `compare` without noise finds nothing, told by a few passes; where they do not tell, it says no.

    They do where all numbers are finite and far from the type's end, and the trusted program's luck is not needed.
    """
    if dtype in FLOAT8:
        return not _is_no_rounding(values, oracle, trusted, None, dtype=dtype, precision=precision).any()
    factors, length = error_limit(dtype, precision), oracle.shape[-1] if oracle.ndim > 1 else oracle.size
    right, usual, errors = (array.reshape(-1, length) for array in (oracle, trusted, values))
    with np.errstate(invalid="ignore", over="ignore"):
        rows = np.sqrt(_squares(right) / length)
        if not rows.max() * np.sqrt(length) < LARGEST[dtype] / 4:
            return False
        unit_error = np.maximum(np.abs(right), rows[:, None])
        unit_error *= honest_error(np.ones(1), None, dtype=dtype, precision=precision)
        unit_error += SMALLEST[dtype]
        missed = np.subtract(usual, right)
        missed /= unit_error
        excess = np.sqrt(_squares(missed) / length)
        excess = np.maximum(excess, max(_median(excess), 1.0))
        np.subtract(errors, right, out=missed)
        missed /= unit_error
        sums = _squares(missed) / np.square(excess)
        if not (np.isfinite(excess).all() and sums.sum() <= factors.l2**2 * right.size):
            return False
        if sums.max() <= (2 * factors.peak) ** 2:  # no element is more than its row together
            return True
        return bool((np.abs(missed, out=missed).max(axis=1) <= 2 * factors.peak * excess).all())


def _median(values: Floats) -> float:
    """The median of judged errors; NumPy's own takes as long as five passes over what it is the median of."""
    ordered = np.sort(values)
    return float(ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2


def _squares(rows: Floats) -> Floats:
    sums: Floats = np.einsum("ij,ij->i", rows, rows)
    return sums


def compare_exact(
    candidate: Raw,
    oracle: Floats,
    trusted: Floats,
    *,
    dtype: DType,
    precision: Precision,
    output: str,
    noise: RoundingNoise | IntegerRange | None = None,
) -> tuple[Fault, ...]:
    """For the judge: like `compare`, with next to no tolerance where `is_exact` says that none is needed.

    A whole number made of floats, even of exact ones, may hang on a rounding on the way, as a half that is rounded.
    """
    if dtype not in EXACT_UNITS or not is_exact(oracle, trusted, dtype):
        return compare(candidate, oracle, trusted, dtype=dtype, precision=precision, output=output, noise=noise)
    if fault := _check_form(candidate, oracle, dtype, output):
        return (fault,)
    right, values = to_float64(from_float64(oracle, dtype), dtype), to_float64(candidate, dtype)
    with np.errstate(invalid="ignore"):
        is_close: Flags = np.abs(values - right) <= EXACT_UNITS[dtype] * unit(dtype) * local_scale(right)
    return _count_wrong(~(is_close | (values == right)), values, right, output)


def is_exact(oracle: Floats, trusted: Floats, dtype: DType) -> bool:
    """For the judge: whether right programs have no freedom here: the sums fit their type, and the trusted program has them all."""
    if not np.isfinite(oracle).all():
        return False
    if not is_float(dtype):
        return bool(np.array_equal(trusted, oracle))
    if dtype == "float64":
        parts, _ = np.frexp(oracle)
        return bool(np.array_equal(np.round(parts * 2.0**SHORT_BITS), parts * 2.0**SHORT_BITS))
    fits = np.array_equal(to_float64(from_float64(oracle, "float32"), "float32"), oracle)
    return bool(fits and np.array_equal(trusted, to_float64(from_float64(oracle, dtype), dtype)))


def _check_form(candidate: Raw, oracle: Floats, dtype: DType, output: str) -> Fault | None:
    if candidate.shape == oracle.shape and candidate.dtype == STORAGE[dtype] and candidate.size:
        return None
    detail = f"{candidate.dtype}{list(candidate.shape)} instead of {STORAGE[dtype]}{list(oracle.shape)}"
    return Fault(
        "shape", output, detail if oracle.size else "there are no elements to judge", candidate.size, oracle.size
    )


def _compare_integers(
    candidate: Raw, oracle: Floats, trusted: Floats, output: str, reach: IntegerRange | None
) -> tuple[Fault, ...]:
    """Judged equality of whole numbers. Where a result hangs on rounding, the trusted program's answer is as right as the oracle's.

    So is what lies within `reach`, which is more than one number only at places that a rounding of the inputs changes.
    """
    wrong: Flags = ~((candidate == oracle) | (candidate == trusted))
    if reach is not None:
        wrong &= ~((candidate >= reach.low) & (candidate <= reach.high))
    return _count_wrong(wrong, candidate, oracle, output)


def _count_wrong(wrong: Flags, values: Raw, oracle: Floats, output: str) -> tuple[Fault, ...]:
    count = int(np.count_nonzero(wrong))
    if not count:
        return ()
    where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    detail = (
        f"{count} of {wrong.size} elements are not the exact result, the first at {_format_index(where)}: "
        f"{_format_value(values, where)} instead of {_format_value(oracle, where)}"
    )
    return (Fault("exact", output, detail, float(count), 0.0),)


# Outputs of 8 bits: the nearest such number to what an honest program has in float32. Half a unit in the last place is
# up to an eighth of a number, so a share of the numbers' size would forgive whole steps; next to a tie either neighbour is right.

FLOAT8_OVERFLOWS: dict[DType, float] = {"float8_e4m3fn": 464.0, "float8_e5m2": 61440.0}
"""From here on a number is nearer to what would follow the type's largest."""


def float32_error(scale: Floats, noise: RoundingNoise | None, *, precision: Precision) -> Floats:
    """For the judge: by how much an element may be off in float32 before it is rounded to 8 bits."""
    error = honest_error(scale, noise, dtype="float32", precision=precision) + SMALLEST["float32"]
    return 2 * error_limit("float32", precision).peak * error


def round_saturating(values: Floats, dtype: DType) -> Floats:
    """For the judge: the nearest finite number of an 8-bit type, as cards convert; no number stays none."""
    largest = LARGEST[dtype]
    return to_float64(from_float64(np.clip(values, -largest, largest), dtype), dtype)


def _is_no_rounding(
    values: Floats, oracle: Floats, trusted: Floats, noise: RoundingNoise | None, *, dtype: DType, precision: Precision
) -> Flags:
    """For the judge: where a result of 8 bits is neither the nearest to an honest float32 one nor the trusted program's, nor between.

    What is too large for the type may be its largest, as cards convert, or what PyTorch makes of it: infinity, or no number.
    """
    largest = LARGEST[dtype]
    error = float32_error(local_scale(np.clip(oracle, -largest, largest)), noise, precision=precision)
    with np.errstate(invalid="ignore"):
        low, high = (round_saturating(oracle + side * error, dtype) for side in (-1, 1))
        usual = np.clip(trusted, -largest, largest)
        right = (values >= np.fmin(low, usual)) & (values <= np.fmax(high, usual))
        over = np.abs(oracle) + error >= FLOAT8_OVERFLOWS[dtype]
        past = np.isnan(values) if dtype == "float8_e4m3fn" else values == np.copysign(np.inf, oracle)
    nothing = np.isnan(values) & (np.isnan(oracle) | np.isnan(trusted))
    wrong: Flags = ~(right | (over & past) | (values == trusted) | nothing)
    return wrong


def _count_no_roundings(wrong: Flags, values: Floats, oracle: Floats, output: str, dtype: DType) -> tuple[Fault, ...]:
    count = int(np.count_nonzero(wrong))
    if not count:
        return ()
    with np.errstate(invalid="ignore"):
        away = np.where(wrong, np.nan_to_num(np.abs(values - oracle), nan=np.inf), -1.0)
    where = np.unravel_index(int(np.argmax(away)), away.shape)
    return (describe_no_rounding(output, dtype, count, away.size, _format_index(where), values[where], oracle[where]),)


def describe_no_rounding(
    output: str, dtype: DType, count: int, size: int, place: str, value: float, exact: float
) -> Fault:
    """For the judge: the fault of results of 8 bits that are not the nearest number, with the one that is farthest off."""
    nearest = float(round_saturating(np.array(exact), dtype))
    strange = math.isfinite(value) != math.isfinite(nearest)
    step = (
        max(2 * unit(dtype) * 2.0 ** (math.frexp(nearest)[1] - 1), SMALLEST[dtype]) if math.isfinite(nearest) else 1.0
    )
    away = abs(value - nearest) / step
    detail = (
        f"{count} of {size} elements are not the nearest {dtype} to the result in float32, worst at {place}: "
        f"{value:.9g} instead of {nearest:.9g}, for {exact:.9g}"
    )
    return Fault("nonfinite" if strange else "max_norm", output, detail, float(count) if strange else away, 0.0)


def _trusted_excess(oracle: Floats, trusted: Floats, unit_error: Floats) -> Floats:
    """For the judge: how many units the trusted program is off in each row; at least 1, and at least what is usual.

    By row, so that one that is hard to compute does not loosen the bounds of the others.
    """
    with np.errstate(invalid="ignore"):
        errors = (trusted - oracle) / unit_error
    rows = row_rms(np.where(np.isfinite(errors), errors, 0.0))
    return np.maximum(np.maximum(rows, np.median(rows)), 1.0)


def _saturate(values: Floats, rounded: Floats, near_limit: Flags) -> Floats:
    """For the judge: infinity counts as the result itself where that is so near the type's largest that one rounding decides."""
    same_side = np.signbit(values) == np.signbit(rounded)
    saturated: Floats = np.where(np.isinf(values) & np.isfinite(rounded) & near_limit & same_side, rounded, values)
    return saturated


def _compare_non_finite(values: Floats, rounded: Floats, trusted: Floats, output: str) -> Fault | None:
    """For the judge: infinite and NaN exactly where the result is; where exact and trusted differ in that, either will do."""
    right = (np.isfinite(values) & (np.isfinite(rounded) | np.isfinite(trusted))) | _have_same_non_finite(
        values, rounded
    )
    wrong: Flags = ~(right | _have_same_non_finite(values, trusted))
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    detail = (
        f"{count} of {wrong.size} elements, the first at {_format_index(where)}: "
        f"{_format_value(values, where)} instead of {_format_value(rounded, where)}"
    )
    return Fault("nonfinite", output, detail, float(count), 0.0)


def _have_same_non_finite(left: Floats, right: Floats) -> Flags:
    same: Flags = ~np.isfinite(left) & ((left == right) | (np.isnan(left) & np.isnan(right)))
    return same


def _compare_norms(
    values: Floats,
    oracle: Floats,
    trusted: Floats,
    unit_error: Floats,
    factors: tuple[float, float],
    output_type: tuple[str, DType],
) -> tuple[Fault, ...]:
    """For the judge: the two norms of the error, each against the trusted program's own. Written so that NaN is a fault.

    `named`: the output and its type.
    """
    output, dtype = output_type
    judged = np.isfinite(values) & np.isfinite(oracle)
    if not judged.any():
        return ()
    with np.errstate(invalid="ignore"):
        errors = np.where(judged, np.abs(values - oracle), 0.0) / unit_error
        usual = np.where(judged & np.isfinite(trusted), np.abs(trusted - oracle), 0.0) / unit_error
    where = np.unravel_index(int(np.argmax(errors)), errors.shape)
    place = f"worst at {_format_index(where)}: {_format_value(values, where)} instead of {_format_value(oracle, where)}"
    share = np.sqrt(judged.mean())
    faults: list[Fault] = []
    measured, allowed = _rms(errors) / share, factors[0] * max(_rms(usual) / share, 1.0)
    if not measured <= allowed:
        right = np.where(judged, oracle, 0.0)
        with np.errstate(over="ignore"):
            away, size = _rms(np.where(judged, values, 0.0) - right), _rms(right)
        text = describe_error("relative L2 error", away, size, measured / allowed, dtype)
        faults.append(Fault("relative_l2", output, f"{text}; {place}", measured, allowed))
    measured, allowed = float(errors.max()) / 2, factors[1] * max(float(usual.max()) / 2, 1.0)
    if not measured <= allowed:
        away, size = abs(float(values[where] - oracle[where])), float(local_scale(oracle)[where])
        text = describe_error("largest error", away, size, measured / allowed, dtype)
        faults.append(Fault("max_norm", output, f"{text}; {place}", measured, allowed))
    return tuple(faults)


def describe_error(what: str, away: float, size: float, excess: float, dtype: DType) -> str:
    """For the judge: an error as a share of the size of the numbers around it, and in roundings of the type, beside what is allowed.

    `excess`: how many times what is allowed the error is.
    """
    if not (math.isfinite(away) and size > 0 and excess > 0):
        return f"{what} {away:.3g} where {away / excess if excess > 0 else 0.0:.3g} is allowed"
    share = away / size
    return (
        f"{what} {share:.2g} of the numbers' size, allowed {share / excess:.2g}, "
        f"which is {share / excess / unit(dtype):.3g} roundings of {dtype}"
    )


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _format_index(where: tuple[np.intp, ...]) -> str:
    return str([int(index) for index in where])


def _format_value(values: Raw, where: tuple[np.intp, ...]) -> str:
    return f"{float(values[where]):.9g}"


# Float results that a rounding decides: elements that jump from one value to another when the inputs hardly move.
#
# As where numbers are rounded to steps, or kept only above their row's mean. Either side of such a jump is right, for
# that element alone; a smooth operator has none, however hard it is to compute.

Indices = NDArray[np.intp]
MOST_JUMPING = 0.01
"""Share of elements that may be excused, and share that may jump before none is excused; one element always may."""
GAP_FACTOR = 16.0
"""A jump is so many times as wide as all that was seen on either side of it. Moves come in pairs, one the other way:
what a smooth operator makes of them lies on both sides of its exact result, and no such gap is between."""
SAMPLE_ELEMENTS = 1 << 14
"""Elements by chance that say what share jumps."""


def find_discontinuities(
    task: Task,
    inputs: Mapping[str, Raw],
    oracle: Oracle,
    rng: np.random.Generator,
    *,
    exact: Mapping[str, Floats],
    got: Mapping[str, Floats],
) -> dict[str, Floats]:
    """For the judge: what an honest program may have had in mind, of the outputs in `got` that jump where they are far off.

    At each element that jumps it is the number nearest to what was got of those that moved inputs give; elsewhere the
    exact result. Asks the oracle 16 times, or never where nothing is far off, or too much is.
    """
    if not any(is_continuous(tensor) for tensor in task.inputs):
        return {}
    least = {name: _least_error(exact[name], task.dtype_of(name), task.precision) for name in got}
    places_by_output: dict[str, tuple[Indices, Indices]] = {}
    for name, values in got.items():
        with np.errstate(invalid="ignore"):
            far_places = np.flatnonzero(np.abs(values - exact[name]).reshape(-1) > least[name])
        if 0 < far_places.size <= _most_jumping(values.size):
            places_by_output[name] = far_places, _sample_places(values.size, rng)
    samples = {name: [_take(exact[name], places)] for name, places in places_by_output.items()}
    for perturbed in perturbed_pairs(task, inputs, rng) if places_by_output else ():
        answer = oracle(perturbed)
        for name, places in places_by_output.items():
            samples[name].append(_take(answer[name], places))
    sides: dict[str, Floats] = {}
    for name, (far_places, sample) in places_by_output.items():
        values = np.stack(samples[name])
        jump = _is_split(values, least[name][np.concatenate((far_places, sample))])
        if not jump[: far_places.size].any() or np.count_nonzero(jump[far_places.size :]) > _most_jumping(sample.size):
            continue
        there = np.flatnonzero(jump[: far_places.size])
        sides[name] = _take_nearest_side(exact[name], far_places[there], values[:, there], got[name])
    return sides


def discontinuous_shares(
    task: Task,
    inputs: Mapping[str, Raw],
    oracle: Oracle,
    rng: np.random.Generator,
    *,
    exact: Mapping[str, Floats],
) -> dict[str, float]:
    """For the judge: of every float output, the share of elements that jump. Asks the oracle 16 times."""
    names = [tensor.name for tensor in task.outputs if is_float(tensor.dtype) and exact[tensor.name].size]
    if not names or not any(is_continuous(tensor) for tensor in task.inputs):
        return {}
    places = {name: _sample_places(exact[name].size, rng) for name in names}
    samples = {name: [exact[name].reshape(-1)[places[name]]] for name in names}
    for perturbed in perturbed_pairs(task, inputs, rng):
        answer = oracle(perturbed)
        for name in names:
            samples[name].append(answer[name].reshape(-1)[places[name]])
    least = {name: _least_error(exact[name], task.dtype_of(name), task.precision)[places[name]] for name in names}
    return {name: float(np.mean(_is_split(np.stack(samples[name]), least[name]))) for name in names}


def _take_nearest_side(exact: Floats, places: Indices, values: Floats, got: Floats) -> Floats:
    """For the judge: the exact result, with the nearest of these values at these places."""
    sides = exact.reshape(-1).copy()
    nearest = np.argmin(np.abs(values - got.reshape(-1)[places]), axis=0)
    sides[places] = np.take_along_axis(values, nearest[None], axis=0)[0]
    return sides.reshape(exact.shape)


def _is_split(values: Floats, least: Floats) -> Flags:
    """Of each column of judged numbers: whether they lie in two narrow places that are far apart."""
    ordered = np.sort(np.where(np.isfinite(values), values, 0.0), axis=0)
    gaps = np.diff(ordered, axis=0)
    at = np.argmax(gaps, axis=0)[None]
    gap = np.take_along_axis(gaps, at, axis=0)[0]
    below = np.take_along_axis(ordered, at, axis=0)[0] - ordered[0]
    above = ordered[-1] - np.take_along_axis(ordered, at + 1, axis=0)[0]
    split: Flags = (gap > least) & (gap > GAP_FACTOR * np.maximum(below, above)) & np.isfinite(values).all(axis=0)
    return split


def _least_error(exact: Floats, dtype: DType, precision: Precision) -> Floats:
    """How far off an element of a judged output may be in any case; flat."""
    if dtype in FLOAT8:
        error = float32_error(local_scale(exact), None, precision=precision)
        halves = unit(dtype) * np.exp2(np.frexp(exact)[1] - 1.0)
        return (np.maximum(halves, SMALLEST[dtype] / 2) + error).reshape(-1)
    unit_error = honest_error(local_scale(exact), None, dtype=dtype, precision=precision) + SMALLEST[dtype]
    return (2 * error_limit(dtype, precision).peak * unit_error).reshape(-1)


def _take(values: Floats, places: tuple[Indices, Indices]) -> Floats:
    return values.reshape(-1)[np.concatenate(places)]


def _most_jumping(size: int) -> int:
    return max(1, int(MOST_JUMPING * size))


def _sample_places(size: int, rng: np.random.Generator) -> Indices:
    return np.arange(size) if size <= SAMPLE_ELEMENTS else rng.integers(size, size=SAMPLE_ELEMENTS)


# How far a plain loop in float32 comes out beside the sum of many positive terms, tried on the inputs themselves.
#
# A random walk of rounding errors says too little: terms below half a unit in the last place of the partial sum are lost,
# all to the same side, and the more of them there are the more is lost. What an operator adds up is not known, so the
# usual terms are made of its inputs and added in both directions; the error is told in the unit that bounds are in.

Values = NDArray[np.float32]
Terms = tuple[Values, Floats]
"""What is added up, in float32, and by how much each term moves when its inputs move by a share of themselves."""
SEQUENCES = 8
"""Loops that are tried of each array, along each of its axes."""
LOOP_ELEMENTS = 1 << 21
"""Elements of them together."""
COUNT_TOLERANCE = 0.2
"""Terms are counted by what a change of one element changes, and some changes round to nothing. A count that is off
from the length of an axis by no more than this share means that axis."""


def worst_loop_error(inputs: Mapping[str, Values], terms: float, rng: np.random.Generator) -> float:
    """For the judge: the worst error of loops over so many terms, in unit round-offs of float32 of `hypot(sum, what moves do to it)`.

    `inputs` are the floats that may take any value; terms are their sizes, squares, exponentials less the largest, and
    products of two arrays of equal shape. 0 where nothing could be added up.
    """
    worst = 0.0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for added, moves in _term_models(inputs, terms, rng):
            exact = added.sum(axis=-1, dtype=np.float64)
            size = np.hypot(exact, np.sqrt(np.square(moves).sum(axis=-1)))
            for way in (added, added[..., ::-1]):
                errors = np.abs(np.cumsum(way, axis=-1)[..., -1] - exact) / (unit("float32") * size)
                worst = max(worst, float(np.max(errors, where=np.isfinite(errors), initial=0.0)))
    return worst


def _term_models(inputs: Mapping[str, Values], terms: float, rng: np.random.Generator) -> Iterator[Terms]:
    arrays = list(inputs.values())
    for number, values in enumerate(arrays):
        partner = next((array for array in arrays[number + 1 :] if array.shape == values.shape), None)
        for rows, across in _loop_stretches([values] if partner is None else [values, partner], terms, rng):
            yield np.abs(rows), np.abs(rows).astype(np.float64)
            yield np.square(rows), 2 * np.square(rows.astype(np.float64))
            powers = np.exp(rows - rows.max(axis=-1, keepdims=True))
            yield powers, np.abs(rows) * powers.astype(np.float64)
            if partner is not None:
                products = np.abs(rows * across)
                yield products, np.sqrt(2.0) * products.astype(np.float64)


def _loop_stretches(
    arrays: Sequence[Values], terms: float, rng: np.random.Generator
) -> Iterator[tuple[Values, Values]]:
    """For honest errors: some stretches of so many elements along each axis, of one array, and the same of another or of itself."""
    shape = arrays[0].shape
    for axis in range(max(len(shape), 1)):
        turned = [np.moveaxis(array, axis, -1) if shape else array.reshape(1) for array in arrays]
        length = _loop_length(turned[0].shape, terms)
        count = turned[0].size // length
        picked = rng.permutation(count)[: max(1, min(SEQUENCES, LOOP_ELEMENTS // length))]
        rows = [array.reshape(-1)[: count * length].reshape(count, length)[picked] for array in turned]
        yield rows[0], rows[-1]


def _loop_length(shape: tuple[int, ...], terms: float) -> int:
    """For the judge: of one loop: that of the last axes that come near it, otherwise as it was counted."""
    for axes in range(1, len(shape) + 1):
        inner = int(np.prod(shape[-axes:]))
        if abs(inner - terms) <= COUNT_TOLERANCE * inner:
            return inner
    return max(1, min(round(terms), int(np.prod(shape))))


# A quick comparison of two sides that had the same inputs: a few passes over the output, and no oracle.

MOST_TIES = 2.0**-6
"""Share of results of 8 bits that may differ by a step between two right sides, beside one: so near is none of more to a tie."""
CHUNK_ELEMENTS = 1 << 18
"""Elements at a time: they and the differences stay in a processor's cache."""
SQUARES_OVERFLOW = 1e18
"""Beyond it, squares leave float32 and both sides are compared in float64."""
SQUARES_VANISH = 1e-15
"""Below it, squares near the end of float32 could vanish, and hide what they are squares of."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """By how much two right answers may differ: a share of the size of the numbers, and an amount besides."""

    l2: float
    l2_amount: float
    peak: float
    peak_amount: float


def derive_tolerance(
    oracle: Floats, trusted: Floats, *, dtype: DType, precision: Precision, noise: RoundingNoise | None = None
) -> Tolerance:
    """For the judge: twice what `compare` allows one answer, taken from one case; it holds for inputs drawn in the same way."""
    if dtype in FLOAT8:
        error = float32_error(local_scale(oracle), noise, precision=precision)
        return replace(default_tolerance(dtype, precision), peak_amount=2 * float(np.max(error, initial=0.0)))
    factors, scale = error_limit(dtype, precision), local_scale(oracle)
    amounts = honest_error(scale, noise, dtype=dtype, precision=precision) - honest_error(
        scale, None, dtype=dtype, precision=precision
    )
    with np.errstate(invalid="ignore"):
        missed = np.nan_to_num(np.abs(trusted - oracle), nan=0.0, posinf=0.0, neginf=0.0)
    usual, worst = row_rms(missed), float(missed.max(initial=0.0))
    plain = default_tolerance(dtype, precision)
    return Tolerance(
        l2=plain.l2,
        l2_amount=2 * factors.l2 * float(np.sqrt(np.mean(np.square(np.maximum(amounts, usual))))),
        peak=plain.peak,
        peak_amount=2 * factors.peak * max(float(np.max(amounts, initial=0.0)), worst),
    )


def default_tolerance(dtype: DType, precision: Precision = "strict") -> Tolerance:
    """For the judge: for a case of which nothing is known: twice the floors of the table."""
    if dtype in FLOAT8:
        return Tolerance(l2=unit(dtype) / 4, l2_amount=0.0, peak=2 * unit(dtype), peak_amount=0.0)
    factors, least = error_limit(dtype, precision), unit(dtype)
    least = max(least, error_limit(dtype, precision).product)
    return Tolerance(l2=factors.l2 * least, l2_amount=0.0, peak=2 * factors.peak * least, peak_amount=0.0)


def agree(a: Raw, b: Raw, *, dtype: DType, within: Tolerance | None = None) -> bool:
    """For the judge: whether `a` may be the same right result as `b`, the side that is trusted more: sizes are taken from it.

    False says only that the oracle must decide. Equal bytes agree at once; NaN and infinities must be the same.
    """
    if a.shape != b.shape or a.dtype != b.dtype or not a.size:
        return False
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if same_bytes(a, b):
        return True
    if not is_float(dtype):
        return False
    allowed = within or default_tolerance(dtype)
    if dtype in FLOAT8:
        return _are_neighbours(to_float64(a, dtype), to_float64(b, dtype), dtype, allowed)
    length = b.shape[-1] if b.ndim > 1 else b.size
    left, right = a.reshape(-1, length), b.reshape(-1, length)
    step = max(1, CHUNK_ELEMENTS // length)
    total = 0.0
    for start in range(0, len(left), step):
        part = _sum_squares_fast(left[start : start + step], right[start : start + step], dtype, allowed)
        if part is None:
            return False
        total += part
    return total <= a.size


def _are_neighbours(left: Floats, right: Floats, dtype: DType, allowed: Tolerance) -> bool:
    """For the judge: whether two results of 8 bits are the same but for few that lie next to each other, as near a tie."""
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if np.count_nonzero(~same) > MOST_TIES * same.size + 1:
        return False
    left, right = left[~same], right[~same]
    with np.errstate(invalid="ignore"):
        step = np.maximum(allowed.peak * np.minimum(np.abs(left), np.abs(right)), SMALLEST[dtype])
        return bool((np.abs(left - right) <= step + allowed.peak_amount).all())


def _sum_squares_fast(a: Raw, b: Raw, dtype: DType, allowed: Tolerance) -> float | None:
    """For the judge: sum of squared differences of some rows, in units of what is allowed; None where one alone is too large.

    No difference is larger than the root of its row's sum of squares. Where that is allowed, as it mostly is, nothing
    need be looked at element by element; and sums that are finite and not large show that all numbers are.
    """
    left, right = (a, b) if dtype == "float64" else (to_float32(a, dtype), to_float32(b, dtype))
    with np.errstate(invalid="ignore", over="ignore"):
        sizes = np.einsum("ij,ij->i", right, right)
        differences = left - right
        squares = np.einsum("ij,ij->i", differences, differences)
        rows = np.sqrt(sizes / right.shape[1])
        limits = allowed.peak * rows + allowed.peak_amount + SMALLEST[dtype]
        if not (sizes.max() < SQUARES_OVERFLOW**2 and limits.min() > SQUARES_VANISH):
            return _sum_squares_by_element(*_widen(left, right, dtype), dtype, allowed)
        suspect_rows = np.flatnonzero(~(squares <= np.square(limits)))
    if suspect_rows.size and not _are_elements_within(
        np.abs(differences[suspect_rows]), right[suspect_rows], rows[suspect_rows], allowed, dtype
    ):
        return None
    return _sum_shares(squares, rows, allowed, dtype)


def _are_elements_within(differences: Raw, right: Raw, rows: Raw, allowed: Tolerance, dtype: DType) -> bool:
    """For the judge: whether no difference is too large for its row, or for its element where that is larger."""
    floor = SMALLEST[dtype]
    limits = allowed.peak * rows + allowed.peak_amount + floor
    for row in np.flatnonzero(~(differences.max(axis=1) <= limits)):
        sizes = np.maximum(np.abs(right[row]), rows[row])
        if not (differences[row] <= allowed.peak * sizes + allowed.peak_amount + floor).all():
            return False
    return True


def _sum_shares(squares: Raw, rows: Raw, allowed: Tolerance, dtype: DType) -> float:
    allowances = (allowed.l2 * rows + allowed.l2_amount + SMALLEST[dtype]).astype(np.float64)
    return float((squares / np.square(allowances)).sum())


def _sum_squares_by_element(left: Raw, right: Raw, dtype: DType, allowed: Tolerance) -> float | None:
    """Sum of squared differences of judged rows with every element looked at."""
    finite = np.isfinite(right)
    if not finite.all():
        if not np.array_equal(np.where(finite, 0.0, right), np.where(np.isfinite(left), 0.0, left), equal_nan=True):
            return None
        left, right = np.where(finite, left, 0.0), np.where(finite, right, 0.0)
    rows = np.sqrt(np.einsum("ij,ij->i", right, right) / right.shape[1])
    with np.errstate(invalid="ignore"):
        differences = np.abs(left - right)
    if not _are_elements_within(differences, right, rows, allowed, dtype):
        return None
    return _sum_shares(np.einsum("ij,ij->i", differences, differences), rows, allowed, dtype)


def _widen(left: Raw, right: Raw, dtype: DType) -> tuple[Raw, Raw]:
    """Both judged arrays as they are where float32 holds their squares, otherwise in float64."""
    if dtype == "float64":
        return left, right
    with np.errstate(invalid="ignore"):
        big = not (np.abs(right).max() < SQUARES_OVERFLOW and np.abs(left).max() < SQUARES_OVERFLOW)
        return (left.astype(np.float64), right.astype(np.float64)) if big else (left, right)
