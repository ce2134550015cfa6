"""`performance_target`: what may be written and when it is reached."""

import pytest

from ridgeline.graph.evidence import Ceilings
from ridgeline.graph.rules.goal import (
    GoalError,
    StopTerms,
    is_goal_reached,
    parse_goal,
    read_stop_lines,
    unit_of,
)
from ridgeline.graph.target import Goal


@pytest.mark.parametrize(
    ("text", "metric", "op", "value", "unit"),
    [
        (">500 TFLOPS", "Forward TFLOPS", ">", 500, "TFLOPS"),
        (">= 500 tflop/s", "Forward TFLOPS", ">=", 500, "TFLOPS"),
        ("0.5 TFLOPS", "Forward TFLOPS", ">=", 0.5, "TFLOPS"),
        ("over 900 GFLOPS", "Forward TFLOPS", ">", 900, "GFLOPS"),
        ("at least 1.2 TB/s", "Forward TFLOPS", None, None, None),
        (">60% peak efficiency", "efficiency", ">", 60, "%"),
        (">= 60 % of peak", "efficiency", ">=", 60, "%"),
        ("100%", "efficiency", ">=", 100, "%"),
        (">= 2x", "speedup", ">=", 2, "x"),
        ("more than 1.5 times faster", "speedup", ">", 1.5, "x"),
        ("101%", None, None, None, None),
        ("0% peak", None, None, None, None),
        ("<= 20 us", None, None, None, None),
        (">20 us", None, None, None, None),
        ("fast", None, None, None, None),
        ("", None, None, None, None),
        (">500", None, None, None, None),
    ],
)
def test_parse(text, metric, op, value, unit):
    if op is None:
        with pytest.raises(GoalError):
            parse_goal(text, "Forward TFLOPS")
        return
    goal = parse_goal(f" {text} ", "Forward TFLOPS")
    assert (goal.metric, goal.op, goal.value, goal.unit, goal.text) == (metric, op, value, unit, text)


def test_a_metric_without_a_unit_cannot_be_compared():
    with pytest.raises(GoalError, match="cannot be compared"):
        parse_goal(">5 TFLOPS", "score")


@pytest.mark.parametrize(
    ("text", "aggregate", "speedup", "efficiency", "done"),
    [
        (">500 GFLOPS", 500.0, None, None, False),
        (">500 GFLOPS", 500.1, None, None, True),
        (">=500 GFLOPS", 500.0, None, None, True),
        (">=0.5 TFLOPS", 500.0, None, None, True),
        (">=0.5 TFLOPS", 499.9, None, None, False),
        (">60% peak", 1.0, None, 0.6, False),
        (">60% peak", 1.0, None, 0.61, True),
        (">=60% peak", 1.0, None, None, False),
        (">=2x", 1.0, 2.0, None, True),
        (">2x", 1.0, 2.0, None, False),
        (">=2x", 1.0, None, None, False),
    ],
)
def test_reached(text, aggregate, speedup, efficiency, done):
    goal = parse_goal(text, "Forward GFLOPS")
    assert is_goal_reached(goal, aggregate=aggregate, speedup=speedup, efficiency=efficiency) is done


@pytest.mark.parametrize(
    ("metric", "unit"),
    [("Forward TFLOPS", "TFLOPS"), ("Combined Step GFLOPS", "GFLOPS"), ("Rate (GB/s)", "GB/s"), ("score", "")],
)
def test_unit_of(metric, unit):
    assert unit_of(metric) == unit


@pytest.mark.feature("F072")
@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (
            "T1 performance target: >500 GFLOPS",
            {"goal": Goal(metric="GFLOPS", op=">", value=500, unit="GFLOPS", text=">500 GFLOPS")},
        ),
        ("T1 performance target: none", {"lifted": ("T1",)}),
        ("T2 hardware efficiency: 60% of the bounding ceiling", {"target_peak_fraction": 0.6}),
        ("T2 hardware efficiency: off", {"lifted": ("T2",)}),
        ("T3 rounds: 7", {"max_rounds": 7}),
        ("T3 rounds: no limit", {"lifted": ("T3",)}),
        ("memory-bound target >= 2 TB/s", {"target_peak_fraction": 0.5}),
        ("compute-bound target >= 2 TFLOPS", {"problems": "this kernel is memory-bound"}),
        ("memory-bound target >= 5 TB/s", {"problems": "above the ceiling"}),
        ("memory-bound target: much", {"problems": "write a number with TFLOPS or TB/s"}),
        ("T2 hardware efficiency: most of it", {"problems": "give more than 0"}),
        ("T3 rounds: 120", {"problems": "give 1 to 119"}),
        ("T5 regressions: 9", {"problems": "cannot be changed while the campaign runs"}),
        ("stop soon", {"problems": "is no stop condition"}),
    ],
)
def test_stop_conditions_that_a_person_edited(line, fields):
    ceilings = Ceilings(copy_gbps=4000.0, flops_gflops=10_000.0, method="copy", machine="m")
    found = read_stop_lines((line,), metric="GFLOPS", bound="memory", ceilings=ceilings)
    if "problems" in fields:
        assert fields["problems"] in "; ".join(found.problems)
        fields = {"problems": found.problems}
    assert found == StopTerms(**fields)
