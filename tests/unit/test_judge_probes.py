"""Probes: which there are, that they keep to the domain, and that right programs hit them exactly."""

import numpy as np
import pytest

from ridgeline.sandbox.judge.dtypes import to_float64
from ridgeline.sandbox.judge.inputs import make_probes
from ridgeline.sandbox.judge.numerics import is_exact
from tests.operators_judge import cases, make_task, matmul, row_sum

DIMS = {"m": 6, "n": 10}


def test_a_product_is_probed_by_selection_small_numbers_and_many_bits():
    names = {
        probe.name for probe in make_probes(matmul("float32").task, {"m": 8, "k": 32, "n": 8}, np.random.default_rng(0))
    }
    assert names == {
        *(f"one-hot {which} of {name}" for which in ("rows", "columns") for name in "ab"),
        "small integers", "many bits in a", "many bits in b",
    }  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_right_product_is_exact_in_the_probes_that_matter(dtype):
    operator = matmul(dtype)
    for case in list(cases(operator, 0)):
        if not case.exact:
            continue
        oracle = operator.oracle(case.inputs)["c"]
        trusted = to_float64(operator.computed(operator.trusted, case.inputs), dtype)
        selects = case.name in ("one-hot rows of a", "one-hot columns of b")
        if selects or case.name == "small integers":
            assert is_exact(oracle, trusted, dtype), case.name


def test_one_hot_rows_take_every_column_equally():
    task = make_task([("x", ("3", "m", "n"), "float32")], [("y", ("m",), "float32")], DIMS)
    matrix = next(p for p in make_probes(task, DIMS, np.random.default_rng(1)) if "rows" in p.name).inputs["x"]
    assert (matrix.sum(axis=-1) == 1).all()
    assert matrix.sum(axis=-2).max() == 1
    columns = next(p for p in make_probes(task, DIMS, np.random.default_rng(1)) if "columns" in p.name).inputs["x"]
    assert (columns.sum(axis=-2) == 1).all()


@pytest.mark.parametrize(("values", "low", "high"), [("uniform", -1, 1), ("positive", 0.1, 1), ("mask", 0, 1)])
def test_probes_keep_to_the_domain(values, low, high):
    task = make_task([("x", ("m", "n"), "float32", values)], [("y", ("m",), "float32")], DIMS)
    for probe in make_probes(task, DIMS, np.random.default_rng(0)):
        assert probe.inputs["x"].min() >= low
        assert probe.inputs["x"].max() <= high


def test_small_integers_overrun_a_half_precision_sum():
    operator = row_sum("float32")
    probe = next(
        p for p in make_probes(operator.task, operator.dims, np.random.default_rng(0)) if p.name == "small integers"
    )
    assert (probe.inputs["x"].sum(axis=1) > 2**11).all()


def test_other_precisions_are_not_asked_for_what_they_need_not_have():
    exact = {}
    for precision in ("strict", "tf32", "emulated"):
        found = make_probes(matmul("float32", precision).task, {"m": 4, "k": 4, "n": 4}, np.random.default_rng(0))
        exact[precision] = {probe.name for probe in found if probe.exact}
    assert exact["tf32"] == {"small integers"}
    assert exact["emulated"] == {"small integers", "many bits in a", "many bits in b"}
    assert "one-hot rows of a" in exact["strict"]


def test_a_task_of_whole_numbers_has_no_probes():
    task = make_task([("x", ("m",), "int32")], [("y", ("m",), "int32")], DIMS)
    assert make_probes(task, DIMS, np.random.default_rng(0)) == ()
