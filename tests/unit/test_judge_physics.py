"""Floors of time and claims against the judge's own clock, as tables of cases."""

import pytest

from ridgeline.sandbox.judge.timing import MOST_TOO_FAST, bytes_floor_us, claim_holds, is_too_fast


@pytest.mark.parametrize(
    ("bytes_min", "gbps", "floor"), [(1e6, 100, 9.5), (None, 100, 0.0), (1e6, None, 0.0), (0, 100, 0.0)]
)
def test_the_floor_of_bytes(bytes_min, gbps, floor):
    assert bytes_floor_us(bytes_min, gbps) == pytest.approx(floor)


@pytest.mark.parametrize(
    ("wall", "claimed", "error", "holds"),
    [(50, 50, 0, True), (40, 50, 0, True), (39.9, 50, 0, False), (0, 50, 5, False), (25, 50, 5, True), (0, 0, 0, True)],
)
def test_a_claim_needs_the_judges_clock(wall, claimed, error, holds):
    assert claim_holds(wall_gain_us=wall, claimed_gain_us=claimed, error_us=error) is holds


def test_scatter_of_the_clock_is_no_impossible_speed_and_work_left_out_is():
    floor_us, usual, impossible = 2.0, [3.0] * 40, [0.1] * (MOST_TOO_FAST + 1)
    assert not is_too_fast([*usual, *impossible], floor_us), "a few readings of many, whatever their place"
    assert not is_too_fast([*impossible[1:], *usual], floor_us)
    assert not is_too_fast(impossible[1:], floor_us), "a few alone say nothing"
    assert is_too_fast(impossible, floor_us)
    assert is_too_fast([3.0, 0.1] * 20, floor_us), "every other one"
    calls = list(usual)
    while not is_too_fast(calls, floor_us):
        calls.append(0.1)
    assert len(calls) == 2 * len(usual), "a version that leaves its work out from some call on is refused in the end"
