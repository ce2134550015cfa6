"""Values that are new at every call, of one distribution, and what outputs hold before it."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from ridgeline.graph.task import DType, Input, Output, Shape, Task
from ridgeline.sandbox.judge import pool as pools
from ridgeline.sandbox.judge.dtypes import STORAGE, from_float64, to_float64
from ridgeline.sandbox.judge.pool import InputPool, PoisonPool, wrap_around
from tests.session_tasks import task

HARNESS = Path(pools.__file__).parents[1] / "harness"
FLOATS: tuple[DType, ...] = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


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
    pool = InputPool(_task(one), {"n": 500}, np.random.default_rng(1))
    drawn = [pool.draw()["x"] for _ in range(50)]
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
    pool = InputPool(_task(Input(name="x", shape=("n",), values=values)), {"n": 500}, np.random.default_rng(1))
    drawn = [np.abs(pool.draw()["x"]) for _ in range(12)]
    for number, one in enumerate(drawn):
        assert all((windows(other) == one).sum(axis=1).max() <= 2 for other in drawn[:number])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("values", ["normal", "uniform"])
def test_powers_of_two_of_old_inputs_do_not_come_again(dtype: DType, values: str) -> None:
    n = 20_000
    pool = InputPool(
        _task(Input(name="x", shape=("n",), dtype=dtype, values=values)), {"n": n}, np.random.default_rng(1)
    )
    powers = [np.frexp(to_float64(pool.draw()["x"], dtype))[1].astype(np.int8) for _ in range(24)]
    for number, one in enumerate(powers):
        pieces = [one[at : at + 64].tobytes() for at in (0, n // 2, n - 64)]
        assert not any(piece in other.tobytes() for piece in pieces for other in powers[:number])


@pytest.mark.parametrize("values", ["normal", "uniform", "positive"])
def test_a_seed_and_a_number_give_a_call_its_values_again(values: str) -> None:
    task = _task(Input(name="w", shape=("n",), constness="const"), Input(name="x", shape=("n",), values=values))
    pool = InputPool(task, {"n": 500}, np.random.default_rng(1))
    pool.renew()
    drawn = [pool.draw() for _ in range(3)][-1]
    again = InputPool(task, {"n": 500}, pool.seed)
    assert again.draw_again(pool.draw_count)["x"].tobytes() == drawn["x"].tobytes()
    assert again.consts_of(pool.process)["w"].tobytes() == drawn["w"].tobytes()


def test_what_is_known_of_a_shifted_input_does_not_give_a_sum_of_squares() -> None:
    pool = InputPool(_task(Input(name="x", shape=("n",))), {"n": 500}, np.random.default_rng(1))
    long = pool.long_rows()["x"]
    places = [pool.places()["x"] for _ in range(50)]
    right = [float(np.square(pool.cut_at({"x": place})["x"].astype(np.float64)).sum()) for place in places]
    known = [float(np.square(long.values[start : start + 500].astype(np.float64)).sum()) for start, _ in places]
    assert min(abs(a / b - 1) for a, b in zip(right, known, strict=True)) > 1e-6


@pytest.mark.parametrize(("dtype", "low", "high"), [("int32", -1000, 1000), ("uint8", 0, 64), ("int8", -30, 30)])
def test_whole_numbers_do_not_come_again_shifted_either(dtype: DType, low: int, high: int) -> None:
    one = Input(name="x", shape=("n",), dtype=dtype, values="integers", low=low, high=high)
    pool = InputPool(_task(one), {"n": 500}, np.random.default_rng(1))
    drawn = [pool.draw()["x"] for _ in range(12)]
    for number, array in enumerate(drawn):
        assert all((windows(other) == array).sum(axis=1).max() <= 40 for other in drawn[:number])
    assert {int(np.min(drawn)), int(np.max(drawn)) + 1} == {low, high}


SPANS = (1, 2, 64, 65, 127, 128, 200, 255, 256)
ENDS: tuple[tuple[DType, int, int], ...] = (
    *(("int8", -128, -128 + span) for span in SPANS),
    *(("int8", 128 - span, 128) for span in SPANS),
    *(("uint8", 256 - span, 256) for span in SPANS),
    *(("uint8", 0, span) for span in SPANS),
    ("int16", -(1 << 15), 1 << 15),
    ("int16", -20_000, 20_000),
    ("int32", -(1 << 31), 1 << 31),
    ("int32", 1 - (1 << 31), 1 << 31),
    ("int32", 0, (1 << 30) + 1),
    ("int64", -(1 << 63), 1 << 63),
    ("int64", -(1 << 63), (1 << 63) - 1),
    ("int64", 0, 1 << 63),
    ("float64", -(1 << 53), 1 << 53),
    ("float64", -(1 << 63), 1 << 63),
    ("float32", 0, 1000),
    ("float32", -(1 << 24), (1 << 24) + 1),
    ("float32", 5, 1 << 30),
    ("float16", -2048, 2049),
    ("float16", 0, 65_505),
    ("bfloat16", -256, 257),
    ("bfloat16", 3, 1000),
)
"""Ranges of whole numbers up to all that a type holds, and beyond what a float type holds exactly."""


def whole(dtype: DType, low: int, high: int, n: int = 20_000) -> InputPool:
    one = Input(name="x", shape=("n",), dtype=dtype, values="integers", low=low, high=high)
    return InputPool(_task(one), {"n": n}, np.random.default_rng(1))


@pytest.mark.parametrize(("dtype", "low", "high"), ENDS)
def test_whole_numbers_of_any_range_are_even_over_it_and_new(dtype: DType, low: int, high: int) -> None:
    pool = whole(dtype, low, high)
    drawn = [pool.draw()["x"] for _ in range(8)]
    assert all(one.dtype == STORAGE[dtype] and one.shape == (20_000,) for one in drawn)
    numbers = np.concatenate([to_float64(one, dtype) if dtype in FLOATS else one for one in drawn])
    last = to_float64(from_float64(np.array([float(high - 1)]), dtype), dtype)[0] if dtype in FLOATS else high - 1
    assert numbers.min() >= low
    assert numbers.max() <= last
    span = high - low
    parts = min(span, 16)
    shares = ((numbers.astype(np.float64) - low) * (parts / span)).astype(int).clip(0, parts - 1)
    exact = np.bincount([number * parts // span for number in range(span)]) / span if span < 300 else 1 / parts
    assert np.abs(np.bincount(shares, minlength=parts) / len(numbers) - exact).max() < 0.02
    assert len({one.tobytes() for one in drawn}) == (8 if span > 1 else 1)


@pytest.mark.parametrize(("low", "high"), [(-128, -128 + span) for span in SPANS])
def test_each_value_laid_over_each_gives_every_one_as_often(low: int, high: int) -> None:
    each = np.arange(low, high).astype(np.int8)
    values, over = (one.reshape(-1) for one in np.meshgrid(each, each))
    found, times = np.unique(wrap_around(values, over, low, high, dtype="int8"), return_counts=True)
    assert found.tolist() == each.tolist()
    assert set(times.tolist()) == {high - low}


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -128, 128), ("int8", -100, 100), ("uint8", 0, 255), ("int16", -(1 << 15), 1 << 15)]
    + [("int32", -(1 << 31), 1 << 31), ("int64", -(1 << 63), 1 << 63), ("float32", 0, 1000), ("bfloat16", 0, 256)],
)
def test_sums_over_what_two_calls_share_are_not_those_of_before(dtype: DType, low: int, high: int) -> None:
    pool = whole(dtype, low, high, 500)
    drawn = [pool.draw()["x"] for _ in range(12)]
    for number, array in enumerate(drawn):
        assert all((windows(other) == array).sum(axis=1).max() <= 50 for other in drawn[:number])


def test_numbers_too_large_for_their_type_are_drawn_as_they_are() -> None:
    assert whole("float16", 0, 100_000, 500).long_rows()["x"].over is None


@pytest.mark.parametrize(("dtype", "low", "high"), ENDS)
def test_a_card_lays_whole_numbers_over_each_other_as_the_judge_does(dtype: DType, low: int, high: int) -> None:
    torch = pytest.importorskip("torch")
    laid = runpy.run_path(str(HARNESS / "judge_worker_cuda.py"))["laid"]
    pool = whole(dtype, low, high)
    long, kind = pool.long_rows()["x"], getattr(torch, dtype)
    for _ in range(4):
        start, other = pool.places()["x"]
        assert long.over is not None
        cuts = long.values[start : start + 20_000], long.over[other : other + 20_000]
        first, second = (torch.from_numpy(cut.copy().view(f"i{cut.itemsize}")).view(kind) for cut in cuts)
        found = torch.empty_like(first)
        found.copy_(laid(torch, first, second, *(long.ring or ())))
        there = found.view(getattr(torch, f"int{8 * first.itemsize}")).numpy()
        assert there.tobytes() == pool.cut_at({"x": (start, other)})["x"].tobytes()


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8", "float32"])
def test_whole_numbers_stay_in_their_bounds(dtype: DType) -> None:
    one = Input(name="x", shape=("n",), dtype=dtype, values="integers", low=3, high=9)
    pool = InputPool(_task(one), {"n": 500}, np.random.default_rng(1))
    drawn = [pool.draw()["x"] for _ in range(20)]
    assert len({array.tobytes() for array in drawn}) == 20
    assert set(np.concatenate(drawn).astype(int).tolist()) == {3, 4, 5, 6, 7, 8}


@pytest.mark.parametrize("dtype", ["bool", "float32", "bfloat16", "int32"])
def test_masks_are_zeros_and_ones(dtype: DType) -> None:
    one = Input(name="x", shape=("n",), dtype=dtype, values="mask")
    pool = InputPool(_task(one), {"n": 500}, np.random.default_rng(1))
    drawn = [to_float64(pool.draw()["x"], dtype) for _ in range(8)]
    assert {*np.concatenate(drawn).tolist()} == {0, 1}
    assert all((windows(drawn[0]) == other).sum(axis=1).max() < 320 for other in drawn[1:])


def test_constant_inputs_stay_and_the_others_do_not() -> None:
    inputs = (Input(name="w", shape=("n",), constness="const"), Input(name="x", shape=("n",)))
    pool = InputPool(_task(*inputs), {"n": 500}, np.random.default_rng(1))
    first, second = pool.draw(), pool.draw()
    assert first["w"] is second["w"]
    assert (first["x"] != second["x"]).any()


def test_another_process_gets_other_constants_and_nothing_that_was_used() -> None:
    inputs = (Input(name="w", shape=("n",), constness="const"), Input(name="x", shape=("n",)))
    pool = InputPool(_task(*inputs), {"n": 500}, np.random.default_rng(1))
    first, places = pool.draw(), pool.places()
    size = pool.nbytes
    pool.renew()
    second, others = pool.draw(), pool.places()
    assert (first["w"] != second["w"]).any()
    assert (first["x"] != second["x"]).any()
    assert places["w"] != others["w"]
    assert pool.nbytes == size == 2 * 2 * 4 * (4 * 500 + 65_536)  # values and signs of both, in float32


def test_a_pool_that_is_used_up_is_drawn_anew() -> None:
    one = Input(name="x", shape=("1",), dtype="uint8", values="integers", high=2)
    pool = InputPool(_task(one), {"n": 500}, np.random.default_rng(1))
    assert {int(pool.draw()["x"][0]) for _ in range(70_000)} == {0, 1}


@pytest.mark.parametrize("dtype", FLOATS)
def test_poison_is_no_number_a_plausible_one_or_an_old_answer(dtype: DType) -> None:
    poisons = PoisonPool(task(dtype=dtype), {"n": 500}, np.random.default_rng(1))
    decoy = {"y": np.zeros(500, dtype=STORAGE[dtype])}
    kinds = {"nan": 0, "noise": 0, "decoy": 0}
    for _ in range(300):
        found = poisons.draw(decoy)["y"]
        numbers = to_float64(found, dtype)
        assert found.shape == (500,)
        assert found.dtype == STORAGE[dtype]
        kinds["nan" if np.isnan(numbers).all() else "decoy" if (numbers == 0).all() else "noise"] += 1
    assert min(kinds.values()) > 60
    assert {np.isnan(to_float64(poisons.draw()["y"], dtype)).all() for _ in range(50)} == {True, False}


def test_poison_of_whole_numbers_is_any_bits() -> None:
    poisons = PoisonPool(task(dtype="int32"), {"n": 500}, np.random.default_rng(1))
    assert len({poisons.draw()["y"].tobytes() for _ in range(20)}) == 20
