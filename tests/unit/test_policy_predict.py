"""Predictions: confirmed, refuted or unclear, from two profiles."""

import pytest

from ridgeline.graph.rules.lessons import check_metric, check_prediction, check_round
from ridgeline.graph.values import Prediction
from tests.builders import (
    make_contract,
    make_hypothesis,
    make_judged,
    make_profiled,
    make_round,
    make_traced,
    make_verdict,
)


@pytest.mark.parametrize(
    ("direction", "ratio", "before", "after", "outcome"),
    [
        ("down", None, 100, 97.9, "confirmed"),
        ("down", None, 100, 98, "unclear"),
        ("down", None, 100, 102, "unclear"),
        ("down", None, 100, 102.1, "refuted"),
        ("up", None, 100, 102.1, "confirmed"),
        ("up", None, 100, 97.9, "refuted"),
        ("up", None, 100, 100, "unclear"),
        # a size was predicted
        ("down", 0.5, 100, 50, "confirmed"),
        ("down", 0.25, 100, 50, "confirmed"),
        ("down", 0.25, 100, 51, "unclear"),
        ("down", 0.5, 100, 100, "refuted"),
        ("down", 0.99, 100, 100, "unclear"),
        ("up", 4.0, 100, 199, "unclear"),
        ("up", 4.0, 100, 201, "confirmed"),
        ("down", 2.0, 100, 90, "confirmed"),
        ("down", 0.0, 100, 90, "confirmed"),
        # zero
        ("down", None, 0, 0, "unclear"),
        ("up", None, 0, 1, "confirmed"),
        ("down", None, 0, 1, "refuted"),
        ("down", 0.5, 100, 0, "confirmed"),
    ],
)
def test_outcome(direction, ratio, before, after, outcome):
    prediction = Prediction(counter="n", direction=direction, ratio=ratio)
    found = check_prediction(prediction, make_profiled({"n": before}), make_profiled({"n": after}))
    assert (found.before, found.after, found.expected, found.counter) == (before, after, direction, "n")
    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, {"n": 1.0}),
        ({"n": 100.0}, None),
        ({"m": 100.0}, {"n": 1.0}),
        ({"n": 100.0}, {"m": 1.0}),
        (None, None),
    ],
)
def test_missing_values_are_unclear(before, after):
    profiles = [None if counters is None else make_profiled(counters) for counters in (before, after)]
    assert check_prediction(Prediction(counter="n", direction="down"), *profiles).outcome == "unclear"


@pytest.mark.parametrize("other", [{"rung": "perf"}, {"machine": "elsewhere"}])
def test_profiles_that_cannot_be_compared_are_unclear(other):
    found = check_prediction(
        Prediction(counter="n", direction="down"), make_profiled({"n": 100}), make_profiled({"n": 1}, **other)
    )
    assert (found.before, found.after, found.outcome) == (100, 1, "unclear")


def test_tolerance_is_an_argument():
    profiles = make_profiled({"n": 100}), make_profiled({"n": 95})
    assert check_prediction(Prediction(counter="n", direction="down"), *profiles, tolerance=0.1).outcome == "unclear"


@pytest.mark.parametrize(
    ("counter", "direction", "ratio", "gain", "outcome"),
    [
        ("Time (ms)", "down", 0.08, (17.7, 17.1, 18.3), "confirmed"),
        ("Time (ms)", "down", 0.08, (0.05, 0.03, 0.07), "unclear"),
        ("Time (ms)", "down", 0.5, (-0.1, -0.12, -0.08), "refuted"),
        ("time", "down", None, (0.03, -0.01, 0.07), "unclear"),  # the bounds do not agree
        ("score", "up", None, (0.1, 0.08, None), "confirmed"),
        ("TFLOPS", "up", 2.0, (1.1, 0.9, 1.3), "confirmed"),
        ("TFLOPS", "up", 2.0, (None, None, None), "unclear"),  # it was not timed
    ],
)
def test_a_prediction_of_the_metric_itself_is_checked_by_the_paired_times(counter, direction, ratio, gain, outcome):
    scoring = make_contract().scoring.model_copy(update={"primary_metric": ("TFLOPS",), "time_ms": "Time (ms)"})
    asked = make_hypothesis(prediction=Prediction(counter=counter, direction=direction, ratio=ratio))
    numbers = dict(zip(("gain", "lower", "upper"), gain, strict=True))
    accepted = gain[0] is not None and gain[0] > 0
    verdict = make_verdict("accepted" if accepted else "rolled_back", "faster" if accepted else "not_better", **numbers)
    judged = make_judged(trial=make_traced(hypothesis=asked), verdict=verdict)
    checked = check_round(make_round(2, judged=judged, prediction=None), scoring)
    assert checked == check_metric(judged, scoring)
    assert checked is not None
    assert checked.outcome == outcome
    assert checked.speedup == (None if gain[0] is None else 1 + gain[0])


def test_a_counter_is_checked_by_the_recorded_profiles():
    asked = make_hypothesis(prediction=Prediction(counter="n", direction="down"))
    judged = make_judged(trial=make_traced(hypothesis=asked))
    recorded = check_prediction(asked.prediction, make_profiled({"n": 100}), make_profiled({"n": 50}))
    assert check_metric(judged, make_contract().scoring) is None
    assert check_round(make_round(2, judged=judged, prediction=recorded), make_contract().scoring) is recorded
