"""The holes of comparators (measurement F3 to F5), and what a quick agreement of two sides may and may not say."""

import time

import numpy as np
import pytest

from ridgeline.sandbox.judge.dtypes import from_float64, to_float64
from ridgeline.sandbox.judge.numerics import (
    agree,
    compare,
    compare_exact,
    derive_tolerance,
    is_exact,
    measure_rounding_noise,
)
from tests.operators_judge import OPERATORS, cases

RNG = np.random.default_rng(0)
RIGHT = RNG.standard_normal((8, 16)).astype(np.float32)
ORACLE = RIGHT.astype(np.float64)
TOLD = {"dtype": "float32", "precision": "strict", "output": "y"}


def edited(where, value):
    values = RIGHT.copy()
    values[where] = value
    return values


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (edited((3, 4), np.nan), "nonfinite"),
        (edited((3, 4), np.inf), "nonfinite"),
        (edited((3, 4), -np.inf), "nonfinite"),
        (edited((3, 4), RIGHT[3, 4] + 1e-3), "max_norm"),
        (edited(0, 0.0), "max_norm"),
        (np.full_like(RIGHT, np.nan), "nonfinite"),
        (np.zeros_like(RIGHT), "relative_l2"),
        (RIGHT * np.float32(1 + 1e-5), "relative_l2"),
        (-RIGHT, "relative_l2"),
        (RIGHT[:1], "shape"),
        (RIGHT[:, :1], "shape"),
        (RIGHT[0], "shape"),
        (RIGHT.reshape(-1), "shape"),
        (RIGHT.astype(np.float64), "shape"),
        (RIGHT.astype(np.float16), "shape"),
        (np.float32(0.0) * RIGHT[:0], "shape"),
    ],
)
def test_what_is_wrong_is_said(values, kind):
    faults = compare(values, ORACLE, ORACLE, **TOLD)
    assert kind in {fault.kind for fault in faults}
    assert all(fault.output == "y" and fault.detail for fault in faults)


def test_right_is_right():
    assert compare(RIGHT, ORACLE, ORACLE, **TOLD) == ()
    assert compare(np.nextafter(RIGHT, np.float32(9)), ORACLE, ORACLE, **TOLD) == ()


def test_nothing_to_judge_is_no_pass():
    empty = np.zeros((0, 4))
    assert compare(empty.astype(np.float32), empty, empty, **TOLD)[0].kind == "shape"


@pytest.mark.parametrize(
    ("oracle", "trusted", "candidate", "passes"),
    [
        (np.nan, np.nan, np.nan, True),
        (np.nan, np.nan, 1.0, False),
        (np.inf, np.inf, np.inf, True),
        (np.inf, np.inf, -np.inf, False),
        (np.inf, np.inf, np.nan, False),
        (np.inf, np.inf, 1.0, False),
        (1e39, np.inf, np.inf, True),  # too large for the type
        (1e39, np.inf, 3e38, False),
        (1.0, np.nan, np.nan, True),  # the trusted program has no number either
        (1.0, np.nan, 1.0, True),
        (1.0, np.nan, 2.0, False),
        (1.0, np.inf, np.nan, False),
    ],
)
def test_where_there_is_no_number(oracle, trusted, candidate, passes):
    right, usual, values = ORACLE.copy(), ORACLE.copy(), RIGHT.copy()
    right[2, 2], usual[2, 2], values[2, 2] = oracle, trusted, candidate
    faults = compare(values, right, usual, **TOLD)
    assert (faults == ()) is passes


def test_the_largest_number_may_round_to_infinity():
    oracle = np.array([[65504.0, 1.0]])
    told = {**TOLD, "dtype": "float16"}
    assert compare(np.array([[np.inf, 1.0]], np.float16), oracle, oracle, **told) == ()
    assert compare(np.array([[-np.inf, 1.0]], np.float16), oracle, oracle, **told) != ()


def test_one_row_that_is_hard_to_compute_does_not_loosen_the_others():
    trusted = ORACLE.copy()
    trusted[5] *= 1.5
    assert compare(edited((2, 2), RIGHT[2, 2] + 1e-3), ORACLE, trusted, **TOLD) != ()
    assert compare(edited(5, RIGHT[5] * 1.4), ORACLE, trusted, **TOLD) == ()


def test_small_rows_count_as_much_as_large_ones():
    oracle = ORACLE * np.exp2(np.arange(0, 64, 8.0))[:, None]
    values = oracle.astype(np.float32)
    values[0, 0] += 1e-3
    assert compare(values, oracle, oracle, **TOLD) != ()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_whole_numbers_are_exact(dtype):
    oracle = np.array([[0.0, 1.0], [1.0, 0.0]])
    right = from_float64(oracle, dtype)
    told = {**TOLD, "dtype": dtype}
    assert compare(right, oracle, oracle, **told) == ()
    wrong = right.copy()
    wrong[0, 0] = 255 if dtype in ("uint8", "bool") else -1
    assert [fault.kind for fault in compare(wrong, oracle, oracle, **told)] == ["exact"]


def test_a_whole_number_that_hangs_on_rounding_may_be_the_trusted_programs():
    oracle, trusted = np.array([3.0, 4.0]), np.array([4.0, 4.0])
    told = {**TOLD, "dtype": "int32"}
    assert compare(np.array([4, 4], np.int32), oracle, trusted, **told) == ()
    assert compare(np.array([5, 4], np.int32), oracle, trusted, **told) != ()


def test_exact_results_allow_a_few_roundings_and_others_the_usual():
    oracle = np.arange(16.0).reshape(4, 4)
    values = oracle.astype(np.float32)
    assert is_exact(oracle, oracle, "float32")
    assert compare_exact(values, oracle, oracle, **TOLD) == ()
    assert compare_exact(np.nextafter(values, np.float32(99)), oracle, oracle, **TOLD) == (), "by a reciprocal, say"
    split = (values.view(np.uint32) + np.where(values == 13, 1 << 8, 0)).astype(np.uint32).view(np.float32)
    assert compare_exact(split, oracle, oracle, **TOLD)[0].kind == "exact", "two bfloat16 hold 16 bits"
    assert compare_exact(np.where(values == 0, np.float32(-0.0), values), oracle, oracle, **TOLD) == ()
    third = oracle / 3
    trusted = third.astype(np.float32).astype(np.float64)
    assert not is_exact(third, trusted, "float32")
    assert compare_exact(np.nextafter(trusted.astype(np.float32), np.float32(99)), third, trusted, **TOLD) == ()
    assert not is_exact(oracle, oracle + 1, "float32")
    assert not is_exact(np.array([np.inf]), np.array([np.inf]), "float32")


def test_half_precision_results_of_exact_sums_are_held_to_the_usual_bounds():
    oracle = np.array([[257.0, 3.0]])  # float32 holds the sum, bfloat16 its rounding
    right = to_float64(from_float64(oracle, "bfloat16"), "bfloat16")
    assert is_exact(oracle, right, "bfloat16")
    told = {**TOLD, "dtype": "bfloat16"}
    assert compare_exact(from_float64(oracle, "bfloat16"), oracle, right, **told) == ()
    assert compare_exact(from_float64(np.array([[258.0, 3.0]]), "bfloat16"), oracle, right, **told) == ()
    assert compare_exact(from_float64(np.array([[272.0, 3.0]]), "bfloat16"), oracle, right, **told) != ()


def test_what_both_programs_compute_in_float64_is_not_exact_for_that():
    told = {**TOLD, "dtype": "float64"}
    shares = np.exp(np.arange(6.0)) / np.exp(np.arange(6.0)).sum()
    assert not is_exact(shares, shares, "float64")
    assert compare_exact(np.nextafter(shares, 1), shares, shares, **told) == ()
    whole = np.array([7.0, -1e9, 0.125])
    assert is_exact(whole, whole, "float64")
    assert compare_exact(whole + [0, 1e-3, 0], whole, whole, **told)[0].kind == "exact"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", OPERATORS)
def test_two_sides_agree_when_both_are_right_and_not_when_one_is_wrong(name, dtype):
    operator = OPERATORS[name](dtype)
    told = {"dtype": dtype, "precision": "strict"}
    first, second = next(cases(operator, 0)), next(cases(operator, 1))
    oracle = operator.oracle(first.inputs)
    trusted = to_float64(operator.computed(operator.trusted, first.inputs), dtype)
    here = measure_rounding_noise(operator.task, first.inputs, operator.oracle, np.random.default_rng(0), exact=oracle)[
        operator.output
    ]
    within = derive_tolerance(oracle[operator.output], trusted, noise=here, **told)
    usual = operator.computed(operator.trusted, second.inputs)
    for way in operator.honest.values():
        assert agree(operator.computed(way, second.inputs), usual, dtype=dtype, within=within)
    stale = operator.computed(operator.trusted, first.inputs)
    assert not agree(stale, usual, dtype=dtype, within=within)
    for wrong in {"zero", "nan", "one wrong", "one head", "broadcast", "no affine"} & set(operator.cheats):
        assert not agree(operator.computed(operator.cheats[wrong], second.inputs), usual, dtype=dtype, within=within)


def test_agreement_of_special_values_and_of_bytes():
    values = edited((1, 1), np.nan)
    other = np.nextafter(values, np.float32(9))
    assert agree(values, values.copy(), dtype="float32")
    assert agree(other, values, dtype="float32")
    assert not agree(edited((1, 1), np.inf), values, dtype="float32")
    assert not agree(values, RIGHT, dtype="float32")
    assert not agree(RIGHT, values, dtype="float32")
    assert not agree(RIGHT[:4], RIGHT, dtype="float32")
    assert not agree(RIGHT.astype(np.float16), RIGHT, dtype="float32")
    huge = np.full((2, 4), 1e30, np.float32)
    assert agree(np.nextafter(huge, np.float32(0)), huge, dtype="float32")
    assert not agree(huge * np.float32(1.01), huge, dtype="float32")
    assert not agree(np.array([1, 2], np.int32), np.array([1, 3], np.int32), dtype="int32")


def test_agreement_costs_a_few_passes():
    """Processor time: a share of what one copy-like pass over as much memory takes, with room for a busy machine."""
    a = RNG.standard_normal((1024, 1024)).astype(np.float32)
    b = np.nextafter(a, np.float32(9))
    began = time.process_time()
    for _ in range(10):
        np.abs(a - b).max()
    passes = time.process_time() - began
    began = time.process_time()
    for _ in range(10):
        assert agree(a, b, dtype="float32")
    assert time.process_time() - began < 12 * passes
