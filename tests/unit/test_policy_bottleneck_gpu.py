"""Bottlenecks of kernels that a GPU's tools recorded, and which of two versions' counters may be compared."""

import pytest

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Origin
from ridgeline.graph.rules.acceptance import check_resources
from ridgeline.graph.rules.bottleneck import classify_bottleneck
from ridgeline.graph.rules.gates import note_missing_counters
from ridgeline.graph.rules.lessons import check_prediction
from ridgeline.graph.rules.outcome import Outcome
from ridgeline.graph.values import Prediction
from tests.builders import make_limits, make_profiled
from tests.unit.test_policy_bound import loads, profile

SCORING = Scoring(primary_metric="GFLOPS")


def seen(numbers, counters=None, **changes):
    recorded = make_profiled(counters or {"calls": 9}, rung="ncu", kernel=profile(numbers, **changes))
    return classify_bottleneck(recorded, (), (), SCORING)


@pytest.mark.feature("F062")
@pytest.mark.parametrize(
    ("numbers", "label", "word"),
    [
        (loads(0.9, 0.1), "memory", "memory_bound/hbm"),
        (loads(0.1, 0.9), "compute", "compute_bound/matrix"),
        (loads(0.1, 0.1), "latency", "latency_bound"),
        ({"time.median_ns": 3_000, "time.gap_before_ns": 4_000}, "launch", "launch_bound/short"),
        ({"occ.fill_waves": 0.5}, "resource", "under_filled/grid"),
        ({"regs.spill_ops": 4, **loads(0.1, 0.1)}, "resource", "resource_bound/spills"),
        (loads(0.69, 0.60), "memory", "balanced"),
        (loads(0.60, 0.69), "compute", "balanced"),
        (loads(0.60, 0.60), "compute", "balanced"),
        (loads(0.65, 0.56), "memory", "mixed"),
        (loads(0.56, 0.65), "compute", "mixed"),
    ],
)
def test_the_class_of_the_recording_decides(numbers, label, word):
    found, chain = seen(numbers)
    assert found == label
    assert f"-> {word}, " in chain
    assert chain.count(" -> ") == 2
    assert chain.endswith("(ncu)")


@pytest.mark.parametrize("changes", [{"category": "copy"}, {"calls": 2}, {}])
def test_a_recording_that_decides_nothing_leaves_it_to_the_times_and_says_so(changes):
    label, chain = seen({}, **changes)
    assert label == "unknown"
    assert "rests on timing alone: what was recorded decides nothing: " in chain


def test_where_the_recording_is_silent_the_compilers_spills_speak():
    origins = (Origin(name="spills", rung="isa", source="s"),)
    recorded = make_profiled({"spills": 3}, rung="rocprofv3", kernel=profile({}), origins=origins)
    label, chain = classify_bottleneck(recorded, (), (), SCORING)
    assert label == "resource"
    assert chain.endswith("(isa)")


def on(rung, **counters):
    """A profile of which every counter stands on that rung."""
    origins = tuple(Origin(name=name, rung=rung, source="s") for name in counters)
    return make_profiled(counters, rung="ncu", origins=origins)


ACCEPTED = Outcome(decision="accepted", reason="faster", why="", faster="yes")


@pytest.mark.feature("F081")
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (on("isa", spills=0), on("isa", spills=3), "isa_regression"),
        (on("isa", spills=3), on("isa", spills=3), None),
        (on("isa", spills=0), on("counters", spills=3), None),
        (on("trace", scratch_bytes=0), on("trace", scratch_bytes=8), "isa_regression"),
        (on("trace", scratch_bytes=8), on("trace", scratch_bytes=16), None),
        (on("counters", spill_ops=0), on("counters", spill_ops=1), "isa_regression"),
        (on("counters", spill_ops=0), on("trace", spill_ops=1), None),
        (on("isa", occupancy=50), on("isa", occupancy=25), "isa_regression"),
        (on("isa", occupancy=50), on("counters", occupancy=25), None),
    ],
)
def test_new_spills_speak_against_a_gain_where_both_are_seen_in_the_same_way(before, after, reason):
    found = check_resources(before, after, make_limits())
    assert (found.reason if found else None) == reason


def test_what_cannot_be_compared_is_said():
    (note,) = note_missing_counters(ACCEPTED, on("isa", spills=0), on("counters", spills=0))
    assert "spills" in note


@pytest.mark.parametrize(("rung", "outcome"), [("counters", "confirmed"), ("isa", "unclear")])
def test_a_prediction_is_checked_on_one_rung_only(rung, outcome):
    said = Prediction(counter="registers", direction="down")
    assert check_prediction(said, on("counters", registers=64), on(rung, registers=32)).outcome == outcome
