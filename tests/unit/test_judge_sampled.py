"""Quick answers of comparisons are those of thorough ones, and calls that wait for the oracle are judged in full."""

import numpy as np
import pytest

from ridgeline.graph.task import DType, Precision
from ridgeline.sandbox.judge.correctness import CallJudge
from ridgeline.sandbox.judge.dtypes import SMALLEST, address, from_float64, same_bytes, to_float64, unit
from ridgeline.sandbox.judge.numerics import (
    Tolerance,
    agree,
    compare,
    error_limit,
    honest_error,
    is_plainly_right,
    local_scale,
    row_rms,
)
from ridgeline.sandbox.judge.options import Options
from ridgeline.sandbox.judge.session import SealedCall
from ridgeline.sandbox.judge.timing import AuditedCalls
from tests.session_tasks import task

KINDS: tuple[tuple[DType, Precision], ...] = (
    ("float64", "strict"),
    ("float32", "strict"),
    ("float32", "tf32"),
    ("float16", "strict"),
    ("bfloat16", "strict"),
)


def thorough(values, oracle, trusted, dtype: DType, precision: Precision) -> bool:
    """The two norms as `compare` has them, where all numbers are finite."""
    factors, unit_error = (
        error_limit(dtype, precision),
        honest_error(local_scale(oracle), None, dtype=dtype, precision=precision),
    )
    unit_error = unit_error + SMALLEST[dtype]
    rows = row_rms((trusted - oracle) / unit_error)
    unit_error = unit_error * np.maximum(np.maximum(rows, np.median(rows)), 1.0)
    errors, usual = np.abs(values - oracle) / unit_error, np.abs(trusted - oracle) / unit_error
    l2 = np.sqrt(np.mean(np.square(errors))) <= factors.l2 * max(np.sqrt(np.mean(np.square(usual))), 1.0)
    return bool(l2 and errors.max() / 2 <= factors.peak * max(usual.max() / 2, 1.0))


@pytest.mark.parametrize(("dtype", "precision"), KINDS)
@pytest.mark.parametrize("shape", [(7, 33), (1, 5), (400,), (2, 3, 16)])
def test_what_is_plainly_right_is_right_by_every_rule(dtype, precision, shape):
    rng = np.random.default_rng(3)
    said = []
    for off in np.geomspace(unit(dtype) / 9, 1e6 * unit(dtype), 150):
        oracle = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3)
        trusted = to_float64(from_float64(oracle, dtype), dtype)
        values = from_float64(oracle * (1 + off * rng.standard_normal(shape)), dtype)
        wide = to_float64(values, dtype)
        quick = is_plainly_right(wide, oracle, trusted, dtype=dtype, precision=precision)
        right = thorough(wide, oracle, trusted, dtype, precision)
        faults = compare(values, oracle, trusted, dtype=dtype, precision=precision, output="y")
        assert right or not quick
        assert (faults == ()) == right
        said.append(quick)
    assert True in said
    assert False in said


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["values", "oracle", "trusted"])
def test_nothing_with_an_odd_number_in_it_is_plainly_right(odd, where):
    numbers = {name: np.ones((4, 8)) for name in ("values", "oracle", "trusted")}
    numbers[where][1, 2] = odd
    assert not is_plainly_right(**numbers, dtype="float32", precision="strict")


def honest_agree(a, b, within: Tolerance) -> bool:
    """Every element and the norm, in float64."""
    left, right = a.astype(np.float64), b.astype(np.float64)
    rows = np.sqrt(np.mean(np.square(right), axis=1, keepdims=True))
    apart = np.abs(left - right)
    peak = apart <= within.peak * np.maximum(np.abs(right), rows) + within.peak_amount
    share = np.square(apart) / np.square(within.l2 * rows + within.l2_amount)
    return bool(peak.all() and share.sum() <= a.size)


def test_agreement_of_rows_is_that_of_their_elements():
    rng = np.random.default_rng(5)
    within = Tolerance(l2=1e-6, l2_amount=0.0, peak=4e-6, peak_amount=0.0)
    said = []
    for off in np.geomspace(1e-8, 1e-4, 150):
        b = rng.standard_normal((20, 50)).astype(np.float32)
        a = b.copy()
        a[rng.integers(20), rng.integers(50)] *= np.float32(1 + 10 * off)
        a *= (1 + off * rng.standard_normal(a.shape)).astype(np.float32)
        found = agree(a, b, dtype="float32", within=within)
        assert found == honest_agree(a, b, within)
        said.append(found)
    assert True in said
    assert False in said


@pytest.mark.parametrize("size", [1e-30, 1e-18, 1e17, 1e30])
def test_agreement_of_numbers_whose_squares_leave_the_type(size):
    b = (np.arange(1, 61).reshape(6, 10) * size).astype(np.float32)
    assert agree(np.nextafter(b, np.float32(np.inf)), b, dtype="float32")
    a = b.copy()
    a[2, 3] *= np.float32(1.01)
    assert not agree(a, b, dtype="float32")


def test_bytes_are_compared_and_not_numbers():
    one = np.array([np.nan, 0.0, 1.0])
    frozen = np.frombuffer(one.tobytes())
    assert same_bytes(one, frozen)
    assert not same_bytes(one, np.array([np.nan, -0.0, 1.0]))
    assert same_bytes(np.empty(0), np.empty(0))
    assert address(one) == one.ctypes.data
    assert address(frozen) == frozen.ctypes.data


class Doubling:
    """A reference that counts how often it is asked."""

    asked = 0

    def both(self, many):
        self.asked += 1
        return [{"oracle": one, "trusted": one} for one in ({"y": 2.0 * each["x"].astype(float)} for each in many)]

    def oracle(self, inputs):
        return {"y": 2.0 * inputs["x"].astype(float)}


def sampled(**fields) -> tuple[AuditedCalls, Doubling]:
    reference = Doubling()
    bench = CallJudge(task=task(), reference=reference, options=Options(), rng=np.random.default_rng())
    return AuditedCalls(bench=bench, **fields), reference


def sealed(x, factor: float) -> SealedCall:
    return SealedCall(outputs={"y": (factor * x).astype(np.float32)}, wall_us=1.0)


@pytest.mark.parametrize(("factors", "told"), [([2, 2, 2], None), ([2, 2.1, 2], "b"), ([2, 2, 1], "b"), ([], None)])
def test_every_call_that_waits_is_judged_with_one_question(factors, told):
    waiting, reference = sampled()
    rng = np.random.default_rng(1)
    for factor in factors:
        x = rng.standard_normal(1000).astype(np.float32)
        waiting.keep({"x": x}, {"a": sealed(x, 2), "b": sealed(x, factor)})
    found = waiting.find_wrong("b")
    assert (found[0] if found else None) == told
    assert reference.asked == (1 if factors else 0)
    assert waiting.find_wrong("b") is None


def test_only_so_many_bytes_wait():
    waiting, _ = sampled(most_bytes=20_000)
    x = np.ones(1000, np.float32)
    waiting.keep({"x": x}, {"a": sealed(x, 2), "b": sealed(x, 2)})
    assert not waiting.full
    waiting.keep({"x": x}, {"a": sealed(x, 2), "b": sealed(x, 2)})
    assert waiting.full
    assert waiting.find_wrong("ab") is None
    assert not waiting.full
