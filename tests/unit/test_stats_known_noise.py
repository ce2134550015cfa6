"""Calibrating ends early where noise is small for sure, and that makes no false gains. The long form is `make bench`."""

import pytest

from ridgeline.graph.limits import Limits
from ridgeline.graph.rules.calibration import make_known_noise
from ridgeline.graph.stats.noise import estimate_noise
from tests.bench.known_noise import EDGE, KNOWN, LIMITS, MACHINES, STILL, count_pairs
from tests.bench.simulation_machine import Machine
from tests.bench.simulation_ours import compared, judged

LOUD = Machine(name="pair sd 1 %", noise=0.02, bias=0.008)


def test_a_still_machine_is_calibrated_by_four_pairs_and_a_loud_one_by_all():
    assert set(count_pairs(STILL, 200)) == {4}
    assert count_pairs(LOUD, 200).count(LIMITS.calibration_pairs) >= 190
    assert {*count_pairs(EDGE, 200)} >= {4, 6, 8}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_candidates_without_a_gain_or_just_at_the_margin_are_kept_less_often_than_stated(machine):
    null, margin = judged(machine, [(0.0, 400), (LIMITS.margin, 400)], LIMITS, seed=(20261123,))
    assert null.rate <= LIMITS.alpha
    assert margin.rate <= LIMITS.alpha


def test_one_loud_shape_keeps_the_calibration_going():
    quiet = [[0.0001, -0.0001], [0.0, 0.0001], [-0.0001, 0.0001], [0.0, 0.0]]
    loud = [[0.02, 0.02], [-0.02, -0.02], [0.02, 0.02], [-0.02, -0.02]]
    (shape,) = compared(quiet).shapes
    assert KNOWN.holds((shape,))
    assert not KNOWN.holds((shape, shape.model_copy(update={"label": "loud", "pairs": loud})))


def test_a_difference_of_identical_versions_that_is_known_well_ends_calibrating_and_is_charged():
    steady = compared([[0.0010, 0.0010], [0.0011, 0.0011], [0.0009, 0.0009], [0.0010, 0.0010]])
    assert KNOWN.holds(steady.shapes)
    noise = estimate_noise((steady,))
    assert noise is not None
    assert 0.001 < noise.allowance < 0.002
    doubtful = compared([[0.0030, 0.0030], [-0.0005, -0.0005], [0.0030, 0.0030], [-0.0015, -0.0015]])
    assert not KNOWN.holds(doubtful.shapes), "luck explains it, so it would not be charged"
    assert estimate_noise((doubtful,)).allowance == 0


def test_campaigns_on_record_calibrate_as_they_did():
    assert make_known_noise(Limits()) is None
    assert "calibration_looks" not in Limits().model_dump()
    assert LIMITS.calibration_pairs == 16
