"""A pair that the machine disturbed is made up for by another one; what it would have said is never looked at."""

import math
import random
from pathlib import Path

import pytest

from ridgeline.agent.planner.history import was_disturbed
from ridgeline.graph.evidence import BenchmarkFailed, Comparison
from ridgeline.graph.limits import PRESETS, Limits
from ridgeline.graph.reports.rounds import validation
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules.acceptance import choose_measurement
from ridgeline.graph.standing import CompareWant
from ridgeline.graph.trial import Timed, find
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.builders import (
    CANDIDATE,
    make_history,
    make_judged,
    make_limits,
    make_noise,
    make_round,
    make_standing,
    make_traced,
)
from tests.judging import by_pairs, drive

LIMITS = make_limits()
UNCALIBRATED = make_standing(noise=None)
GAIN = math.log(2.5)
CAMPAIGNS = Path(__file__).parents[2] / "evals" / "campaigns"


def failure(reason="unstable"):
    return BenchmarkFailed(commit=CANDIDATE, reason=reason, detail="others took the core", seconds=2.0)


def losing(draw, lost, reason="unstable"):
    """The world of `by_pairs` in which the pairs of these numbers fail."""
    world = by_pairs(draw)

    def answer(want):
        gone = isinstance(want, CompareWant) and want.first_pair in lost
        return failure(reason) if gone else world(want)

    return answer


def clean(label, pair):
    return (GAIN + 0.01 * (-1) ** pair,) * 5


@pytest.mark.parametrize("lost", [{1}, {4}, {3, 4}, {0, 1}, {0, 2, 4}, {0, 1, 3, 4, 6, 7}])
def test_a_large_gain_outlives_disturbed_pairs_where_nothing_was_calibrated(lost):
    verdict, asked = drive(losing(clean, lost), LIMITS, standing=UNCALIBRATED)
    assert (verdict.decision, verdict.reason) == ("accepted", "faster")
    assert verdict.gain == pytest.approx(1.5, abs=0.02)
    pairs = [first for first, _ in asked[1:]]
    assert pairs == list(range(len(pairs))), "another pair each time, never the same one again"
    assert verdict.lower == drive(by_pairs(_without(lost)), LIMITS, standing=UNCALIBRATED)[0].lower
    assert f"{len(lost)} of {len(pairs)} looks gave no pair, since the machine was disturbed" in " ".join(verdict.notes)


def _without(lost):
    """The pairs that are left, in order, as if there had been no others."""
    left = [pair for pair in range(20) if pair not in lost]
    return lambda label, pair: clean(label, left[pair])


@pytest.mark.parametrize("lost", [{0, 1, 2}, {4, 5, 6, 7}, {1, 3, 4, 5}])
def test_three_disturbed_pairs_in_a_row_leave_no_numbers(lost):
    verdict, asked = drive(losing(clean, lost), LIMITS, standing=UNCALIBRATED)
    assert (verdict.decision, verdict.reason, verdict.faster) == ("rolled_back", "benchmark_failed", "unverified")
    assert verdict.gain is None
    assert [number - asked[-1][0] for number, _ in asked[-3:]] == [-2, -1, 0]
    assert {number for number, _ in asked[-3:]} <= lost


def test_lost_pairs_spend_looks_so_that_nothing_is_timed_for_ever():
    lost = {number for number in range(40) if number % 3}
    verdict, asked = drive(losing(clean, lost), LIMITS, standing=UNCALIBRATED)
    assert [first for first, _ in asked[1:]] == list(range(12))
    assert (verdict.decision, verdict.reason) == ("rolled_back", "undecided"), "four pairs without a calibration"
    assert "8 of 12 looks" in " ".join(verdict.notes)


@pytest.mark.parametrize("reason", ["crash", "timeout", "not_a_number", "tampered"])
def test_a_failure_that_is_no_disturbance_ends_it_at_once(reason):
    verdict, asked = drive(losing(clean, {1}, reason), LIMITS)
    assert (verdict.reason, asked[-1]) == ("benchmark_failed", (1, 1))


def test_a_candidate_that_was_never_timed_beside_the_best_is_not_kept():
    verdict, _ = drive(losing(clean, {0, 1}), make_limits(looks=(1, 2)))
    assert (verdict.decision, verdict.reason, verdict.gain) == ("rolled_back", "undecided", None)
    assert "2 of 2 looks gave no pair" in " ".join(verdict.notes)


@pytest.mark.parametrize("preset", ["campaign", "router", "autonomous"])
def test_presets_without_pairs_make_up_for_nothing(preset):
    verdict, asked = drive(lambda want: failure(), make_limits(preset))
    assert (verdict.reason, len(asked)) == ("benchmark_failed", 1)


@pytest.mark.parametrize("odd", [0.5, 0.0, -0.5, -1.0])
@pytest.mark.parametrize("place", [2, 3, 4])
def test_a_large_gain_outlives_one_strange_pair_that_nothing_marks(odd, place):
    """It counts in full, for a time is no reason to leave a pair out; more pairs are timed until the bound holds."""
    draw = lambda label, pair: (odd,) * 5 if pair == place else clean(label, pair)  # noqa: E731
    verdict, asked = drive(by_pairs(draw), LIMITS, standing=UNCALIBRATED)
    calm, sooner = drive(by_pairs(clean), LIMITS, standing=UNCALIBRATED)
    assert (verdict.decision, calm.decision) == ("accepted", "accepted")
    assert len(asked) >= len(sooner) + (odd <= 0)
    assert verdict.lower < calm.lower
    assert verdict.gain < calm.gain


@pytest.mark.parametrize("theta", [0.0, math.log1p(LIMITS.margin)])
@pytest.mark.parametrize(
    "standing", [UNCALIBRATED, make_standing(noise=make_noise(sd=0.003))], ids=["uncalibrated", "calibrated"]
)
@pytest.mark.slow
def test_lost_pairs_make_no_false_gain(theta, standing):
    kept = 0
    for seed in range(150):
        source = random.Random(seed)
        pairs = [theta + source.gauss(0, 0.003) for _ in range(12)]
        lost = {number for number in range(12) if source.random() < 0.3}
        draw = lambda label, pair, pairs=pairs: (pairs[pair],) * 5  # noqa: E731
        kept += drive(losing(draw, lost), LIMITS, standing=standing)[0].accepted
    assert kept <= 5, "1 in 100 is promised; more than 5 of 150 has a chance of 1 in 250"


def test_what_a_recorded_campaign_gave_up_for_is_measured_on_today():
    """Three pairs of 2.5 to 3.4 times, then one disturbed: the record stands, and a new campaign takes another pair."""
    known = fold.fold_ledger(JsonlLedger(CAMPAIGNS / "layernorm_c_mailbox" / "ledger.jsonl").lines())
    closed = next(one for one in known.rounds if one.round == 3)
    timed = find(closed.judged, Timed)
    assert [type(item) for item in timed.evidence[1:]] == [Comparison, Comparison, Comparison, BenchmarkFailed]
    assert (closed.judged.verdict.reason, known.limits.lost_in_a_row) == ("benchmark_failed", 1)
    standing = fold.standing(known)
    assert standing.noise is None
    assert choose_measurement(timed, standing, known.limits) is None
    assert choose_measurement(timed, standing, PRESETS["evidence"]) == CompareWant(first_pair=4, pairs=1)


def test_a_record_from_before_reads_as_it_was_written():
    assert "lost_in_a_row" not in Limits().model_dump()
    assert Limits.model_validate({}).lost_in_a_row == 1
    assert PRESETS["evidence"].model_dump()["lost_in_a_row"] == 3


def test_pages_and_planner_do_not_call_a_decided_round_unmeasured():
    pair = by_pairs(clean)(CompareWant(first_pair=0, pairs=1))
    trial = make_traced(pair, failure(), pair)
    decided = make_judged("rolled_back", "undecided", trial=trial, gain=0.001)
    given_up = make_judged("rolled_back", "benchmark_failed", trial=trial, gain=None)
    assert (was_disturbed(decided), was_disturbed(given_up)) == (False, True)
    texts = [
        validation(make_history(closed), closed)
        for judged in (decided, given_up)
        for closed in (make_round(2, "rolled_back", judged=judged),)
    ]
    assert ["others took the core" in text for text in texts] == [False, True]
