"""What test.py and bench.py share, for every Triton task: the device, a kernel from its source, the measure of errors.

The same file lies in each task's folder, because a task must be complete by itself.
"""

import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

HERE = Path(__file__).resolve().parent
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
CHUNK = 1 << 26
"""Elements compared at a time: two arrays of 4 GiB must not become six of 8."""

Run = Callable[..., Tensor]

os.environ["TRITON_CACHE_DIR"] = str(HERE / "build" / "triton")  # the home folder of a command lives as long as it does
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported, which only kernel.py does
for kind in ("fp16", "bf16"):  # else what is trusted may sum in that
    setattr(torch.backends.cuda.matmul, f"allow_{kind}_reduced_precision_reduction", False)


def kernel(folder: Path, name: str) -> Run:
    """`run` of the folder's kernel.py, imported as `name`: from its source, not from bytecode beside it."""
    if not GPU:
        mend_interpreter()
    path = (folder / "kernel.py").resolve()
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    found: Run = module.run
    return found


def mend_interpreter() -> None:
    """Make bf16 right in the interpreter, which (Triton 3.9) multiplies its bits in tl.dot and cuts them in casts."""
    import numpy
    import triton.language as tl
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    dot, cast = builder.create_dot, builder.cast_impl

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        bits = numpy.left_shift(handle.data.astype(numpy.uint32), 16)
        return interpreter.TensorHandle(bits.view(numpy.float32), tl.float32)

    def rounded(ours: Any, handle: Any, wanted: Any) -> Any:
        if (handle.dtype.scalar, wanted.scalar) != (tl.float32, tl.bfloat16):
            return cast(ours, handle, wanted)
        bits = handle.data.view(numpy.uint32)
        nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16  # half goes to even
        bits = numpy.where(numpy.isnan(handle.data), 0x7FC0, nearest)
        return interpreter.TensorHandle(bits.astype(numpy.uint16), tl.bfloat16)

    builder.create_dot = lambda ours, a, b, *rest: dot(ours, widened(a), widened(b), *rest)
    builder.cast_impl = rounded


def generator(seed: int) -> torch.Generator:
    """A source of random numbers on the device."""
    return torch.Generator(device=DEVICE).manual_seed(seed)


def some_rows(count: int, most: int, rng: torch.Generator) -> Tensor:
    """All rows, or the first, the last and random ones: `most` of them together."""
    if count <= most:
        return torch.arange(count, device=DEVICE)
    drawn = torch.randint(count, (most - 2,), generator=rng, device=DEVICE)
    return torch.cat((torch.tensor([0, count - 1], device=DEVICE), drawn))


def distance(got: Tensor, wanted: Tensor) -> Tensor:
    """Norm of the difference relative to the norm of what is wanted, in fp64; a scalar, NaN where `got` has one."""
    rows = max(1, CHUNK // max(1, wanted[0].numel()))
    off = size = torch.zeros((), dtype=torch.float64, device=wanted.device)
    for ours, theirs in zip(got.split(rows), wanted.split(rows), strict=True):
        right = theirs.double()
        off = off + (ours.double() - right).square().sum()
        size = size + right.square().sum()
    return off.sqrt() / (size.sqrt() + 1e-30)
