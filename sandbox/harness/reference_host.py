"""Runs a task's reference in a process of its own: the user's trusted file, and nothing of a candidate's.

Started by sandbox/judge/references.py as `reference_host.py IN OUT`, two inherited pipes. Each message is an
unsigned 64-bit length, little-endian, and so many bytes: JSON, or one array whose type and shape were told.
Needs NumPy, and PyTorch where the reference imports it.
"""

import contextlib
import importlib.util
import json
import os
import re
import struct
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

LENGTH = struct.Struct("<Q")
HALVES = ("float16", "bfloat16")
EIGHTS = ("float8_e4m3fn", "float8_e5m2")
FLOATS = ("float64", "float32", *HALVES, *EIGHTS)
Array = NDArray[Any]


class Unusable(Exception):
    """The reference did something that a reference cannot do."""


def receive(stream: BufferedReader) -> bytearray | None:
    """In the reference's process: the bytes of one message; None at the end of the stream."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    body = bytearray(LENGTH.unpack(head)[0])
    return body if stream.readinto(body) == len(body) else None


def expect_message(stream: BufferedReader) -> bytearray:
    """In the reference's process: the bytes of one message that has to come. Raises EOFError."""
    body = receive(stream)
    if body is None:
        raise EOFError
    return body


def send(stream: BinaryIO, body: bytes | memoryview) -> None:
    """In the reference's process: send one message."""
    stream.write(LENGTH.pack(len(body)))
    stream.write(body)


def plain_bytes(array: Array) -> memoryview:
    """The message of an array from the reference's process."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def load_module(file: Path) -> ModuleType:
    """In the reference's process: it as a module; files beside it can be imported, and no bytecode is left there."""
    if re.search(r"^\s*(import|from)\s+torch\b", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE):
        import_module("torch")  # which takes thrice as long without bytecode of its own
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise Unusable("is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def widen_eight_bits(raw: Array, dtype: str) -> Array:
    """In the reference's process: the numbers of 8-bit floats from their bytes, in float32. They are halves of float16, nearly."""
    words = raw.astype(np.uint16)
    if dtype == "float8_e5m2":
        return (words << 8).view(np.float16).astype(np.float32)
    halves = ((words & 0x80) << 8 | (words & 0x7F) << 7).view(np.float16).astype(np.float32)
    return np.where((words & 0x7F) == 0x7F, np.float32(np.nan), halves * np.float32(256))


class NumPy:
    """Gives the reference NumPy arrays. Half precision and 8 bits come as float32, which NumPy has arithmetic for."""

    name = "numpy"

    def __init__(self, device: str) -> None:
        if device != "cpu":
            raise Unusable(f"a reference in NumPy cannot run on {device}")

    def convert(self, raw: Array, dtype: str, *, wide: bool) -> Any:
        """In the reference's process: its own array from the judge's bytes; float32 where moved by less than its type."""
        if dtype == "bool":
            return raw.astype(bool)
        if dtype not in FLOATS:
            return raw
        value = (raw.astype(np.uint32) << 16).view(np.float32) if raw.dtype == np.uint16 else raw
        if raw.dtype == np.uint8:
            value = widen_eight_bits(raw, dtype)
        return value.astype(np.float64 if wide else np.float32 if dtype in HALVES else value.dtype)

    @contextlib.contextmanager
    def working_precision(self, *, wide: bool) -> Iterator[list[str]]:
        """In the reference's process: around its work; gives a list for notes."""
        yield []

    def plain(self, value: Any) -> tuple[Array, str]:
        """In the reference's process: back to NumPy, with the name of the type that it had."""
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise Unusable("a result is no array of numbers")
        return array, array.dtype.name


class Torch:
    """Gives the reference PyTorch tensors in their own types, or all floats in float64."""

    name = "torch"

    def __init__(self, device: str) -> None:
        torch = import_module("torch")
        self.torch, self.device = torch, device
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False

    def convert(self, raw: Array, dtype: str, *, wide: bool) -> Any:
        """In the reference's process: its own tensor from the judge's bytes."""
        if raw.dtype == np.uint16:
            tensor = self.torch.from_numpy(raw.view(np.int16)).view(self.torch.bfloat16)
        elif dtype in EIGHTS and raw.dtype == np.uint8:
            tensor = self.torch.from_numpy(raw).view(getattr(self.torch, dtype))
        else:
            tensor = self.torch.from_numpy(raw.astype(bool) if dtype == "bool" else raw)
        return tensor.to(self.device, self.torch.float64 if wide and dtype in FLOATS else None)

    @contextlib.contextmanager
    def working_precision(self, *, wide: bool) -> Iterator[list[str]]:
        """In the reference's process: around its work. In float64, what is made as float32 is made as float64 too."""
        notes: list[str] = []
        if not wide:
            yield notes
            return
        before = self.torch.get_default_dtype()
        self.torch.set_default_dtype(self.torch.float64)
        try:
            with widening(self.torch, notes):
                yield notes
        finally:
            self.torch.set_default_dtype(before)

    def plain(self, value: Any) -> tuple[Array, str]:
        """In the reference's process: a tensor back to NumPy, with the name of the type that it had."""
        if not isinstance(value, self.torch.Tensor):
            return NumPy("cpu").plain(value)
        name = str(value.dtype).removeprefix("torch.")
        value = value.detach().cpu().contiguous()
        if value.dtype.is_floating_point:
            value = value.double()
        return value.numpy(), name


def widening(torch: Any, notes: list[str]) -> Any:
    """In the reference's process: a mode where asking for float32 gives float64; narrower types stay, and are noted once each.

    They are kept because rounding may be what the operator does, as in a quantization.
    """
    methods = {torch.Tensor.float: torch.float32, torch.Tensor.half: torch.float16}
    methods[torch.Tensor.bfloat16] = torch.bfloat16

    def widen(value: Any) -> Any:
        if isinstance(value, torch.dtype) and value.is_floating_point and value.itemsize < 4:
            line = f"rounds to {str(value).removeprefix('torch.')} on the way"
            if line not in notes:
                notes.append(line)
        return torch.float64 if value is torch.float32 else value

    def intercept(mode: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in methods:
            return args[0].to(widen(methods[function]))
        return function(*map(widen, args), **{name: widen(value) for name, value in (kwargs or {}).items()})

    mode = import_module("torch.overrides").TorchFunctionMode
    return type("Widening", (mode,), {"__torch_function__": intercept})()


class Host:
    """One reference, ready to be asked."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.inputs, self.outputs = spec["inputs"], spec["outputs"]
        self.file = Path(spec["file"])
        self.module = load_module(self.file)
        kind = Torch if "torch" in sys.modules else NumPy
        self.framework = kind(spec["device"])

    def answer(self, question: str, raw: Mapping[str, Array]) -> tuple[dict[str, Array], list[str]]:
        """In the reference's process: arrays by name, and notes. `question`: oracle, in float64, or trusted, in the task's types."""
        wide = question == "oracle"
        arguments = {name: self.framework.convert(raw[name], dtype, wide=wide) for name, dtype, _ in self.inputs}
        with self.framework.working_precision(wide=wide) as notes:
            result = self._function(question)(*arguments.values())
        values = dict(self._by_name(result))
        values.update({name: arguments[name] for name, _, constness in self.inputs if constness == "mutated"})
        arrays: dict[str, Array] = {}
        for name, value in values.items():
            arrays[name], had = self.framework.plain(value)
            if wide and had in FLOATS[1:] and self._is_float(name):
                notes.append(f"{name} comes as {had}")
        return arrays, notes

    def _function(self, question: str) -> Any:
        function = getattr(self.module, question, None) or getattr(self.module, "reference", None)
        if not callable(function):
            raise Unusable(f"defines neither {question}() nor reference()")
        return function

    def _by_name(self, result: Any) -> Iterable[tuple[str, Any]]:
        names = [name for name, _ in self.outputs]
        if isinstance(result, dict):
            if set(result) != set(names):
                raise Unusable(f"returns {sorted(result)} where the task has the outputs {names}")
            return result.items()
        values = list(result) if isinstance(result, tuple | list) else [result] if names or result is not None else []
        if len(values) != len(names) or any(value is None for value in values):
            raise Unusable(f"returns {len(values)} results where the task has the outputs {names}")
        return zip(names, values, strict=True)

    def _is_float(self, name: str) -> bool:
        return any(tensor[0] == name and tensor[1] in FLOATS for tensor in (*self.inputs, *self.outputs))


def place(error: BaseException, file: Path) -> str:
    """In the reference's process: what went wrong and at which line, in one line."""
    line = next(
        (f"line {f.lineno}: " for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == str(file)),
        "",
    )
    kind = "" if isinstance(error, Unusable) else f"{type(error).__name__}: "
    text = " ".join(str(error).split())
    return f"{line}{kind}{text}"[:1000]


def send_answer(out: BinaryIO, header: Mapping[str, object], arrays: Iterable[Array] = ()) -> None:
    """Sends one whole answer of the reference."""
    send(out, json.dumps(header).encode())
    for array in arrays:
        send(out, plain_bytes(array))
    out.flush()


def serve(host: Host, stream: BufferedReader, out: BinaryIO, words: bytearray) -> None:
    """In the reference's process: reads the arrays that are asked about, all of them, and answers every question about each set."""
    request = json.loads(words)
    names = [name for name, _, _ in host.inputs]
    sets = [
        {
            name: np.ndarray(tuple(shape), dtype, expect_message(stream))
            for name, (dtype, shape) in zip(names, forms, strict=True)
        }
        for forms in request["sets"]
    ]
    answers: list[dict[str, object]] = []
    sent: list[Array] = []
    all_notes: list[str] = []
    for raw, question in ((raw, question) for raw in sets for question in request["questions"]):
        try:
            # copies: a mutated input must be as it was for the next question
            arrays, notes = host.answer(question, {name: array.copy() for name, array in raw.items()})
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            send_answer(out, {"error": place(error, host.file), "question": question})
            return
        if question == request["questions"][0]:
            answers.append({})
        answers[-1][question] = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
        sent += [array.copy() for array in arrays.values()]  # a reference may use its own memory again
        all_notes += notes
    send_answer(out, {"answers": answers, "notes": all_notes}, sent)


def main() -> None:
    """The reference's process: answers until the other side closes."""
    stream, out = os.fdopen(int(sys.argv[1]), "rb"), os.fdopen(int(sys.argv[2]), "wb")
    spec = json.loads(expect_message(stream))
    try:
        host = Host(spec)
    except BaseException as error:
        send_answer(out, {"error": place(error, Path(spec["file"]))})
        raise
    send_answer(out, {"framework": host.framework.name})
    while (words := receive(stream)) is not None:
        serve(host, stream, out, words)


if __name__ == "__main__":
    main()
