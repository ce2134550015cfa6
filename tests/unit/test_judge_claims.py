"""On a card the worker's own timer is a claim: what the judge's clock must show before a gain counts."""

from types import SimpleNamespace

import pytest

from ridgeline.sandbox.judge.judgment import CandidateJudgment, Gain
from ridgeline.sandbox.judge.options import Options, answer_yes
from ridgeline.sandbox.judge.provenance import Work
from ridgeline.sandbox.judge.timing import TimedPairs, measure_claims

STEADY = [(40.0 + one % 3, 42.0) for one in range(20)]
NOISY = [(40.0 + 400 * (-1) ** one, 42.0) for one in range(20)]
SLOWER = [(-3.0 + one % 3, -2.0) for one in range(20)]
LOADS = Work(answered=answer_yes(), reaches=("can load other code: dlsym",))
OWN = Work(answered=answer_yes())
FAST = Gain(means=(0.5, 0.5, 0.51, 0.5), options=Options())
EVEN = Gain(means=(0.0, 0.001, -0.001, 0.0), options=Options())


def pairs(**gains):
    return TimedPairs(bench=SimpleNamespace(), gains=gains)


def test_what_the_clock_shows_is_a_trimmed_mean_and_its_error():
    wall, claimed = measure_claims([(1000.0, 5.0), (9.0, 5.0), (10.0, 5.0), (11.0, 5.0), (-900.0, 5.0)])
    assert (wall.mean_us, claimed) == (10.0, 5.0)
    assert wall.error_us == pytest.approx(1 / 3**0.5)
    assert measure_claims([(3.0, 2.0)])[0].error_us == float("inf"), "one pair shows nothing"


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
