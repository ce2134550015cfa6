"""Operators for the tests of the judge's numerics: exact, trusted, and many ways to compute them, right and wrong."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ridgeline.graph.task import Input, Output, Shape, Task
from ridgeline.sandbox.judge.dtypes import from_float64, to_float32, to_float64
from ridgeline.sandbox.judge.inputs import MIXES, draw, make_probes
from ridgeline.sandbox.judge.numerics import Fault, compare, compare_exact, measure_rounding_noise

Arrays = Mapping[str, np.ndarray]
Way = Callable[[Arrays], np.ndarray]
F = np.float32
LOG2E = F(1.44269504)


def make_task(inputs, outputs, dims, *, precision="strict", **more) -> Task:
    """A task of arrays as (name, extents, dtype[, values])."""
    return Task(
        name="t",
        language="c",
        source=("k.c",),
        entry="k",
        inputs=tuple(Input(name=n, shape=s, dtype=d, **({"values": v[0]} if v else {})) for n, s, d, *v in inputs),
        outputs=tuple(Output(name=n, shape=s, dtype=d) for n, s, d in outputs),
        shapes=(Shape(label="a", dims=dims),),
        precision=precision,
        **more,
    )


def cut(bits: int) -> Callable[[np.ndarray], np.ndarray]:
    """Rounds to so many significant bits: 11 is TF32 or float16's, 8 bfloat16, 4 fp8 e4m3."""

    def rounded(values: np.ndarray) -> np.ndarray:
        fraction, power = np.frexp(values.astype(np.float64))
        return np.ldexp(np.round(fraction * 2.0**bits) / 2.0**bits, power).astype(F)

    return rounded


tf32, bf16, fp8 = cut(11), cut(8), cut(4)


def serial(x: np.ndarray) -> np.ndarray:
    """A plain loop over the last axis."""
    return np.cumsum(x, axis=-1, dtype=x.dtype)[..., -1]


def blocked(x: np.ndarray, size: int = 128) -> np.ndarray:
    """Plain loops over blocks, then over their sums."""
    return serial(np.stack([serial(x[..., at : at + size]) for at in range(0, x.shape[-1], size)], axis=-1))


def halved(x: np.ndarray) -> np.ndarray:
    """Sums in float16."""
    return serial(x.astype(np.float16))


def softmax(x: np.ndarray) -> np.ndarray:
    """Two passes."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def online(x: np.ndarray, step: int = 64) -> np.ndarray:
    """One pass with a running maximum."""
    peak = np.full((*x.shape[:-1], 1), -np.inf, F)
    total = np.zeros_like(peak)
    for at in range(0, x.shape[-1], step):
        part = x[..., at : at + step]
        higher = np.maximum(peak, part.max(axis=-1, keepdims=True))
        total = total * np.exp(peak - higher) + np.exp(part - higher).sum(axis=-1, keepdims=True)
        peak = higher
    return np.exp(x - peak) * (F(1) / total)


def softmax_exp2(x: np.ndarray) -> np.ndarray:
    """As GPUs do it, with a plain loop for the sum."""
    e = np.exp2(x * LOG2E - (x * LOG2E).max(axis=-1, keepdims=True))
    return e / serial(e)[..., None]


def softmax_short(x: np.ndarray) -> np.ndarray:
    """The last partial tile is left out of the sum."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e[..., : x.shape[-1] // 64 * 64].sum(axis=-1, keepdims=True)


def softmax_sparse(x: np.ndarray) -> np.ndarray:
    """Small terms are taken for zero."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    e = np.where(e < 0.01, 0, e)
    return e / e.sum(axis=-1, keepdims=True)


def normed(x: np.ndarray, g: np.ndarray, b: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Layer norm in two passes."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + x.dtype.type(eps)) * g + b


def normed_serial(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Two passes of plain loops."""
    count = F(x.shape[-1])
    centred = x - (serial(x) / count)[..., None]
    return centred * (F(1) / np.sqrt(serial(centred * centred) / count + F(1e-5)))[..., None] * g + b


def welford(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One pass with running mean and squares."""
    mean, squares = np.zeros(x.shape[:-1], F), np.zeros(x.shape[:-1], F)
    for at in range(x.shape[-1]):
        step = x[..., at] - mean
        mean = mean + step / F(at + 1)
        squares = squares + step * (x[..., at] - mean)
    return (x - mean[..., None]) * (F(1) / np.sqrt(squares / F(x.shape[-1]) + F(1e-5)))[..., None] * g + b


def one_pass(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Mean of squares less square of the mean, which cancels."""
    count = F(x.shape[-1])
    mean = (serial(x) / count)[..., None]
    return (x - mean) / np.sqrt((serial(x * x) / count)[..., None] - mean * mean + F(1e-5)) * g + b


def serial_gemm(i: Arrays) -> np.ndarray:
    """One product after another."""
    c = np.zeros((i["a"].shape[0], i["b"].shape[1]), F)
    for k in range(i["a"].shape[1]):
        c += i["a"][:, k : k + 1] * i["b"][k : k + 1]
    return c


def fused_gemm(i: Arrays) -> np.ndarray:
    """Each product is added before it is rounded."""
    c = np.zeros((i["a"].shape[0], i["b"].shape[1]), F)
    for k in range(i["a"].shape[1]):
        c = (c + i["a"][:, k : k + 1].astype(np.float64) * i["b"][k : k + 1]).astype(F)
    return c


def half_gemm(i: Arrays) -> np.ndarray:
    """Sums of 16 products are added in float16."""
    c = np.zeros((i["a"].shape[0], i["b"].shape[1]), np.float16)
    for k in range(0, i["a"].shape[1], 16):
        c = c + (i["a"][:, k : k + 16] @ i["b"][k : k + 16]).astype(np.float16)
    return c.astype(F)


def split_gemm(i: Arrays) -> np.ndarray:
    """Two bfloat16 terms for each factor, three products."""
    a, b = bf16(i["a"]), bf16(i["b"])
    low_a, low_b = bf16(i["a"] - a), bf16(i["b"] - b)
    return a @ b + (a @ low_b + low_a @ b)


def attend(i: Arrays) -> np.ndarray:
    """Attention over whole rows."""
    scale = i["q"].dtype.type(i["q"].shape[-1] ** -0.5)
    return softmax(i["q"] @ np.swapaxes(i["k"], -1, -2) * scale) @ i["v"]


def flash(i: Arrays, weights: Callable[[np.ndarray], np.ndarray] = np.asarray, step: int = 32) -> np.ndarray:
    """Attention in blocks of keys; `weights` may round what multiplies the values."""
    q = i["q"] * (F(i["q"].shape[-1] ** -0.5) * LOG2E)
    peak = np.full((*q.shape[:-1], 1), -np.inf, F)
    total, out = np.zeros_like(peak), np.zeros_like(q)
    for at in range(0, i["k"].shape[-2], step):
        s = q @ np.swapaxes(i["k"][..., at : at + step, :], -1, -2)
        higher = np.maximum(peak, s.max(axis=-1, keepdims=True))
        e, fade = np.exp2(s - higher), np.exp2(peak - higher)
        total = total * fade + e.sum(axis=-1, keepdims=True)
        out = out * fade + weights(e) @ i["v"][..., at : at + step, :]
        peak = higher
    return out / total


@dataclass(frozen=True, kw_only=True)
class Operator:
    """Its task, what is right, and ways to compute it."""

    task: Task
    exact: Way
    trusted: Way
    honest: Mapping[str, Way]
    cheats: Mapping[str, Way]
    caught_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def dims(self) -> Mapping[str, int]:
        """Its one size."""
        return self.task.shapes[0].dims

    def oracle(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """In float64."""
        with np.errstate(all="ignore"):
            return {
                self.output: self.exact({one.name: to_float64(inputs[one.name], one.dtype) for one in self.task.inputs})
            }

    @property
    def output(self) -> str:
        """Name of its one output."""
        return self.task.outputs[0].name

    def computed(self, way: Way, inputs: Arrays) -> np.ndarray:
        """What a candidate leaves, in the storage type."""
        with np.errstate(all="ignore"):
            low = {one.name: to_float32(inputs[one.name], one.dtype) for one in self.task.inputs}
            values = np.asarray(way(low), dtype=np.float64)
        return from_float64(values, self.task.outputs[0].dtype)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One set of inputs, and what is right for them."""

    name: str
    operator: Operator
    inputs: Arrays
    exact: bool

    def faults(self, results: Mapping[str, np.ndarray]) -> dict[str, tuple[Fault, ...]]:
        """As the gate judges: strictly first, and again with what rounding does here where that finds a fault."""
        operator, dtype, output = self.operator, self.operator.task.outputs[0].dtype, self.operator.output
        oracle = operator.oracle(self.inputs)
        trusted = to_float64(operator.computed(operator.trusted, self.inputs), dtype)
        told = {"dtype": dtype, "precision": operator.task.precision, "output": output}
        check = compare_exact if self.exact else compare
        found = {name: check(values, oracle[output], trusted, **told) for name, values in results.items()}
        if any(found.values()):
            rng = np.random.default_rng(0)
            here = measure_rounding_noise(operator.task, self.inputs, operator.oracle, rng, exact=oracle)[output]
            for name in [name for name, faults in found.items() if faults]:
                found[name] = check(results[name], oracle[output], trusted, **told, noise=here)
        return found


def cases(operator: Operator, seed: int) -> Iterator[Case]:
    """All mixes and probes of the operator's size."""
    rng = np.random.default_rng(seed)
    for mix in MIXES:
        inputs = draw(operator.task, operator.dims, mix, rng)
        yield Case(name=mix, operator=operator, inputs=inputs, exact=False)
    for probe in make_probes(operator.task, operator.dims, rng):
        yield Case(name=probe.name, operator=operator, inputs=probe.inputs, exact=probe.exact)


def matmul(dtype: str, precision: str = "strict", dims=(24, 512, 20)) -> Operator:
    """c = a b."""
    shape = dict(zip("mkn", dims, strict=True))
    k = shape["k"]
    product: Way = lambda i: i["a"] @ i["b"]  # noqa: E731
    rounded = {
        name: (lambda i, cut=cut: cut(i["a"]) @ cut(i["b"]))
        for name, cut in (("tf32", tf32), ("bf16", bf16), ("fp8", fp8))
    }
    wrong = {
        **rounded,
        "bf16x3": split_gemm,
        "fp16 sums": half_gemm,
        "15/16 rescaled": lambda i: i["a"][:, : k * 15 // 16] @ i["b"][: k * 15 // 16] * F(16 / 15),
        "skipped tail": lambda i: i["a"][:, : k - 8] @ i["b"][: k - 8],
        "zero": lambda i: np.zeros((shape["m"], shape["n"]), F),
        "nan": lambda i: np.full((shape["m"], shape["n"]), np.nan, F),
        "broadcast": lambda i: np.broadcast_to((i["a"] @ i["b"])[:1], (shape["m"], shape["n"])),
        "one wrong": lambda i: (
            np.where(np.arange(shape["m"] * shape["n"]).reshape(shape["m"], -1) == 77, 1.1, 1) * product(i)
        ),
    }
    allowed = {
        ("float32", "tf32"): ("tf32", "bf16x3"),
        ("float32", "emulated"): ("bf16x3",),
        ("float16", "strict"): ("tf32", "bf16x3"),
        ("bfloat16", "strict"): ("tf32", "bf16", "bf16x3"),
    }.get((dtype, precision), ())
    right = {
        "serial": serial_gemm,
        "fused": fused_gemm,
        "reversed": lambda i: i["a"][:, ::-1] @ i["b"][::-1],
        "split-K": lambda i: sum(i["a"][:, at::4] @ i["b"][at::4] for at in range(4)),
    }
    return Operator(
        task=make_task(
            [("a", ("m", "k"), dtype), ("b", ("k", "n"), dtype)], [("c", ("m", "n"), dtype)], shape, precision=precision
        ),
        exact=product,
        trusted=product,
        honest={**right, **{name: wrong[name] for name in allowed}},
        cheats={name: way for name, way in wrong.items() if name not in allowed},
    )


def row_sum(dtype: str, values: str = "normal") -> Operator:
    """y = sum of each row."""
    n = 1000
    low = {"float32": tf32, "float16": bf16, "bfloat16": fp8}[dtype]
    return Operator(
        task=make_task([("x", ("m", "n"), dtype, values)], [("y", ("m",), dtype)], {"m": 40, "n": n}),
        exact=lambda i: i["x"].sum(axis=-1),
        trusted=lambda i: i["x"].sum(axis=-1),
        honest={"serial": lambda i: serial(i["x"]), "blocked": lambda i: blocked(i["x"])},
        cheats={
            "rounded inputs": lambda i: low(i["x"]).sum(axis=-1),
            "fp16 sums": lambda i: halved(i["x"]),
            "15/16 rescaled": lambda i: i["x"][:, : n * 15 // 16].sum(axis=-1) * F(n / (n * 15 // 16)),
            "skipped tail": lambda i: i["x"][:, : n // 64 * 64].sum(axis=-1),
            "zero": lambda i: np.zeros(40, F),
            "nan": lambda i: np.full(40, np.nan, F),
            "broadcast": lambda i: np.broadcast_to(i["x"].sum(axis=-1)[:1], (40,)),
        },
    )


def full_sum(dtype: str) -> Operator:
    """y = sum of everything, one number."""
    n = 30_000
    low = {"float32": tf32, "float16": bf16, "bfloat16": fp8}[dtype]
    return Operator(
        task=make_task([("x", ("n",), dtype)], [("y", (), dtype)], {"n": n}),
        exact=lambda i: i["x"].sum(),
        trusted=lambda i: i["x"].sum(dtype=F),
        honest={"serial": lambda i: serial(i["x"]), "blocked": lambda i: blocked(i["x"], 500)},
        cheats={
            "rounded inputs": lambda i: low(i["x"]).sum(),
            "fp16 sums": lambda i: halved(i["x"]),
            "15/16 rescaled": lambda i: i["x"][: n * 15 // 16].sum() * F(16 / 15),
            "zero": lambda i: np.zeros((), F),
        },
    )


def soft_max(dtype: str) -> Operator:
    """Softmax of rows."""
    low = {"float32": tf32, "float16": bf16, "bfloat16": fp8}[dtype]
    return Operator(
        task=make_task([("x", ("m", "n"), dtype)], [("y", ("m", "n"), dtype)], {"m": 40, "n": 1000}),
        exact=lambda i: softmax(i["x"]),
        trusted=lambda i: softmax(i["x"]),
        honest={"online": lambda i: online(i["x"]), "exp2": lambda i: softmax_exp2(i["x"])},
        cheats={
            "rounded inputs": lambda i: softmax(low(i["x"])),
            "no maximum": lambda i: np.exp(i["x"]) / np.exp(i["x"]).sum(axis=-1, keepdims=True),
            "skipped tail": lambda i: softmax_short(i["x"]),
            "small terms dropped": lambda i: softmax_sparse(i["x"]),
            "zero": lambda i: i["x"] * 0,
            "nan": lambda i: i["x"] * np.nan,
        },
    )


def layer_norm(dtype: str) -> Operator:
    """Layer norm with weights."""
    low = {"float32": tf32, "float16": bf16, "bfloat16": fp8}[dtype]

    def of(way: Callable[..., np.ndarray]) -> Way:
        return lambda i: way(i["x"], i["g"], i["b"])

    one = F(1)
    return Operator(
        task=make_task(
            [("x", ("m", "n"), dtype), ("g", ("n",), dtype), ("b", ("n",), dtype)],
            [("y", ("m", "n"), dtype)],
            {"m": 32, "n": 500},
        ),
        exact=of(normed),
        trusted=of(normed),
        honest={"loops": of(normed_serial), "welford": of(welford)},
        cheats={
            "rounded inputs": of(lambda x, g, b: normed(low(x), low(g), low(b))),
            "no affine": of(lambda x, g, b: normed(x, one, F(0))),
            "no bias": of(lambda x, g, b: normed(x, g, F(0))),
            "no epsilon": of(lambda x, g, b: normed(x, g, b, 0.0)),
            "zero": of(lambda x, g, b: x * 0),
            "broadcast": of(lambda x, g, b: np.broadcast_to(normed(x, g, b)[:1], x.shape)),
            **({"one pass": of(one_pass)} if dtype == "float32" else {}),
        },
    )


def attention(dtype: str) -> Operator:
    """Two heads of attention."""
    low = {"float32": tf32, "float16": bf16, "bfloat16": fp8}[dtype]
    half = {"float32": bf16, "float16": tf32, "bfloat16": bf16}[dtype]
    narrow: Way = lambda i: flash(i, half)  # noqa: E731
    return Operator(
        task=make_task(
            [(name, ("h", "s", "d"), dtype) for name in "qkv"],
            [("o", ("h", "s", "d"), dtype)],
            {"h": 2, "s": 96, "d": 32},
        ),
        exact=attend,
        trusted=attend,
        honest={"flash": flash, **({"flash, half weights": narrow} if dtype != "float32" else {})},
        cheats={
            "rounded inputs": lambda i: attend({name: low(values) for name, values in i.items()}),
            "skipped tile": lambda i: attend({"q": i["q"], "k": i["k"][:, :88], "v": i["v"][:, :88]}),
            "one head": lambda i: np.broadcast_to(attend(i)[:1], i["q"].shape),
            **({"half weights": narrow} if dtype == "float32" else {}),
        },
    )


def multiply_add(dtype: str) -> Operator:
    """y = x w + x."""
    low = {"float32": tf32, "float16": bf16, "bfloat16": fp8}[dtype]
    place = np.arange(40 * 200).reshape(40, 200) == 4321
    return Operator(
        task=make_task(
            [("x", ("m", "n"), dtype), ("w", ("m", "n"), dtype)], [("y", ("m", "n"), dtype)], {"m": 40, "n": 200}
        ),
        exact=lambda i: i["x"] * i["w"] + i["x"],
        trusted=lambda i: i["x"] * i["w"] + i["x"],
        honest={
            "fused": lambda i: i["x"].astype(np.float64) * i["w"] + i["x"],
            "factored": lambda i: i["x"] * (i["w"] + F(1)),
        },
        cheats={
            "rounded inputs": lambda i: low(i["x"]) * low(i["w"]) + low(i["x"]),
            "one wrong": lambda i: i["x"] * i["w"] + i["x"] + place * F(1),
            "stale": lambda i: np.roll(i["x"] * i["w"] + i["x"], 1, axis=0),
        },
    )


OPERATORS: Mapping[str, Callable[[str], Operator]] = {
    "matmul": matmul,
    "row_sum": row_sum,
    "full_sum": full_sum,
    "soft_max": soft_max,
    "layer_norm": layer_norm,
    "attention": attention,
    "multiply_add": multiply_add,
}
