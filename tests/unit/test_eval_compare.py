"""Paired comparison of answers: what is significant, what is small, and what the numbers mean."""

import random
import statistics

import pytest

from ridgeline.evals.decisions.scores import ALPHA, DECIDES, LEAST_CAMPAIGNS, METRICS, Score, _holm, compare


def answer(usable: float, **more) -> Score:
    return Score(parses=True, directions=3, usable=usable, tokens=100, **more)


def pairs(values, *, campaigns=8, points=4):
    """(first, second) of `usable` for each point; `values` gives them by number of campaign and point."""
    return {
        (f"campaign {c}", f"point {p}"): tuple(map(answer, values(c, p)))
        for c in range(campaigns)
        for p in range(points)
    }


def decided(found):
    return next(one for one in found.differences if one.metric == DECIDES)


def test_a_clear_loss_in_every_campaign_is_seen():
    found = compare("a", "b", "propose", pairs(lambda c, p: (1.0, 0.5 if p else 0.75)))
    assert found.verdict == "worse"
    one = decided(found)
    assert one.p == 2 / 2**8
    assert one.high < 0
    assert (one.first, one.second) == (1.0, 0.5625)
    assert one.low <= one.difference <= one.high


def test_no_difference_is_none():
    found = compare("a", "b", "propose", pairs(lambda c, p: (0.8, 0.8)))
    assert found.verdict == "no difference shown"
    assert (decided(found).p, decided(found).low, decided(found).high) == (1.0, 0, 0)


@pytest.mark.slow
def test_noise_alone_is_rarely_called_a_difference():
    wrong = 0
    for seed in range(16):
        draw = random.Random(seed)
        found = compare("a", "b", "propose", pairs(lambda c, p: (draw.random(), draw.random()), points=2))  # noqa: B023
        wrong += found.verdict != "no difference shown"
    assert wrong <= 4, f"{wrong} of 16; one is expected, and 5 or more come once in a thousand"


def test_points_of_one_campaign_are_not_many_witnesses():
    found = compare("a", "b", "propose", pairs(lambda c, p: (1.0, 0.0 if c == 0 else 1.0), points=20))
    assert found.verdict == "no difference shown", "one campaign of eight"
    assert decided(found).low < 0 <= decided(found).high


def test_few_campaigns_and_few_points_are_said():
    found = compare("a", "b", "propose", pairs(lambda c, p: (1.0, 0.0), campaigns=2, points=5))
    assert any("few" in note for note in found.notes)
    assert any("too sure" in note for note in found.notes)
    many = compare("a", "b", "propose", pairs(lambda c, p: (1.0, 0.0), campaigns=LEAST_CAMPAIGNS, points=6))
    assert many.notes == ()


def test_a_score_that_one_side_lacks_is_compared_where_both_have_it():
    both = {
        ("c", "1"): (answer(1.0, resolved=1.0), answer(1.0)),
        ("c", "2"): (answer(1.0, resolved=1.0), answer(1.0, resolved=0.0)),
    }
    found = compare("a", "b", "propose", both)
    one = next(one for one in found.differences if one.metric == "citations resolve")
    assert (one.points, one.difference, one.low) == (1, -1.0, None)


def test_less_is_better_of_repeats_and_neither_of_tokens():
    def values(c, p):
        return answer(1.0, repeats=0.0), answer(1.0, repeats=1.0).model_copy(update={"tokens": 900})

    given = {(f"c{c}", f"p{p}"): values(c, p) for c in range(9) for p in range(4)}
    told = {one.metric: one.verdict for one in compare("a", "b", "propose", given).differences}
    assert told["repeats"] == "worse"
    assert told["tokens"] == ""


def test_nothing_in_common_is_no_comparison():
    assert compare("a", "b", "propose", {}) is None


def test_holm_is_holms():
    assert _holm([0.01, 0.04, 0.03, None]) == pytest.approx([0.03, 0.06, 0.06, None])
    assert _holm([0.6, 0.7]) == [1.0, 1.0]


def test_what_decides_is_not_corrected_and_the_rest_is():
    draw = random.Random(3)
    given = {
        (f"c{c}", f"p{p}"): (answer(1.0, cites=1.0, one_change=1.0), answer(0.5, cites=0.5, one_change=draw.random()))
        for c in range(6)
        for p in range(3)
    }
    told = {one.metric: one for one in compare("a", "b", "propose", given).differences}
    assert told[DECIDES].p == 2 / 2**6 <= ALPHA
    assert told["cites"].p > told[DECIDES].p
    assert set(told) <= set(METRICS)
    assert statistics.fmean([told["cites"].first]) == 1.0
