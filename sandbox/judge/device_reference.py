"""A task's reference asked on the card, by tensors that are there, in parts where all at once would need too much memory.

It runs in the process that judges on the card, which is not the one that a person's command runs in, and which never
loads anything of a candidate. Needs PyTorch.
"""

import json
import math
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ridgeline.graph.errors import missing_package
from ridgeline.graph.task import Task
from ridgeline.sandbox.harness import reference_host
from ridgeline.sandbox.judge.device_values import Chance, draw, to_type
from ridgeline.sandbox.judge.dtypes import is_float
from ridgeline.sandbox.judge.inputs import MIXES, axis_lengths
from ridgeline.sandbox.judge.references import ReferenceFailed

torch: Any = import_module("torch")
Tensor = Any
Tensors = Mapping[str, Any]
IMPORTS_TORCH = re.compile(r"^\s*(import|from)\s+torch\b", re.MULTILINE)
PARTS_TRIED = 2
"""Items of the first axis in each part, when it is tried whether a reference may be asked in parts."""
PART_CLOSE = 1e-12
"""How far, as a share of the largest number, float64 results may hang on how many items are asked about at once."""
FLOAT64_ARRAYS = 12
"""Arrays in float64 as large as the outputs that judging a call needs beside the reference's own, at most."""
USED_SHARE = 0.8
"""Of the card's free memory that one question may take."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some items of a call: all of them, or those of one stretch of the axis that parts are made along."""

    inputs: Tensors
    oracle: Tensors
    trusted: Tensors
    start: int
    """Of the stretch."""
    count: int
    """Items in it; 0: the call is not parted."""


class DeviceReference:
    """A task's reference in this process. Raises ReferenceFailed where it cannot be asked or has no answer."""

    def __init__(self, task: Task, folder: Path, device: str) -> None:
        self._task, self.device = task, device
        self._file = folder.resolve() / task.reference
        spec = {
            "file": str(self._file),
            "inputs": [(tensor.name, tensor.dtype, tensor.constness) for tensor in task.inputs],
            "outputs": [(tensor.name, tensor.dtype) for tensor in task.outputs],
            "device": device,
        }
        try:
            self._host = reference_host.Host(json.loads(json.dumps(spec)))
        except Exception as error:
            raise self._failure("import", error) from error
        self.notes: tuple[str, ...] = ()
        self._axis: str | bool | None = False
        """Dimension along which calls can be parted; None: none can; False: not tried yet."""

    @property
    def on_tensors(self) -> bool:
        """Whether it computes with PyTorch; one in NumPy cannot be asked here. This process has imported PyTorch anyway:
        what a file says tells, of the reference's own and of those beside it."""
        files = {
            Path(module.__file__ or "") for module in list(sys.modules.values()) if getattr(module, "__file__", None)
        }
        beside = {self._file, *(file for file in files if file.is_relative_to(self._file.parent))}
        return any(IMPORTS_TORCH.search(file.read_text(errors="replace")) for file in beside if file.suffix == ".py")

    def oracle(self, inputs: Tensors) -> dict[str, Tensor]:
        """The judge on a card: outputs, and what mutated inputs hold afterwards, in float64 from the inputs as they are."""
        return self._ask("oracle", inputs)

    def trusted(self, inputs: Tensors) -> dict[str, Tensor]:
        """The judge on a card: the same computed in the task's own types and rounded to them, as float64."""
        return self._ask("trusted", inputs)

    def parts(self, inputs: Tensors, dims: Mapping[str, int]) -> Iterator[Part]:
        """The judge on a card: the call, or as many stretches of it as the memory that is free now makes necessary.

        Raises ReferenceFailed, with the number of bytes, where it is too large and cannot be parted.
        """
        needed, axis = self.needed_bytes(dims), None
        most = self.free_bytes() * USED_SHARE
        if needed > most:
            axis = self.part_axis(dims)
            if axis is None or needed / dims[axis] > most:
                raise ReferenceFailed(
                    f"{self._file.name}: a call of {dict(dims)} needs {needed / 1e9:.1f} GB to be judged and "
                    f"{most / 1e9:.1f} GB are free; declare a smaller size, or free the card"
                )
        if axis is None:
            yield Part(inputs=inputs, oracle=self.oracle(inputs), trusted=self.trusted(inputs), start=0, count=0)
            return
        step = max(1, int(dims[axis] * most / needed))
        for start in range(0, dims[axis], step):
            count = min(step, dims[axis] - start)
            stretch = self._stretch(inputs, axis, start, count)
            yield Part(
                inputs=stretch,
                oracle=self.oracle(stretch),
                trusted=self.trusted(stretch),
                start=start,
                count=count,
            )

    def stretch_of(self, outputs: Tensors, part: Part) -> dict[str, Tensor]:
        """The judge on a card: what belongs to a part of a call's outputs."""
        if not part.count:
            return dict(outputs)
        assert isinstance(self._axis, str)
        return self._stretch(outputs, self._axis, part.start, part.count)

    def needed_bytes(self, dims: Mapping[str, int]) -> int:
        """What judging one call takes beside its inputs and outputs themselves."""
        elements = {
            tensor.name: math.prod(axis_lengths(tensor, dims)) for tensor in (*self._task.inputs, *self._task.outputs)
        }
        outputs = sum(elements[tensor.name] for tensor in self._task.outputs)
        return 8 * (FLOAT64_ARRAYS * outputs + 3 * (sum(elements.values()) - outputs))

    def least_bytes(self, dims: Mapping[str, int]) -> int:
        """The judge on a card: the same with as many parts as there can be."""
        needed, axis = self.needed_bytes(dims), None
        if needed > self.free_bytes() // 4:
            axis = self.part_axis(dims)
        return needed if axis is None else -(-needed // dims[axis])

    def free_bytes(self) -> int:
        """The judge on a card: of the card, what this process could have now; of the machine's memory, where the processor plays one."""
        if self.device == "cpu":
            return int(psutil.virtual_memory().available)
        free, _ = torch.cuda.mem_get_info()
        return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())

    def total_bytes(self) -> int:
        """The judge on a card: of the card, what there is; of the machine's memory, where the processor plays one."""
        return int(psutil.virtual_memory().total if self.device == "cpu" else torch.cuda.mem_get_info()[1])

    def part_axis(self, dims: Mapping[str, int]) -> str | None:
        """The judge on a card: the dimension of independent items, found by trying: in parts, the reference says the same."""
        if self._axis is False:
            self._axis = next((name for name in dims if self._can_be_parted(name, dims)), None)
        assert not isinstance(self._axis, bool)
        return self._axis

    @property
    def known_axis(self) -> str | None:
        """The judge on a card: what `part_axis` found; None where it found none, or nobody asked."""
        return self._axis if isinstance(self._axis, str) else None

    def _can_be_parted(self, axis: str, dims: Mapping[str, int]) -> bool:
        judged = (*self._task.outputs, *(each for each in self._task.inputs if each.constness == "mutated"))
        if any(tensor.shape.count(axis) != 1 for tensor in judged):
            return False
        if not any(axis in tensor.shape for tensor in self._task.inputs):
            return False
        few = {**dims, axis: 2 * PARTS_TRIED}
        chance = Chance.draw(self.device, np.random.default_rng())
        try:
            for mix in (MIXES[0], "offset", "structure"):
                inputs = draw(self._task, few, mix, chance)
                outputs = self.oracle(inputs)
                for first_part in (0, PARTS_TRIED):
                    alone = self.oracle(self._stretch(inputs, axis, first_part, PARTS_TRIED))
                    there = self._stretch(outputs, axis, first_part, PARTS_TRIED)
                    if not all(_is_near(alone[name], there[name]) for name in alone):
                        return False
        except (ReferenceFailed, ValueError, RuntimeError):
            return False
        return True

    def _stretch(self, tensors: Tensors, axis: str, start: int, count: int) -> dict[str, Tensor]:
        """The judge on a card: the items of each array that has the axis; the others as they are."""
        shapes = {tensor.name: tensor.shape for tensor in (*self._task.inputs, *self._task.outputs)}
        return {
            name: tensor.narrow(shapes[name].index(axis), start, count).contiguous() if axis in shapes[name] else tensor
            for name, tensor in tensors.items()
        }

    def _ask(self, question: str, inputs: Tensors) -> dict[str, Tensor]:
        wide = question == "oracle"
        try:
            arguments = {tensor.name: self._argument(inputs[tensor.name], tensor, wide) for tensor in self._task.inputs}
            with self._host.framework.working_precision(wide=wide) as notes:
                result = self._host._function(question)(*arguments.values())
            by_name = dict(self._host._by_name(result))
            by_name |= {each.name: arguments[each.name] for each in self._task.inputs if each.constness == "mutated"}
            answers = {name: self._number(value, name, wide) for name, value in by_name.items()}
        except Exception as error:
            raise self._failure(question, error) from error
        self.notes = tuple(dict.fromkeys((*self.notes, *notes)))
        return answers

    def _argument(self, tensor: Tensor, declared: Any, wide: bool) -> Tensor:
        """The judge on a card: one input for the reference: its own where it may write to it."""
        if wide and is_float(declared.dtype) and tensor.dtype != torch.float64:
            return tensor.double()
        if (
            tensor.dtype == torch.float32
            and declared.dtype in (*reference_host.HALVES, *reference_host.EIGHTS)
            and not wide
        ):
            return tensor  # moved by less than its type can tell
        return tensor.clone() if declared.constness == "mutated" else tensor

    def _number(self, value: Any, name: str, wide: bool) -> Tensor:
        """The judge on a card: a result in float64, of a trusted program rounded to the array's type first."""
        if not isinstance(value, torch.Tensor):
            value = torch.as_tensor(value, device=self.device)
        value, dtype = value.detach(), self._task.dtype_of(name)
        if not wide and is_float(dtype):
            value = to_type(value, dtype)
        return value.double().contiguous()

    def _failure(self, question: str, error: Exception) -> ReferenceFailed:
        detail = self._describe(error)
        return ReferenceFailed(
            f"{self._file.name}: {question}: {detail}; {missing_package(detail) or 'correct the reference'}"
        )

    def _describe(self, error: Exception) -> str:
        """The judge on a card: what went wrong and at which line of the reference, in one line."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self._file)]
        place = f"line {frames[-1].lineno}: " if frames else ""
        return f"{place}{type(error).__name__}: {' '.join(str(error).split())}"[:1000]


def _is_near(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape:
        return False
    finite = torch.isfinite(b)
    if not bool((torch.isfinite(a) == finite).all()):
        return False
    a, b = torch.where(finite, a, 0.0), torch.where(finite, b, 0.0)
    return bool((a - b).abs().max() <= PART_CLOSE * b.abs().max()) if a.numel() else True
