"""The rules of others, as simulated, do what is written about them; the machine has the noise it says."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from tests.bench.fields import RULES, any_smaller, flat, three_times, twice
from tests.bench.simulation import cases
from tests.bench.simulation_machine import HARSH, OUTLIER_MEAN, OUTLIERS, WANDER, Machine
from tests.bench.simulation_search import GAINS, NULL, SLOWEST, WORSE, candidates, searched, searched_by
from tests.builders import make_limits

COUNT = 20_000
SD = 0.01
PLAIN = Machine(name="only the pair's own noise", noise=1e-6, bias=SD)
"""One measured ratio has standard deviation SD, which is what the closed forms are for."""
normal = NormalDist().cdf


def rate(rule, gain: float, machine: Machine = PLAIN) -> float:
    return float(rule(machine, np.random.default_rng(7), np.full(COUNT, math.log1p(gain))).kept.mean())


@pytest.mark.parametrize("gain", [-0.01, 0.0, 0.005, 0.02])
def test_rules_of_one_ratio_match_their_closed_forms(gain):
    truth, line = math.log1p(gain), math.log1p(0.01)
    above, positive = 1 - normal((line - truth) / SD), normal(truth / SD)
    assert rate(any_smaller, gain) == pytest.approx(positive, abs=0.01)
    assert rate(flat, gain) == pytest.approx(above, abs=0.01)
    assert rate(twice, gain) == pytest.approx(above + (positive - above) * positive, abs=0.01)


def test_three_readings_accept_what_is_above_two_per_cent_at_once_and_cost_more_below():
    found = three_times(PLAIN, np.random.default_rng(7), np.full(COUNT, 0.0))
    assert set(found.runs) == {2.0, 8.0}
    assert found.kept[(found.runs == 2) & (found.claimed > math.log(1.02))].all()
    assert not found.kept[found.claimed < 0].any()


@pytest.mark.parametrize("name", RULES)
def test_every_rule_drops_what_is_much_slower_and_answers_for_each_candidate(name):
    found = RULES[name](HARSH, np.random.default_rng(1), np.full(100, math.log1p(-0.2)))
    assert not found.kept.any()
    assert found.kept.shape == found.claimed.shape == found.runs.shape == (100,)


def test_a_process_pair_has_the_bias_and_the_noise_that_are_stated():
    machine = Machine(name="m", noise=0.01)
    pairs = machine.pairs(np.random.default_rng(3), 400, 10, blocks=5)
    assert pairs.std() == pytest.approx(math.hypot(0.01, 0.003), rel=0.05)
    inside = (pairs - pairs.mean(axis=2, keepdims=True)).std() * math.sqrt(5 / 4)
    assert inside == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"wander": True}, WANDER), ({"outliers": True}, math.sqrt(2 * OUTLIERS) * OUTLIER_MEAN), ({}, 0.0)],
)
def test_what_disturbs_timings_has_the_size_that_is_stated(fields, expected):
    logs = Machine(name="m", noise=1e-9, **fields).disturbed(np.random.default_rng(3), 4000, 20)
    assert logs.std() == pytest.approx(expected, rel=0.1, abs=1e-6)


def test_warm_up_is_cancelled_by_the_order_of_blocks_on_average():
    machine = Machine(name="m", noise=1e-9, bias=0.0, warm_up=True)
    pairs = machine.pairs(np.random.default_rng(3), 2000, 1, blocks=5)
    assert abs(pairs.mean()) < 1e-5
    assert np.abs(pairs).max() < 1e-4
    best, candidate = machine.runs(np.random.default_rng(3), 10, timings=20)
    assert (best.mean() - candidate.mean()) > 0.003


def test_candidates_are_mixed_as_stated_and_more_searches_begin_alike():
    many = candidates(np.random.default_rng(5), 500)
    gain = np.expm1(many)
    assert (gain == 0).mean() == pytest.approx(NULL, abs=0.01)
    assert (gain < 0).mean() == pytest.approx(WORSE, abs=0.01)
    assert gain.min() >= SLOWEST
    assert (gain[gain > 0].min(), gain.max()) == (pytest.approx(GAINS[0], abs=1e-3), pytest.approx(GAINS[1], abs=1e-3))
    assert np.array_equal(candidates(np.random.default_rng(5), 20), many[:20])


def test_a_search_by_a_loose_rule_claims_what_is_not_there_and_ours_does_not():
    machine = Machine(name="m", noise=0.01)
    loose = searched_by(any_smaller, machine, 50, seed=(1,))
    ours = searched(machine, 4, make_limits(), seed=(1,))
    assert loose.claimed > loose.real + 0.03
    assert ours.at_least < ours.real + 0.005
    assert ours.wrong == 0


def test_cases_have_names_and_seeds_of_their_own():
    named = [(case.table, case.name) for case in cases()]
    assert len(set(named)) == len(named)
    assert len({tuple(case.seed) for case in cases()}) == len(named)


@pytest.mark.parametrize("table", ["grid", "robust", "field", "search"])
def test_the_same_case_gives_the_same_numbers(table):
    case = next(case for case in cases() if case.table == table)
    assert case.work(case, 20) == case.work(case, 20)
