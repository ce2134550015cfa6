"""The judge's numerics on tensors of PyTorch, so that arrays are compared where they lie: `numerics.py` says what and why.

Results and tolerances are those of `numerics.py` on the same numbers, up to the order of sums. Tensors have the task's
own types; exact and trusted results are float64. Needs PyTorch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from ridgeline.graph.task import DType, Precision, Task
from ridgeline.sandbox.judge import numerics
from ridgeline.sandbox.judge.device_values import Chance, change_one_element, draw_declared, to_type
from ridgeline.sandbox.judge.dtypes import FLOAT8, LARGEST, SMALLEST, is_float, unit
from ridgeline.sandbox.judge.numerics import (
    FLOAT8_OVERFLOWS,
    Fault,
    Tolerance,
    describe_error,
    describe_no_rounding,
    error_limit,
    is_continuous,
    move_dtype,
)

torch: Any = import_module("torch")
Tensor = Any
"""torch.Tensor"""
Tensors = Mapping[str, Tensor]
Oracle = Callable[[Tensors], Tensors]
"""Outputs by name, in float64, of inputs in the task's types."""
INTS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By bytes of an element: whole numbers of that size, to look at bits."""
LOOP_ROWS_BYTES = 1 << 24
"""Of inputs that leave the device so that plain loops over them are tried on the processor, at most, of each input."""

ITEMS_COUNTED = 4
"""Of an axis of independent items, where terms are counted."""
AGREE_ELEMENTS = 1 << 27
"""Of two outputs that are compared at a time, in float64."""


class Noise:
    """What rounding does to one output: `RoundingNoise` with a tensor."""

    def __init__(self, spread: Tensor, terms: float) -> None:
        self.spread, self.terms = spread, terms


class Range:
    """The whole numbers that one output may have, both ends included: `IntegerRange` with tensors."""

    def __init__(self, low: Tensor, high: Tensor) -> None:
        self.low, self.high = low, high


def torch_type(dtype: DType) -> Any:
    """The judge on a card: PyTorch's name for a type of a task."""
    return getattr(torch, dtype)


def view_bits(tensor: Tensor) -> Tensor:
    """The judge on a card: its elements as whole numbers of the same size."""
    return tensor.view(INTS[tensor.element_size()])


def same_bits(a: Tensor, b: Tensor) -> bool:
    """The judge on a card: whether two tensors of one type and size hold the same bytes: NaN equals itself, and -0.0 is not 0.0."""
    return bool(torch.equal(view_bits(a.reshape(-1)), view_bits(b.reshape(-1))))


def to_rows(values: Tensor) -> Tensor:
    """The judge on a card: two dimensions: the last axis, and all others. Of one dimension, or none, there is one row."""
    return values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values.reshape(1, -1)


def row_rms(values: Tensor) -> Tensor:
    """The judge on a card: root mean square of each row, in a shape that broadcasts against `values`."""
    if values.ndim > 1:
        return values.square().mean(dim=-1, keepdim=True).sqrt()
    return values.square().mean().sqrt().reshape((1,) * values.ndim)


def local_scale(exact: Tensor) -> Tensor:
    """The judge on a card: size of the numbers around each element, as of `numerics.local_scale`."""
    sizes = torch.where(torch.isfinite(exact), exact, 0.0).abs()
    return torch.maximum(sizes, row_rms(sizes))


def honest_error(scale: Tensor, noise: Noise | None, *, dtype: DType, precision: Precision) -> Tensor:
    """The judge on a card: error of each element that an honest program of this type may make, before the table's factors."""
    limits = error_limit(dtype, precision)
    if noise is None:
        return scale * (max(unit(dtype), limits.product) / 2)
    chain = max(1.0, noise.terms**0.5 / numerics.SERIAL_MOVES) * 16 / limits.l2
    spread = torch.hypot(scale, noise.spread).mul_(float(np.hypot(limits.accumulate * chain, limits.product)))
    return spread.add_(scale, alpha=unit(dtype) / 2)


# How far a right answer may be from the exact one.


def measure_rounding_noise(
    task: Task,
    inputs: Tensors,
    oracle: Oracle,
    generator: Any,
    rng: np.random.Generator,
    *,
    exact: Tensors,
    terms: Mapping[str, float],
    moves: int = numerics.MOVE_COUNT,
) -> dict[str, Noise]:
    """The judge on a card: sensitivity of every output at these inputs, as `numerics.measure_rounding_noise` measures it.

    `terms`: by output, as `count_terms` counts them.
    """
    flat = all(values.ndim < 2 for values in exact.values())
    count = moves * (2 if flat else 1)
    drifts = any(_has_equal_runs(inputs[tensor.name], rng) for tensor in task.inputs if is_continuous(tensor))
    floats = {tensor.name: _take_rows(inputs[tensor.name], rng) for tensor in task.inputs if is_continuous(tensor)}
    total = {name: torch.zeros_like(values) for name, values in exact.items()}
    for _ in range(count):  # the card works on these while the processor sums in loops below
        perturbation, relative = _perturb(task, inputs, generator)
        for name, values in oracle(perturbation).items():
            change = (values - exact[name]).div_(relative).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
            total[name].addcmul_(change, change)
    sums = {
        term_count: numerics.worst_loop_error(floats, term_count, rng)
        * numerics.LOOP_ALLOWANCE
        * numerics.SERIAL_MOVES
        / 16
        for term_count in set(terms.values())
    }
    return {
        name: Noise(
            _pool_neighbours(squares.div_(count)).sqrt_(),
            max(terms[name], sums[terms[name]] ** 2, (terms[name] * numerics.DRIFT_PER_TERM) ** 2 if drifts else 0.0),
        )
        for name, squares in total.items()
    }


def measure_integer_ranges(
    task: Task, inputs: Tensors, oracle: Oracle, generator: Any, *, exact: Tensors
) -> dict[str, Range]:
    """The judge on a card: which whole numbers rounding may make of every output that is no float: `numerics.measure_integer_ranges`."""
    names = [tensor.name for tensor in task.outputs if not is_float(tensor.dtype)]
    if not any(is_continuous(tensor) for tensor in task.inputs):
        return {}
    low = {name: exact[name] for name in names}
    high, inner = dict(low), {name: torch.zeros_like(values, dtype=torch.bool) for name, values in low.items()}
    for perturbation in move_pairs(task, inputs, generator):
        answer = oracle(perturbation)
        for name in names:
            numbers, least, most = answer[name], low[name], high[name]
            inner[name] |= (numbers != least) & (numbers != most) & (least < most)
            low[name], high[name] = torch.fmin(least, numbers), torch.fmax(most, numbers)
    more = {name: torch.where(inner[name], high[name] - low[name], 0.0) for name in names}
    return {name: Range(low[name] - more[name], high[name] + more[name]) for name in names}


def _pool_neighbours(squares: Tensor) -> Tensor:
    if squares.ndim < 2 or not bool(squares.any()):
        return squares
    rows = squares.mean(dim=-1, keepdim=True)
    columns = squares.mean(dim=tuple(range(squares.ndim - 1)), keepdim=True)
    return torch.maximum(squares, rows * (columns / squares.mean()))


def _has_equal_runs(values: Tensor, rng: np.random.Generator) -> bool:
    """The judge on a card: whether some row, or the array, is equal to a large part, by a sample of its rows."""
    parts = numerics.EQUAL_PARTS
    if values.numel() < parts:
        return False
    rows = view_bits(values) if values.element_size() == 1 else values  # 8-bit floats have no order, and need none
    rows = rows.reshape(-1, values.shape[-1])
    rows = rows[_indices(_pick(len(rows), numerics.ROWS_SAMPLED, rng), values)]
    for sample in (rows, rows.reshape(1, -1)):
        distance = max(1, sample.shape[1] // parts)
        ordered = sample.sort(dim=1).values
        if sample.shape[1] >= parts and bool((ordered[:, distance:] == ordered[:, :-distance]).any()):
            return True
    return False


def _take_rows(values: Tensor, rng: np.random.Generator) -> Any:
    """The judge on a card: the input on the processor in float32, or as much of it as `LOOP_ROWS_BYTES` hold: so many items of its first
    axis, where one is too large so many of the next of it, and so on; the last axis is whole."""
    most, bits = LOOP_ROWS_BYTES // 4, view_bits(values)
    for axis in range(values.ndim - 1):
        length = bits.shape[axis]
        count = max(1, most * length // max(bits.numel(), 1))
        if count < length:
            bits = bits.index_select(axis, _indices(_pick(length, count, rng), values))
    return bits.view(values.dtype).float().cpu().numpy()


def _pick(size: int, most: int, rng: np.random.Generator) -> Any:
    """The judge on a card: at most so many different places of `size`; no list of them all is made where there are many."""
    return rng.permutation(size)[:most] if size <= 1 << 16 else np.unique(rng.integers(size, size=most))


def _indices(places: Any, values: Tensor) -> Tensor:
    return torch.as_tensor(places, dtype=torch.int64, device=values.device)


def count_terms(
    task: Task,
    sizes: Mapping[str, Sequence[int]],
    oracle: Oracle,
    generator: Any,
    rng: np.random.Generator,
    *,
    axis: str | None = None,
) -> dict[str, float]:
    """The judge on a card: how many elements of inputs of these sizes feed one of an output: by changing one, on ordinary values.

    `axis`: a dimension along which items are independent: a few say the same as all, for what is changed, and what there
    is, shrink alike.
    """
    shapes = {
        tensor.name: tuple(
            min(ITEMS_COUNTED, extent) if name == axis else extent
            for name, extent in zip(tensor.shape, sizes[tensor.name], strict=True)
        )
        for tensor in task.inputs
    }
    chance = Chance(elements=generator, places=rng)
    usual = {tensor.name: draw_declared(tensor, shapes[tensor.name], chance) for tensor in task.inputs}
    before = dict(oracle(usual))
    terms = dict.fromkeys(before, 1.0)
    for tensor in task.inputs:
        if not is_float(tensor.dtype) or tensor.values == "mask":
            continue
        changed, _ = change_one_element(usual, tensor, chance)
        for name, values in oracle(changed).items():
            fed = int(torch.count_nonzero(values != before[name])) * usual[tensor.name].numel()
            terms[name] = max(terms[name], fed / max(values.numel(), 1))
    return terms


def _perturb(task: Task, inputs: Tensors, generator: Any) -> tuple[dict[str, Tensor], float]:
    """The judge on a card: the inputs, each element up or down by chance, and the relative size of half such a move."""
    free: dict[str, DType] = {tensor.name: move_dtype(tensor.dtype) for tensor in task.inputs if is_continuous(tensor)}
    coarsest: DType = max(free.values(), key=unit) if free else "float64"
    largest = numerics.LARGEST_MOVES.get(coarsest, numerics.LARGEST_MOVE)
    perturbation = dict(inputs)
    for name, dtype in free.items():
        values = inputs[name].to(torch_type(dtype))
        steps = torch.randint(
            1, largest + 1, values.shape, generator=generator, device=values.device, dtype=INTS[values.element_size()]
        )
        if coarsest != dtype:
            steps *= round(unit(coarsest) / unit(dtype))
        up = torch.randint(0, 2, values.shape, generator=generator, device=values.device, dtype=torch.bool)
        perturbation[name] = _step(values, dtype, steps, up)
    usual = float(np.sqrt(np.mean(np.square(np.arange(1.0, largest + 1)))))
    return perturbation, 2 * unit(coarsest) * usual


def move_pairs(task: Task, inputs: Tensors, generator: Any) -> Iterator[dict[str, Tensor]]:
    """The judge on a card: the inputs with every value moved by what depends on the value alone, and moved the other way; none or 16."""
    free: dict[str, DType] = {
        tensor.name: "float64" if tensor.dtype == "float64" else "float32"
        for tensor in task.inputs
        if is_continuous(tensor)
    }
    values = {name: inputs[name].to(torch_type(dtype)) for name, dtype in free.items()}
    coarsest = max(free.values(), key=unit)
    factor = max(1, round(error_limit(coarsest, task.precision).product / unit(coarsest)))
    largest = numerics.LARGEST_MOVE if factor == 1 else numerics.LARGEST_MOVES["bfloat16"]
    device = generator.device
    for _ in range(numerics.PERTURBED_PAIRS):
        sizes = torch.randint(1, largest + 1, (numerics.HASH_RANGE,), generator=generator, device=device) * factor
        signs = torch.randint(0, 2, (numerics.HASH_RANGE,), generator=generator, device=device, dtype=torch.bool)
        for turn in (signs, ~signs):
            perturbation = dict(inputs)
            for name, numbers in values.items():
                at = _hash_values(numbers)
                steps = sizes[at] * round(unit(coarsest) / unit(free[name]))
                bits = INTS[numbers.element_size()]
                perturbation[name] = _step(numbers, free[name], steps.to(bits), turn[at])
            yield perturbation


def _hash_values(values: Tensor) -> Tensor:
    """The judge on a card: a number below HASH_RANGE for each value; equal ones have the same."""
    signed = numerics.HASH_MULTIPLIER - (1 << 64)
    mixed = view_bits(values).to(torch.int64) * signed  # goes round at 64 bits
    return (mixed >> 48) & (numerics.HASH_RANGE - 1)


def _step(values: Tensor, dtype: DType, steps: Tensor, up: Tensor) -> Tensor:
    """The judge on a card: each element so many units further from zero or nearer to it; zero and what would leave the range stay.

    `steps` is written to. A float's bits as a whole number grow with its size, whatever its sign.
    """
    bits = view_bits(values)
    sizes = bits & torch.iinfo(bits.dtype).max
    largest = torch.tensor(LARGEST[dtype], dtype=torch.float64).to(values.dtype)
    top = int(view_bits(largest.reshape(1))[0])
    free = (sizes > steps) & (sizes <= top - steps)
    steps *= free
    steps *= up.to(torch.int8).mul_(2).sub_(1)
    return (bits + steps).view(values.dtype)


# Is one output right?


def compare(
    candidate: Tensor,
    oracle: Tensor,
    trusted: Tensor,
    *,
    dtype: DType,
    precision: Precision,
    output: str,
    noise: Noise | Range | None = None,
) -> tuple[Fault, ...]:
    """The judge on a card: faults of one output; empty when it is right. As `numerics.compare`."""
    if not is_float(dtype):
        return _compare_integers(candidate, oracle, trusted, output, noise if isinstance(noise, Range) else None)
    if isinstance(noise, Range):
        raise TypeError(f"{output}: a float output has no range of whole numbers")
    values = candidate.double()
    if noise is None and is_plainly_right(values, oracle, trusted, dtype=dtype, precision=precision):
        return ()
    if dtype in FLOAT8:
        wrong = _is_no_rounding(values, oracle, trusted, noise, dtype=dtype, precision=precision)
        return _count_no_roundings(wrong, values, oracle, output, dtype)
    scale = local_scale(oracle)
    unit_error = honest_error(scale, noise, dtype=dtype, precision=precision).add_(SMALLEST[dtype])
    if noise is None:
        unit_error = unit_error * _trusted_excess(oracle, trusted, unit_error)
    factors = error_limit(dtype, precision)
    rounded = oracle.to(candidate.dtype).double()
    near_limit = oracle.abs() + 2 * factors.peak * unit_error >= LARGEST[dtype]
    same_side = torch.signbit(values) == torch.signbit(rounded)
    values = torch.where(torch.isinf(values) & torch.isfinite(rounded) & near_limit & same_side, rounded, values)
    if fault := _compare_non_finite(values, rounded, trusted, output):
        return (fault,)
    return _compare_norms(values, oracle, trusted, unit_error, (factors.l2, factors.peak), (output, dtype))


def is_plainly_right(
    values: Tensor,
    oracle: Tensor,
    trusted: Tensor,
    *,
    dtype: DType,
    precision: Precision,
    noise: Noise | None = None,
) -> bool:
    """The judge on a card: whether `compare` finds nothing, told by a few passes; where they do not tell, it says no."""
    if dtype in FLOAT8:
        return not bool(_is_no_rounding(values, oracle, trusted, noise, dtype=dtype, precision=precision).any())
    factors, right = error_limit(dtype, precision), to_rows(oracle)
    length = right.shape[1]
    rows = _root_mean_squares(right)
    if not _has_room(rows, length, dtype):
        return False
    unit_error = torch.maximum(right.abs(), rows[:, None])
    if noise is None:
        unit_error *= max(unit(dtype), factors.product) / 2
        unit_error += SMALLEST[dtype]
        missed = (to_rows(trusted) - right).div_(unit_error)
        excess = _root_mean_squares(missed)
        excess = torch.maximum(excess, torch.clamp(_median(excess), min=1.0))
    else:
        unit_error = honest_error(unit_error.reshape(oracle.shape), noise, dtype=dtype, precision=precision)
        unit_error = to_rows(unit_error.add_(SMALLEST[dtype]))
        missed, excess = torch.empty_like(right), torch.ones_like(rows)
    torch.sub(to_rows(values), right, out=missed).div_(unit_error)
    peaks = missed.abs().amax(dim=1)
    sums = missed.square_().sum(dim=1) / excess.square()
    within = torch.isfinite(excess).all() & (sums.sum() <= factors.l2**2 * right.numel())
    return bool(within & (peaks <= 2 * factors.peak * excess).all())


def has_room(oracle: Tensor, dtype: DType) -> bool:
    """The judge on a card: whether all numbers are finite and so far from the end of the type that nothing goes over it."""
    right = to_rows(oracle)
    return _has_room(_root_mean_squares(right), right.shape[1], dtype)


def _has_room(rows: Tensor, length: int, dtype: DType) -> bool:
    if dtype in FLOAT8:  # `_is_no_rounding` minds the end of the type itself
        return bool(rows.isfinite().all())
    return bool(rows.max() * length**0.5 < LARGEST[dtype] / 4)


def _root_mean_squares(rows: Tensor) -> Tensor:
    return torch.linalg.vector_norm(rows, dim=1).div_(rows.shape[1] ** 0.5)


def _median(values: Tensor) -> Tensor:
    ordered = values.reshape(-1).sort().values
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def compare_exact(
    candidate: Tensor,
    oracle: Tensor,
    trusted: Tensor,
    *,
    dtype: DType,
    precision: Precision,
    output: str,
    noise: Noise | Range | None = None,
) -> tuple[Fault, ...]:
    """The judge on a card: like `compare`, with next to no tolerance where right programs have no freedom: `numerics.compare_exact`."""
    if dtype not in numerics.EXACT_UNITS or not _is_exact(oracle, trusted, candidate.dtype, dtype):
        return compare(candidate, oracle, trusted, dtype=dtype, precision=precision, output=output, noise=noise)
    right, values = oracle.to(candidate.dtype).double(), candidate.double()
    is_close = (values - right).abs() <= numerics.EXACT_UNITS[dtype] * unit(dtype) * local_scale(right)
    return _count_wrong(~(is_close | (values == right)), values, right, output)


def _is_exact(oracle: Tensor, trusted: Tensor, kind: Any, dtype: DType) -> bool:
    if not bool(torch.isfinite(oracle).all()):
        return False
    if dtype == "float64":
        scaled = torch.frexp(oracle).mantissa * 2.0**numerics.SHORT_BITS
        return bool(torch.equal(scaled.round(), scaled))
    return bool(torch.equal(oracle.float().double(), oracle) and torch.equal(trusted, oracle.to(kind).double()))


def _compare_integers(
    candidate: Tensor, oracle: Tensor, trusted: Tensor, output: str, reach: Range | None
) -> tuple[Fault, ...]:
    values = candidate.double()
    wrong = ~((values == oracle) | (values == trusted))
    if reach is not None:
        wrong &= ~((values >= reach.low) & (values <= reach.high))
    return _count_wrong(wrong, values, oracle, output)


def _count_wrong(wrong: Tensor, values: Tensor, oracle: Tensor, output: str) -> tuple[Fault, ...]:
    count = int(torch.count_nonzero(wrong))
    if not count:
        return ()
    where = int(wrong.reshape(-1).to(torch.uint8).argmax())
    detail = (
        f"{count} of {wrong.numel()} elements are not the exact result, the first at {_describe_place(where, wrong)}: "
        f"{_describe_value(values, where)} instead of {_describe_value(oracle, where)}"
    )
    return (Fault("exact", output, detail, float(count), 0.0),)


def _is_no_rounding(
    values: Tensor, oracle: Tensor, trusted: Tensor, noise: Noise | None, *, dtype: DType, precision: Precision
) -> Tensor:
    """The judge on a card: where a result of 8 bits is no rounding of an honest one, as `numerics._is_no_rounding`."""
    largest = LARGEST[dtype]
    error = _float32_error(local_scale(oracle.clamp(-largest, largest)), noise, precision)
    low, high = (_round_saturating(oracle + side * error, dtype) for side in (-1, 1))
    usual = trusted.clamp(-largest, largest)
    right = (values >= torch.fmin(low, usual)) & (values <= torch.fmax(high, usual))
    over = oracle.abs() + error >= FLOAT8_OVERFLOWS[dtype]
    past = (
        values.isnan()
        if dtype == "float8_e4m3fn"
        else values == torch.copysign(torch.full_like(oracle, torch.inf), oracle)
    )
    nothing = values.isnan() & (oracle.isnan() | trusted.isnan())
    return ~(right | (over & past) | (values == trusted) | nothing)


def _float32_error(scale: Tensor, noise: Noise | None, precision: Precision) -> Tensor:
    """The judge on a card: by how much an element may be off before it is rounded to 8 bits: `numerics.float32_error`."""
    error = honest_error(scale, noise, dtype="float32", precision=precision).add_(SMALLEST["float32"])
    return error.mul_(2 * error_limit("float32", precision).peak)


def _round_saturating(values: Tensor, dtype: DType) -> Tensor:
    return to_type(values.clamp(-LARGEST[dtype], LARGEST[dtype]), dtype).double()


def _count_no_roundings(wrong: Tensor, values: Tensor, oracle: Tensor, output: str, dtype: DType) -> tuple[Fault, ...]:
    count = int(torch.count_nonzero(wrong))
    if not count:
        return ()
    away = torch.where(wrong, (values - oracle).abs().nan_to_num(nan=torch.inf, posinf=torch.inf), -1.0)
    where = int(away.reshape(-1).argmax())
    value, exact = float(values.reshape(-1)[where]), float(oracle.reshape(-1)[where])
    place = _describe_place(where, wrong)
    return (describe_no_rounding(output, dtype, count, wrong.numel(), place, value, exact),)


def _trusted_excess(oracle: Tensor, trusted: Tensor, unit_error: Tensor) -> Tensor:
    """The judge on a card: how many units the trusted program is off in each row; at least 1, and at least what is usual."""
    errors = (trusted - oracle) / unit_error
    rows = row_rms(torch.where(torch.isfinite(errors), errors, 0.0))
    return torch.maximum(rows, torch.clamp(_median(rows), min=1.0))


def _compare_non_finite(values: Tensor, rounded: Tensor, trusted: Tensor, output: str) -> Fault | None:
    """The judge on a card: infinite and NaN exactly where the result is; where exact and trusted differ in that, either will do."""
    right = (torch.isfinite(values) & (torch.isfinite(rounded) | torch.isfinite(trusted))) | _have_same_non_finite(
        values, rounded
    )
    wrong = ~(right | _have_same_non_finite(values, trusted))
    count = int(torch.count_nonzero(wrong))
    if not count:
        return None
    where = int(wrong.reshape(-1).to(torch.uint8).argmax())
    detail = (
        f"{count} of {wrong.numel()} elements, the first at {_describe_place(where, wrong)}: "
        f"{_describe_value(values, where)} instead of {_describe_value(rounded, where)}"
    )
    return Fault("nonfinite", output, detail, float(count), 0.0)


def _have_same_non_finite(left: Tensor, right: Tensor) -> Tensor:
    return ~torch.isfinite(left) & ((left == right) | (torch.isnan(left) & torch.isnan(right)))


def _compare_norms(
    values: Tensor,
    oracle: Tensor,
    trusted: Tensor,
    unit_error: Tensor,
    factors: tuple[float, float],
    output_type: tuple[str, DType],
) -> tuple[Fault, ...]:
    """The judge on a card: the two norms of the error, each against the trusted program's own. Written so that NaN is a fault.

    `named`: the output and its type.
    """
    output, dtype = output_type
    judged = torch.isfinite(values) & torch.isfinite(oracle)
    count = int(torch.count_nonzero(judged))
    if not count:
        return ()
    errors = torch.where(judged, (values - oracle).abs(), 0.0).div_(unit_error)
    usual = torch.where(judged & torch.isfinite(trusted), (trusted - oracle).abs(), 0.0).div_(unit_error)
    where = int(errors.reshape(-1).argmax())
    place = (
        f"worst at {_describe_place(where, errors)}: {_describe_value(values, where)} "
        f"instead of {_describe_value(oracle, where)}"
    )
    share = (count / errors.numel()) ** 0.5
    faults: list[Fault] = []
    measured, allowed = _rms(errors) / share, factors[0] * max(_rms(usual) / share, 1.0)
    if not measured <= allowed:
        right = torch.where(judged, oracle, 0.0)
        away = _rms(torch.where(judged, values, 0.0) - right)
        text = describe_error("relative L2 error", away, _rms(right), measured / allowed, dtype)
        faults.append(Fault("relative_l2", output, f"{text}; {place}", measured, allowed))
    measured, allowed = float(errors.max()) / 2, factors[1] * max(float(usual.max()) / 2, 1.0)
    if not measured <= allowed:
        away = abs(float(values.reshape(-1)[where] - oracle.reshape(-1)[where]))
        size = float(local_scale(oracle).reshape(-1)[where])
        text = describe_error("largest error", away, size, measured / allowed, dtype)
        faults.append(Fault("max_norm", output, f"{text}; {place}", measured, allowed))
    return tuple(faults)


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


def _describe_place(flat: int, values: Tensor) -> str:
    return str([int(index) for index in np.unravel_index(flat, tuple(values.shape))])


def _describe_value(values: Tensor, flat: int) -> str:
    return f"{float(values.reshape(-1)[flat]):.9g}"


# Float results that a rounding decides.


def find_discontinuities(
    task: Task, inputs: Tensors, oracle: Oracle, generator: Any, *, exact: Tensors, got: Tensors
) -> dict[str, Tensor]:
    """The judge on a card: what an honest program may have had in mind, of outputs that jump where they are far off, as of `numerics`."""
    if not any(is_continuous(tensor) for tensor in task.inputs):
        return {}
    least = {name: _least_error(exact[name], task.dtype_of(name), task.precision) for name in got}
    places: dict[str, tuple[Tensor, Tensor]] = {}
    for name, values in got.items():
        far_places = torch.nonzero(((values - exact[name]).abs() > least[name]).reshape(-1)).reshape(-1)
        if 0 < far_places.numel() <= _most_jumping(values.numel()):
            places[name] = far_places, _sample_places(values.numel(), generator)
    samples = {name: [_take(exact[name], both)] for name, both in places.items()}
    for perturbation in move_pairs(task, inputs, generator) if places else ():
        answer = oracle(perturbation)
        for name, both in places.items():
            samples[name].append(_take(answer[name], both))
    sides: dict[str, Tensor] = {}
    for name, (far_places, sample) in places.items():
        values = torch.stack(samples[name])
        jump = _is_split(values, _take(least[name], (far_places, sample)))
        count = far_places.numel()
        if not bool(jump[:count].any()) or int(jump[count:].sum()) > _most_jumping(sample.numel()):
            continue
        there = torch.nonzero(jump[:count]).reshape(-1)
        side, at = exact[name].reshape(-1).clone(), far_places[there]
        nearest = (values[:, there] - got[name].reshape(-1)[at]).abs().argmin(dim=0, keepdim=True)
        side[at] = values[:, there].gather(0, nearest)[0]
        sides[name] = side.reshape(exact[name].shape)
    return sides


def _is_split(values: Tensor, least: Tensor) -> Tensor:
    """The judge on a card: of each column: whether its numbers lie in two narrow places that are far apart."""
    ordered = torch.where(torch.isfinite(values), values, 0.0).sort(dim=0).values
    gaps = ordered.diff(dim=0)
    gap, at = gaps.max(dim=0, keepdim=True)
    below = ordered.gather(0, at)[0] - ordered[0]
    above = ordered[-1] - ordered.gather(0, at + 1)[0]
    gap = gap[0]
    wide = gap > numerics.GAP_FACTOR * torch.maximum(below, above)
    return (gap > least) & wide & torch.isfinite(values).all(dim=0)


def _least_error(exact: Tensor, dtype: DType, precision: Precision) -> Tensor:
    scale = local_scale(exact)
    if dtype in FLOAT8:
        halves = torch.exp2(torch.frexp(exact).exponent - 1.0).mul_(unit(dtype)).clamp_(min=SMALLEST[dtype] / 2)
        return halves.add_(_float32_error(scale, None, precision))
    error = honest_error(scale, None, dtype=dtype, precision=precision) + SMALLEST[dtype]
    return error * (2 * error_limit(dtype, precision).peak)


def _take(values: Tensor, places: Sequence[Tensor]) -> Tensor:
    return values.reshape(-1)[torch.cat(tuple(places))]


def _most_jumping(size: int) -> int:
    return max(1, int(numerics.MOST_JUMPING * size))


def _sample_places(size: int, generator: Any) -> Tensor:
    if size <= numerics.SAMPLE_ELEMENTS:
        return torch.arange(size, device=generator.device)
    return torch.randint(0, size, (numerics.SAMPLE_ELEMENTS,), generator=generator, device=generator.device)


# A quick comparison of two sides that had the same inputs.


def derive_tolerance(
    oracle: Tensor, trusted: Tensor, *, dtype: DType, precision: Precision, noise: Noise | None = None
) -> Tolerance:
    """The judge on a card: twice what `compare` allows one answer, as `numerics.derive_tolerance`."""
    if dtype in FLOAT8:
        error = _float32_error(local_scale(oracle), noise, precision)
        return replace(numerics.default_tolerance(dtype, precision), peak_amount=2 * float(error.max()))
    factors, scale = error_limit(dtype, precision), local_scale(oracle)
    amounts = honest_error(scale, noise, dtype=dtype, precision=precision)
    amounts -= honest_error(scale, None, dtype=dtype, precision=precision)
    missed = torch.nan_to_num((trusted - oracle).abs(), nan=0.0, posinf=0.0, neginf=0.0)
    plain = numerics.default_tolerance(dtype, precision)
    return Tolerance(
        l2=plain.l2,
        l2_amount=2 * factors.l2 * _rms(torch.maximum(amounts, row_rms(missed))),
        peak=plain.peak,
        peak_amount=2 * factors.peak * max(float(amounts.max()), float(missed.max())),
    )


def agree(a: Tensor, b: Tensor, *, dtype: DType, within: Tolerance) -> bool:
    """The judge on a card: whether `a` may be the same result as `b`, the side that is trusted more: sizes are taken from it.

    False says only that the oracle must decide. Equal bytes agree; NaN and infinities must be the same.
    """
    if same_bits(a, b):
        return True
    if not is_float(dtype):
        return False
    if dtype in FLOAT8:
        return _are_neighbours(a.reshape(-1), b.reshape(-1), dtype, within)
    left, right = to_rows(a), to_rows(b)
    step, total = max(1, AGREE_ELEMENTS // right.shape[1]), 0.0
    for start in range(0, len(right), step):
        part = _sum_shares(left[start : start + step].double(), right[start : start + step].double(), dtype, within)
        if part is None:
            return False
        total += part
    return bool(total <= right.numel())


def _are_neighbours(a: Tensor, b: Tensor, dtype: DType, within: Tolerance) -> bool:
    """The judge on a card: whether two results of 8 bits differ by single steps, and seldom: `numerics._are_neighbours`."""
    places = torch.nonzero(view_bits(a) != view_bits(b)).reshape(-1)
    if places.numel() > numerics.MOST_TIES * a.numel() + 1:
        return False
    left, right = (view_bits(each)[places].view(each.dtype).double() for each in (a, b))
    step = torch.minimum(left.abs(), right.abs()).mul_(within.peak).clamp_(min=SMALLEST[dtype])
    near = (left - right).abs() <= step + within.peak_amount
    return bool((near | (left.isnan() & right.isnan())).all())


def _sum_shares(left: Tensor, right: Tensor, dtype: DType, within: Tolerance) -> float | None:
    """The judge on a card: sum of squared differences of some rows, in units of what is allowed; None where one alone is too large."""
    finite = torch.isfinite(right)
    if not bool(finite.all()):
        strange = torch.where(finite, 0.0, right), torch.where(torch.isfinite(left), 0.0, left)
        if not bool(((strange[0] == strange[1]) | (strange[0].isnan() & strange[1].isnan())).all()):
            return None
        left, right = torch.where(finite, left, 0.0), torch.where(finite, right, 0.0)
    rows = right.square().mean(dim=1, keepdim=True).sqrt_()
    differences = left.sub_(right).abs_()
    allowed = within.l2 * rows + within.l2_amount + SMALLEST[dtype]
    shares = differences.square().sum(dim=1, keepdim=True).div_(allowed.square_()).sum()
    limits = torch.maximum(right.abs_(), rows).mul_(within.peak).add_(within.peak_amount + SMALLEST[dtype])
    return float(shares) if bool((differences <= limits).all()) else None
