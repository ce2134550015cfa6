"""Rows to scores: golden vectors, and the numbers that must not be made."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import MixedEvidence
from ridgeline.graph.rules import score
from tests.builders import METRIC, make_benchmark, make_row, make_rows

PLAIN = Scoring(primary_metric=(METRIC,))
TIME = Scoring(primary_metric=("us",), higher_is_better=False)
STEP = Scoring(primary_metric=("Combined Step TFLOPS",), forward="F", backward="B")
TWO = Scoring(primary_metric=("a", "b"))


def step_row(label, forward, backward=None, **spread):
    metrics = {"F": forward, **({} if backward is None else {"B": backward}), **spread}
    return make_row(label, metrics=metrics)


@pytest.mark.feature("F023")
@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        (320, 160, 192.000),
        (305, 152, 182.520),
        (290, 145, 174.000),
        (285, 140, 168.592),
        (500, 250, 300.000),
        (520, 258, 310.077),
        (480, 240, 288.000),
        (550, 272, 327.114),
    ],
)
def test_combined_step_golden_vectors(forward, backward, expected):
    assert score.combined_step(forward, backward) == pytest.approx(expected, abs=1e-3)


@pytest.mark.feature("F023", "F024")
def test_geomean_of_the_golden_steps():
    rows = [step_row("a", 320, 160), step_row("b", 305, 152), step_row("c", 290, 145)]
    assert score.aggregate(rows, STEP) == pytest.approx(182.692, abs=1e-3)
    base = score.aggregate([step_row("a", 285, 140)], STEP)
    assert score.gain(score.aggregate(rows, STEP), base, True) == pytest.approx(0.08364, abs=1e-5)


@pytest.mark.parametrize(("pair", "expected"), [((520, 258), 0.03359), ((480, 240), -0.04), ((550, 272), 0.09038)])
def test_trend_golden_vectors(pair, expected):
    found = score.gain(score.combined_step(*pair), score.combined_step(500, 250), True)
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.feature("F024")
def test_score_vector_is_kept_and_a_single_shape_is_itself():
    rows = make_rows({"small": 50.0, "large": 200.0})
    assert [(item.name, item.value) for item in score.score_vector(rows, PLAIN)] == [("small", 50.0), ("large", 200.0)]
    assert score.aggregate(rows, PLAIN) == pytest.approx(100.0)
    assert score.aggregate(rows[:1], PLAIN) == pytest.approx(50.0)


@pytest.mark.feature("F026")
def test_forward_only_rows_score_their_forward_pass():
    assert score.row_score(step_row("a", 300.0), STEP) == 300.0
    with pytest.raises(score.ScoreError, match="some rows have B"):
        score.aggregate([step_row("a", 300.0), step_row("b", 300.0, 100.0)], STEP)
    both = [make_benchmark(rows=[step_row("a", 300.0, *extra)]) for extra in ((), (100.0,))]
    with pytest.raises(score.ScoreError, match="only one of the two versions"):
        score.delta(*both, STEP)


@pytest.mark.feature("F022")
@pytest.mark.parametrize("check", ["FAIL", "ERROR"])
def test_a_failed_row_leaves_no_aggregate(check):
    rows = (*make_rows(), make_row("odd", 1e9, check=check))
    with pytest.raises(score.FailedRows, match="odd"):
        score.aggregate(rows, PLAIN)
    with pytest.raises(score.FailedRows):
        score.aggregates(rows, PLAIN)


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ([], "no values"),
        ([make_row("a"), make_row("a")], "more than one row"),
        ([make_row("a", metrics={"other": 1.0})], "no number in column"),
        ([make_row("a", metrics={METRIC: 0.0})], "positive and finite"),
        ([make_row("a", metrics={METRIC: -3.0})], "positive and finite"),
        ([make_row("a", metrics={METRIC: math.inf})], "positive and finite"),
        ([make_row("a", metrics={METRIC: math.nan})], "positive and finite"),
    ],
)
def test_rows_without_a_score_raise(rows, match):
    with pytest.raises(score.ScoreError, match=match):
        score.aggregate(rows, PLAIN)


@pytest.mark.parametrize(
    ("candidate", "best", "higher", "expected"),
    [(105, 100, True, 0.05), (95, 100, True, -0.05), (100, 105, False, 0.05), (100, 95, False, -0.05), (7, 7, True, 0)],
)
def test_gain_is_positive_when_better(candidate, best, higher, expected):
    assert score.gain(candidate, best, higher) == pytest.approx(expected)


@given(st.floats(1e-6, 1e9), st.floats(1e-6, 1e9))
def test_a_time_and_its_rate_gain_the_same(candidate, best):
    assert score.gain(candidate, best, False) == pytest.approx(score.gain(1 / candidate, 1 / best, True), rel=1e-9)


@pytest.mark.feature("F025")
@pytest.mark.parametrize(
    ("a", "b", "expected"), [(110, 95, -0.05), (110, 100, 0.10), (100, 100, 0.0), (103, 108, 0.08), (90, 80, -0.20)]
)
def test_several_metrics_none_may_fall_and_one_must_rise(a, b, expected):
    best = make_benchmark(rows=[make_row("s", metrics={"a": 100.0, "b": 100.0})])
    found = score.delta(make_benchmark(rows=[make_row("s", metrics={"a": a, "b": b})]), best, TWO)
    assert found.gain == pytest.approx(expected)
    assert [item.name for item in found.metrics] == ["a", "b"]
    assert found.shapes[0].gain == pytest.approx(min(a, b) / 100 - 1)


@pytest.mark.feature("F019")
@pytest.mark.parametrize("other", [{"engine": "event"}, {"source": "project"}, {"machine": "elsewhere"}])
def test_numbers_of_two_origins_are_never_compared(other):
    with pytest.raises(MixedEvidence, match=next(iter(other))):
        score.delta(make_benchmark(), make_benchmark(**other), PLAIN)


def test_delta_restricts_both_sides_to_the_labels():
    candidate, best = make_benchmark({"small": 110.0}), make_benchmark({"small": 100.0, "large": 5.0})
    assert score.delta(candidate, best, PLAIN).gain == pytest.approx(0.1)
    with pytest.raises(score.ScoreError, match="no row for large"):
        score.delta(candidate, best, PLAIN, labels=("small", "large"))


def test_lower_is_better_throughout():
    best = make_benchmark(rows=[make_row("s", metrics={"us": 100.0})])
    found = score.delta(make_benchmark(rows=[make_row("s", metrics={"us": 80.0})]), best, TIME)
    assert (found.gain, found.shapes[0].gain) == (pytest.approx(0.25), pytest.approx(0.25))
    assert score.higher_wins(STEP)
    assert not score.higher_wins(TIME)


def test_relative_spread_of_plain_and_combined_rows():
    assert score.relative_stddev(make_row(value=100.0, stddev=2.0), PLAIN) == pytest.approx(0.02)
    assert score.relative_stddev(make_row(metrics={METRIC: 1.0}), PLAIN) is None
    assert score.relative_stddev(make_row(value=100.0, stddev=math.nan), PLAIN) is None
    row = step_row("a", 320.0, 160.0, F_stddev=3.2, B_stddev=1.6)
    forward, backward = 2 / 320, 4 / 160
    expected = math.hypot(0.01 * forward, 0.01 * backward) / (forward + backward)
    assert score.relative_stddev(row, STEP) == pytest.approx(expected)
    assert score.relative_stddev(step_row("a", 320.0, 160.0, F_stddev=3.2), STEP) is None
    assert score.relative_stddev(step_row("a", 320.0, F_stddev=3.2), STEP) == pytest.approx(0.01)
