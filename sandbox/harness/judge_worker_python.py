"""Inside a worker: a candidate that is a Python module, with tensors of PyTorch or arrays of NumPy."""

import ctypes
import importlib
import importlib.util
import math
import mmap
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ROOM = 216
"""Bytes of an answer's text."""
PATTERNS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""What NumPy holds types in that it has not."""
COMPILER_NOTES = "_dynamo_"
"""What `torch.compile` calls its notes on tensors."""


class Numpy:
    """Arrays of NumPy over shared memory. Floats that it has not are given as bit patterns: bfloat16 in uint16, 8 bits in uint8."""

    def __init__(self) -> None:
        import numpy

        self._numpy = numpy
        self._array = numpy.ndarray
        self._data_at = _find_pointer(numpy.empty(1))
        self._pointer_at = ctypes.c_void_p.from_address
        self._scalar: Any = None
        self.strided = False
        """Whether arrays with gaps or in another order of their axes are taken, which the judge reads as they are."""

    def wrap(self, memory: mmap.mmap, dtype: str, shape: Sequence[int], offset: int) -> Any:
        """Inside a worker: the NumPy array at that offset; the same object at every call."""
        kind = self._numpy.dtype(PATTERNS.get(dtype, dtype))
        return self._numpy.frombuffer(memory, kind, math.prod(shape), offset).reshape(shape)

    def pointer(self, array: Any, output: Any) -> int | str:
        """Inside a worker: where a returned array's elements are, or why it is not such an array as `output`.

        A reduction of NumPy gives a scalar, which is as good as an array of one element.
        """
        if output.size == 1 and type(array) is output.dtype.type:
            array = self._scalar = self._numpy.array(array).reshape(output.shape)  # kept while it is read
        if type(array) is not self._numpy.ndarray:
            return f"a {type(array).__name__} instead of a numpy.ndarray"
        if array.shape != output.shape or array.dtype != output.dtype:
            return f"{array.dtype} {list(array.shape)} instead of {output.dtype} {list(output.shape)}"
        if not array.flags.c_contiguous and not self.strided:
            return "an array that is not contiguous; return numpy.ascontiguousarray() of it"
        return int(array.ctypes.data)

    def address(self, array: Any) -> int:
        """Inside a worker: where a plain contiguous array's elements are, by its object: asking takes microseconds. 0 for all else."""
        if type(array) is not self._array or not array.flags.c_contiguous or not self._data_at:
            return 0
        return self._pointer_at(id(array) + self._data_at).value or 0

    def place(self, array: Any) -> str:
        """Inside a worker: address and, of a NumPy array that is not contiguous, strides in bytes: all in hexadecimals."""
        if not hasattr(array, "strides") or not array.ndim:
            array = self._scalar = self._numpy.array(array)
        facts = array.__array_interface__
        return ":".join(f"{word:x}" for word in (facts["data"][0], *(facts["strides"] or ())))

    def at(self, array: Any) -> int:
        """Inside a worker: where one of our own arrays is."""
        return int(array.ctypes.data)


class Torch:
    """Tensors of PyTorch over shared memory, or over bytes on a card."""

    def __init__(self, threads: int) -> None:
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(threads)
        self._torch = torch
        self._tensor = torch.Tensor
        self._data_ptr = torch.Tensor.data_ptr
        self._is_contiguous = torch.Tensor.is_contiguous
        self._stride = torch.Tensor.stride
        self.strided = False
        """As of `Numpy`."""

    def wrap(self, memory: Any, dtype: str, shape: Sequence[int], offset: int) -> Any:
        """Inside a worker: the tensor at that offset; the same object at every call."""
        kind = getattr(self._torch, dtype)
        count = math.prod(shape)
        if isinstance(memory, self._tensor):  # on a card
            return memory[offset : offset + count * kind.itemsize].view(kind).view(tuple(shape))
        if count == 0:
            return self._torch.empty(tuple(shape), dtype=kind)
        return self._torch.frombuffer(memory, dtype=kind, count=count, offset=offset).view(tuple(shape))

    def pointer(self, tensor: Any, output: Any) -> int | str:
        """Inside a worker: where a returned tensor's elements are, or why it is not such a tensor as `output`."""
        if type(tensor) not in (self._tensor, self._torch.nn.Parameter):
            return f"a {type(tensor).__name__} instead of a torch.Tensor"
        if names := [name for name in tensor.__dict__ if not name.startswith(COMPILER_NOTES)]:
            return f"a tensor with attributes of its own: {', '.join(names)}"
        if tensor.shape != output.shape or tensor.dtype != output.dtype or tensor.device != output.device:
            return f"{tensor.dtype} {list(tensor.shape)} instead of {output.dtype} {list(output.shape)}"
        if not self._is_contiguous(tensor) and not self.strided:
            return "a tensor that is not contiguous; return .contiguous() of it"
        if tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size():
            return "a tensor with less memory than elements"
        return int(self._data_ptr(tensor))

    def address(self, tensor: Any) -> int:
        """Inside a worker: where a plain contiguous tensor's elements are; 0 for all else."""
        return int(self._data_ptr(tensor)) if type(tensor) is self._tensor and self._is_contiguous(tensor) else 0

    def place(self, tensor: Any) -> str:
        """Inside a worker: address and, of a tensor that is not contiguous, strides in bytes: all in hexadecimals."""
        address = self._data_ptr(tensor)
        if self._is_contiguous(tensor):
            return f"{address:x}"
        width = tensor.element_size()
        return ":".join(f"{word:x}" for word in (address, *(width * step for step in self._stride(tensor))))

    def at(self, tensor: Any) -> int:
        """Inside a worker: where one of our own tensors is."""
        return int(self._data_ptr(tensor))


class Module:
    """The function, and its arguments as tensors or arrays."""

    def __init__(self, spec: dict[str, Any], framework: Any) -> None:
        self._order: Sequence[str] = spec["order"]
        self._outputs: Sequence[str] = spec["outputs"]
        self._framework = framework
        self.returns: bool = spec["returns"]
        self.wrap = framework.wrap
        self.move: Callable[[int, int, int], Any] = ctypes.memmove
        self._has_single_output = len(self._outputs) == 1
        self.entry = getattr(_import_file(Path(spec["source"])), spec["entry"])

    def arguments(self, arrays: dict[str, Any], dims: dict[str, int]) -> tuple[Any, ...]:
        """Inside a worker: arguments of the candidate's call: tensors, and dimensions as they are."""
        return tuple(arrays[name] if name in arrays else dims[name] for name in self._order)

    @property
    def strided(self) -> bool:
        """Inside a worker: whether a result need not be contiguous."""
        return bool(self._framework.strided)

    @strided.setter
    def strided(self, value: bool) -> None:
        self._framework.strided = value

    def place(self, result: Any) -> bytes:
        """Inside a worker: where the results are, for the judge to read: short work: its clock runs. Empty for what is no result."""
        if self._has_single_output and (address := self._framework.address(result)):
            return (b"%x" % address).ljust(ROOM, b"\0")
        try:
            values = (
                [result]
                if self._has_single_output and type(result) not in (list, tuple)
                else _several(result) or [result]
            )
            words = ";".join([self._framework.place(value) for value in values]).encode()
        except (AttributeError, TypeError, RuntimeError, ValueError):
            words = b""  # `finish` says why
        return words.ljust(ROOM, b"\0")[:ROOM]

    def finish(self, arrays: dict[str, Any], facts: dict[str, Any]) -> Callable[[Any], str]:
        """Inside a worker: what takes a call's result to where the judge looks for it."""
        framework, names = self._framework, self._outputs
        places = [(name, arrays[name], framework.at(arrays[name])) for name in names]
        bytes_of = {name: arrays[name].nbytes for name in arrays}
        spans = [
            (framework.at(array), framework.at(array) + bytes_of[name], name)
            for name, array in arrays.items()
            if name not in names and name not in facts["mutated"]
        ]

        def finish(result: Any) -> str:
            results = _several(result)
            if results is None:
                results = [result] if places or result is not None else []
            if len(results) != len(places):
                return f"{len(places)} results are wanted, not {len(results)}: {', '.join(names)}"
            for value, (name, output, target) in zip(results, places, strict=True):
                address = framework.pointer(value, output)
                if isinstance(address, str):
                    return f"{name}: {address}"
                if inside := [input_name for start, end, input_name in spans if start <= address < end]:
                    return f"{name}: the memory of the input {inside[0]}, not an array of its own"
                self.move(target, address, bytes_of[name])
            return ""

        return finish


def load(spec: dict[str, Any]) -> Module:
    """Inside a worker: the candidate's module and its function. What its import raises ends the worker, with the trace on its output."""
    framework = Torch(spec["threads"]) if spec["framework"] == "torch" else Numpy()
    if os.environ.get("TRITON_INTERPRET") == "1":
        _mend_interpreter()
    return Module(spec, framework)


def _find_pointer(array: Any) -> int:
    """Inside a worker: how many bytes into an array's object its elements' address stands; 0 where it is not found."""
    address, word = array.__array_interface__["data"][0], ctypes.sizeof(ctypes.c_void_p)
    offsets = range(2 * word, type(array).__basicsize__ - word + 1, word)
    return next((at for at in offsets if ctypes.c_void_p.from_address(id(array) + at).value == address), 0)


def _mend_interpreter() -> None:
    """Inside a worker: make bf16 right in Triton's interpreter, which (3.9) multiplies its bits in tl.dot and cuts in casts.

    8-bit floats too, which it rounds in ways of its own: to nearest even here, and what is too large to the largest, as cards do.
    """
    numpy = importlib.import_module("numpy")
    tl = importlib.import_module("triton.language")
    interpreter = importlib.import_module("triton.runtime.interpreter")
    builder = interpreter.InterpreterBuilder
    dot, cast, convert = builder.create_dot, builder.cast_impl, builder.create_fp_to_fp
    eights = {tl.float8e4nv: _list_eight_bits(numpy, 3), tl.float8e5: _list_eight_bits(numpy, 2)}

    def widen(handle: Any) -> Any:
        if (kind := handle.dtype.scalar) in eights:
            return interpreter.TensorHandle(eights[kind][handle.data], tl.float32)
        if kind != tl.bfloat16:
            return handle
        bits = numpy.left_shift(handle.data.astype(numpy.uint32), 16)
        return interpreter.TensorHandle(bits.view(numpy.float32), tl.float32)

    def round_to(builder_self: Any, handle: Any, target: Any) -> Any:
        if (handle.dtype.scalar, target.scalar) != (tl.float32, tl.bfloat16):
            return cast(builder_self, handle, target)
        bits = handle.data.view(numpy.uint32)
        nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16  # half goes to even
        bits = numpy.where(numpy.isnan(handle.data), 0x7FC0, nearest)
        return interpreter.TensorHandle(bits.astype(numpy.uint16), tl.bfloat16)

    def convert_eight(builder_self: Any, handle: Any, target: Any, mode: Any) -> Any:
        source, kind = handle.dtype.scalar, target.scalar
        if source not in eights and kind not in eights:
            return convert(builder_self, handle, target, mode)
        wide = widen(handle)
        if kind not in eights:
            return wide if kind == tl.float32 else builder_self.cast_impl(wide, target)
        return interpreter.TensorHandle(_round_eight_bits(numpy, wide.data, eights[kind]), kind)

    builder.create_fp_to_fp = convert_eight
    builder.create_dot = lambda builder_self, a, b, *rest: dot(builder_self, widen(a), widen(b), *rest)
    builder.cast_impl = round_to


def _list_eight_bits(numpy: Any, fraction_bits: int) -> Any:
    """Inside a worker: the numbers of an 8-bit float's patterns: e4m3fn with three bits behind the point, e5m2 with two."""
    words = numpy.arange(256, dtype=numpy.uint16)
    if fraction_bits == 2:
        return (words << 8).view(numpy.float16).astype(numpy.float32)
    halves = ((words & 0x80) << 8 | (words & 0x7F) << 7).view(numpy.float16).astype(numpy.float32) * numpy.float32(256)
    return numpy.where((words & 0x7F) == 0x7F, numpy.float32(numpy.nan), halves)


def _round_eight_bits(numpy: Any, values: Any, table: Any) -> Any:
    """Inside a worker: patterns of the nearest 8-bit floats, ties to even; the largest for what is larger, as on a card."""
    sizes = table[: int(numpy.isfinite(table[:128]).sum())].astype(numpy.float64)
    wide = values.astype(numpy.float64)
    middles = (sizes[1:] + sizes[:-1]) / 2
    left, right = (numpy.searchsorted(middles, numpy.abs(wide), side=side) for side in ("left", "right"))
    codes = numpy.where(left % 2 == 0, left, right)  # they differ at a tie
    codes = numpy.where(numpy.isnan(wide), 0x7F, codes)
    return (codes | numpy.signbit(wide).astype(numpy.int64) << 7).astype(numpy.uint8)


def _several(result: Any) -> list[Any] | None:
    """Inside a worker: what a returned tuple or list holds, one with names too; None for anything else. No method of it is called."""
    for kind in (tuple, list):
        try:
            return [*kind.__iter__(result)]
        except TypeError:
            continue
    return None


def _import_file(path: Path) -> ModuleType:
    """Inside a worker: the module at that path; its neighbours can be imported by it."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
