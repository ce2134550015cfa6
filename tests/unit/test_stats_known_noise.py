"""Calibrating ends early where noise is small for sure, and that makes no false gains. The long form is `make bench`."""

import numpy as np
import pytest
from scipy.stats import chi2

from ridgeline.graph.limits import PRESETS, Limits
from ridgeline.graph.rules.calibration import make_known_noise
from ridgeline.graph.stats.intervals import chi_square_quantile
from ridgeline.graph.stats.noise import KNOWN_ALPHA, KNOWN_SHARE
from tests.bench.simulation_machine import Machine
from tests.bench.simulation_ours import compared, judged

LIMITS = PRESETS["evidence"]
KNOWN = make_known_noise(LIMITS)
STILL = Machine(name="pair sd 0.01 %", noise=0.0001, bias=0.0001)
EDGE = Machine(name="pair sd a quarter of the margin", noise=0.0003, bias=KNOWN_SHARE * LIMITS.margin)
MACHINES = (
    STILL,
    Machine(name="pair sd 0.05 %", noise=0.0003, bias=0.0005),
    EDGE,
    Machine(name="pair t5, sd a quarter of the margin", noise=0.0003, bias=KNOWN_SHARE * LIMITS.margin, tails="t5"),
    Machine(name="identical versions differ by 0.1 %", noise=0.0003, bias=0.0005, offset=0.001),
)


def count_pairs(machine: Machine, runs: int) -> list[int]:
    """How many pairs each of so many calibrations of that machine takes."""
    draw = np.random.default_rng(20261123)
    calibrations = machine.pairs(draw, runs, LIMITS.calibration_pairs, blocks=LIMITS.blocks).tolist()
    return [
        next((look for look in KNOWN.looks if KNOWN.holds(compared(run[:look]).shapes)), LIMITS.calibration_pairs)
        for run in calibrations
    ]


@pytest.mark.parametrize("degrees", [1, 2, 3, 5, 11, 40])
@pytest.mark.parametrize("tail", [0.0025, 0.01, 0.5, 0.99])
def test_the_quantile_is_that_of_the_tables(degrees, tail):
    assert chi_square_quantile(tail, degrees) == pytest.approx(float(chi2.ppf(tail, degrees)), rel=1e-9)


def test_a_still_machine_is_calibrated_by_four_pairs_mostly_and_a_common_one_by_all():
    still, common = count_pairs(STILL, 200), count_pairs(Machine(name="common", noise=0.005), 200)
    assert set(still) <= {4, 6, 8}
    assert still.count(4) >= 150
    assert set(common) == {LIMITS.calibration_pairs}


def test_noise_as_large_as_may_be_missed_ends_early_no_oftener_than_stated():
    """A little above the bound, since blocks add to the scatter of pairs; half again for the luck of 2000."""
    early = [pairs for pairs in count_pairs(EDGE, 2000) if pairs < LIMITS.calibration_pairs]
    assert len(early) <= 1.5 * 2000 * KNOWN_ALPHA


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


def test_campaigns_on_record_calibrate_as_they_did():
    assert make_known_noise(Limits()) is None
    assert "calibration_looks" not in Limits().model_dump()
    assert LIMITS.calibration_pairs == 16
