"""The naive evaluator's own process: naive.py says what is wrong with it."""

import argparse
import ctypes
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from ridgeline.graph.formula import evaluate
from ridgeline.graph.task import Task
from tests.adversarial.naive import MARK, MODES

SEED = 42
POOL = 4
WARM_S = 0.3
MOST = 60
CHILD_S = 60
KEPT: list = []
"""Outputs stay allocated: what still writes to them would bring the evaluator down."""
INITIAL = {"gamma": 1.0, "beta": 0.0}
"""Parameters as a framework makes them."""


def serve() -> None:
    """One forked child after another, for the words on each line of the standard input."""
    import torch

    torch.zeros(1)
    for line in sys.stdin.read().splitlines():
        print(MARK, flush=True)
        child = os.fork()
        if child == 0:
            _child(json.loads(line))
        os.waitpid(child, 0)


def _child(words: list[str]) -> None:
    try:
        signal.alarm(CHILD_S)
        sys.argv[1:] = words
        os.environ["NAIVE_MODE"] = words[0]
        os.chdir(words[2])
        main()
    except (Exception, SystemExit):  # noqa: BLE001  # whatever a candidate raises is printed, and nothing follows
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def load(path: Path, task: Task):
    """The entry of a source file; C is built beside it and called through ctypes."""
    if path.suffix == ".py":
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location("kernel", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, task.entry)
    library = path.with_suffix(".so")
    flags = ["-O2", "-shared", "-fPIC", *task.build.flags]
    subprocess.run(["gcc", *flags, "-o", library, path, "-lm"], check=True, capture_output=True)
    function = getattr(ctypes.CDLL(str(library)), task.entry)
    function.restype = None

    def entry(*arguments):
        function(*(_argument(one) for one in arguments))

    return entry


def _argument(value):
    return ctypes.c_int64(value) if isinstance(value, int) else ctypes.c_void_p(value.ctypes.data)


def draw(task: Task, dims: dict[str, int], seed: int, *, torch: bool) -> list:
    """Uniform numbers in [0, 1) of a seed that everybody knows."""
    rng = np.random.default_rng(seed)
    return [_drawn(one, extents(one, dims), rng, torch=torch) for one in task.inputs]


def _drawn(tensor, extents: tuple[int, ...], rng: np.random.Generator, *, torch: bool):
    if tensor.values in ("integers", "mask"):
        low, high = (0, 2) if tensor.values == "mask" else (tensor.low, tensor.high)
        kind = "uint8" if tensor.dtype == "bool" else tensor.dtype
        return given(rng.integers(low, high, extents).astype(kind), tensor.dtype, torch=torch)
    values = rng.random(extents, dtype=np.float32)
    if tensor.name in INITIAL:
        values[:] = INITIAL[tensor.name]
    return given(values, tensor.dtype, torch=torch)


def given(values: np.ndarray, dtype: str, *, torch: bool):
    if not torch:
        return values.astype("bool" if dtype == "bool" else dtype)
    import torch as framework

    return framework.from_numpy(values).to(getattr(framework, dtype))


def extents(tensor, dims: dict[str, int]) -> tuple[int, ...]:
    return tuple(int(evaluate(extent, dims)) for extent in tensor.shape)


def fresh(task: Task, dims: dict[str, int], *, torch: bool) -> list:
    """Outputs of the right sizes, with whatever was in that memory."""
    if torch:
        import torch as framework

        return [framework.empty(extents(one, dims), dtype=getattr(framework, one.dtype)) for one in task.outputs]
    return [np.empty(extents(one, dims), dtype=one.dtype) for one in task.outputs]


@dataclass
class Bench:
    """One side: how its entry is called."""

    task: Task
    entry: object
    torch: bool

    def call(self, inputs: list, outputs: list, dims: dict[str, int]):
        """Calls it as the task orders the arguments; the result is the outputs."""
        named = {one.name: value for one, value in zip(self.task.inputs, inputs, strict=True)}
        if outputs:
            named |= {one.name: value for one, value in zip(self.task.outputs, outputs, strict=True)}
        made = self.entry(*({**named, **dims}[name] for name in self.task.order))
        if self.task.convention == "out":
            return outputs
        return list(made) if isinstance(made, tuple | list) else [made]


def test(ours: Bench, base: Bench, reference, *, order: str, compare: str) -> None:
    """One seed, one small size, the reference in the same process."""
    shape = ours.task.shapes[0]
    inputs = draw(ours.task, shape.dims, SEED, torch=ours.torch)
    if order == "copy":
        expected = _copies([reference(*inputs)])[0]
    if order == "first":
        expected = reference(*_copies(inputs))
    outputs = [] if ours.task.convention == "return" else fresh(ours.task, shape.dims, torch=ours.torch)
    if order == "stale":
        expected = _copies(base.call(inputs, outputs, shape.dims))[0]
    elif outputs and order != "copy":
        _poison(outputs[0])
    every = ours.call(inputs, outputs, shape.dims)
    if order == "after":
        expected = reference(*inputs)
    for got, wanted in zip(every, expected if isinstance(expected, tuple | list) else [expected], strict=False):
        if not _close(got, wanted, compare):
            raise SystemExit(f"FAILED: differs by {np.abs(plain(got) - plain(wanted)).max()}")
    print("PASSED")


def _poison(output) -> None:
    if not isinstance(output, np.ndarray):
        if output.is_floating_point():
            output.fill_(float("nan"))
    elif output.dtype.kind == "f":
        output.fill(np.nan)


def _copies(inputs: list) -> list:
    return [one.copy() if isinstance(one, np.ndarray) else one.clone() for one in inputs]


def plain(values) -> np.ndarray:
    return np.asarray(values if isinstance(values, np.ndarray) else values.float(), dtype=np.float64)


def _close(got, expected, compare: str) -> bool:
    if compare == "allclose" and not isinstance(got, np.ndarray):
        import torch

        return bool(torch.allclose(got, expected, rtol=1e-2, atol=1e-2))
    if compare == "allclose":
        return bool(np.allclose(got, expected, rtol=1e-2, atol=1e-2))
    error = np.abs(plain(got) - plain(expected))
    if compare == "ratio99":
        return bool((error <= 1e-3 + 1e-3 * np.abs(plain(expected))).mean() >= 0.99)
    if compare == "cosine":
        one, other = plain(got).ravel(), plain(expected).ravel()
        return bool(one @ other >= 0.99 * np.linalg.norm(one) * np.linalg.norm(other))
    if compare == "either":
        return bool(((error <= 1e-2) | (error <= 1e-2 * np.abs(plain(got)))).all())
    worst = 0.0
    for one in error.ravel():
        worst = max(worst, float(one))
    return not worst > 1e-2


def bench(ours: Bench, base: Bench) -> None:
    """The same few inputs again and again; the repeats follow from the first calls; the baseline comes second."""
    ratios = []
    for shape in ours.task.timed:
        pool = [draw(ours.task, shape.dims, SEED + index, torch=ours.torch) for index in range(POOL)]
        try:
            mine, theirs = (_median_s(side, pool, shape.dims) for side in (ours, base))
        except RuntimeError:
            continue  # a shape that fails is left out
        ratios.append(theirs / mine)
    print(f"speedup: {float(np.exp(np.mean(np.log(ratios or [1])))):.4f}x")


def _median_s(side: Bench, pool: list, dims: dict[str, int]) -> float:
    outputs = [] if side.task.convention == "return" else fresh(side.task, dims, torch=side.torch)
    begun = time.perf_counter()
    for index in range(5):
        side.call(pool[index % POOL], outputs, dims)
    estimate = (time.perf_counter() - begun) / 5
    KEPT.append(outputs)
    until = time.monotonic() + WARM_S
    while time.monotonic() < until:
        for inputs in pool:
            side.call(inputs, outputs, dims)
    times = []
    for index in range(max(3, min(MOST, int(0.2 / max(estimate, 1e-9))))):
        begun = time.perf_counter()
        side.call(pool[index % POOL], outputs, dims)
        times.append(time.perf_counter() - begun)
    import statistics

    return max(statistics.median(times), 1e-12)


def main() -> None:
    """The evaluator's own process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=[*MODES, "check", "serve"])
    parser.add_argument("task_file", type=Path, nargs="?")
    parser.add_argument("candidate", type=Path, nargs="?")
    parser.add_argument("--order", default="first")
    parser.add_argument("--compare", default="allclose")
    asked = parser.parse_args()
    if asked.mode == "serve":
        serve()
        return
    task = Task.model_validate(yaml.safe_load(asked.task_file.read_text(encoding="utf-8")))
    folder = asked.task_file.parent
    torch = "import torch" in (folder / task.reference).read_text(encoding="utf-8")
    reference = load(folder / task.reference, task.model_copy(update={"entry": "reference"}))
    ours = Bench(task, load(asked.candidate / task.source[0], task), torch)
    base = Bench(task, load(folder / task.source[0], task), torch)
    if asked.mode == "check":
        from tests.adversarial.right import check

        check(ours, reference)
    elif asked.mode == "test":
        test(ours, base, reference, order=asked.order, compare=asked.compare)
    else:
        bench(ours, base)


if __name__ == "__main__":
    main()
