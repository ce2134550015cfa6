"""Stored numbers and their values, for every type of a task."""

import math
from typing import get_args

import numpy as np
import pytest

from ridgeline.graph.task import DType
from ridgeline.sandbox.judge.dtypes import LARGEST, STORAGE, from_float64, is_float, to_float32, to_float64, unit


@pytest.mark.parametrize("dtype", get_args(DType))
def test_every_type_has_a_storage_and_keeps_its_values(dtype):
    values = np.array([0.0, 1.0, 1.0, 0.0]) if dtype == "bool" else np.array([0.0, 1.0, 5.0, 96.0])
    raw = from_float64(values, dtype)
    assert raw.dtype == STORAGE[dtype]
    assert np.array_equal(to_float64(raw, dtype), values)


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        ("float64", 53),
        ("float32", 24),
        ("float16", 11),
        ("bfloat16", 8),
        ("float8_e4m3fn", 4),
        ("float8_e5m2", 3),
        ("int32", None),
    ],
)
def test_unit_round_off(dtype, bits):
    assert unit(dtype) == (2.0**-bits if bits else 0.0)
    if bits:
        halfway, above = 1.0 + 2.0**-bits, 1.0 + 2.0**-bits + 2.0**-50 if bits < 50 else 1.0 + 2.0**-52
        assert to_float64(from_float64(np.array([halfway]), dtype), dtype)[0] == 1.0  # a tie goes to even
        assert to_float64(from_float64(np.array([above]), dtype), dtype)[0] > 1.0


def test_bfloat16_is_rounded_once():
    just_above_a_tie = 1.0 + 2.0**-8 + 2.0**-40  # float32 in between would make it the tie, and lose it
    assert to_float64(from_float64(np.array([just_above_a_tie]), "bfloat16"), "bfloat16")[0] == 1.0 + 2.0**-7
    just_below = -(1.0 + 3 * 2.0**-8 - 2.0**-40)
    assert to_float64(from_float64(np.array([just_below]), "bfloat16"), "bfloat16")[0] == -(1.0 + 2.0**-7)


def test_bfloat16_agrees_with_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values = np.exp2(rng.uniform(-140, 128, size=4000)).astype(np.float32) * rng.choice((-1, 1), size=4000)
    values = np.append(values, [0.0, -0.0, np.inf, -np.inf]).astype(np.float32)
    theirs = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(from_float64(values.astype(np.float64), "bfloat16"), theirs)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_largest_number_and_beyond(dtype):
    largest = LARGEST[dtype]
    half_a_step = largest * unit(dtype) * 1.001
    got = to_float64(from_float64(np.array([largest, largest + half_a_step, -1e300, math.inf, math.nan]), dtype), dtype)
    assert got[0] == largest
    assert got[1] == math.inf
    assert got[2] == -math.inf
    assert got[3] == math.inf
    assert math.isnan(got[4])


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_whole_numbers_stop_at_the_ends(dtype):
    ends = np.iinfo(STORAGE[dtype])
    got = from_float64(np.array([-1e30, 1e30, 2.5, 3.5, math.nan]), dtype)
    assert list(got) == [ends.min, ends.max, 2, 4, 0]


def test_a_scalar_array_keeps_its_shape():
    for dtype in get_args(DType):
        assert from_float64(np.array(1.0), dtype).shape == ()


def test_float32_holds_what_half_precision_holds():
    for dtype in ("float16", "bfloat16"):
        raw = np.arange(1 << 16, dtype=np.uint16).view(STORAGE[dtype])
        with np.errstate(invalid="ignore"):
            narrow = to_float32(raw, dtype).astype(np.float64)
        assert np.array_equal(narrow, to_float64(raw, dtype), equal_nan=True)
    assert not is_float("bool")
