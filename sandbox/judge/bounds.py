"""How far a right answer may be from the exact one: limits by type, and an unknown operator's own sensitivity.

Nothing is known of the operator but its oracle, so its conditioning is measured: every input moves by one unit in its
last place, and whatever that does to an output, rounding in a right program may do too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.task import DType, Input, Precision, Task
from ridgeline.sandbox.judge.dtypes import LARGEST, STORAGE, Floats, Raw, from_float64, is_float, to_float32, unit
from ridgeline.sandbox.judge.inputs import near_pair, stored
from ridgeline.sandbox.judge.sums import lost

Oracle = Callable[[Mapping[str, Raw]], Mapping[str, Floats]]
"""Outputs by name, in float64, of inputs in their storage types."""
COUNT = 4
"""Moves whose effects are averaged; outputs of one dimension have no neighbours to pool with and take twice as many."""
SERIAL = 8.0
"""A plain loop over n numbers errs by 0.4 sqrt(n) of these moves (random walk of partial sums). The limit of float32,
16 times sqrt(n) / SERIAL, leaves five times that. A loop over terms of one sign may err by more: see `ROOM`."""
ROOM = 1.5
"""Times what the worst plain loop over terms of one sign errs by, which is tried on these inputs."""
SPLIT = 2.0**-20
"""float32 from two bfloat16 terms each keeps 16 bits of a factor; times c2 = 32 that is twice its largest error."""
DRIFT = 0.25
"""Equal numbers added one by one err by up to this times n of these moves: every step rounds the same way."""
RUN = 8
"""One part of so many of a row that is equal makes sums of it drift."""
ROWS = 64
"""Looked at for that."""
BETWEEN = 0.8
"""Half precision: one result inside the operator may be rounded to the type, as the weights of attention are before
their product with the values. That errs by 0.58 of a unit round-off; an fp8 factor by 9."""
MOVES = {"bfloat16": 3}
LARGEST_MOVE = 31
"""Units in the last place. Moves of one size would cancel exactly in differences, and show no noise where there is."""
PAIRS = 8
"""Moves there and back that show which whole numbers hang on rounding: one of the two goes over a tie that is near."""
HASHED = 1 << 16
HASH = 0x9E3779B97F4A7C15


@dataclass(frozen=True, kw_only=True)
class Limit:
    """One row of the table of measurement 2.5."""

    l2: float
    """Times the trusted program's relative L2 error, or half a unit round-off, whichever is more."""
    peak: float
    """Times its largest error, or one unit round-off."""
    accumulate: float
    """Unit round-off of sums."""
    product: float
    """Relative error of one factor that the type's policy allows besides."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What rounding does to one output."""

    spread: Floats
    """Change of each element, divided by the relative change of the inputs that made it."""
    terms: float
    """How many input elements one output element depends on, of the input it depends on most; more where sums of so
    many drift."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The whole numbers that one output may have: from the lowest to the highest, both included."""

    low: Floats
    high: Floats


def limit(dtype: DType, precision: Precision) -> Limit:
    """Factors for a float output of this type. `precision` matters for float32 only."""
    if dtype == "float16":
        return Limit(l2=2, peak=4, accumulate=unit("float32"), product=BETWEEN / 2 * unit(dtype))
    if dtype == "bfloat16":
        return Limit(l2=1.5, peak=3, accumulate=unit("float32"), product=BETWEEN / 1.5 * unit(dtype))
    if dtype == "float64":
        return Limit(l2=16, peak=16, accumulate=unit("float64"), product=0.0)
    match precision:
        case "strict":
            return Limit(l2=16, peak=16, accumulate=unit("float32"), product=0.0)
        case "tf32":
            return Limit(l2=3, peak=4, accumulate=unit("float32"), product=2.0**-11)
        case "emulated":
            return Limit(l2=32, peak=32, accumulate=unit("float32"), product=SPLIT)


def noise(
    task: Task, inputs: Mapping[str, Raw], oracle: Oracle, rng: np.random.Generator, *, exact: Mapping[str, Floats]
) -> dict[str, Noise]:
    """Sensitivity of every output at these inputs; asks the oracle some 6 to 15 times. `exact` is its answer here."""
    flat = all(values.ndim < 2 for values in exact.values())
    count = 2 * COUNT if flat else COUNT
    total = {name: np.zeros(values.shape) for name, values in exact.items()}
    for _ in range(count):
        moved, relative = _moved(task, inputs, rng)
        for name, values in oracle(moved).items():
            with np.errstate(invalid="ignore", over="ignore"):
                change = (values - exact[name]) / relative
                total[name] += np.square(np.where(np.isfinite(change), change, 0.0))
    terms = _terms(task, inputs, oracle, rng)
    drifts = any(_repeats(inputs[one.name], rng) for one in task.inputs if is_free(one))
    given = {one.name: to_float32(inputs[one.name], one.dtype) for one in task.inputs if is_free(one)}
    sums = {one: lost(given, one, rng) * ROOM * SERIAL / 16 for one in set(terms.values())}
    return {
        name: Noise(
            spread=np.sqrt(_steadied(squares / count)),
            terms=max(terms[name], sums[terms[name]] ** 2, (terms[name] * DRIFT) ** 2 if drifts else 0.0),
        )
        for name, squares in total.items()
    }


def reaches(
    task: Task, inputs: Mapping[str, Raw], oracle: Oracle, rng: np.random.Generator, *, exact: Mapping[str, Floats]
) -> dict[str, Reach]:
    """Which whole numbers rounding may make of every output that is no float; asks the oracle 16 times.

    None where no input is a float that may take any value: nothing is rounded then. Equal inputs move alike, so a tie
    of equal numbers stays one. Half precision moves in float32, in which its sums are, and reaches the oracle so.
    Where more than two numbers were seen, as in an iteration that is chaos, there may be more on either side.
    """
    whole = [one for one in task.outputs if not is_float(one.dtype)]
    if not any(is_free(one) for one in task.inputs):
        return {}
    low = {one.name: exact[one.name] for one in whole}
    high, inner = dict(low), {name: np.zeros(values.shape, dtype=np.bool_) for name, values in low.items()}
    for moved in there_and_back(task, inputs, rng):
        answer = oracle(moved)
        for name in low:
            found, least, most = answer[name], low[name], high[name]
            inner[name] |= (found != least) & (found != most) & (least < most)
            low[name], high[name] = np.fmin(least, found), np.fmax(most, found)
    more = {name: np.where(inner[name], high[name] - low[name], 0.0) for name in low}
    return {name: Reach(low=low[name] - more[name], high=high[name] + more[name]) for name in low}


def scale_of(exact: Floats) -> Floats:
    """Size of the numbers around each element: the root mean square of its row, or its own if that is more.

    A row is the last axis; arrays of one dimension are one row. Elements that are not finite count as zero.
    """
    sizes = np.abs(np.where(np.isfinite(exact), exact, 0.0))
    scale: Floats = np.maximum(sizes, row_rms(sizes))
    return scale


def row_rms(values: Floats) -> Floats:
    """Root mean square of each row, in a shape that broadcasts against `values`."""
    axis = -1 if values.ndim > 1 else None
    with np.errstate(over="ignore"):  # of an output that overflows in float64
        rows: Floats = np.sqrt(np.mean(np.square(values), axis=axis, keepdims=True))
    return rows


def yardstick(scale: Floats, noise: Noise | None, *, dtype: DType, precision: Precision) -> Floats:
    """Error of each element that an honest program of this type may make, to be multiplied by the table's factors."""
    one = limit(dtype, precision)
    if noise is None:
        return max(unit(dtype), one.product) / 2 * scale
    chain = max(1.0, np.sqrt(noise.terms) / SERIAL) * 16 / one.l2
    spread = np.hypot(scale, noise.spread)
    found: Floats = unit(dtype) / 2 * scale + np.hypot(one.accumulate * chain, one.product) * spread
    return found


def _steadied(squares: Floats) -> Floats:
    """A mean of few squares may be small by chance: no element counts for less than its row and column suggest."""
    if squares.ndim < 2 or not squares.any():
        return squares
    with np.errstate(over="ignore", invalid="ignore"):  # of an output that overflows in float64
        rows = squares.mean(axis=-1, keepdims=True)
        columns = squares.mean(axis=tuple(range(squares.ndim - 1)), keepdims=True)
        steadied: Floats = np.maximum(squares, rows * (columns / squares.mean()))
    return steadied


def _repeats(raw: Raw, rng: np.random.Generator) -> bool:
    """Whether some row, or the array, is equal to a large part. Of a sorted row, equal numbers are neighbours."""
    if raw.size < RUN:
        return False
    rows = raw.reshape(-1, raw.shape[-1])[rng.permutation(raw.size // raw.shape[-1])[:ROWS]]
    for sample in (rows, rows.reshape(1, -1)):
        apart = max(1, sample.shape[1] // RUN)
        ordered = np.sort(sample, axis=1)
        if sample.shape[1] >= RUN and (ordered[:, apart:] == ordered[:, :-apart]).any():
            return True
    return False


def _terms(task: Task, inputs: Mapping[str, Raw], oracle: Oracle, rng: np.random.Generator) -> dict[str, float]:
    """Counted by changing one element of each input: those that change with it are as many as it feeds.

    On ordinary values: others may hide it, as a large number hides all else in a softmax.
    """
    usual = {one.name: stored(one, inputs[one.name].shape, rng) for one in task.inputs}
    before = oracle(usual)
    found = dict.fromkeys(before, 1.0)
    for one in task.inputs:
        if not is_float(one.dtype) or one.values == "mask":
            continue
        changed, _ = near_pair(usual, one, rng)
        for name, values in oracle(changed).items():
            fed = int(np.count_nonzero(values != before[name])) * usual[one.name].size
            found[name] = max(found[name], fed / max(values.size, 1))
    return found


def _moved(task: Task, inputs: Mapping[str, Raw], rng: np.random.Generator) -> tuple[dict[str, Raw], float]:
    """The inputs, each up or down by chance, and the relative size of half such a move.

    Half, since rounding moves a number by half a unit in the last place at most. Wider types move by as many of
    their units as make one of the narrowest.
    """
    free = [one for one in task.inputs if is_free(one)]
    coarsest = max(free, key=lambda one: unit(one.dtype)).dtype if free else "float64"
    largest = MOVES.get(coarsest, LARGEST_MOVE)
    moved = {}
    for one in free:
        sizes = rng.integers(1, largest + 1, size=inputs[one.name].shape)
        moved[one.name] = _stepped(inputs[one.name], one.dtype, sizes * round(unit(coarsest) / unit(one.dtype)), rng)
    usual = float(np.sqrt(np.mean(np.square(np.arange(1.0, largest + 1)))))
    return {**inputs, **moved}, 2 * unit(coarsest) * usual


def there_and_back(task: Task, inputs: Mapping[str, Raw], rng: np.random.Generator) -> Iterator[dict[str, Raw]]:
    """The inputs with every value moved by what depends on the value alone, and moved the other way; none or 16."""
    free = {one.name: _sums_in(one.dtype) for one in task.inputs if is_free(one)}
    values = {one.name: _widened(inputs[one.name], one.dtype) for one in task.inputs if one.name in free}
    coarsest = max(free.values(), key=unit)
    factor = max(1, round(limit(coarsest, task.precision).product / unit(coarsest)))
    largest = LARGEST_MOVE if factor == 1 else MOVES["bfloat16"]
    for _ in range(PAIRS):
        sizes = rng.integers(1, largest + 1, size=HASHED) * factor
        signs = rng.integers(0, 2, size=HASHED) == 1
        for turn in (signs, ~signs):
            moved = {}
            for name, raw in values.items():
                at = _hashed(raw)
                steps = sizes[at] * round(unit(coarsest) / unit(free[name]))
                moved[name] = _put(raw, free[name], steps, turn[at])
            yield {**inputs, **moved}


def _sums_in(dtype: DType) -> DType:
    return "float64" if dtype == "float64" else "float32"


def _widened(raw: Raw, dtype: DType) -> Raw:
    return raw if dtype == "float64" else to_float32(raw, dtype)


def _hashed(raw: Raw) -> NDArray[np.intp]:
    """A number below HASHED for each value; equal ones have the same."""
    bits = np.ascontiguousarray(raw).view(f"u{raw.dtype.itemsize}").astype(np.uint64).reshape(raw.shape)
    return ((bits * np.uint64(HASH)) >> np.uint64(48)).astype(np.intp)


def is_free(one: Input) -> bool:
    """Whether it is a float that may take any value of its range, and so may be moved by roundings."""
    return is_float(one.dtype) and one.values in ("normal", "uniform", "positive")


def _stepped(raw: Raw, dtype: DType, units: NDArray[np.int64], rng: np.random.Generator) -> Raw:
    """Each element so many units further from zero or nearer to it, by chance."""
    return _put(raw, dtype, units, rng.integers(0, 2, size=raw.shape, dtype=np.uint8) == 1)


def _put(raw: Raw, dtype: DType, units: NDArray[np.int64], up: NDArray[np.bool_]) -> Raw:
    """Each element so many units further from zero or nearer to it; zero and what would leave the range stay."""
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
