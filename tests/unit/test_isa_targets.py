"""Goals for machine code: told beside every version, met only by what was measured."""

import pytest

from ridgeline.graph.evidence import Origin
from ridgeline.graph.reports.files import render_all
from ridgeline.graph.rules.isa_targets import ISA_TARGETS, measure_progress
from tests.builders import make_baseline, make_history, make_machine, make_profiled, make_round
from tests.builders_evidence import MACHINE


def progress(version, original, *, kind="amd", bottleneck="memory"):
    machine = make_machine(kind=kind, name="card", arch="gfx942")
    return {goal.metric: goal for goal in measure_progress(machine, version, original, bottleneck)}


def test_a_number_is_held_against_its_goal_and_a_missing_one_never_meets_it():
    original = make_profiled({"wide_load_pct": 20.0, "stall_mem_wait_pct": 60.0})
    version = make_profiled(
        {"wide_load_pct": 80.0, "stall_mem_wait_pct": 60.0, "spills": 0.0, "scratch_bytes": 16.0, "dram_pct": 60.0}
    )
    goals = progress(version, original)
    assert {name for name, goal in goals.items() if goal.met} == {"wide_load_pct", "spills", "dram_pct"}
    assert goals["wide_load_pct"].target == "wide_load_pct above the original's 20"
    assert goals["scratch_bytes"].target == "scratch_bytes == 0"
    assert (goals["achieved_occupancy"].current, goals["achieved_occupancy"].met) == (None, False)
    assert not any(goal.met for goal in progress(None, original).values())


def test_what_does_not_bound_the_kernel_is_no_goal():
    version = make_profiled({"mfma_util": 10.0, "dram_pct": 10.0})
    assert "mfma_util" not in progress(version, None, bottleneck="memory")
    assert "dram_pct" not in progress(version, None, bottleneck="compute")
    assert "mfma_util" in progress(version, None, bottleneck="compute")


@pytest.mark.parametrize("rung", ["isa", "counters"])
def test_the_original_is_the_mark_only_where_the_same_instrument_saw_it(rung):
    def seen(value, rung):
        origins = (Origin(name="wide_load_pct", rung=rung, source="hipcc"),)
        return make_profiled({"wide_load_pct": value}, origins=origins)

    goal = progress(seen(80.0, "isa"), seen(20.0, rung))["wide_load_pct"]
    assert goal.met is (rung == "isa")
    other = make_profiled({"wide_load_pct": 20.0}).model_copy(update={"machine": "e" * 64})
    assert other.machine != MACHINE
    assert not progress(make_profiled({"wide_load_pct": 80.0}), other)["wide_load_pct"].met


def test_every_kind_of_device_has_goals_that_the_pages_tell():
    assert all(len(targets) >= 6 for targets in ISA_TARGETS.values())
    baseline = make_baseline(profile=make_profiled({"instructions": 100.0, "d1_misses": 5.0}))
    files = render_all(make_history(make_round(2), baseline=baseline), worktree="trees/a")
    readme = str(files["README.md"])
    for target in ISA_TARGETS["cpu"]:
        assert f"- {target.text}: {target.meaning}" in readme
    assert "none of which undoes a measured gain" in readme
    report = str(files["rounds/round-2/iteration_report.md"])
    assert "| instructions below the original's 100 | not measured | no |" in report
