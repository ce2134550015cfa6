"""Floors of time and the slope of the judge's own clock, as tables of cases."""

import numpy as np
import pytest

from ridgeline.sandbox.judge.timing import bytes_floor_us, claim_holds, floor_us, flops_floor_us, is_possible, slope_us


@pytest.mark.parametrize(
    ("bytes_min", "flops", "gbps", "gflops", "floor"),
    [
        (1e6, None, 100, None, 9.5),
        (None, 2e9, None, 1e3, 1900.0),
        (1e6, 2e9, 100, 1e3, 1900.0),
        (1e9, 2e9, 100, 1e3, 9500.0),
        (1e6, 2e9, None, None, 0.0),
        (0, 0, 100, 100, 0.0),
    ],
)
def test_floor(bytes_min, flops, gbps, gflops, floor):
    assert floor_us(bytes_min, flops, copy_gbps=gbps, peak_gflops=gflops) == pytest.approx(floor)
    assert max(bytes_floor_us(bytes_min, gbps), flops_floor_us(flops, gflops)) == pytest.approx(floor)


@pytest.mark.parametrize(
    ("time_us", "answer"),
    [
        (10.0, "yes"),
        (9.9, "escalate"),
        (5.0, "escalate"),
        (4.99, "no"),
        (0.0, "no"),
        (-1.0, "no"),
        (float("nan"), "no"),
    ],
)
def test_below_the_bytes_is_impossible_and_below_the_operations_a_question(time_us, answer):
    assert is_possible(time_us, bytes_us=5.0, flops_us=10.0, empty_us=1.0) == answer


def test_nothing_is_faster_than_an_empty_call():
    assert is_possible(1.8, bytes_us=0.0, flops_us=0.0, empty_us=2.0) == "no"
    assert is_possible(1.9, bytes_us=0.0, flops_us=0.0, empty_us=2.0) == "yes"
    assert is_possible(0.0, bytes_us=0.0, flops_us=0.0, empty_us=0.0) == "no"


def test_a_line_has_its_slope_and_no_error():
    assert slope_us([(1, 105.0), (10, 150.0), (20, 200.0)]) == pytest.approx((5.0, 0.0), abs=1e-9)


def test_the_error_of_a_slope_is_its_spread():
    rng = np.random.default_rng(0)
    steps = np.repeat([10, 20, 40], 4)
    found = [slope_us([(int(m), 50 + 7 * m + rng.normal(0, 3)) for m in steps]) for _ in range(400)]
    slopes, errors = np.array(found).T
    assert slopes.mean() == pytest.approx(7, abs=0.02)
    assert errors.mean() == pytest.approx(slopes.std(), rel=0.1)


@pytest.mark.parametrize("chains", [[], [(1, 2.0)], [(1, 2.0), (2, 3.0)], [(4, 2.0), (4, 2.1), (4, 2.2)]])
def test_too_few_chains_have_no_slope(chains):
    with pytest.raises(ValueError, match="three chains"):
        slope_us(chains)


@pytest.mark.parametrize(
    ("wall", "claimed", "error", "holds"),
    [(50, 50, 0, True), (40, 50, 0, True), (39.9, 50, 0, False), (0, 50, 5, False), (25, 50, 5, True), (0, 0, 0, True)],
)
def test_a_claim_needs_the_judges_clock(wall, claimed, error, holds):
    assert claim_holds(wall_gain_us=wall, claimed_gain_us=claimed, error_us=error) is holds
