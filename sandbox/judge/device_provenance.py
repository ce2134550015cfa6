"""Whose work it is, asked with values that are drawn, held against the oracle and searched where they lie, on a card.

What is asked, and what it means, is `provenance.py`'s: here is what touches whole arrays. Needs PyTorch.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from ridgeline.graph.task import DType, Shape, Task
from ridgeline.sandbox.judge.device_reference import USED_SHARE, DeviceReference
from ridgeline.sandbox.judge.device_values import Chance, draw
from ridgeline.sandbox.judge.dtypes import Floats, is_float
from ridgeline.sandbox.judge.inputs import MIXES
from ridgeline.sandbox.judge.provenance import (
    CALL_S,
    MANY_ELEMENTS,
    SAMPLED_ELEMENTS,
    TRIVIAL_NEARNESS,
    CallFindings,
    LaunchArgument,
    NearestLevels,
    RightOutput,
    WorkCalls,
    call_results,
    find_copied_output,
    find_rounding,
    secret_rng,
    total_elements,
)

torch: Any = import_module("torch")
Tensor = Any
Tensors = Mapping[str, Any]
STRETCH_ELEMENTS = 1 << 26
"""Looked up at once in a short table."""
SORTED_ARRAYS = 4
"""Arrays in float64 as large as all that a call has which sorting its values takes beside them."""


class DeviceWorkCalls(WorkCalls):
    """Calls of a DeviceSession."""

    def __init__(self, task: Task, reference: DeviceReference, chance: Chance) -> None:
        super().__init__(task, locks=False)
        self._device_reference, self._chance = reference, chance

    def fit_size(self, shape: Shape) -> Shape:
        """The judge on a card: that size; fewer items along an independent axis where sorting takes more memory than is free."""
        reference, dims = self._device_reference, shape.dims
        elements = total_elements(shape, (*self.task.inputs, *self.task.outputs))
        needed = reference.needed_bytes(dims) + 8 * SORTED_ARRAYS * elements
        most = reference.free_bytes() * USED_SHARE
        axis = reference.part_axis(dims) if needed > most else None
        if axis is None:
            return shape
        return shape.model_copy(update={"dims": {**dims, axis: max(1, int(dims[axis] * most / needed))}})

    def draw(self, shape: Shape, consts: Tensors) -> dict[str, Tensor]:
        """The judge on a card: tensors on the device."""
        return {**draw(self.task, shape.dims, MIXES[0], self._chance), **consts}

    def call(self, session: Any, shape: Shape, inputs: Tensors) -> Any:
        """One call: a DeviceSealed, or a BrokenWorker. Its memory is judged in tests."""
        return session.call_device(shape.dims, inputs, placement=0, decoy=None, look=False, timeout_s=CALL_S)

    def draw_unusual(self, shape: Shape, consts: Tensors) -> dict[str, Tensor]:
        """The judge on a card: the same of another kind."""
        rng = secret_rng()
        return {**draw(self.task, shape.dims, MIXES[int(rng.integers(1, len(MIXES)))], self._chance), **consts}

    def compare(
        self, shape: Shape, outputs: Tensors, inputs: Tensors, arguments: tuple[LaunchArgument, ...]
    ) -> CallFindings:
        """The judge on a card: whether the outputs of a call without kernels were made, and what those kernels were given."""
        oracle, dtype_of = self._device_reference.oracle(inputs), self.task.dtype_of
        float_inputs = {name: tensor.double() for name, tensor in inputs.items()}
        findings = CallFindings()
        for name in (tensor.name for tensor in call_results(self.task)):
            right = DeviceRightOutput(dtype=dtype_of(name), values=oracle[name], inputs=float_inputs)
            if arguments and (kernel := find_copied_output(arguments, right)):
                findings.kernels_by_output[name] = kernel
            findings.made_by_output[name] = is_made(
                outputs[name].double(),
                oracle[name],
                dtype=dtype_of(name),
                inputs=float_inputs,
                before=float_inputs.get(name),
            )
        return findings


class DeviceRightOutput(RightOutput):
    """What one output should be, in tensors of float64; what is sorted is kept for the next argument."""

    @cached_property
    def _levels_by_name(self) -> dict[str | None, Tensor]:
        return {}

    @property
    def size(self) -> int:
        """The judge on a card: elements of the output."""
        return int(self.values.numel())

    def sizes(self) -> dict[str, int]:
        """The judge on a card: elements of the inputs."""
        return {name: tensor.numel() for name, tensor in self.inputs.items()}

    def has_numbers(self) -> bool:
        """The judge on a card: whether any element is finite."""
        return bool(torch.isfinite(self.values).any())

    def sample(self, name: str | None = None, *, ordered: bool = False) -> Floats:
        """The judge on a card: what a worker would tell of an input (None: of the output), as it lies or sorted."""
        flat = self._array(name).reshape(-1)
        flat = flat.sort().values if ordered else flat
        size = flat.numel()
        if size > SAMPLED_ELEMENTS:
            places = [k * (size - 1) // (SAMPLED_ELEMENTS - 1) for k in range(SAMPLED_ELEMENTS)]
            flat = flat[torch.tensor(places, device=flat.device)]
        return _to_numpy(flat.float())

    def share_of_inputs(self, values: Floats) -> float:
        """The judge on a card: how many of these values, in float32, are those of inputs."""
        numbers = torch.as_tensor(np.unique(values), device=self.values.device).float()
        there = torch.cat([_find_members(array.reshape(-1), numbers) for array in self.inputs.values()])
        return float(np.mean(np.isin(values, _to_numpy(there))))

    def levels(self, name: str | None = None) -> Tensor:
        """The judge on a card: different finite values of an input (None: of the output), sorted."""
        if name not in self._levels_by_name:
            array = self._array(name)
            self._levels_by_name[name] = torch.unique(array[torch.isfinite(array)])
        return self._levels_by_name[name]

    def find_nearest(self, values: Floats, levels: Tensor) -> NearestLevels:
        """The judge on a card: of each value, what lies beside it among the levels, of which there are two and more."""
        places = torch.searchsorted(levels, torch.as_tensor(values, device=levels.device))
        at = places.clamp(1, len(levels) - 1)
        return NearestLevels(
            values=values,
            places=places.cpu().numpy(),
            low=_to_numpy(levels[at - 1]),
            high=_to_numpy(levels[at]),
        )


def _to_numpy(values: Tensor) -> Floats:
    numbers: Floats = values.double().cpu().numpy()
    return numbers


def is_made(
    values: Tensor, right: Tensor, *, dtype: DType, inputs: Tensors, before: Tensor | None = None
) -> bool | None:
    """The judge on a card: `provenance.is_made` of tensors in float64."""
    fills = [torch.zeros(1, dtype=right.dtype, device=right.device) if before is None else before]
    fills += _input_copies(right, inputs)
    if is_float(dtype):
        return _is_made_float(values, right, fills, inputs, find_rounding(dtype))
    missed = _share(values != right)
    if missed > TRIVIAL_NEARNESS:
        return False
    if right.numel() >= MANY_ELEMENTS:
        numbers, counts = torch.unique(right, return_counts=True)
        fills.append(numbers[counts.argmax()])
    least = min(_share(right != fill) for fill in fills)
    if missed > TRIVIAL_NEARNESS * least:
        return False
    return True if least else None


def _is_made_float(values: Tensor, right: Tensor, fills: list[Tensor], inputs: Tensors, rounding: float) -> bool | None:
    """The judge on a card: the same in L2. First what any other array is: far away, when nothing else need be looked at."""
    where = torch.isfinite(right)
    away, size = _norm(values - right, where), _norm(right, where)
    if not away <= (TRIVIAL_NEARNESS + rounding) * size:
        return False
    if right.numel() >= MANY_ELEMENTS and bool(where.any()):
        fills = [*fills, right[where].mean()]
    least = min(_norm(right - fill, where) for fill in fills)
    # what only moves from an input to its place can be copied there by anybody
    computed_where = where
    for array in inputs.values():
        computed_where = computed_where & ~_is_in(right, array)
    computed = _norm(right, computed_where)
    least = min(least, computed) if computed else least
    if not away <= TRIVIAL_NEARNESS * least + rounding * size:
        return False
    return True if least > 4 * rounding * size else None


def _input_copies(right: Tensor, inputs: Tensors) -> Iterator[Tensor]:
    """The judge on a card: inputs as they are, where they fit."""
    for array in inputs.values():
        if array.numel() == right.numel():
            yield array.reshape(right.shape)
        elif array.ndim <= right.ndim and all(
            a in (1, b) for a, b in zip(tuple(array.shape)[::-1], tuple(right.shape)[::-1], strict=False)
        ):
            yield array


def _share(flags: Tensor) -> float:
    """The judge on a card: of elements that are true."""
    return float(flags.double().mean())


def _norm(values: Tensor, where: Tensor) -> float:
    """The judge on a card: l2, of the elements there; infinite or no number as NumPy has it."""
    return float(torch.linalg.vector_norm(values[where]))


def _find_members(array: Tensor, numbers: Tensor) -> Tensor:
    """The judge on a card: which of some float32 numbers, sorted, a line of values has. In stretches: `torch.isin` tables all pairs."""
    there = [numbers[:0]]
    for stretch in array.split(STRETCH_ELEMENTS) if len(numbers) else ():
        single = stretch.float()
        at = torch.searchsorted(numbers, single).clamp_(max=len(numbers) - 1)
        there.append(single[numbers[at] == single].unique())
    return torch.cat(there)


def _is_in(values: Tensor, array: Tensor) -> Tensor:
    """The judge on a card: of each value, whether the array has it."""
    levels = array.reshape(-1).sort().values
    if not len(levels):
        return torch.zeros_like(values, dtype=torch.bool)
    at = torch.searchsorted(levels, values.contiguous()).clamp(max=len(levels) - 1)
    return levels[at] == values
