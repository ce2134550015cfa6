"""What the default limits of preset `evidence` do to simulated candidates; the long form is `make bench`."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ridgeline.graph.stats.noise import estimate_noise
from ridgeline.graph.stats.sequential import smallest_visible_gain
from tests.bench.simulation_machine import GRID, HARSH, TAILS, Machine
from tests.bench.simulation_ours import calibrated, decided, judged
from tests.builders import BASE, make_comparison, make_limits, make_standing
from tests.judging import by_pairs, drive

LIMITS = make_limits()
SEED = (20260926,)
QUIET, TYPICAL, WORST, LOUD = (
    next(machine for machine in GRID if machine.name == name)
    for name in ("noise 0.5 %", "noise 1 %", "noise 1 %, all of these", "noise 2 %, all of these")
)


def named(machine: Machine) -> str:
    return machine.name


@pytest.mark.slow
@pytest.mark.parametrize("machine", [QUIET, WORST, LOUD, HARSH, TAILS], ids=named)
def test_a_candidate_without_a_gain_is_dropped_early_and_kept_at_most_once_in_a_hundred(machine):
    null, margin = judged(machine, [(0.0, 500), (LIMITS.margin, 500)], LIMITS, seed=SEED)
    assert null.rate <= LIMITS.alpha
    assert margin.rate <= LIMITS.alpha
    assert null.pairs <= 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "gain", "least"),
    [(QUIET, 0.01, 0.90), (TYPICAL, 0.02, 0.98), (WORST, 0.02, 0.98), (HARSH, 0.02, 0.80), (HARSH, 0.03, 0.98)],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_real_gain_is_mostly_seen(machine, gain, least):
    (found,) = judged(machine, [(gain, 200)], LIMITS, seed=SEED)
    assert found.rate >= least


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 5])
def test_noise_that_shows_inside_processes_too_keeps_the_error_rate(times):
    later = replace(TYPICAL, noise=times * TYPICAL.noise)
    null, margin = judged(TYPICAL, [(0.0, 400), (LIMITS.margin, 400)], LIMITS, seed=SEED, later=later)
    assert null.rate <= LIMITS.alpha
    assert margin.rate <= LIMITS.alpha


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.003, 0.01, 0.014])
@pytest.mark.parametrize("machine", [TYPICAL, HARSH], ids=named)
def test_what_favours_one_side_of_identical_versions_is_no_gain(machine, offset):
    (null,) = judged(replace(machine, offset=offset), [(0.0, 300)], LIMITS, seed=SEED)
    assert null.rate <= LIMITS.alpha


@pytest.mark.slow
@pytest.mark.parametrize("machine", [QUIET, TYPICAL, HARSH], ids=named)
def test_the_gain_that_is_called_visible_is_kept_nine_times_in_ten(machine):
    noise = calibrated(machine.pairs(np.random.default_rng(SEED), 1, 2000, blocks=LIMITS.blocks)[0].tolist())
    usual = LIMITS.calibration_pairs - 1
    as_usual = noise.model_copy(update={"squares": noise.squares / noise.degrees * usual, "degrees": usual})
    (found,) = judged(machine, [(smallest_visible_gain(as_usual, LIMITS), 500)], LIMITS, seed=SEED)
    assert 0.85 <= found.rate <= 0.95  # a calibration that ended early costs a little


@pytest.mark.parametrize("gain", [0.0, 0.005, 0.01, 0.02])
def test_the_simulation_decides_as_the_judge_does(gain):
    """It takes a short way, without records around the samples."""
    draw = np.random.default_rng(SEED)
    for _ in range(8):
        before = TYPICAL.pairs(draw, 1, LIMITS.calibration_pairs, blocks=LIMITS.blocks)[0].tolist()
        after = (TYPICAL.pairs(draw, 1, LIMITS.looks[-1], blocks=LIMITS.blocks)[0] + math.log1p(gain)).tolist()
        noise = calibrated(before)
        recorded = estimate_noise([make_comparison({"s": before}, candidate=BASE)])
        standing = make_standing({"s": 100.0}, noise=recorded)
        verdict, asked = drive(by_pairs(lambda _, pair, after=after: after[pair], ("s",)), LIMITS, standing=standing)
        stand, looked = decided(after, noise, LIMITS)
        assert verdict.accepted == (stand == "faster")
        assert sum(asked[-1]) == looked
