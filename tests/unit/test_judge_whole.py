"""Whole numbers and masks of every mix: legal, new at every draw, such as narrow sums or careless ties get wrong."""

import numpy as np
import pytest

from ridgeline.graph.task import Task
from ridgeline.sandbox.judge.dtypes import STORAGE
from ridgeline.sandbox.judge.inputs import INTEGER_CAP, INTEGER_MIXES, MIXES, draw
from tests.operators_judge import make_task

DIMS = {"m": 24, "n": 500}
WHOLE = ("offset", "shift", "long_tail", "cancel", "structure", "wide", "spike", "tail")


def task_of(dtype="int32", values="integers", *, shape=("m", "n"), more=(), constness="per_call", **ends) -> Task:
    task = make_task([("x", shape, dtype, values), *more], [("y", ("m",), "int64")], DIMS)
    one = task.inputs[0].model_copy(update={**ends, "constness": constness})
    return task.model_copy(update={"inputs": (one, *task.inputs[1:])})


def drawn(task: Task, mix: str, seed: int = 0, **told):
    return draw(task, DIMS, mix, np.random.default_rng(seed), **told)["x"]


def test_every_mix_but_the_first_bends_whole_numbers():
    assert set(INTEGER_MIXES) == set(MIXES[1:])


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("shape", [("m", "n"), ("n",), (), ("m", "1"), ("2", "m", "n")])
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int8", -8, 8),
        ("int8", -128, 127),
        ("uint8", 0, 256),
        ("int32", -(10**9), 10**9),
        ("int32", 3, 4),
        ("int32", 5, 5),
        ("int64", -(2**63), 2**63 - 1),
        ("int64", 0, 2**62),
        ("float16", -3, 9),
    ],
)
def test_whole_numbers_stay_in_their_range(mix, shape, dtype, low, high):
    task = task_of(dtype, shape=shape, low=low, high=high)
    for seed in range(3):
        values = drawn(task, mix, seed)
        assert values.dtype == STORAGE[dtype]
        assert values.min() >= low
        assert values.max() < max(high, low + 1)
        assert np.array_equal(values, np.rint(values))


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "float32", "int64"])
def test_masks_are_zero_and_one(mix, dtype):
    assert set(np.unique(drawn(task_of(dtype, "mask"), mix))) <= {0, 1}


@pytest.mark.parametrize(
    ("mix", "is_so"),
    [
        ("offset", lambda x: ((x == 99).mean(axis=1) > 0.9).all()),
        ("shift", lambda x: {(row.min(), row.max()) for row in x} == {(-100, -100), (99, 99)}),
        ("tail", lambda x: all((np.diff(row) >= 0).all() or (np.diff(row) <= 0).all() for row in x)),
        ("long_tail", lambda x: all(np.unique(row, return_counts=True)[1].max() > 450 for row in x)),
        ("cancel", lambda x: set(np.unique(x)) == {-100, 99} and any((np.diff(row) != 0).all() for row in x)),
        ("structure", lambda x: sum(len(np.unique(row)) <= 3 for row in x) > 5 and len(np.unique(x)) > 100),
        ("wide", lambda x: len({int(np.ptp(row)).bit_length() for row in x}) > 4),
        ("spike", lambda x: (np.abs(x) >= 99).sum() == np.clip((np.abs(x) >= 99).sum(), 12, 48)),
    ],
)
def test_what_each_mix_makes_of_whole_numbers(mix, is_so):
    for seed in range(5):
        assert is_so(drawn(task_of("int8", low=-100, high=100), mix, seed))


@pytest.mark.parametrize(
    ("low", "high", "narrow", "mixes"),
    [
        (-(10**7), 10**7, np.int32, ("offset", "shift")),
        (-(10**7), 10**7, np.int32, ("wide", "long_tail", "cancel")),
        (0, 128, np.int16, ("offset", "shift")),
    ],
)
def test_narrow_sums_overflow(low, high, narrow, mixes):
    task = task_of("int32", low=low, high=high)
    for mix in mixes:
        x = drawn(task, mix).astype(np.int64)
        exact, wrapped = np.cumsum(x, axis=1), np.cumsum(x.astype(narrow), axis=1, dtype=narrow)
        assert not np.array_equal(exact, wrapped), mix
    ordinary = drawn(task, "normal").astype(np.int64)
    assert narrow is np.int16 or np.abs(np.cumsum(ordinary, axis=1)).max() < 2**31


def test_the_last_of_equal_maxima_is_told_from_the_first():
    task = task_of("int32", low=-(10**9), high=10**9)
    told = {mix for mix in MIXES for x in (drawn(task, mix),) if (x.argmax(1) != 499 - x[:, ::-1].argmax(1)).any()}
    assert {"offset", "shift", "long_tail", "cancel", "structure"} <= told
    assert "normal" not in told


def test_masks_have_empty_and_full_rows_where_that_is_not_too_much():
    task = task_of("uint8", "mask")
    sums = drawn(task, "shift").sum(axis=1)
    assert set(sums) == {0, 500}
    sums = drawn(task, "long_tail").sum(axis=1)
    assert set(sums) == {1, 499}
    assert (drawn(task, "offset").mean(axis=1) > 0.9).all()
    densities = drawn(task, "wide").mean(axis=1)
    assert densities.min() < 0.1
    assert densities.max() > 0.5


@pytest.mark.parametrize("mix", [mix for mix in MIXES if mix != "normal"])
@pytest.mark.parametrize(("constness", "reach"), [("per_call", 0.5), ("const", 1.0)])
def test_a_gentle_mask_has_no_empty_row(mix, constness, reach):
    for seed in range(5):
        assert drawn(task_of("bool", "mask", constness=constness), mix, seed, reach=reach).any(axis=1).all()


@pytest.mark.parametrize("mix", MIXES)
def test_nothing_is_bent_at_reach_zero(mix):
    task = task_of("int16", low=0, high=1000)
    assert len(np.unique(drawn(task, mix, reach=0.0))) > 990


@pytest.mark.parametrize(
    ("dtype", "low", "others", "capped"),
    [
        ("int32", 0, [("w", ("n",), "float32", "normal")], True),
        ("int64", 0, [("w", ("n",), "float32", "normal")], True),
        ("int8", 0, [("w", ("n",), "float32", "normal")], False),
        ("int32", -8, [("w", ("n",), "float32", "normal")], False),
        ("int32", 0, [("w", ("n",), "int32", "normal")], False),
        ("int32", 0, [], False),
    ],
)
def test_few_of_what_may_be_an_index_name_one_place(dtype, low, others, capped):
    task = task_of(dtype, more=others, low=low, high=100)
    for mix in ("offset", "shift"):
        most = np.unique(drawn(task, mix), return_counts=True)[1].max()
        assert (most < 1.2 * INTEGER_CAP) == capped


@pytest.mark.parametrize("mix", WHOLE)
def test_rows_of_one_draw_differ_from_the_next(mix):
    task = task_of("int32", low=0, high=1000)
    assert not np.array_equal(drawn(task, mix, 1), drawn(task, mix, 2))
