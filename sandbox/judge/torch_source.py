"""A person's PyTorch file, asked which tensors go in and come out at given sizes; it runs in a process of its own."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from ridgeline.graph.errors import WorldError
from ridgeline.graph.values import Value
from ridgeline.sandbox.judge.children import Child, Held, Lost

HOST = Path(__file__).parents[1] / "harness" / "torch_host.py"
START_S = 180.0
CALL_S = 120.0


class SourceError(WorldError):
    """A file that no task can be made of, or not at these sizes. The text is one line: file, what is wrong."""

    exit_code = 2


class TensorSeen(Value):
    """One tensor, at one size."""

    shape: tuple[int, ...]
    dtype: str
    """As PyTorch names it."""


class InputSeen(TensorSeen):
    """One argument: a tensor, or a plain value that stays as it is."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    bounds: tuple[int, int] | None = None
    """Of whole numbers, the upper one not included; None where it is not known."""
    literal: str | None = None
    """Python text of a value that is no tensor."""


class StateSeen(TensorSeen):
    """A parameter or buffer of a module, by its dotted name."""

    name: str
    buffer: bool


class Seen(Value):
    """The file at one size."""

    inputs: tuple[InputSeen, ...]
    state: tuple[StateSeen, ...]
    outputs: tuple[TensorSeen, ...]
    flops: int
    """Operations of matrix products, convolutions and attention; others are not counted."""


class Facts(Seen):
    """What is seen besides where the file was really run."""

    training: bool
    """Whether a module is left as it is made; else only `eval()` makes its result repeatable."""
    normal: bool
    """Whether results are finite for inputs from N(0,1)."""
    seen: tuple[tuple[float, float] | None, ...]
    """Ends of the values that get_inputs() gives, by place; None for what is no float, or one value alone."""
    inside: tuple[int, ...]
    """Places of inputs that must stay between those ends for finite results."""
    mutated: tuple[int, ...]
    """Places of inputs that it changes."""
    buffers: dict[str, Literal["positive", "normal", "mask"]]
    """Those that the result depends on, and how an input in their place is drawn."""
    kept: tuple[str, ...]
    """Those of them that are constants of the operator, neither trained nor made by chance."""
    parts: tuple[str, ...]
    """Tensors that a module holds as neither parameter nor buffer, and that chance made."""
    masks: tuple[int, ...]
    """Places of inputs of floats that hold only 0 and 1."""
    partial: tuple[str, ...]
    """Inputs, parameters and buffers of which a call reads less than all, or of which that is not known."""


class TorchSource:
    """The file. A context manager. Raises SourceError where it cannot be used at all."""

    def __init__(self, file: Path, entry: str | None) -> None:
        """`entry` is a function or module of the file; None where there is only one, or `Model`."""
        if not file.is_file():
            raise SourceError(f"{file}: no such file; give a Python file")
        self._file = file.resolve()
        try:
            self._child = Child(HOST, Held())
            words = json.dumps({"file": str(self._file), "entry": entry}).encode()
            header = json.loads(self._child.asked([words], timeout_s=START_S).message())
        except Lost as lost:
            raise self._failed(str(lost)) from None
        if "error" in header:
            self._child.close()
            raise self._failed(header["error"])
        self.entry: str = header["entry"]
        self.is_module: bool = header["is_module"]
        self.has_init: bool = header["init"]
        """Whether `get_init_inputs` says what the module is made with."""
        self.knobs: dict[str, int] = header["knobs"]
        """Numbers of the file that may be sizes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()

    def seen(self, sizes: Mapping[str, int]) -> Seen:
        """The file at these sizes, worked out without memory for its tensors. Raises SourceError."""
        return Seen.model_validate(self._asked(sizes, real=False))

    def facts(self, sizes: Mapping[str, int]) -> Facts:
        """The file really run at these sizes, which should be small. Raises SourceError."""
        return Facts.model_validate(self._asked(sizes, real=True))

    def _asked(self, sizes: Mapping[str, int], *, real: bool) -> object:
        words = json.dumps({"sizes": dict(sizes), "real": real}).encode()
        try:
            answer = json.loads(self._child.asked([words], timeout_s=CALL_S).message())
        except Lost as lost:
            raise self._failed(str(lost)) from None
        if "error" in answer:
            raise self._failed(answer["error"])
        return answer

    def _failed(self, why: str) -> SourceError:
        return SourceError(f"{self._file.name}: {why}")
