"""Inputs keep their domain in every mix, differ at every draw, and sizes are drawn that no tile divides."""

import random
from collections import Counter

import numpy as np
import pytest

from ridgeline.graph.task import DrawnSizes, Input, Shape
from ridgeline.sandbox.judge.correctness import LARGE_ELEMENTS, SMALL_ELEMENTS, list_mixes
from ridgeline.sandbox.judge.dtypes import STORAGE, to_float64
from ridgeline.sandbox.judge.inputs import (
    MIXES,
    PARTS,
    axis_lengths,
    change_one_element,
    draw,
    draw_sizes,
    is_index,
    make_probes,
)
from ridgeline.sandbox.judge.timing import shuffle_mixes
from tests.operators_judge import make_task

DIMS = {"m": 12, "n": 64}
FLOATS = ("float32", "float16", "bfloat16", "float64")


def one_input(dtype, values, shape=("m", "n")):
    return make_task([("x", shape, dtype, values)], [("y", shape, dtype)], DIMS)


@pytest.mark.parametrize("mix", [*MIXES, *PARTS])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("values", "low", "high"), [("uniform", -1, 1), ("positive", 0.0999, 1), ("integers", 0, 7), ("mask", 0, 1)]
)
def test_a_mix_stays_in_the_domain(mix, dtype, values, low, high):
    for shape in (("m", "n"), ("n",), (), ("m", "3", "n")):
        raw = draw(one_input(dtype, values, shape), DIMS, mix, np.random.default_rng(3))["x"]
        numbers = to_float64(raw, dtype)
        assert raw.dtype == STORAGE[dtype]
        assert numbers.min() >= low
        assert numbers.max() <= high
        if values in ("integers", "mask"):
            assert np.array_equal(numbers, np.rint(numbers))


@pytest.mark.parametrize("mix", [*MIXES, *PARTS])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("values", "ends"), [("uniform", (-3.0, 5.0)), ("positive", (0.25, 10.0)), ("positive", (0, 7))]
)
def test_a_mix_stays_in_a_range_of_the_inputs_own(mix, dtype, values, ends):
    task = one_input(dtype, values)
    task = task.model_copy(update={"inputs": (task.inputs[0].model_copy(update={"within": ends}),)})
    numbers = to_float64(draw(task, DIMS, mix, np.random.default_rng(3))["x"], dtype)
    assert ends[0] <= numbers.min()
    assert numbers.max() <= ends[1]
    if mix == "normal":
        assert numbers.max() - numbers.min() > 0.9 * (ends[1] - ends[0])
    for probe in make_probes(task, DIMS, np.random.default_rng(4)):
        probed = to_float64(probe.inputs["x"], dtype)
        assert ends[0] <= probed.min() <= probed.max() <= ends[1], probe.name


@pytest.mark.parametrize("mix", [*MIXES, *PARTS])
@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int8", "uint8", "bool"])
def test_every_draw_is_finite_and_new(mix, dtype):
    task, rng = one_input(dtype, "normal"), np.random.default_rng(1)
    first, second = (draw(task, DIMS, mix, rng)["x"] for _ in range(2))
    assert np.isfinite(to_float64(first, dtype)).all()
    assert not np.array_equal(first, second)


def test_what_each_mix_is_for():
    task, rng = one_input("float64", "normal"), np.random.default_rng(5)
    drawn = {mix: draw(task, DIMS, mix, rng)["x"] for mix in MIXES}
    deviations = np.log2(drawn["wide"].std(axis=1))
    assert deviations.max() - deviations.min() > 4
    assert abs(drawn["offset"].mean() - 100) < 1
    assert set(np.round(drawn["shift"].mean(axis=1) / 80)) == {-1.0, 1.0}
    tail = np.abs(drawn["tail"][:, -4:]).sum(axis=1) / np.abs(drawn["tail"]).sum(axis=1)
    assert (tail > 0.2).all()
    weights = np.exp(drawn["long_tail"] - drawn["long_tail"].max(axis=1, keepdims=True))
    assert ((weights.sum(axis=1) > 1.3) & (weights.sum(axis=1) < 4)).all()
    assert np.abs(drawn["cancel"].sum(axis=1)).max() < 0.1
    assert np.abs(drawn["cancel"]).sum(axis=1).min() > 10
    assert any(np.ptp(row) == 0 or (row == 0).mean() > 0.5 for row in drawn["structure"]) or len(
        np.unique(drawn["structure"], axis=0)
    ) < len(drawn["structure"])


@pytest.mark.parametrize(
    ("dtype", "values", "least", "most"),
    [
        ("float32", "normal", 2**16, 2**26),
        ("float16", "normal", 2**8, 2**11),
        ("bfloat16", "normal", 2**16, 2**26),
        ("float64", "uniform", 1.0, 1.0),
        ("float32", "positive", 0.1, 1.0),
    ],
)
def test_outliers_are_lone_and_some_rows_have_none(dtype, values, least, most):
    sizes = np.abs(to_float64(draw(one_input(dtype, values), DIMS, "spike", np.random.default_rng(4))["x"], dtype))
    assert least <= sizes.max() <= most
    usual = {"normal": 6.0, "uniform": 2.0**-6, "positive": 1.0}[values]
    spiked = (sizes > usual).sum(axis=1)
    assert spiked.max() <= 3
    assert (spiked > 0).sum() in ({0} if values == "positive" else {6})


def test_outliers_of_a_single_row_have_both_signs_and_are_few():
    task = one_input("float32", "normal", ("100*n",))
    x = draw(task, DIMS, "spike", np.random.default_rng(0))["x"]
    outliers = x[np.abs(x) > 16]
    assert 20 <= len(outliers) <= 25
    assert outliers.min() < 0 < outliers.max()


@pytest.mark.parametrize(
    ("constness", "reach", "output", "most"),
    [
        ("per_call", 1.0, "float32", 2**26),
        ("per_call", 0.5, "float32", 2**13),
        ("per_call", 1.0, "int32", 2**10),
        ("per_call", 0.0, "float32", 6),
        ("const", 1.0, "float32", 6),
    ],
)
def test_outliers_end_where_they_would_be_held_against_somebody(constness, reach, output, most):
    task = make_task([("x", ("m", "n"), "float32", "normal")], [("y", ("m", "n"), output)], DIMS)
    task = task.model_copy(update={"inputs": (task.inputs[0].model_copy(update={"constness": constness}),)})
    drawn = [np.abs(draw(task, DIMS, "spike", np.random.default_rng(seed), reach=reach)["x"]) for seed in range(9)]
    assert most / 16 < max(values.max() for values in drawn) <= most


@pytest.mark.parametrize("mix", [mix for mix in PARTS if mix != "partly spike"])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_a_part_is_one_line_or_what_lies_behind_a_place_of_each_row(mix, dtype):
    task, rng = one_input(dtype, "normal"), np.random.default_rng(5)
    task = task.model_copy(update={"inputs": (task.inputs[0].model_copy(update={"low": -9000, "high": 9000}),)})
    kinds = set()
    for _ in range(60):
        state = rng.bit_generator.state
        values = to_float64(draw(task, DIMS, mix, rng)["x"], dtype)
        rng.bit_generator.state = state  # the same ordinary values
        usual = to_float64(draw(task, DIMS, MIXES[0], rng)["x"], dtype)
        rows, columns = (set(map(int, axis)) for axis in np.nonzero(values != usual))
        kinds.add("row" if len(rows) == 1 else "column" if len(columns) == 1 else "behind" if rows else "none")
        assert len(rows) <= 1 or len(columns) <= 1 or min(columns) >= 8
    assert {"row", "behind"} <= kinds


def test_a_call_that_is_ordinary_but_for_a_few_outliers_has_one_to_five_from_as_many_parts_of_their_range():
    task, rng = one_input("float32", "normal"), np.random.default_rng(6)
    numbers, met = set(), set()
    for _ in range(100):
        sizes = np.abs(draw(task, DIMS, "partly spike", rng)["x"].astype(np.float64)).reshape(-1)
        parts = [int((power - 6) // 4) for power in np.log2(sizes[sizes > 8])]  # 2^6 to 2^26
        assert len(set(parts)) == len(parts)
        numbers.add(len(parts))
        met |= set(parts)
    assert numbers == {1, 2, 3, 4, 5}
    assert met == {0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("dtype", "low", "high", "said"),
    [("int32", 0, 64, True), ("int64", 0, 12, True), ("int32", 0, 65, False), ("int32", -1, 64, False)]
    + [("int16", 0, 64, False)],
)
def test_an_index_is_what_fits_an_extent_of_another_array(dtype, low, high, said):
    task = make_task(
        [("x", ("m", "n"), "float32", "normal"), ("i", ("m",), dtype, "normal")], [("y", ("m",), "float32")], DIMS
    )
    one = task.inputs[1].model_copy(update={"low": low, "high": high})
    assert is_index(task.model_copy(update={"inputs": (task.inputs[0], one)}), one, DIMS) is said


def sized(rows: int) -> tuple[str, ...]:
    task = one_input("float32", "normal", ("m",))
    return list_mixes(task, Shape(label="x", dims={**DIMS, "m": rows}))


def test_the_deck_holds_each_unusual_kind_once_and_first_what_large_sizes_were_not_tested_with():
    deck = shuffle_mixes(random.Random(7), tested=sized(LARGE_ELEMENTS))
    assert sorted(deck) == sorted([*MIXES[1:], *PARTS])
    assert set(deck[:2]) == {"wide", "cancel"}, "the deck is taken from its end"
    assert deck != shuffle_mixes(random.Random(8), tested=sized(LARGE_ELEMENTS))


def test_a_size_that_was_tested_with_every_kind_has_an_even_deck():
    first = Counter(shuffle_mixes(random.Random(seed), tested=sized(16))[-1] for seed in range(2000))
    assert set(first) == {*MIXES[1:], *PARTS}
    assert min(first.values()) > 100  # of 182 that are expected


@pytest.mark.parametrize(
    ("rows", "often"), [(16, 4), (SMALL_ELEMENTS // 2 - 1, 4), (SMALL_ELEMENTS // 2, 2), (LARGE_ELEMENTS // 2 - 1, 2)]
)
def test_a_small_size_is_tested_with_every_kind_and_more_often_with_those_that_hit_by_chance(rows, often):
    count = Counter(sized(rows))  # an input and an output of so many elements
    assert {mix: count[mix] for mix in MIXES} == dict.fromkeys(MIXES, 1)
    assert {mix: count[mix] for mix in PARTS} == dict.fromkeys(PARTS, often)


def test_a_large_size_is_tested_with_few_kinds():
    assert sized(LARGE_ELEMENTS // 2) == ("normal", "wide", "cancel")


def test_an_unknown_mix_is_an_error():
    with pytest.raises(KeyError):
        draw(one_input("float32", "normal"), DIMS, "spikes", np.random.default_rng(0))


def test_special_matrices_lie_among_ordinary_ones():
    task = make_task([("x", ("16", "8", "8"), "float32")], [("y", ("m",), "float32")], DIMS)
    places = set()
    for seed in range(10):
        items = draw(task, DIMS, "structure", np.random.default_rng(seed))["x"].astype(np.float64)
        special = [i for i, item in enumerate(items) if np.linalg.matrix_rank(item, tol=1e-4) < 8]
        assert len(special) < 8
        places |= set(special)
    assert len(places) > 6


def test_only_the_largest_input_is_shifted():
    task = make_task([("x", ("m", "n"), "float32"), ("w", ("n",), "float32")], [("y", ("m", "n"), "float32")], DIMS)
    found = draw(task, DIMS, "offset", np.random.default_rng(0))
    assert found["x"].mean() > 99
    assert abs(found["w"].mean()) < 1


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "bool"])
@pytest.mark.parametrize("fill", [None, 0, 1])
def test_a_near_pair_differs_in_one_place(dtype, fill):
    task, rng = one_input(dtype, "mask" if dtype == "bool" else "normal"), np.random.default_rng(2)
    inputs = draw(task, DIMS, "normal", rng)
    if fill is not None:
        inputs["x"][...] = fill
    changed, place = change_one_element(inputs, task.inputs[0], rng)
    differs = np.argwhere(changed["x"] != inputs["x"])
    assert [tuple(where) for where in differs] == [place]
    if dtype == "bool":
        assert set(np.unique(changed["x"])) <= {0, 1}


@pytest.mark.parametrize("extent", ["n/3", "n-64", "-n"])
def test_an_extent_is_a_whole_number_above_zero(extent):
    with pytest.raises(ValueError, match="extent"):
        axis_lengths(Input(name="x", shape=(extent,)), DIMS)
    assert axis_lengths(Input(name="x", shape=("2*n", "1")), DIMS) == (128, 1)


def test_drawn_sizes_are_unseen_in_range_and_awkward():
    task = make_task(
        [("x", ("m", "n"), "float32")], [("y", ("m", "n"), "float32")], DIMS,
        drawn=DrawnSizes(ranges={"m": (1, 100), "n": (1, 3000)}, count=8),
    )  # fmt: skip
    for seed in range(20):
        shapes = draw_sizes(task, np.random.default_rng(seed))
        assert len(shapes) == 8
        assert len({tuple(shape.dims.items()) for shape in shapes} | {tuple(DIMS.items())}) == 9
        assert shapes[0].dims == {"m": 1, "n": 1}
        assert all(1 <= shape.dims["m"] <= 100 and 1 <= shape.dims["n"] <= 3000 for shape in shapes)
        assert not any(shape.timed for shape in shapes)
        assert any(shape.dims["n"] % 16 for shape in shapes)


def test_the_last_drawn_size_has_its_constant_inputs_extents_from_another():
    task = make_task(
        [("x", ("m", "k"), "float32"), ("w", ("k", "n"), "float32")], [("y", ("m", "n"), "float32")],
        {"m": 64, "n": 48, "k": 32}, drawn=DrawnSizes(ranges={"m": (1, 100), "n": (1, 100), "k": (1, 100)}, count=4),
    )  # fmt: skip
    kept = task.inputs[1].model_copy(update={"constness": "const"})
    task = task.model_copy(update={"inputs": (task.inputs[0], kept)})
    for seed in range(20):
        *others, last = [shape.dims for shape in draw_sizes(task, np.random.default_rng(seed))]
        assert any((one["k"], one["n"]) == (last["k"], last["n"]) for one in (*others, task.shapes[0].dims))


def test_drawn_sizes_keep_multiples_and_end_where_the_range_does():
    drawn = DrawnSizes(ranges={"n": (10, 100)}, multiples={"n": 32}, count=6)
    task = make_task([("x", ("m", "n"), "float32")], [("y", ("m", "n"), "float32")], DIMS, drawn=drawn)
    sizes = {shape.dims["n"] for shape in draw_sizes(task, np.random.default_rng(0))}
    assert sizes == {32, 96}  # 64 is the public one
    assert (
        draw_sizes(make_task([("x", ("n",), "float32")], [("y", ("n",), "float32")], DIMS), np.random.default_rng(0))
        == ()
    )
    assert isinstance(draw_sizes(task, np.random.default_rng(0))[0], Shape)
