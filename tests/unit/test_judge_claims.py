"""On a card the worker's own timer is a claim: what the judge's clock must show before a gain counts."""

import math
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ridgeline.graph.judgment import TimedCall
from ridgeline.graph.stats.intervals import student_quantile
from ridgeline.graph.stats.noise import estimate_noise
from ridgeline.graph.stats.sequential import estimate_gain
from ridgeline.sandbox.judge.judgment import CandidateJudgment, Gain, to_comparison
from ridgeline.sandbox.judge.options import Options, answer_yes
from ridgeline.sandbox.judge.provenance import Work
from ridgeline.sandbox.judge.timing import CLAIM_TAIL, STANDARD_ERRORS, TimedPairs, claim_holds, measure_claims

STEADY = [(40.0 + one % 3, 42.0) for one in range(20)]
NOISY = [(40.0 + 400 * (-1) ** one, 42.0) for one in range(20)]
SLOWER = [(-3.0 + one % 3, -2.0) for one in range(20)]
LOADS = Work(answered=answer_yes(), reaches=("can load other code: dlsym",))
OWN = Work(answered=answer_yes())


def calls(log_ratio: float) -> list[TimedCall]:
    """One process pair of two blocks, b faster by that."""
    times = {"a": 100.0, "b": 100.0 * math.exp(-log_ratio)}
    return [
        TimedCall(label="s", block=block, slot=slot, side=side, time_us=times[side], claimed_us=None, at_us=0.0)
        for block in range(2)
        for slot, side in enumerate("abba")
    ]


def gain(*log_ratios: float, calibration: tuple[float, ...] = (0.004, -0.004, 0.003, -0.003)) -> Gain:
    """What process pairs with these gains say, after pairs of identical versions with those."""
    limits = Options().limits
    noise = estimate_noise([to_comparison([calls(one) for one in calibration], "old", "old")]) if calibration else None
    pairs = to_comparison([calls(one) for one in log_ratios], "old", "new")
    return Gain(estimate=estimate_gain([pairs], noise, limits), limits=limits, calibration_pairs=len(calibration))


FAST = gain(0.5, 0.5, 0.51, 0.5)
EVEN = gain(0.0, 0.001, -0.001, 0.0)


def pairs(**gains):
    return TimedPairs(bench=SimpleNamespace(), gains=gains)


def test_what_the_clock_shows_is_a_trimmed_mean_and_its_error():
    wall, claimed = measure_claims([(1000.0, 5.0), (9.0, 5.0), (10.0, 5.0), (11.0, 5.0), (-900.0, 5.0)])
    assert (wall.mean_us, claimed) == (10.0, 5.0)
    assert wall.error_us == pytest.approx(5**0.5 / 3 * student_quantile(CLAIM_TAIL, 2) / STANDARD_ERRORS), (
        "of 9, 9, 10, 11, 11: what was cut counts as the nearest that was not"
    )
    assert measure_claims([(3.0, 2.0)])[0].error_us == float("inf"), "one pair shows nothing"


def test_identical_versions_do_not_contradict_themselves():
    """The judge's clock scatters by tens of microseconds on a card, six sizes in each of hundreds of process pairs."""
    chance, refused = random.Random(7), 0
    for _ in range(20_000):
        gains = [(chance.gauss(0.0, 80.0), chance.gauss(0.0, 0.5)) for _ in range(chance.choice((5, 10, 20)))]
        wall, claimed = measure_claims(gains)
        refused += claimed > 0 and not claim_holds(
            wall_gain_us=wall.mean_us, claimed_gain_us=claimed, error_us=wall.error_us
        )
    assert refused < 20


@pytest.mark.parametrize(
    ("gains", "seen"),
    [
        ({"s": STEADY}, True),
        ({"s": NOISY}, False),
        ({"s": SLOWER}, True),  # nothing is claimed
        ({"s": STEADY, "t": NOISY}, False),
        ({}, True),  # a processor: the judge's clock is the only one
    ],
)
def test_a_size_whose_claimed_gain_the_clock_does_not_show_is_named(gains, seen):
    said = pairs(**gains).find_unseen_gain()
    assert (said is None) == seen
    if said:
        assert "only the worker's own timer shows the gain of 42.0 us" in said
        assert said.startswith("t" if "t" in gains else "s")


@pytest.mark.parametrize(
    ("gain", "gains", "work", "without", "answer"),
    [
        (FAST, NOISY, LOADS, (), "unverified"),
        (FAST, NOISY, OWN, (), "yes"),
        (FAST, STEADY, LOADS, (), "yes"),
        (FAST, NOISY, LOADS, ("own_clock",), "yes"),
        (EVEN, NOISY, LOADS, (), "no"),
    ],
)
def test_such_a_gain_counts_only_for_code_that_was_not_seen_to_reach_the_timer(gain, gains, work, without, answer):
    judge = CandidateJudgment(
        task=None, reference=None, new=None, old=None, options=Options(without=frozenset(without))
    )
    found = judge._discount_unseen_gain(gain, pairs(s=gains), work)
    assert found.answer == answer
    if answer == "unverified":
        assert found.evidence[0].startswith("1.6")
        assert "which the candidate could change: can load other code: dlsym" in found.evidence[1]


def test_the_judge_goes_by_the_rule_of_campaigns():
    assert gain(0.5, 0.5, 0.51, 0.5).decision == "faster"
    assert gain(0.5, 0.5, 0.51, 0.5).speedup_lower == pytest.approx(1.6, abs=0.05)
    assert gain(-0.2, -0.2, -0.2, -0.2).answer.answer == "no"
    assert gain(0.05, -0.05, 0.06, -0.02).answer.answer == "unverified"


def test_what_favours_one_side_of_identical_versions_is_no_gain():
    lopsided = (0.0201, 0.0199, 0.02, 0.0202)
    assert gain(0.021, 0.02, 0.0205, 0.0202, calibration=lopsided).answer.answer != "yes"
    assert gain(0.021, 0.02, 0.0205, 0.0202).answer.answer == "yes", "without the offset it would be one"


def test_nothing_is_faster_while_nothing_bounds_it():
    alone = gain(0.5, 0.5, calibration=())
    assert (alone.answer.answer, alone.speedup_lower) == ("unverified", None)
    assert "at least" not in alone.answer.evidence[0]


def test_a_size_that_lost_is_named():
    def both(log_ratio: float, other: float) -> list[TimedCall]:
        return [*calls(log_ratio), *(replace(call, label="t") for call in calls(other))]

    noise = estimate_noise([to_comparison([both(one, -one) for one in (0.002, -0.002, 0.001)], "old", "old")])
    pairs = to_comparison([both(0.5, -0.3)] * 6, "old", "new")
    found = Gain(estimate=estimate_gain([pairs], noise, Options().limits), limits=Options().limits, calibration_pairs=3)
    assert (found.answer.answer, found.answer.evidence[1:]) == ("no", ("t is slower",))
