"""An array counts as made only where it is nearer to the answer than a fill or a copy would be."""

import numpy as np
import pytest

from ridgeline.sandbox.judge.provenance import MANY_ELEMENTS, is_made

N = 1000
RNG = np.random.default_rng(7)
X = RNG.standard_normal(N)
RARE = (X > 2.0).astype(float)
ONEHOT = np.eye(64)[RNG.integers(0, 64, N)]
COUNTS = RNG.integers(0, 1000, N).astype(float)
BUMPED = COUNTS + (np.arange(N) < 8)
RELU = np.maximum(X, 0)
SPARSE = np.where(X > 2.0, 5.0, 1.0)
RESIDUAL = X + 0.03 * RNG.standard_normal(N)
CACHE = np.concatenate([X, [3.5, 4.5]])
INFINITE = np.where(X > 1, X * 2, -np.inf)
NOISE = RNG.standard_normal(N)
CODES = RNG.integers(-128, 128, N).astype(float)
HALVES = (X > 0).astype(float)


@pytest.mark.parametrize(
    ("values", "right", "dtype", "given", "before", "expected"),
    [
        # whole numbers: zeros are nearly all of the right answer, and were filled in by nobody's kernel
        (np.zeros(N), RARE, "bool", {"x": X}, None, False),
        (RARE, RARE, "bool", {"x": X}, None, True),
        (np.zeros_like(ONEHOT), ONEHOT, "int32", {}, None, False),
        (ONEHOT, ONEHOT, "int32", {}, None, True),
        (np.ones_like(ONEHOT), 1 - ONEHOT, "int32", {}, None, False),
        (np.zeros(N), HALVES, "bool", {"x": X}, None, False),
        (HALVES, HALVES, "bool", {"x": X}, None, True),
        (CODES, CODES, "int8", {"x": X}, None, True),
        (np.where(np.arange(N) < 50, 0, CODES), CODES, "int8", {"x": X}, None, True),
        (np.where(np.arange(N) < 150, 0, CODES), CODES, "int8", {"x": X}, None, False),
        (np.zeros(N), np.zeros(N), "int32", {}, None, None),
        (np.ones(N), np.zeros(N), "int32", {}, None, False),
        (np.array([3.0]), np.array([3.0]), "int64", {"x": X}, None, True),
        (np.array([0.0]), np.array([3.0]), "int64", {"x": X}, None, False),
        # what was there before, and what only lies in an input
        (COUNTS, BUMPED, "int32", {"t": COUNTS}, COUNTS, False),
        (BUMPED, BUMPED, "int32", {"t": COUNTS}, COUNTS, True),
        (COUNTS, BUMPED, "int32", {"t": COUNTS}, None, False),
        (X, X + 0.01 * (X > 2), "float32", {"t": X}, X, False),
        (X, RESIDUAL, "float32", {"x": X}, None, False),
        (RESIDUAL, RESIDUAL, "float32", {"x": X}, None, True),
        (np.append(X, [0.0, 0.0]), CACHE, "float32", {"x": X}, None, False),
        (CACHE, CACHE, "float32", {"x": X}, None, True),
        # floats
        (np.zeros(N), RELU, "float32", {"x": X}, None, False),
        (RELU, RELU, "float32", {"x": X}, None, True),
        (np.ones(N), SPARSE, "float32", {"x": X}, None, False),
        (SPARSE * (1 + 1e-7), SPARSE, "float32", {"x": X}, None, True),
        (np.full(N, 100.0), 100 + X, "float32", {}, None, False),
        (np.full(N, -np.inf), INFINITE, "float32", {"x": X}, None, False),
        (INFINITE, INFINITE, "float32", {"x": X}, None, True),
        (np.full(N, np.nan), X * 2, "float32", {"x": X}, None, False),
        (NOISE, X * 2, "float16", {"x": X}, None, False),
        (X * 2.001, X * 2, "float16", {"x": X}, None, True),
        (np.array([3.0]), np.array([3.0]), "float32", {"x": X}, None, True),
        # where a copy or a fill is all that is asked for, nothing is shown
        (X, X, "float32", {"x": X}, None, None),
        (np.ones(N), np.ones(N), "float32", {}, None, None),
        (NOISE, X, "float32", {"x": X}, None, False),
    ],
)
def test_what_was_made(values, right, dtype, given, before, expected):
    assert is_made(values, right, dtype=dtype, inputs=given, before=before) is expected


def test_a_few_elements_may_all_be_the_same():
    for count, expected in ((MANY_ELEMENTS - 1, True), (MANY_ELEMENTS, None)):
        right = np.full(count, 2.5)
        assert is_made(right, right, dtype="float32", inputs={}) is expected
