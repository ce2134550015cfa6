"""What test.py and bench.py share, for every Triton task: the device, a kernel from its source, the measure of errors.

The same file lies in each task's folder, because a task must be complete by itself.
"""

import os
import sys
import types
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

HERE = Path(__file__).resolve().parent
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
LEAST_ERROR = 2.0**-11
"""A relative error that one rounding to fp16 may cause, so never held against a kernel."""

Run = Callable[..., Tensor]

os.environ["TRITON_CACHE_DIR"] = str(HERE / "build" / "triton")  # the home folder of a command lives as long as it does
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported, which only kernel.py does
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False  # else what is trusted may sum in fp16


def kernel(folder: Path, name: str) -> Run:
    """`run` of the folder's kernel.py, imported as `name`: from its source, not from bytecode beside it."""
    path = (folder / "kernel.py").resolve()
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    found: Run = module.run
    return found


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
    return (got.double() - wanted.double()).norm() / (wanted.double().norm() + 1e-30)
