"""Numbers as a model is told them: by shape, side by side, predicted against measured."""

import pytest

from ridgeline.agent.planner.catalog import reflection
from ridgeline.agent.planner.measurements import (
    by_shape,
    changes,
    foreseen,
    format_signed_gain,
    how_timed,
    speeds,
    times_by_label,
)
from ridgeline.graph.briefing import ShapeNow, Terms
from ridgeline.graph.record import PredictionCheck, ShapeRoof
from ridgeline.graph.reports.final_report import predictions
from ridgeline.graph.reports.rounds import prediction
from ridgeline.graph.values import Cost, Prediction
from ridgeline.graph.verdict import ShapeChange
from tests.builders import (
    make_comparison,
    make_contract,
    make_failed,
    make_history,
    make_hypothesis,
    make_judged,
    make_limits,
    make_round,
    make_scaled,
    make_target,
    make_traced,
    make_verdict,
)
from tests.catalog_briefs import brief, naive

ROOF = ShapeRoof(label="wide", flops=2e6, bytes=4e5, intensity=5.0, bound="compute", floor_us=50.0)
WIDE = ShapeNow(label="wide", config_class="all", original=2.0, best=8.0, original_us=1000.0, best_us=250.0, roof=ROOF)


def told(*shapes, best_round=3, governed=True, metric="GFLOPS"):
    terms = Terms(
        limits=make_limits(),
        rounds_done=2,
        rounds_most=None,
        peak_asked=None,
        peak_now="",
        governed=governed,
        spent=Cost(),
    )
    target = make_target(primary_metric=metric)
    return brief(naive("matmul_c"), shapes=shapes, best_round=best_round, terms=terms, target=target)


@pytest.mark.parametrize(
    ("shape", "fields", "line"),
    [
        (WIDE, {}, "wide: 2, 1000 us -> 8, 250 us, 20 % of its compute peak"),
        (WIDE, {"governed": False}, "wide: 2, 1000 us -> 8, 250 us"),
        (WIDE, {"best_round": 1}, "wide: 8, 250 us, 20 % of its compute peak"),
        (WIDE, {"metric": "ms"}, "wide: 2, 1000 us -> 8, 250 us, 8 GFLOP/s, 20 % of its compute peak"),
        (
            WIDE.model_copy(update={"roof": ROOF.model_copy(update={"bound": "memory"}), "config_class": "r=1"}),
            {"metric": "ms"},
            "wide (r=1): 2, 1000 us -> 8, 250 us, 1.6 GB/s, 20 % of its memory peak",
        ),
        (WIDE.model_copy(update={"best": None, "best_us": None}), {}, "wide: 2, 1000 us -> not measured"),
        (WIDE.model_copy(update={"roof": None}), {"metric": "ms"}, "wide: 2, 1000 us -> 8, 250 us"),
    ],
)
def test_a_shape_is_one_line(shape, fields, line):
    assert by_shape(told(shape, **fields)).splitlines()[1] == line


def test_the_head_says_which_round_each_number_is_of():
    head = by_shape(told(WIDE)).splitlines()[0]
    assert head.endswith("original (round 1) -> best version (round 3)")
    assert by_shape(told(WIDE, best_round=1)).splitlines()[0].endswith("original = best version, round 1")
    assert by_shape(told()) == ""


SHAPES = (
    ShapeChange(label="small", config_class="all", gain=0.05),
    ShapeChange(label="large", config_class="all", gain=24.0),
)


@pytest.mark.parametrize(
    ("target_class", "said"),
    [
        ("global", "speedup: predicted 1.5x, measured 1.08x"),
        ("deep", "speedup of deep: predicted 1.5x, measured 25x; of the whole score 1.08x"),
        ("large", "speedup of large: predicted 1.5x, measured 25x; of the whole score 1.08x"),
        ("nowhere", "speedup: predicted 1.5x, measured 1.08x"),
    ],
)
def test_a_prediction_is_compared_with_the_shapes_that_it_is_about(target_class, said):
    about = make_hypothesis(
        target_class=target_class, prediction=Prediction(counter="GFLOPS", direction="up", ratio=1.5, speedup=1.5)
    )
    shapes = (SHAPES[0], SHAPES[1].model_copy(update={"config_class": "deep"}))
    found = make_judged(trial=make_traced(hypothesis=about), verdict=make_verdict(gain=0.08, lower=None, shapes=shapes))
    assert speeds(found) == said


def test_the_best_version_has_the_time_that_it_was_accepted_with():
    comparison = make_comparison()
    label, us = next(iter(times_by_label(judged(comparison)).items()))
    shape = WIDE.model_copy(update={"label": label, "noise": 0.0012})
    closed = make_round(3, "accepted", judged=judged(comparison))
    about = told(shape).model_copy(update={"rounds": (closed,)})
    head, line = by_shape(about).splitlines()
    assert "the best version as round 3 timed it side by side" in head
    assert f"-> {8 * 250 / us[1]:.4g}, {us[1]:.4g} us" in line
    assert line.endswith("noise 0.12 %")


def judged(*evidence, **fields):
    return make_judged(trial=make_traced(*evidence), verdict=make_verdict(shapes=SHAPES, **fields))


def test_interleaved_times_are_told_before_and_after_with_rates():
    found = judged(make_comparison(), make_comparison())
    old, new = times_by_label(found)["small"]
    assert old == pytest.approx(100.0)
    lines = changes(found, {"small": ROOF.model_copy(update={"flops": 1e6})})
    assert lines[0].startswith(f"small: 100 -> {new:.4g} us (10 GFLOP/s -> ")
    assert lines[0].endswith(", +5.0%")
    assert lines[1].endswith("25x")
    assert "side by side" in how_timed(found)


def test_separate_runs_are_called_that():
    found = judged(make_scaled(1.05))
    assert changes(found)[0] == "small: +5.0%"
    assert how_timed(found).endswith("(1 in this round)")
    failed = make_judged(
        "rolled_back",
        trial=make_failed(),
        verdict=make_verdict("rolled_back", "build_failed", gain=None, correct="unverified", faster="unverified"),
    )
    assert how_timed(failed) == "nothing was timed"
    assert (changes(failed), speeds(failed)) == ((), "")


@pytest.mark.parametrize(("gain", "said"), [(0.05, "+5.0%"), (-0.5, "-50.0%"), (8.99, "+899.0%"), (9.0, "10x")])
def test_large_gains_are_factors(gain, said):
    assert format_signed_gain(gain) == said


@pytest.mark.parametrize(
    ("speedup", "gain", "lower", "said"),
    [
        (1.2, 0.08, 0.05, "speedup: predicted 1.2x, measured 1.08x, at least 1.05x"),
        (None, 0.08, None, "speedup: not predicted, measured 1.08x"),
    ],
)
def test_a_predicted_speedup_meets_the_measured_one(speedup, gain, lower, said):
    asked = make_hypothesis(prediction=Prediction(counter="instructions", direction="down", speedup=speedup))
    found = make_judged(trial=make_traced(hypothesis=asked), verdict=make_verdict(gain=gain, lower=lower))
    assert speeds(found) == said


def test_a_closed_round_says_what_came_of_its_prediction():
    check = PredictionCheck(counter="d1_misses", expected="down", before=4e6, after=1e6, outcome="confirmed")
    closed = make_round(2, prediction=check)
    assert foreseen(closed, make_contract().scoring).startswith(
        "d1_misses 4e+06 -> 1e+06 (0.25x): confirmed; speedup: "
    )
    unseen = closed.model_copy(update={"prediction": check.model_copy(update={"after": None})})
    assert foreseen(unseen, make_contract().scoring).startswith("d1_misses not measured; ")


def test_question_report_and_lesson_tell_one_outcome_of_a_prediction_of_the_time():
    asked = make_hypothesis(prediction=Prediction(counter="time", direction="down", ratio=0.08))
    verdict = make_verdict(gain=17.7, lower=17.1, upper=18.3)
    judged = make_judged(trial=make_traced(hypothesis=asked), verdict=verdict)
    recorded = PredictionCheck(counter="time", expected="down", before=None, after=None, outcome="unclear")
    closed, scoring = make_round(2, judged=judged, prediction=recorded), make_contract().scoring
    assert foreseen(closed, scoring).startswith("time measured as the speedup 18.7x: confirmed; speedup: ")
    assert prediction(closed, scoring) == "confirmed: `time` was predicted down, measured as the speedup 18.700x"
    assert predictions(make_history(closed)) == "1 confirmed, 0 refuted, 0 unclear"
    assert (
        "time, predicted down: confirmed; result" in reflection(brief(naive("matmul_c")), judged, card=None).attribution
    )
