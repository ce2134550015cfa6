"""Values that are new at every call, of one distribution, and what outputs hold before it."""

import numpy as np
import pytest

from graph.task import DType, Input, Output, Shape, Task
from sandbox.judge.dtypes import STORAGE, to_float64
from sandbox.judge.pool import Poisons, Pool
from tests.session_tasks import task

FLOATS: tuple[DType, ...] = ("float64", "float32", "float16", "bfloat16")


def _task(*inputs: Input) -> Task:
    return Task(
        name="any",
        language="c",
        source=("kernel.c",),
        entry="any",
        inputs=inputs,
        outputs=(Output(name="y", shape=("n",)),),
        shapes=(Shape(label="s", dims={"n": 500}),),
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("values", ["normal", "uniform", "positive"])
def test_every_call_has_other_values_of_the_same_kind(dtype: DType, values: str) -> None:
    one = Input(name="x", shape=("n", "4"), dtype=dtype, values=values)
    pool = Pool(_task(one), {"n": 500}, np.random.default_rng(1))
    drawn = [pool.next()["x"] for _ in range(50)]
    assert len({array.tobytes() for array in drawn}) == 50
    assert all(
        array.dtype == STORAGE[dtype] and array.shape == (500, 4) and array.flags.c_contiguous for array in drawn
    )
    numbers = np.stack([to_float64(array, dtype) for array in drawn])
    mean, spread, low = {"normal": (0, 1, -6), "uniform": (0, 0.577, -1), "positive": (0.55, 0.26, 0.09)}[values]
    assert abs(numbers.mean() - mean) < 0.02
    assert abs(numbers.std() - spread) < 0.02
    assert numbers.min() >= low


def windows(array: np.ndarray) -> np.ndarray:
    """What overlaps with an array of as many elements in any way, shifted."""
    room = np.zeros(len(array) - 1, array.dtype)
    return np.lib.stride_tricks.sliding_window_view(np.concatenate([room, array, room]), len(array))


@pytest.mark.parametrize("values", ["normal", "uniform", "positive"])
def test_no_shift_of_an_old_input_is_a_new_one_whatever_the_signs(values: str) -> None:
    pool = Pool(_task(Input(name="x", shape=("n",), values=values)), {"n": 500}, np.random.default_rng(1))
    drawn = [np.abs(pool.next()["x"]) for _ in range(12)]
    for number, one in enumerate(drawn):
        assert all((windows(other) == one).sum(axis=1).max() <= 2 for other in drawn[:number])


def test_what_is_known_of_a_shifted_input_does_not_give_a_sum_of_squares() -> None:
    pool = Pool(_task(Input(name="x", shape=("n",))), {"n": 500}, np.random.default_rng(1))
    long = pool.long()["x"]
    places = [pool.places()["x"] for _ in range(50)]
    right = [float(np.square(pool.at({"x": place})["x"].astype(np.float64)).sum()) for place in places]
    known = [float(np.square(long.values[start : start + 500].astype(np.float64)).sum()) for start, _ in places]
    assert min(abs(a / b - 1) for a, b in zip(right, known, strict=True)) > 1e-6


@pytest.mark.parametrize(("dtype", "low", "high"), [("int32", -1000, 1000), ("uint8", 0, 64), ("int8", -30, 30)])
def test_whole_numbers_do_not_come_again_shifted_either(dtype: DType, low: int, high: int) -> None:
    one = Input(name="x", shape=("n",), dtype=dtype, values="integers", low=low, high=high)
    pool = Pool(_task(one), {"n": 500}, np.random.default_rng(1))
    drawn = [pool.next()["x"] for _ in range(12)]
    for number, array in enumerate(drawn):
        assert all((windows(other) == array).sum(axis=1).max() <= 40 for other in drawn[:number])
    assert {int(np.min(drawn)), int(np.max(drawn)) + 1} == {low, high}


def test_a_range_that_fills_its_type_is_drawn_as_it_is() -> None:
    one = Input(name="x", shape=("n",), dtype="int8", values="integers", low=-128, high=128)
    pool = Pool(_task(one), {"n": 500}, np.random.default_rng(1))
    assert pool.long()["x"].over is None
    assert {int(pool.next()["x"].min()), int(pool.next()["x"].max())} <= set(range(-128, 128))


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8", "float32"])
def test_whole_numbers_stay_in_their_bounds(dtype: DType) -> None:
    one = Input(name="x", shape=("n",), dtype=dtype, values="integers", low=3, high=9)
    pool = Pool(_task(one), {"n": 500}, np.random.default_rng(1))
    drawn = [pool.next()["x"] for _ in range(20)]
    assert len({array.tobytes() for array in drawn}) == 20
    assert set(np.concatenate(drawn).astype(int).tolist()) == {3, 4, 5, 6, 7, 8}


@pytest.mark.parametrize("dtype", ["bool", "float32", "bfloat16", "int32"])
def test_masks_are_zeros_and_ones(dtype: DType) -> None:
    one = Input(name="x", shape=("n",), dtype=dtype, values="mask")
    pool = Pool(_task(one), {"n": 500}, np.random.default_rng(1))
    drawn = [to_float64(pool.next()["x"], dtype) for _ in range(8)]
    assert {*np.concatenate(drawn).tolist()} == {0, 1}
    assert all((windows(drawn[0]) == other).sum(axis=1).max() < 320 for other in drawn[1:])


def test_constant_inputs_stay_and_the_others_do_not() -> None:
    inputs = (Input(name="w", shape=("n",), constness="const"), Input(name="x", shape=("n",)))
    pool = Pool(_task(*inputs), {"n": 500}, np.random.default_rng(1))
    first, second = pool.next(), pool.next()
    assert first["w"] is second["w"]
    assert (first["x"] != second["x"]).any()


def test_another_process_gets_other_constants_and_nothing_that_was_used() -> None:
    inputs = (Input(name="w", shape=("n",), constness="const"), Input(name="x", shape=("n",)))
    pool = Pool(_task(*inputs), {"n": 500}, np.random.default_rng(1))
    first, places = pool.next(), pool.places()
    size = pool.nbytes
    pool.anew()
    second, others = pool.next(), pool.places()
    assert (first["w"] != second["w"]).any()
    assert (first["x"] != second["x"]).any()
    assert places["w"] != others["w"]
    assert pool.nbytes == size == 2 * 2 * 4 * (4 * 500 + 65_536)  # values and signs of both, in float32


def test_a_pool_that_is_used_up_is_drawn_anew() -> None:
    one = Input(name="x", shape=("1",), dtype="uint8", values="integers", high=2)
    pool = Pool(_task(one), {"n": 500}, np.random.default_rng(1))
    assert {int(pool.next()["x"][0]) for _ in range(70_000)} == {0, 1}


@pytest.mark.parametrize("dtype", FLOATS)
def test_poison_is_no_number_a_plausible_one_or_an_old_answer(dtype: DType) -> None:
    poisons = Poisons(task(dtype=dtype), {"n": 500}, np.random.default_rng(1))
    decoy = {"y": np.zeros(500, dtype=STORAGE[dtype])}
    kinds = {"nan": 0, "noise": 0, "decoy": 0}
    for _ in range(300):
        found = poisons.next(decoy)["y"]
        numbers = to_float64(found, dtype)
        assert found.shape == (500,)
        assert found.dtype == STORAGE[dtype]
        kinds["nan" if np.isnan(numbers).all() else "decoy" if (numbers == 0).all() else "noise"] += 1
    assert min(kinds.values()) > 60
    assert {np.isnan(to_float64(poisons.next()["y"], dtype)).all() for _ in range(50)} == {True, False}


def test_poison_of_whole_numbers_is_any_bits() -> None:
    poisons = Poisons(task(dtype="int32"), {"n": 500}, np.random.default_rng(1))
    assert len({poisons.next()["y"].tobytes() for _ in range(20)}) == 20
