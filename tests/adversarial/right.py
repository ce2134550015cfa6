"""Is an honest kernel right? Its outputs against the reference in float64, on public and odd sizes."""

import numpy as np

from tests.adversarial.naive_process import Bench, extents, fresh, given, plain

ALLOWED = {"float32": 3e-6, "float16": 1e-3, "bfloat16": 4e-3}
"""Relative error of the whole output, by its type; whole numbers must be equal."""
SEED = 7


def check(ours: Bench, reference) -> None:
    """Raises SystemExit naming the size and the error of the first output that is wrong."""
    for dims in (*(shape.dims for shape in ours.task.shapes), odd(ours.task)):
        rng = np.random.default_rng(SEED)
        values = [_values(one, extents(one, dims), rng) for one in ours.task.inputs]
        inputs = [
            given(value, one.dtype, torch=ours.torch) for value, one in zip(values, ours.task.inputs, strict=True)
        ]
        exact = [_exact(one) for one in inputs]
        made = reference(*exact)
        wanted = [plain(one) for one in (made if isinstance(made, tuple | list) else [made])]
        wanted += [plain(one) for one, told in zip(exact, ours.task.inputs, strict=True) if told.constness == "mutated"]
        outputs = [] if ours.task.convention == "return" else fresh(ours.task, dims, torch=ours.torch)
        got = [plain(one) for one in ours.call(inputs, outputs, dims)]
        got += [plain(one) for one, told in zip(inputs, ours.task.inputs, strict=True) if told.constness == "mutated"]
        for mine, right in zip(got, wanted, strict=True):
            _compare(mine, right, ours.task.outputs[0].dtype, dims)
    print("RIGHT")


def odd(task) -> dict[str, int]:
    """A size that is no multiple of anything: the middle of each range, made odd."""
    dims = dict(task.shapes[0].dims)
    for name, (low, high) in task.drawn.ranges.items():
        dims[name] = max(low, min((low + high) // 2 | 1, 211))
    return dims


def _values(tensor, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if tensor.values in ("integers", "mask"):
        low, high = (0, 2) if tensor.values == "mask" else (tensor.low, tensor.high)
        return rng.integers(low, high, shape).astype("uint8" if tensor.dtype == "bool" else tensor.dtype)
    return rng.standard_normal(shape).astype(np.float32)


def _exact(value):
    """The same values, in float64 where they are floating-point."""
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if value.dtype.kind == "f" else value.copy()
    return value.double() if value.is_floating_point() else value.clone()


def _compare(got: np.ndarray, wanted: np.ndarray, dtype: str, dims: dict[str, int]) -> None:
    if got.shape != wanted.shape:
        raise SystemExit(f"{dims}: shape {got.shape}, not {wanted.shape}")
    error = np.linalg.norm(got - wanted) / max(np.linalg.norm(wanted), 1e-30)
    if not error <= ALLOWED.get(dtype, 0.0):
        raise SystemExit(f"{dims}: relative error {error:.3g}")
