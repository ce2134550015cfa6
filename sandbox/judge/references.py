"""Asks a task's reference what is right: a trusted child process that sees inputs, and nothing of any candidate."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ridgeline.graph.errors import WorldError, missing_package
from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.children import Answer, Child, ChildLimits, ChildLost
from ridgeline.sandbox.judge.dtypes import from_float64, is_float, to_float64
from ridgeline.sandbox.judge.options import HERE, Surroundings

HOST = Path(__file__).parents[1] / "harness" / "reference_host.py"
START_S = 120.0
"""Importing PyTorch from a cold disk takes tens of seconds."""
CALL_S = 300.0
"""Float64 on a processor is slow for the sizes of a GPU."""
MEMORY_MB = 65_536
"""Address space; PyTorch reserves several GiB that it never touches."""
Arrays = Mapping[str, NDArray[np.generic]]
Answers = dict[str, dict[str, NDArray[np.float64]]]
"""By question, then by name of the array."""
Framework = Literal["numpy", "torch"]


class ReferenceFailed(WorldError):
    """The reference cannot be asked or has no answer. The text is one line: file, question, what is wrong, mend."""

    exit_code = 2


@dataclass(frozen=True, kw_only=True)
class ReferenceLimits:
    """Seconds for the child's start and for one call, and its address space in MiB."""

    start_s: float = START_S
    call_s: float = CALL_S
    memory_mb: int = MEMORY_MB


class Reference:
    """A task's reference. A context manager; the child starts with the first question and lives for many."""

    def __init__(
        self,
        task: Task,
        folder: Path,
        *,
        device: Literal["cpu", "cuda"] = "cpu",
        python: str = sys.executable,
        patience: ReferenceLimits = ReferenceLimits(),
        surroundings: Surroundings = HERE,
    ) -> None:
        """`folder` is the task's; `python` an interpreter that has what the reference imports."""
        self._task = task
        self._file = folder.resolve() / task.reference
        self._device = device
        self._patience = patience
        self._surroundings = surroundings
        card = device == "cuda"
        self._limits = ChildLimits(
            python=python,
            memory_mb=None if card else patience.memory_mb,
            card=card,
            environment=surroundings.environment,
        )
        self._child: Child | None = None
        self._framework: Framework | None = None
        self.notes: tuple[str, ...] = ()
        """Where the oracle was less exact than float64, as far as that can be seen, of all questions so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def framework(self) -> Framework:
        """For the judge: what the reference computes with. Raises ReferenceFailed."""
        if self._framework is None:
            self._start()
        assert self._framework is not None
        return self._framework

    def oracle(self, inputs: Arrays) -> dict[str, NDArray[np.float64]]:
        """For the judge: the reference's outputs, and what mutated inputs hold afterwards, in float64 from the inputs as they are.

        Inputs are in storage types. Whole numbers beyond 2^53 are rounded. Raises ReferenceFailed.
        """
        return self._ask(("oracle",), [inputs])[0]["oracle"]

    def trusted(self, inputs: Arrays) -> dict[str, NDArray[np.float64]]:
        """For the judge: the reference's answer in the task's own types, rounded to them, as float64. Raises ReferenceFailed."""
        return self._ask(("trusted",), [inputs])[0]["trusted"]

    def both(self, many: Sequence[Arrays]) -> list[Answers]:
        """For the judge: the reference's answers, by the two names above, on several inputs of one size: asked at once, at less cost.

        Raises ReferenceFailed.
        """
        return self._ask(("oracle", "trusted"), many)

    def close(self) -> None:
        """For the judge: end the reference's process. It can be asked again, and starts anew then."""
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def _round_to_type(self, name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """For the judge: rounded to the array's type: a reference in NumPy computes half precision in float32."""
        dtype = next(tensor.dtype for tensor in (*self._task.inputs, *self._task.outputs) if tensor.name == name)
        return to_float64(from_float64(values, dtype), dtype) if is_float(dtype) else values

    def _ask(self, questions: Sequence[str], many: Sequence[Arrays]) -> list[Answers]:
        self._surroundings.check_time()
        child = self._child or self._start()
        names = [shapes_by_question.name for shapes_by_question in self._task.inputs]
        sets = [[_describe_arrays(inputs[name]) for name in names] for inputs in many]
        words = json.dumps({"questions": questions, "sets": sets}).encode()
        try:
            answer = child.ask(
                [words, *(_array_bytes(inputs[name]) for inputs in many for name in names)],
                timeout_s=self._patience.call_s * len(questions) * len(many),
            )
            header = self._header(answer, questions[0])
            answers = [
                {question: self._numbers(answer, arrays, question) for question, arrays in shapes_by_question.items()}
                for shapes_by_question in header["answers"]
            ]
        except ChildLost as lost:
            self._child = None
            raise self._failure(questions[0], str(lost)) from None
        self.notes = tuple(dict.fromkeys((*self.notes, *header["notes"])))
        return answers

    def _numbers(
        self, answer: Answer, arrays: Sequence[tuple[str, str, Sequence[int]]], question: str
    ) -> dict[str, NDArray[np.float64]]:
        """For the judge: the arrays of one answer of the reference: name, type and shape of each were told before."""
        values_by_name = {
            name: answer.array(dtype, shape).astype(np.float64, copy=False) for name, dtype, shape in arrays
        }
        return (
            values_by_name
            if question == "oracle"
            else {name: self._round_to_type(name, values) for name, values in values_by_name.items()}
        )

    def _start(self) -> Child:
        spec = {
            "file": str(self._file),
            "inputs": [(tensor.name, tensor.dtype, tensor.constness) for tensor in self._task.inputs],
            "outputs": [(tensor.name, tensor.dtype) for tensor in self._task.outputs],
            "device": self._device,
        }
        try:
            self._child = Child(HOST, self._limits)
            answer = self._child.ask([json.dumps(spec).encode()], timeout_s=self._patience.start_s)
            header = self._header(answer, "import")
        except ChildLost as lost:
            self._child = None
            raise self._failure("import", str(lost)) from None
        except ReferenceFailed:
            self.close()
            raise
        self._framework = "torch" if header["framework"] == "torch" else "numpy"
        return self._child

    def _header(self, answer: Answer, question: str) -> dict[str, Any]:
        """For the judge: the first message of an answer. Raises ChildLost, or ReferenceFailed where it tells of an error."""
        header: dict[str, Any] = json.loads(answer.message())
        if "error" in header:
            raise self._failure(str(header.get("question", question)), str(header["error"]))
        return header

    def _failure(self, question: str, detail: str) -> ReferenceFailed:
        return ReferenceFailed(
            f"{self._file.name}: {question}: {detail}; {missing_package(detail) or 'correct the reference'}"
        )


def _describe_arrays(array: NDArray[np.generic]) -> tuple[str, tuple[int, ...]]:
    return array.dtype.str, array.shape


def _array_bytes(array: NDArray[np.generic]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
