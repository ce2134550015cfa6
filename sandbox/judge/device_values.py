"""Values of judged calls drawn where they are used, on a card: `inputs.py` says which kinds there are and why.

Each kind bends the same elements in the same way as there. Chance comes from a generator of PyTorch for elements and
from NumPy's for the few numbers that decide where. Values are made in float32, or float64 where the task's type is,
and rounded to the task's types. Needs PyTorch.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from ridgeline.graph.task import DType, Input, Task
from ridgeline.sandbox.judge import inputs as kinds
from ridgeline.sandbox.judge.dtypes import FLOAT8, LARGEST, STORAGE, is_float
from ridgeline.sandbox.judge.inputs import (
    MIXES,
    PARTIAL_PREFIX,
    PARTS,
    SPIKING,
    axis_lengths,
    is_index,
    is_integer_like,
    is_mask,
    leading_input,
)

torch: Any = import_module("torch")
Tensor = Any
"""torch.Tensor"""
Rng = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Where chance comes from: `elements` fills tensors on the device, `places` decides the few numbers besides."""

    elements: Any
    """torch.Generator"""
    places: Rng
    kind: Any = torch.float64
    """Type of the floats that are drawn."""

    @classmethod
    def draw(cls, device: str, rng: Rng) -> "Chance":
        """The judge on a card: new, from NumPy's generator."""
        elements = torch.Generator(device=device)
        elements.manual_seed(int(rng.integers(1 << 63)))
        return cls(elements=elements, places=rng)

    def seed_anew(self, seed: int) -> "Chance":
        """The judge on a card: another one on the same device, which draws the same each time."""
        return Chance.draw(self.device, np.random.default_rng(seed))

    @property
    def device(self) -> Any:
        """The judge on a card: where elements are drawn."""
        return self.elements.device

    def of(self, tensor: Input) -> "Chance":
        """The judge on a card: the same for an input's floats."""
        return replace(self, kind=torch.float64 if tensor.dtype == "float64" else torch.float32)

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        """The judge on a card: floats of N(0, 1)."""
        return torch.randn(shape, generator=self.elements, device=self.device, dtype=self.kind)

    def uniform(self, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> Tensor:
        """The judge on a card: floats from `low` to below `high`."""
        values = torch.rand(shape, generator=self.elements, device=self.device, dtype=self.kind)
        return values.mul_(high - low).add_(low)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Tensor:
        """The judge on a card: int64 from `low` to below `high`."""
        if low >= -(1 << 62) and high <= 1 << 62:
            return torch.randint(low, high, shape, generator=self.elements, device=self.device)
        return torch.as_tensor(self.places.integers(low, high, size=shape), device=self.device)

    def signs(self, shape: tuple[int, ...]) -> Tensor:
        """The judge on a card: floats, one or minus one."""
        return self.integers(0, 2, shape).to(self.kind).mul_(2).sub_(1)

    def at(self, places: Any) -> Tensor:
        """The judge on a card: indices that NumPy's generator chose, on the device."""
        return torch.as_tensor(np.asarray(places), dtype=torch.int64, device=self.device)

    def order(self, length: int) -> Tensor:
        """The judge on a card: a permutation."""
        return torch.randperm(length, generator=self.elements, device=self.device)


def draw(task: Task, dims: Mapping[str, int], mix: str, chance: Chance, *, reach: float = 1.0) -> dict[str, Tensor]:
    """The judge on a card: new inputs in the task's types, as `inputs.draw` draws them. Raises KeyError for a mix that is none."""
    if mix not in (*MIXES, *PARTS):
        raise KeyError(mix)
    part, mix = mix.startswith(PARTIAL_PREFIX), mix.removeprefix(PARTIAL_PREFIX)
    shapes = {tensor.name: axis_lengths(tensor, dims) for tensor in task.inputs}
    chosen, lines = leading_input(task, shapes, chance.places), bool(chance.places.integers(2))
    inputs: dict[str, Tensor] = {}
    for number, tensor in enumerate(task.inputs):
        shape = shapes[tensor.name]
        if mix == MIXES[0]:
            inputs[tensor.name] = draw_declared(tensor, shape, chance)
            continue
        arrays = chance.of(tensor)
        usual = values = _ordinary(tensor, shape, arrays)
        if is_integer_like(tensor):
            index = is_index(task, tensor, dims)
            values = _bend_integers(tensor, values, mix, arrays, mild=reach < 1, index=index) if reach else values
        elif mix != SPIKING:
            values = BENDS[mix](tensor, values, arrays, tensor.name == chosen)
        elif reach and tensor.constness != "const":
            values = _add_spikes(tensor, values, arrays, reach=reach, integer_output=kinds._counts(task), few=part)
        if part and (is_integer_like(tensor) or mix != SPIKING):
            values = _mix_part(usual, values, arrays, lines=lines, is_leading=not number)
        inputs[tensor.name] = to_type(_scale(tensor, values), tensor.dtype)
    return inputs


def draw_ordinary(
    task: Task, dims: Mapping[str, int], chance: Chance, constants: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The judge on a card: values of all inputs of a call as they declare them; those in `constants` are drawn no more."""
    return {
        tensor.name: constants[tensor.name]
        if tensor.name in constants
        else draw_declared(tensor, axis_lengths(tensor, dims), chance)
        for tensor in task.inputs
    }


def draw_near_pairs(
    task: Task, dims: Mapping[str, int], chance: Chance, constants: Mapping[str, Tensor]
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """The judge on a card: ordinary inputs, then the same with one element of one changed: `call_names.draw_near_pairs`."""
    inputs = {**draw(task, dims, MIXES[0], chance), **constants}
    yield "", inputs
    for tensor in (tensor for tensor in task.inputs if tensor.constness != "const"):
        for _ in range(kinds.NEAR_CHANGES):
            changed, place = change_one_element(inputs, tensor, chance)
            yield f"{tensor.name}{list(place)} changed", changed


def draw_declared(tensor: Input, shape: tuple[int, ...], chance: Chance) -> Tensor:
    """The judge on a card: values as the input declares them, in its type. Floats are drawn in it: no float64 of all is made."""
    kind, device, generator = getattr(torch, tensor.dtype), chance.device, chance.elements
    if is_mask(tensor) or is_integer_like(tensor):
        return to_type(_scale(tensor, _ordinary(tensor, shape, chance)), tensor.dtype)
    drawn_in = kind if tensor.dtype in ("float32", "float64") else torch.float32
    values = torch.empty(shape, dtype=drawn_in, device=device)
    if tensor.values == "normal":
        values.normal_(generator=generator)
    else:
        low, high = tensor.within or ((0.1, 1.0) if tensor.values == "positive" else (-1.0, 1.0))
        values.uniform_(low, high, generator=generator)
        if tensor.values == "positive" and tensor.within is None:
            values.clamp_(min=low)
    return to_type(values, tensor.dtype)


def to_type(values: Tensor, dtype: DType) -> Tensor:
    """The judge on a card: rounded to the type; for whole numbers the nearest end of it where they are too large."""
    if dtype == "bool":
        return values != 0
    kind = getattr(torch, dtype)
    if dtype == "float8_e4m3fn" and values.dtype != kind:
        values = values.clamp(-LARGEST[dtype], LARGEST[dtype])  # what PyTorch makes of more hangs on its version
    if is_float(dtype) or values.dtype == kind:
        return values.to(kind)
    limits = torch.iinfo(kind)
    if values.dtype.is_floating_point:
        values = values.nan_to_num(nan=0.0).round()
    return values.clamp(limits.min, limits.max).to(kind)


def _scale(tensor: Input, values: Tensor) -> Tensor:
    """The judge on a card: values of the usual range moved to the input's own, as `inputs.scale_to_domain`."""
    if tensor.within is None or is_integer_like(tensor):
        return values
    (low, high), (start, end) = tensor.within, (0.1, 1.0) if tensor.values == "positive" else (-1.0, 1.0)
    return (low + (values - start) * ((high - low) / (end - start))).clamp(low, high)


def _ordinary(tensor: Input, shape: tuple[int, ...], chance: Chance) -> Tensor:
    """The judge on a card: floats, or int64 for whole numbers and masks."""
    if is_mask(tensor):
        return chance.integers(0, 2, shape)
    if is_integer_like(tensor):
        return chance.integers(tensor.low, max(tensor.high, tensor.low + 1), shape)
    match tensor.values:
        case "uniform":
            return chance.uniform(shape, -1.0, 1.0)
        case "positive":
            return chance.uniform(shape, 0.1, 1.0)
        case _:
            return chance.normal(shape)


def change_one_element(
    inputs: Mapping[str, Tensor], tensor: Input, chance: Chance
) -> tuple[dict[str, Tensor], tuple[int, ...]]:
    """The judge on a card: the inputs with one element of one of them changed, and where: `inputs.change_one_element`."""
    values, rng = inputs[tensor.name].clone(), chance.places
    flat, size = values.reshape(-1), values.numel()
    at = int(rng.integers(size))
    places = torch.as_tensor(rng.integers(0, size, size=kinds.DONORS), device=values.device)
    # PyTorch copies and converts 8-bit floats, and does little else with them, on a card least
    donors = flat.view(torch.uint8)[places].view(values.dtype) if tensor.dtype in FLOAT8 else flat[places]
    distances = (donors.double() - flat[at].double()).abs().nan_to_num(nan=0.0)
    if float(distances.max()) > 0:
        flat[at] = donors[int(distances.argmax())]
    elif not is_integer_like(tensor):
        flat[at] = 1 if float(flat[at]) == 0 else float(flat[at]) / 2
    else:
        fresh = draw_declared(tensor, (kinds.DONORS,), chance)
        differ = fresh.float() != flat[at].float() if tensor.dtype in FLOAT8 else fresh != flat[at]
        flat[at] = fresh[int(differ.to(torch.uint8).argmax())]
    place = tuple(int(index) for index in np.unravel_index(at, tuple(values.shape)))
    return {**inputs, tensor.name: values}, place


# Kinds of floats, as in `inputs.MIXED`.

Bend = Callable[[Input, Tensor, Chance, bool], Tensor]


def _by_row(values: Tensor) -> tuple[int, ...]:
    return (*values.shape[:-1], 1) if values.ndim > 1 else tuple(values.shape)


def _wide(tensor: Input, values: Tensor, chance: Chance, chosen: bool) -> Tensor:
    low, high = kinds.WIDE_NARROW.get(tensor.dtype, kinds.WIDE)
    powers = chance.uniform(_by_row(values), low, high)
    if tensor.values == "normal":
        return values * torch.exp2(powers)
    if tensor.values == "uniform":
        return values * torch.exp2(-powers.abs())
    ends = torch.exp2(chance.uniform(_by_row(values), math.log2(0.1), 0.0))
    return torch.minimum(values, ends).clamp_(min=0.1)


def _offset(tensor: Input, values: Tensor, chance: Chance, chosen: bool) -> Tensor:
    return values + kinds.OFFSET if chosen else values


def _shift(tensor: Input, values: Tensor, chance: Chance, chosen: bool) -> Tensor:
    if not chosen:
        return values
    shape = (*values.shape[:-1], 1) if values.ndim > 1 else (1,) * values.ndim
    return values + kinds.SHIFT * chance.signs(shape)


def _tail(tensor: Input, values: Tensor, chance: Chance, chosen: bool) -> Tensor:
    if not values.ndim:
        return values
    length = values.shape[-1]
    start, rows = length - max(1, length // kinds.TAIL), values.clone()
    if tensor.values == "positive":
        rows[..., :start] = 0.1 + (values[..., :start] - 0.1) / kinds.TAIL
        return rows
    rows[..., :start] /= kinds.TAIL
    return rows if tensor.values == "uniform" else rows.mul_(4.0)


def _long_tail(tensor: Input, values: Tensor, chance: Chance, chosen: bool) -> Tensor:
    if not chosen or not values.ndim:
        return values
    length, rows = values.shape[-1], values * 0.5
    peaks = chance.integers(0, length, (*values.shape[:-1], 1))
    return rows.scatter_(-1, peaks, math.log(length) + 0.125)


def _cancel(tensor: Input, values: Tensor, chance: Chance, chosen: bool) -> Tensor:
    if tensor.values == "positive" or not values.ndim:
        return values
    half, order = values.shape[-1] // 2, chance.order(values.shape[-1])
    rows = chance.normal(tuple(values.shape)).mul_(kinds.SMALL)
    left, right = order[:half], order[half : 2 * half]
    rows[..., left] += values[..., left]
    rows[..., right] -= values[..., left]
    return rows.clamp_(-1.0, 1.0) if tensor.values == "uniform" else rows


def _structure(tensor: Input, values: Tensor, chance: Chance, chosen: bool) -> Tensor:
    rng = chance.places
    if values.ndim < 2:
        return _special_row(tensor, values, chance) if values.ndim and rng.random() < kinds.SPECIAL else values
    matrices = values.clone()
    items = matrices if values.ndim == 2 else matrices.reshape(-1, *values.shape[-2:])
    for place in kinds._places(len(items), rng):
        if values.ndim > 2:
            items[place] = _special_matrix(tensor, items, place, chance)
        elif rng.random() < kinds.SPECIAL:
            items[place] = items[int(rng.integers(len(items)))].clone()
        else:
            items[place] = _special_row(tensor, items[place], chance)
    return items.reshape(values.shape)


def _special_row(tensor: Input, row: Tensor, chance: Chance) -> Tensor:
    fraction, power = math.frexp(float(row.reshape(-1)[int(chance.places.integers(row.numel()))]))
    constant = torch.full_like(row, math.ldexp(math.ceil(fraction * 16) / 16, power))
    if tensor.values == "positive":
        return constant
    choice = int(chance.places.integers(3))
    if choice < 2:
        return (constant, torch.zeros_like(row))[choice]
    return torch.where(chance.uniform(tuple(row.shape)) < kinds.SPECIAL, row, 0.0)


def _special_matrix(tensor: Input, items: Tensor, place: int, chance: Chance) -> Tensor:
    matrix, rng = items[place], chance.places
    choice = int(rng.integers(2 if tensor.values == "positive" else 5))
    if tensor.values == "positive":
        rank_one = matrix[:, :1] * matrix[:1, :]
        return items[int(rng.integers(len(items)))].clone() if choice == 0 else rank_one.clamp(0.1, 1.0)
    diagonal = matrix * torch.eye(*matrix.shape, dtype=matrix.dtype, device=matrix.device)
    if choice == 0:
        return torch.zeros_like(matrix)
    if choice == 1:
        return items[int(rng.integers(len(items)))].clone()
    return (matrix[:, :1] * matrix[:1, :], diagonal, diagonal + kinds.SMALL * matrix)[choice - 2]


def _add_spikes(
    tensor: Input, values: Tensor, chance: Chance, *, reach: float, integer_output: bool, few: bool
) -> Tensor:
    """The judge on a card: lone outliers at secret places, as `inputs.add_spikes`."""
    if not values.numel() or tensor.values == "positive":
        return values
    rng = chance.places
    numbers = values * kinds.QUIET if tensor.values == "uniform" and not few else values.clone()
    flat = numbers.reshape(-1, values.shape[-1] if values.ndim else 1)
    low, high = kinds.SPIKE.get(tensor.dtype, kinds.SPIKE_WIDE)
    high = min(high, kinds.SPIKE_WHOLE) * reach if integer_output else high * reach
    number = int(rng.integers(1, kinds.OUTLIERS_IN_ALL + 1))
    shape = (int(flat.shape[0]), int(flat.shape[1]))
    rows, columns = tuple(rng.integers(size, size=number) for size in shape) if few else kinds._outliers(shape, rng)
    quantiles = rng.random(len(rows))
    if few:
        quantiles = (quantiles + rng.permutation(kinds.OUTLIERS_IN_ALL)[:number]) / kinds.OUTLIERS_IN_ALL
    low = min(low, high / 2)
    powers = low + (high - low) * quantiles if tensor.values == "normal" else np.zeros(len(rows))
    spikes = torch.as_tensor(rng.choice((-1.0, 1.0), size=len(rows)) * np.exp2(powers), device=values.device)
    spikes = spikes.to(values.dtype)
    flat[chance.at(rows), chance.at(columns)] = spikes
    return flat.reshape(values.shape)


BENDS: Mapping[str, Bend] = {
    "wide": _wide,
    "offset": _offset,
    "shift": _shift,
    "tail": _tail,
    "long_tail": _long_tail,
    "cancel": _cancel,
    "structure": _structure,
}


def _mix_part(values: Tensor, unusual: Tensor, chance: Chance, *, lines: bool, is_leading: bool) -> Tensor:
    """The judge on a card: ordinary values with a part of the bent ones: `inputs.mix_part`."""
    if not values.ndim:
        return unusual
    rng, length = chance.places, values.shape[-1]
    place: tuple[int | slice, ...]
    if lines and values.ndim > 1:
        along = values.ndim - 1 if is_leading and rng.random() < kinds.ALONG else int(rng.integers(values.ndim))
        place = tuple(slice(None) if at == along else int(rng.integers(size)) for at, size in enumerate(values.shape))
    else:
        edge = min(kinds.NEAR_EDGE, length - 1)
        start = edge * (length / kinds.NEAR_EDGE) ** rng.random() if length > kinds.NEAR_EDGE else rng.integers(length)
        place = (*(slice(None) for _ in values.shape[1:]), slice(int(start), None))
    blend = values.clone()
    blend[place] = unusual[place]
    return blend


# Whole numbers and masks, as in `inputs.INTEGER_MIXES`.


def _bend_integers(tensor: Input, values: Tensor, mix: str, chance: Chance, *, mild: bool, index: bool) -> Tensor:
    """The judge on a card: the values of one such input, int64, as `inputs.perturb_integers`."""
    if mix not in INTEGER_BENDS or not values.numel():
        return values
    rows = values.reshape(-1, values.shape[-1] if values.ndim else 1)
    span = kinds.IntegerSpan(tensor, empty=not mild and tensor.constness != "const")
    integers = INTEGER_BENDS[mix](rows, span, chance)
    if span.mask and not span.empty:
        integers = integers.clone()
        empty = torch.nonzero(~integers.bool().any(dim=1)).reshape(-1)
        integers[empty, chance.integers(0, rows.shape[1], (len(empty),))] = 1
    if index and integers.numel() > kinds.INTEGER_CAP:
        start = int(chance.places.integers(rows.numel() - kinds.INTEGER_CAP))
        limited = rows.reshape(-1).clone()
        limited[start : start + kinds.INTEGER_CAP] = integers.reshape(-1)[start : start + kinds.INTEGER_CAP]
        integers = limited
    return integers.reshape(values.shape)


IntegerBend = Callable[[Tensor, kinds.IntegerSpan, Chance], Tensor]


def _column(values: Any, chance: Chance) -> Tensor:
    """The judge on a card: numbers for each row that NumPy's generator chose."""
    return torch.as_tensor(np.asarray(values), device=chance.device).reshape(-1, 1)


def _narrow_rows(rows: Tensor, span: kinds.IntegerSpan, chance: Chance) -> Tensor:
    (count, length), rng = rows.shape, chance.places
    if span.mask:
        densities = _column(np.exp2(-rng.uniform(0, np.log2(length) + 1, size=count)), chance)
        return (chance.uniform((count, length)) < densities).to(torch.int64)
    bits = min(float(np.log2(float(span.largest - span.low + 1))), 62.0)
    width = np.exp2(rng.uniform(0, bits, size=count)).astype(np.int64)
    anywhere = rng.integers(span.low, span.largest + 1, size=count)
    zero = min(max(0, span.low), span.largest)
    ends = np.full(count, span.low), np.full(count, span.largest), np.full(count, zero)
    centres: Any = np.choose(rng.integers(4, size=count), [*ends, anywhere])
    start = np.clip(centres - width // 2, span.low, np.maximum(span.largest - width + 1, span.low))
    spread = (chance.uniform((count, length)) * _column(width.astype(np.float64), chance)).floor().to(torch.int64)
    return (_column(start, chance) + spread).clamp_(max=span.largest)


def _at_high_end(rows: Tensor, span: kinds.IntegerSpan, chance: Chance) -> Tensor:
    return torch.where(chance.uniform(tuple(rows.shape)) < kinds.ORDINARY_SHARE, rows, span.largest)


def _rows_at_ends(rows: Tensor, span: kinds.IntegerSpan, chance: Chance) -> Tensor:
    ends = chance.places.choice((span.low, span.largest), size=len(rows))
    if len(rows) > 1:
        ends[chance.places.permutation(len(rows))[:2]] = span.low, span.largest
    return _column(ends, chance).expand(rows.shape).clone()


def _sorted_rows(rows: Tensor, span: kinds.IntegerSpan, chance: Chance) -> Tensor:
    count, length = rows.shape
    if span.mask:
        runs = _column(chance.places.integers(1, length + 1, size=count), chance)
        ordered = (torch.arange(length, device=rows.device) >= length - runs).to(torch.int64)
    else:
        ordered = rows.sort(dim=1).values
    return torch.where(chance.integers(0, 2, (count, 1)) == 1, ordered.flip(1), ordered)


def _one_hot_value(rows: Tensor, span: kinds.IntegerSpan, chance: Chance) -> Tensor:
    count, length = rows.shape
    if span.mask:
        flags = chance.integers(0, 2, (count, 1)).expand(rows.shape).clone()
        places = chance.integers(0, length, (count, 1))
        return flags.scatter_(1, places, 1 - flags[:, :1])
    hot = _column(chance.places.integers(span.low, span.largest + 1, size=count), chance)
    return torch.where(chance.uniform(tuple(rows.shape)) < 1 / kinds.LONE_EVERY, rows, hot)


def _alternate_ends(rows: Tensor, span: kinds.IntegerSpan, chance: Chance) -> Tensor:
    count, length = rows.shape
    run = _column(chance.places.choice((1, max(1, length // 4), max(1, length // 2)), size=count), chance)
    turn = (torch.arange(length, device=rows.device) // run + chance.integers(0, 2, (count, 1))) % 2
    ends = torch.tensor([span.low, span.largest], dtype=torch.int64, device=rows.device)
    return ends[turn]


def _tied_rows(rows: Tensor, span: kinds.IntegerSpan, chance: Chance) -> Tensor:
    count, rng = len(rows), chance.places
    values = torch.as_tensor(
        rng.integers(span.low, span.largest + 1, size=(count, kinds.TIED_VALUES)), device=rows.device
    )
    few = values.gather(1, chance.integers(0, kinds.TIED_VALUES, tuple(rows.shape)))
    kind = chance.integers(0, 6, (count, 1)) if count > 1 else chance.integers(0, 1, (1, 1))
    repeated = rows[int(rng.integers(count))]
    rest = torch.where(kind == 4, repeated, rows)
    return torch.where(kind < 3, few, torch.where(kind == 3, values[:, :1], rest))


def _lone_extremes(rows: Tensor, span: kinds.IntegerSpan, chance: Chance) -> Tensor:
    (count, length), rng = rows.shape, chance.places
    center = min(max(0, span.low), span.largest)
    width = max(1, (span.largest - span.low) // kinds.LONE_EVERY)
    start = min(max(center - width // 2, span.low), max(span.largest - width + 1, span.low))
    values = chance.integers(0, width, (count, length)) + start
    for _ in range(max(1, length // (8 * kinds.LONE_EVERY))):
        ends = _column(rng.choice((span.low, span.largest), size=count), chance)
        values.scatter_(1, chance.integers(0, length, (count, 1)), ends)
    return values


INTEGER_BENDS: Mapping[str, IntegerBend] = {
    "wide": _narrow_rows,
    "offset": _at_high_end,
    "shift": _rows_at_ends,
    "tail": _sorted_rows,
    "long_tail": _one_hot_value,
    "cancel": _alternate_ends,
    "structure": _tied_rows,
    "spike": _lone_extremes,
}


# Inputs whose results are exact in any order of right arithmetic, as `inputs.make_probes`.


@dataclass(frozen=True, kw_only=True)
class DeviceProbe:
    """One set of inputs; `exact` asks for `compare_exact`."""

    name: str
    inputs: dict[str, Tensor]
    exact: bool


def make_probes(task: Task, dims: Mapping[str, int], rng: Rng, device: str) -> Iterator[DeviceProbe]:
    """The judge on a card: all probes of one size, by `inputs.make_probes`: such sizes are small, so the processor draws them."""
    for probe in kinds.make_probes(task, dims, rng):
        inputs = {tensor.name: from_storage(probe.inputs[tensor.name], tensor.dtype, device) for tensor in task.inputs}
        yield DeviceProbe(name=probe.name, inputs=inputs, exact=probe.exact)


def from_storage(array: Any, dtype: DType, device: str) -> Tensor:
    """An array in the judge's storage type as a tensor of the task's type on the device."""
    array = np.ascontiguousarray(array)
    if dtype == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    if dtype in FLOAT8:
        return torch.from_numpy(array.copy()).to(device).view(getattr(torch, dtype))
    return torch.from_numpy(array if array.flags.writeable else array.copy()).to(device).to(getattr(torch, dtype))


def to_storage(tensor: Tensor, dtype: DType) -> Any:
    """The opposite: on the processor, in the judge's storage type."""
    tensor = tensor.detach().cpu().contiguous()
    if dtype == "bfloat16":
        return tensor.view(torch.int16).numpy().view(np.uint16)
    if dtype in FLOAT8:
        return tensor.view(torch.uint8).numpy()
    return tensor.numpy().astype(STORAGE[dtype], copy=False)


# What outputs hold before a call.

NAN_BITS: dict[DType, int] = {
    "float64": 0x7FF8 << 48,
    "float32": 0x7FC0 << 16,
    "float16": 0x7E00,
    "bfloat16": 0x7FC0,
    "float8_e4m3fn": 0x7F,
    "float8_e5m2": 0x7E,
}
"""Bits that, all set, make it no number, whatever the others are (IEEE 754)."""


def fill_with_poison(target: Tensor, dtype: DType, kind: str, chance: Chance, decoy: Tensor | None) -> None:
    """The judge on a card: no numbers, plausible ones, or a right answer to other inputs, into an output in its place."""
    if kind == "decoy" and decoy is not None:
        target.copy_(decoy)
    elif kind == "noise" and dtype in FLOAT8:
        target.copy_(to_type(chance.normal(tuple(target.shape)), dtype))
    elif kind == "noise" and is_float(dtype):
        target.normal_(generator=chance.elements)
    elif dtype == "bool":
        target.copy_(chance.integers(0, 2, tuple(target.shape)))
    else:
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[target.element_size()]
        words = target.view(bits)
        words.random_(generator=chance.elements)  # no negative ones: the sign is never set, which tells nothing more
        if dtype in NAN_BITS:
            words |= NAN_BITS[dtype]
