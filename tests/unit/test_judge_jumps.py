"""Where a rounding of the inputs makes a float result jump, either side of the jump is right; nowhere else."""

import numpy as np
import pytest

from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.dtypes import from_float64, to_float64
from ridgeline.sandbox.judge.inputs import MIXES, draw
from ridgeline.sandbox.judge.numerics import compare, find_discontinuities, measure_rounding_noise
from tests.operators_judge import make_task

F = np.float32
DIMS = {"m": 96, "n": 700}


def mean(x: np.ndarray) -> np.ndarray:
    """Of each row: in float32 one by one, as a plain loop has it."""
    added = np.cumsum(x, axis=-1, dtype=F)[:, -1:] if x.dtype == F else x.sum(axis=-1, keepdims=True)
    return added / x.dtype.type(x.shape[-1])


def kept(x: np.ndarray) -> np.ndarray:
    return np.where(x > mean(x), x, x.dtype.type(0))


def above(x: np.ndarray) -> np.ndarray:
    return (x > mean(x)).astype(x.dtype)


def stepped(x: np.ndarray, *, steps: int = 7) -> np.ndarray:
    size = np.abs(x).max(axis=-1, keepdims=True) / x.dtype.type(steps) + x.dtype.type(1e-12)
    return np.rint(x * (1 / size) if x.dtype == F else x / size) * size


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def reciprocal(x: np.ndarray) -> np.ndarray:
    """Near zero, where the sum cancels, anything but well conditioned."""
    return x / x.sum(axis=-1, keepdims=True)


JUMPING = {"kept": kept, "above": above, "stepped": stepped}
SMOOTH = {"softmax": softmax, "reciprocal": reciprocal, "sine": lambda x: np.sin(x * x.dtype.type(1000))}


def of_rows(dtype: str = "float32") -> Task:
    return make_task([("x", ("m", "n"), dtype)], [("q", ("m", "n"), dtype)], DIMS)


def judged(task: Task, inputs, way, values, *, seed: int = 0) -> tuple[bool, bool]:
    """Whether these values are right by the operator's sensitivity alone, and with its jumps."""
    dtype = task.outputs[0].dtype

    def oracle(moved):
        raw = moved["x"]
        return {"q": way(raw.astype(np.float64) if raw.dtype == F else to_float64(raw, dtype))}

    rng, right = np.random.default_rng(seed), oracle(inputs)
    usual = to_float64(from_float64(way(to_float64(inputs["x"], dtype).astype(F)).astype(np.float64), dtype), dtype)
    told = {"dtype": dtype, "precision": "strict", "output": "q"}
    told["noise"] = measure_rounding_noise(task, inputs, oracle, rng, exact=right)["q"]
    got = from_float64(np.asarray(values, np.float64), dtype)
    before = not compare(got, right["q"], usual, **told)
    sides = find_discontinuities(task, inputs, oracle, rng, exact=right, got={"q": to_float64(got, dtype)}).get(
        "q", right["q"]
    )
    return before, not compare(got, sides, np.where(sides == right["q"], usual, sides), **told)


@pytest.mark.parametrize("name", JUMPING)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_honest_programs_may_be_on_either_side(name, dtype):
    task, rng, way = of_rows(dtype), np.random.default_rng(1), JUMPING[name]
    alone = both = 0
    for mix in MIXES:
        inputs = draw(task, DIMS, mix, rng)
        low = to_float64(inputs["x"], dtype).astype(F)
        before, after = judged(task, inputs, way, way(low))
        alone, both = alone + before, both + after
    assert both == len(MIXES), (alone, both)


@pytest.mark.parametrize("name", JUMPING)
def test_what_is_wrong_elsewhere_stays_wrong(name):
    task, rng, way = of_rows(), np.random.default_rng(2), JUMPING[name]
    for mix in ("normal", "offset", "cancel"):
        inputs = draw(task, DIMS, mix, rng)
        right = way(inputs["x"].astype(np.float64))
        for count in (1, 5, 60, 2000):  # of 67,200 elements
            values = right.copy().reshape(-1)
            places = rng.permutation(values.size)[:count]
            values[places] = np.where(values[places] == 0, inputs["x"].reshape(-1)[places] + 3, 0.0)
            assert judged(task, inputs, way, values.reshape(right.shape)) == (False, False), (mix, count)
    inputs = draw(task, DIMS, "offset", rng)
    short = way(inputs["x"].astype(np.float16).astype(F))
    assert judged(task, inputs, way, short) == (False, False)


@pytest.mark.parametrize("name", SMOOTH)
def test_a_smooth_operator_has_no_jumps(name):
    task, rng, way = of_rows(), np.random.default_rng(3), SMOOTH[name]
    for mix in MIXES:
        inputs = draw(task, DIMS, mix, rng)
        wide = inputs["x"].astype(np.float64)
        with np.errstate(all="ignore"):
            right = way(wide)
            got = right.copy()
            got.reshape(-1)[rng.permutation(right.size)[:300]] += np.abs(right).max()
            asked = find_discontinuities(
                task,
                inputs,
                lambda moved: {"q": way(moved["x"].astype(np.float64))},
                rng,
                exact={"q": right},
                got={"q": got},
            )
        assert asked == {}, mix


@pytest.mark.parametrize(("value", "side"), [(1.0, 1), (0.0, 0), (0.4, 0), (0.7, 1), (1.01, 1), (-3.0, 0)])
def test_what_was_meant_is_on_either_side_and_never_between(value, side):
    x = np.random.default_rng(4).standard_normal((96, 700)).astype(F)
    x[5, 9] = np.delete(x[5].astype(np.float64), 9).mean()  # its row's mean, but for a rounding

    def oracle(moved):
        return {"q": above(moved["x"].astype(np.float64))}

    right = oracle({"x": x})["q"]
    got, meant = right.copy(), right.copy()
    got[5, 9], meant[5, 9] = value, side
    got[7, 9] = 1 - got[7, 9]
    found = find_discontinuities(
        of_rows(), {"x": x}, oracle, np.random.default_rng(0), exact={"q": right}, got={"q": got}
    )
    assert np.array_equal(found.get("q", right), meant)


def test_nothing_is_excused_where_much_jumps_or_much_is_wrong():
    task, asked = of_rows(), []
    x = draw(task, DIMS, "normal", np.random.default_rng(5))["x"]

    def fine(moved):
        asked.append(1)
        return {"q": np.rint(moved["x"].astype(np.float64) * 2.0**18) * 2.0**9}

    right = fine({"x": x})["q"]
    rng = np.random.default_rng(6)
    for wrong, questions in ((3, 16), (right.size // 50, 0)):
        got = right.copy()
        got.reshape(-1)[:wrong] += 2.0**9
        asked.clear()
        assert find_discontinuities(task, {"x": x}, fine, rng, exact={"q": right}, got={"q": got}) == {}
        assert len(asked) == questions


def test_whole_numbers_move_nothing():
    task = make_task([("x", ("n",), "int32")], [("q", ("n",), "float32")], {"n": 6})
    x, right = np.arange(6, dtype=np.int32), {"q": np.arange(6.0)}
    got = {"q": np.arange(6.0) + 1}
    assert (
        find_discontinuities(
            task, {"x": x}, lambda i: {"q": i["x"] * 1.0}, np.random.default_rng(0), exact=right, got=got
        )
        == {}
    )
