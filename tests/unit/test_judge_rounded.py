"""Whole numbers that hang on one rounding may be either; a plain loop over terms of one sign is no fault."""

import numpy as np
import pytest

from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.dtypes import from_float64, to_float64
from ridgeline.sandbox.judge.inputs import MIXES, draw
from ridgeline.sandbox.judge.numerics import (
    compare,
    compare_exact,
    measure_integer_ranges,
    measure_rounding_noise,
    worst_loop_error,
)
from tests.operators_judge import blocked, make_task, serial

F = np.float32


def quantised(x: np.ndarray, *, by_product: bool = False) -> np.ndarray:
    """Rows to 127 steps on either side of zero."""
    most = np.abs(x).max(axis=-1, keepdims=True)
    steps = x * (x.dtype.type(127) / most) if by_product else x / (most / x.dtype.type(127))
    return np.rint(steps)


def judged(task: Task, inputs, way, values, *, seed: int = 0, exact: bool = False) -> int:
    """How many elements of the output `q` are wrong, of a reference that is computed in float64 and in float32."""

    def oracle(moved):
        kinds = {one.name: one.dtype for one in task.inputs}
        wide = {
            name: raw.astype(np.float64) if raw.dtype == np.float32 else to_float64(raw, kinds[name])
            for name, raw in moved.items()
        }
        return {"q": way(wide).astype(np.float64)}

    dtype = task.outputs[0].dtype
    right = oracle(inputs)
    usual = way({one.name: to_float64(inputs[one.name], one.dtype).astype(F) for one in task.inputs}).astype(np.float64)
    reach = measure_integer_ranges(task, inputs, oracle, np.random.default_rng(seed), exact=right).get("q")
    check = compare_exact if exact else compare
    faults = check(
        from_float64(values, dtype), right["q"], usual, dtype=dtype, precision="strict", output="q", noise=reach
    )
    return int(faults[0].measured) if faults else 0


def of_rows(dtype: str, out: str, dims, extents=("m", "n")) -> Task:
    return make_task([("x", ("m", "n"), dtype)], [("q", extents, out)], dims)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.slow
def test_honest_quantisers_pass_and_others_do_not(dtype):
    task, rng = of_rows(dtype, "int8", {"m": 24, "n": 512}), np.random.default_rng(1)
    wrong = {"cut off": 0, "one place": 0, "half up": 0}
    for seed in range(2):
        for mix in MIXES:
            inputs = draw(task, {"m": 24, "n": 512}, mix, rng)
            low = to_float64(inputs["x"], dtype).astype(F)
            if not (low != 0).any(axis=-1).all():
                continue
            way = lambda i: quantised(i["x"])  # noqa: E731
            product = quantised(low, by_product=True)
            assert judged(task, inputs, way, product, seed=seed) == 0, mix
            assert judged(task, inputs, way, quantised(low.astype(np.float64)), seed=seed) == 0, mix
            steps = low / (np.abs(low).max(axis=-1, keepdims=True) / F(127))
            middle = np.unravel_index(np.argmin(np.abs(steps - np.rint(steps))), steps.shape)
            other = product.copy()
            other[middle] -= np.sign(other[middle]) or 1
            wrong["one place"] += judged(task, inputs, way, other, seed=seed) == 1
            wrong["cut off"] += judged(task, inputs, way, np.trunc(steps), seed=seed) > 30
            wrong["half up"] += judged(task, inputs, way, np.floor(steps + F(0.498)), seed=seed) > 0
    assert min(wrong.values()) >= len(MIXES), wrong


def test_a_half_step_made_of_exact_numbers_may_go_either_way():
    task = of_rows("float32", "int8", {"m": 1, "n": 4})
    x = np.array([[3.0, 1.0, 6.0, 0.0]], F)
    for steps, count in (((64, 21, 127, 0), 0), ((63, 21, 127, 0), 0), ((62, 21, 127, 0), 1), ((64, 22, 127, 0), 1)):
        values = np.array([steps], float)
        assert judged(task, {"x": x}, lambda i: quantised(i["x"]), values, exact=True) == count


NEAR = [1.0, np.nextafter(F(2), F(9)), 0.5, 2.0, -3.0]
TIED = [1.0, 2.0, 0.5, 2.0, -3.0]
APART = [1.0, 2.001, 0.5, 2.0, -3.0]


@pytest.mark.parametrize(
    ("row", "index", "right"),
    [
        (NEAR, 1, True),
        (NEAR, 3, True),
        (NEAR, 0, False),
        (NEAR, 4, False),
        (TIED, 1, True),
        (TIED, 3, False),  # the reference says which of equal inputs is meant
        (APART, 1, True),
        (APART, 3, False),
    ],
)
def test_an_index_of_two_that_are_almost_equal(row, index, right):
    task = of_rows("float32", "int32", {"m": 1, "n": 5}, ("m",))
    found = judged(task, {"x": np.array([row], F)}, lambda i: i["x"].argmax(axis=-1), np.array([float(index)]))
    assert (found == 0) is right


def test_integers_in_are_integers_out():
    task = make_task([("x", ("n",), "int32")], [("q", ("n",), "int32")], {"n": 6})
    x = np.arange(6, dtype=np.int32)
    assert (
        measure_integer_ranges(
            task, {"x": x}, lambda i: {"q": i["x"] * 2.0}, np.random.default_rng(0), exact={"q": x * 2.0}
        )
        == {}
    )


def escaped(i, kind=None) -> np.ndarray:
    """Steps until z = z^2 + c leaves the circle, at most 60."""
    a, b = i["x"][0], i["x"][1]
    x, y, count, live = np.zeros_like(a), np.zeros_like(a), np.zeros(a.shape), np.ones(a.shape, bool)
    for _ in range(60):
        live &= x * x + y * y <= 4
        if kind == "fused":
            square = x.astype(np.float64) * x
            x, y = (
                np.where(live, (square - (y * y) + a).astype(F), x),
                np.where(live, (2.0 * x * y.astype(np.float64) + b).astype(F), y),
            )
        else:
            x, y = np.where(live, x * x - y * y + a, x), np.where(live, 2 * x * y + b, y)
        count += live
    return count


def test_iterations_that_end_in_chaos():
    task = make_task([("x", (2, "n"), "float32", "uniform")], [("q", ("n",), "int32")], {"n": 4000})
    rng = np.random.default_rng(3)
    for seed in range(4):
        inputs = draw(task, {"n": 4000}, MIXES[seed % 2], rng)
        assert judged(task, inputs, escaped, escaped(inputs, "fused"), seed=seed) == 0
        assert judged(task, inputs, escaped, np.minimum(escaped(inputs), 59), seed=seed) > 100
        if seed % 2 == 0:  # of wide values, which are near zero, none escapes
            rounded = inputs["x"].astype(np.float16).astype(F)
            assert judged(task, inputs, escaped, escaped({"x": rounded}), seed=seed) > 0


def counted(i, kind=np.float64) -> np.ndarray:
    bins = np.clip(np.floor(i["x"].astype(kind) * kind(37.3) + kind(150)), 0, 299).astype(int)
    return np.bincount(bins, minlength=300)


def test_counts_of_bins_whose_edges_rounding_moves():
    task = make_task([("x", ("n",), "float32")], [("q", (300,), "int32")], {"n": 100_000})
    rng = np.random.default_rng(4)
    for seed in range(4):
        inputs = draw(task, {"n": 100_000}, "normal", rng)
        assert judged(task, inputs, counted, counted(inputs, F), seed=seed) == 0
        right = counted(inputs)
        assert judged(task, inputs, counted, right - (right == right.max()), seed=seed) > 0
        assert judged(task, inputs, counted, np.minimum(right, 255), seed=seed) > 10


TERMS = {"squares": np.square, "sizes": np.abs}
ORDERS = {
    "serial": serial,
    "backwards": lambda t: serial(t[::-1]),
    "blocked": blocked,
    "pairwise": lambda t: t.sum(dtype=F),
    "four": lambda t: F(sum(serial(t[at::4]) for at in range(4))),
}
SHORT = {
    "one of 16 left out": lambda t: F(t[np.arange(t.size) % 16 != 0].sum() * F(16 / 15)),
    "the end left out": lambda t: t[: t.size - t.size // 256].sum(),
    "half precision": lambda t: F((t / F(2.0**10)).astype(np.float16).astype(F).sum() * F(2.0**10)),
    "nothing": lambda t: F(0),
}


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("count", [300, 100_000])
def test_plain_loops_pass_every_mix_and_shortcuts_do_not(terms, count):
    task = make_task([("x", ("n",), "float32")], [("q", (1,), "float32")], {"n": count})
    rng, of = np.random.default_rng(7), TERMS[terms]

    def oracle(moved):
        return {"q": np.array([of(moved["x"].astype(np.float64)).sum()])}

    caught = set()
    for mix in MIXES:
        inputs = draw(task, {"n": count}, mix, rng)
        added, right = of(inputs["x"]), oracle(inputs)
        here = measure_rounding_noise(task, inputs, oracle, rng, exact=right)["q"]
        told = {"dtype": "float32", "precision": "strict", "output": "q", "noise": here}
        usual = np.array([float(added.sum())])
        with np.errstate(over="ignore"):
            for name, order in {**ORDERS, **SHORT}.items():
                faults = compare(np.array([order(added)], F), right["q"], usual, **told)
                assert name in SHORT or not faults, (mix, name)
                caught |= {name} if faults else set()
    assert caught >= set(SHORT) - ({"half precision"} if count > 300 else set())


@pytest.mark.parametrize(
    ("values", "terms", "between"),
    [
        (np.ones(8, F), 8, (0, 1)),  # exact
        (np.ones((), F), 1, (0, 2)),
        (np.zeros(50, F), 50, (0, 50)),
        (np.full(20, np.inf, F), 20, (0, 1)),
        (np.full(1 << 17, 1 / 3, F), 1 << 17, (1_000, 1 << 17)),  # each step rounds the same way
        (np.exp2(np.linspace(8, -8, 1 << 16)).astype(F), 1 << 16, (1_000, 1 << 16)),  # the end is lost
        (np.ones((300, 4), F), 297, (0, 1)),  # near the length of an axis
    ],
)
def test_what_loops_lose(values, terms, between):
    found = worst_loop_error({"x": values}, terms, np.random.default_rng(0))
    assert between[0] <= found <= between[1]
