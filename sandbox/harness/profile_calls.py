"""Calls one candidate on one size a few times, so that a profiler can look. Nothing is judged here.

Started as `python -P -B profile_calls.py SPEC`, a JSON object. Loads the candidate as a worker of the judge does. Needs the
candidate's own packages: PyTorch for Python, NumPy for C. Prints `calls=` and `kernel_time_us=` of one call.
"""

import ctypes
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

COMPILED = "RIDGELINE_COMPILED"
"""Variable that names a file with what the same version had compiled before, for its cache."""
BUSY_BYTES = 1 << 28
BUSY_FILLS = 20
"""Of that many bytes: what a card does meanwhile hides what the processor does for the calls behind it."""


def _beside(name: str) -> Any:
    """In the process that a profiler looks at: the module of that name beside this file."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class NumpyArrays:
    """Values in NumPy's arrays."""

    def __init__(self) -> None:
        self._numpy: Any = import_module("numpy")
        self._rng = self._numpy.random.default_rng()

    def draw(self, array: dict[str, Any]) -> Any:
        """In the process that a profiler looks at: ordinary values of an input, or zeros. As bits where NumPy has no such type."""
        np, shape = self._numpy, tuple(array["shape"])
        is_pattern = array["dtype"] == "bfloat16" or array["dtype"].startswith("float8")
        kind = "float32" if is_pattern else array["dtype"]
        if array["values"] is None:
            values = np.zeros(shape, kind)
        elif array["values"] == "normal":
            values = self._rng.standard_normal(shape, "float32").astype(kind)
        elif array["values"] == "integers":
            values = self._rng.integers(*array["range"], shape).astype(kind)
        else:
            values = self._rng.uniform(*array["range"], shape).astype(kind)
        if array["dtype"].startswith("float8"):
            return self._cut_to_eight_bits(values, array["dtype"])
        return (values.view("uint32") >> 16).astype("uint16") if is_pattern else values

    def _cut_to_eight_bits(self, values: Any, dtype: str) -> Any:
        """In the process that a profiler looks at: patterns of 8-bit floats, towards zero: their first bits are those of float16."""
        np, fraction_bits = self._numpy, 2 if dtype == "float8_e5m2" else 3
        bits = values.astype("float16").view("uint16")
        if fraction_bits == 2:
            return (bits >> 8).astype("uint8")
        sizes = (np.abs(values) / 256).astype("float16").view("uint16") >> 7
        return (bits >> 8 & 0x80 | np.minimum(sizes, 0x7E)).astype("uint8")

    def pointer(self, values: Any) -> ctypes.c_void_p:
        """In the process that a profiler looks at: where an array's elements are, for a function in C."""
        return ctypes.c_void_p(values.ctypes.data)


class TorchArrays:
    """Values in PyTorch's tensors."""

    def __init__(self, device: str) -> None:
        self.torch: Any = import_module("torch")
        self._device = device

    def draw(self, array: dict[str, Any]) -> Any:
        """In the process that a profiler looks at: ordinary values of an input, or an output full of zeros."""
        torch, shape = self.torch, tuple(array["shape"])
        kind = getattr(torch, array["dtype"])
        if array["values"] is None:
            return torch.zeros(shape, dtype=kind, device=self._device)
        if array["values"] == "integers":
            return torch.randint(*array["range"], shape, device=self._device).to(kind)
        values = torch.empty(shape, dtype=torch.float32, device=self._device)
        return (values.normal_() if array["values"] == "normal" else values.uniform_(*array["range"])).to(kind)

    def pointer(self, values: Any) -> ctypes.c_void_p:
        """In the process that a profiler looks at: where a tensor's elements are, for a function in C."""
        return ctypes.c_void_p(values.data_ptr())


def main(spec: dict[str, Any]) -> None:
    """The process that a profiler looks at: warm up with one call, then time the others."""
    if compiled := os.environ.get(COMPILED):
        _beside("judge_cache").unpack(Path(compiled).read_bytes(), os.environ["XDG_CACHE_HOME"])
    is_card, is_compiled = spec["device"] == "cuda", bool(spec["library"])
    arrays = TorchArrays(spec["device"]) if spec["framework"] == "torch" or is_card else NumpyArrays()
    if is_compiled:
        loaded = _beside("judge_worker_c").load(spec)
    else:
        loaded = _beside("judge_worker_python").load(spec)
    inputs = {array["name"]: arrays.draw(array) for array in spec["arrays"]}
    passed = {name: arrays.pointer(values) for name, values in inputs.items()} if is_compiled else inputs
    arguments = loaded.arguments(passed, spec["dims"])
    loaded.entry(*arguments)
    calls = spec["calls"]
    if isinstance(arrays, TorchArrays) and is_card:
        time_us = _time_on_card(arrays.torch, loaded.entry, arguments, calls)
    else:
        time_us = _time_on_processor(loaded.entry, arguments, calls)
    print(f"calls={calls}\nkernel_time_us={time_us:.3f}")


def _time_on_card(torch: Any, entry: Callable[..., Any], arguments: Sequence[Any], calls: int) -> float:
    """In the process that a profiler looks at: mean time of a call (us), the first with a cache that other values fill."""
    busy = torch.empty(BUSY_BYTES, dtype=torch.int8, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    for _ in range(BUSY_FILLS):
        busy.zero_()
    start.record()
    for _ in range(calls):
        entry(*arguments)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e3 / calls


def _time_on_processor(entry: Callable[..., Any], arguments: Sequence[Any], calls: int) -> float:
    """In the process that a profiler looks at: median time of a call in microseconds."""
    times_ns = []
    for _ in range(calls):
        began = time.perf_counter_ns()
        entry(*arguments)
        times_ns.append(time.perf_counter_ns() - began)
    return statistics.median(times_ns) / 1e3


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
