"""The rules of a bisection by a metric."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.agent.bench.bisect import Bounds, Verdicts


@pytest.mark.feature("F119")
def test_the_documents_threshold_and_what_is_close_to_it():
    bounds = Bounds(good=142.3, bad=198.7)
    assert bounds.threshold == pytest.approx(159.22)
    assert bounds.judge([150, 159.2, 170]) == "good"
    assert bounds.judge([150, 159.3, 170]) == "bad"
    assert bounds.judge([]) == "unknown"
    assert bounds.is_close(144)
    assert not bounds.is_close(143)
    assert bounds.regression == pytest.approx(0.396, abs=1e-3)


@pytest.mark.feature("F119")
def test_a_throughput_is_bad_below_its_threshold():
    bounds = Bounds(good=100, bad=50)
    assert bounds.threshold == 85
    assert (bounds.judge([86]), bounds.judge([84])) == ("good", "bad")


@pytest.mark.feature("F119")
@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1), st.sets(st.integers(0, n - 1))))
)
def test_the_first_bad_commit_is_found_or_named_with_those_that_nobody_could_measure(drawn):
    count, culprit, broken = drawn
    broken = broken - {count - 1}
    verdicts, steps = Verdicts(answers=(*(None for _ in range(count - 1)), "bad")), 0
    while (at := verdicts.choose_next()) is not None:
        answer = "unknown" if at in broken else "bad" if at >= culprit else "good"
        verdicts = Verdicts(answers=(*verdicts.answers[:at], answer, *verdicts.answers[at + 1 :]))
        steps += 1
    assert culprit in verdicts.suspects()
    assert set(verdicts.suspects()[:-1]) <= broken
    if not broken:
        assert verdicts.suspects() == (culprit,)
        assert steps <= count.bit_length()
