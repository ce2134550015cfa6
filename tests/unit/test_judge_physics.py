"""Floors of time and claims against the judge's own clock, as tables of cases."""

import pytest

from ridgeline.sandbox.judge.timing import bytes_floor_us, claim_holds


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
