"""What test and benchmark of a workspace share: the two versions, their inputs, and the error between their outputs.

Written by `ridgeline init --like gpu-kernel-optimizer`. `reference.py` and `kernel.py` hold `Model` (`ModelNew` is taken where
there is one) or a function `run`, `reference.py` also `get_inputs()`, and `get_init_inputs()` where the model takes arguments.
"""

import contextlib
import copy
import importlib.util
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def load(name: str) -> ModuleType:
    """In the workspace that `init` writes: a module of its folder by its file's name."""
    spec = importlib.util.spec_from_file_location(f"workspace_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def seed(number: int) -> None:
    """In the workspace that `init` writes: the same random numbers for both versions."""
    random.seed(number)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(number)


def make(module: ModuleType, reference: ModuleType) -> Callable[..., Any]:
    """In the workspace that `init` writes: what is called: the module's model with the reference's arguments, or its `run`."""
    kind = getattr(module, "ModelNew", None) or getattr(module, "Model", None)
    if kind is None:
        return module.run
    seed(0)
    model = kind(*getattr(reference, "get_init_inputs", list)())
    if hasattr(model, "eval"):
        model = model.eval()
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available() and hasattr(model, "cuda"):
        model = model.cuda()
    return model


def draw(reference: ModuleType, number: int) -> list[Any]:
    """In the workspace that `init` writes: inputs of one case, on the card where there is one."""
    seed(number)
    inputs = reference.get_inputs()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        inputs = [value.cuda() if hasattr(value, "cuda") else value for value in inputs]
    return inputs


def run(call: Callable[..., Any], inputs: list[Any]) -> list[float]:
    """In the workspace that `init` writes: the output as a flat list of numbers, after the device has finished."""
    with no_gradients():
        out = call(*[value.clone() if hasattr(value, "clone") else copy.deepcopy(value) for value in inputs])
    return flatten(out)


def no_gradients() -> contextlib.AbstractContextManager[Any]:
    """In the workspace that `init` writes: torch's own guard where torch is used."""
    torch = sys.modules.get("torch")
    return torch.no_grad() if torch is not None else contextlib.nullcontext()


def flatten(value: Any) -> list[float]:
    """In the workspace that `init` writes: numbers of tensors, arrays, lists and scalars, in order."""
    if hasattr(value, "detach"):
        value = value.detach().float().cpu()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [number for item in value for number in flatten(item)]
    return [float(value)]


def rel_err(out: list[float], ref: list[float]) -> float:
    """In the workspace that `init` writes: ||out - ref|| / ||ref||; infinite where sizes differ or a number is none."""
    if len(out) != len(ref) or not all(map(math.isfinite, out)):
        return math.inf
    norm = math.sqrt(math.fsum(number * number for number in ref))
    away = math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(out, ref, strict=True)))
    return away / norm if norm else (0.0 if away == 0 else math.inf)
