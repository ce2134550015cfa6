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


def test_signs_are_independent_of_place_so_that_no_shift_of_an_old_input_is_a_new_one() -> None:
    pool = Pool(_task(Input(name="x", shape=("n",))), {"n": 500}, np.random.default_rng(1))
    first, second = pool.next()["x"], pool.next()["x"]
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([np.zeros(499), second, np.zeros(499)]), 500)
    same = (np.abs(windows) == np.abs(first)).sum(axis=1)
    assert (windows == first).sum(axis=1).max() <= max(same.max() * 0.75, 3)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8", "float32"])
def test_whole_numbers_stay_in_their_bounds(dtype: DType) -> None:
    one = Input(name="x", shape=("n",), dtype=dtype, values="integers", low=3, high=9)
    pool = Pool(_task(one), {"n": 500}, np.random.default_rng(1))
    drawn = [pool.next()["x"] for _ in range(20)]
    assert len({array.tobytes() for array in drawn}) == 20
    assert set(np.concatenate(drawn).astype(int).tolist()) == {3, 4, 5, 6, 7, 8}


def test_masks_are_zeros_and_ones() -> None:
    one = Input(name="x", shape=("n",), dtype="bool", values="mask")
    assert set(Pool(_task(one), {"n": 500}, np.random.default_rng(1)).next()["x"].tolist()) == {0, 1}


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
