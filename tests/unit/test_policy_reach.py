"""How near a run is to its ceilings, when that cannot be said, and what a README and the stop check make of it."""

import pytest

from ridgeline.graph.evidence import Ceilings
from ridgeline.graph.record import Rooflined, Spec
from ridgeline.graph.reports.files import render_all
from ridgeline.graph.rules import goal as ends
from ridgeline.graph.rules.goal import parse_goal
from ridgeline.graph.rules.headroom import Device, Headroom, compute_best_headroom, compute_headroom
from ridgeline.graph.rules.stop import evaluate_stop_checks, has_nothing_to_gain
from tests.builders import (
    METRIC,
    make_baseline,
    make_benchmark,
    make_contract,
    make_history,
    make_limits,
    make_machine,
    make_opened,
    make_round,
    make_row,
    make_target,
)

CEILINGS = Ceilings(copy_gbps=20.0, flops_gflops=100.0, method="copy loop, one thread", machine="machine-0")
MATVEC = {"work": {"flops": "2*M*K", "bytes": "4*(M*K+M+K)"}}
SIZE = 4096  # 64 MiB, twice the last-level cache of the test machine


def matvec(share, *, size=SIZE, label="v"):
    """A row that reaches that share of the memory floor."""
    floor_ms = 4 * (size * size + 2 * size) / 20e6
    return make_row(label, metrics={"M": size, "K": size, METRIC: 1.0, "Time (ms)": floor_ms / share})


def device(**fields):
    return Device(**{"ceilings": CEILINGS, "machine": make_machine(), **fields})


def seen(*rows, contract=None, **fields):
    return compute_headroom(rows, contract or make_contract(**MATVEC), device(**fields))


def test_a_matvec_at_93_per_cent_of_its_floor():
    found = seen(matvec(0.93))
    assert isinstance(found, Headroom)
    assert found.share == pytest.approx(0.93)
    assert found.text == "93.0 % of the memory ceiling (copy bandwidth 20 GB/s, measured here: copy loop)"
    assert found.left == pytest.approx(1 / 0.93)


def test_the_shapes_are_averaged_and_the_worst_is_named():
    found = seen(matvec(0.98, label="a"), matvec(0.88, label="b"))
    assert found.share == pytest.approx((0.98 * 0.88) ** 0.5)
    assert (found.lowest, found.lowest_share) == ("b", pytest.approx(0.88))
    assert seen(matvec(1.04)).left == 1.0


GPU = make_machine(kind="nvidia", l1d_bytes=None, l2_bytes=None, l3_bytes=None)
L2 = Spec(metric="l2_capacity", value=50.0, unit="MiB", source="knowledge/hardware/h100-sxm.md:L34")


@pytest.mark.parametrize(
    ("rows", "fields", "why"),
    [
        ((matvec(0.93),), {"ceilings": None}, "no ceiling of this machine is known"),
        (
            (matvec(0.93),),
            {"ceilings": CEILINGS.model_copy(update={"copy_gbps": None, "flops_gflops": None})},
            "no ceiling",
        ),
        ((), {}, "no shape was measured"),
        ((matvec(0.93),), {"contract": make_contract(work={})}, "the contract declares no `work:`"),
        ((matvec(0.93),), {"contract": make_contract(work={"flops": "2*Q"})}, "unknown variable 'Q'"),
        ((matvec(1.2),), {}, "v runs at 120 % of its ceiling"),
        ((matvec(0.93),), {"contract": make_contract(**MATVEC, threads=2)}, "ceilings are those of one thread"),
        # 16 MiB stay in the 32 MiB cache: the memory's bandwidth bounds nothing
        ((matvec(0.93, size=2048),), {}, "does not bound v: the data fits the largest cache (32 MiB)"),
        ((matvec(0.93, size=3600),), {"machine": GPU, "specs": (L2,)}, "the largest cache (50 MiB)"),
        ((matvec(0.93),), {"machine": GPU}, "a cache, whose size is not known (95 MiB)"),
    ],
)
def test_what_cannot_be_said_is_not_claimed(rows, fields, why):
    found = seen(*rows, **fields)
    assert isinstance(found, str)
    assert why in found


def test_the_contract_must_name_a_time():
    scoring = {"primary_metric": METRIC}
    assert "time_ms" in seen(matvec(0.93), contract=make_contract(**MATVEC, scoring=scoring))


def test_traffic_beyond_every_cache_is_governed():
    assert isinstance(seen(matvec(0.93), machine=GPU, specs=(L2,)), Headroom)
    assert isinstance(seen(matvec(0.93, size=5000), machine=GPU), Headroom)


def test_compute_bound_work_may_live_in_a_cache():
    # 2*256^3 operations at 93 GFLOP/s
    row = make_row("medium", 93.0)
    found = compute_headroom((row,), make_contract(), device())
    assert found.text == "93.0 % of the compute ceiling (compute peak 100 GFLOP/s, measured here: copy loop)"


def test_where_only_operations_are_declared_their_ceiling_is_the_one_named():
    """The floor is that of the operations, so the share is of the compute peak, whatever bounds the shape."""
    row = make_row("medium", 93.0)
    found = compute_headroom((row,), make_contract(work={"flops": "2*M*N*K"}), device())
    assert (found.bound, round(found.share, 3)) == ("unknown", 0.93)
    assert found.text == "93.0 % of the ceiling (compute peak 100 GFLOP/s, measured here: copy loop)"


def campaign(quick, project, *rounds, preset="evidence", goal=None, ceilings=CEILINGS, **limits):
    target = make_target(performance_target=parse_goal(goal, METRIC) if goal else None)
    opened = make_opened(limits=make_limits(preset, **limits), target=target, contract=make_contract(**MATVEC))
    baseline = make_baseline(
        quick=make_benchmark(rows=[matvec(quick)]), project=make_benchmark(rows=[matvec(project)], source="project")
    )
    roof = Rooflined(ceilings=ceilings, specs=(), bound="unknown")
    return make_history(*rounds, opened=opened, baseline=baseline, roofline=roof)


def t2(history):
    return evaluate_stop_checks(history, stop_requested=False, exhausted="", elapsed_minutes=0.0)[1]


@pytest.mark.feature("F058")
@pytest.mark.parametrize(
    ("quick", "project", "fields", "ends_here"),
    [
        (0.93, 0.94, {}, True),
        (0.90, 0.90, {}, True),
        (0.899, 0.95, {}, False),
        # one lucky run proves nothing
        (0.95, 0.899, {}, False),
        (0.95, 1.2, {}, False),
        (0.93, 0.94, {"target_peak_fraction": None}, False),
        (0.93, 0.94, {"target_peak_fraction": 0.95}, False),
        (0.85, 0.85, {"target_peak_fraction": 0.80}, True),
        (0.93, 0.94, {"preset": "autonomous"}, False),
        # who asks for more is not stopped short of it
        (0.93, 0.94, {"goal": ">=95% peak"}, False),
        (0.96, 0.96, {"goal": ">=95% peak"}, True),
        (0.93, 0.94, {"goal": ">=50% peak"}, True),
        (0.93, 0.94, {"goal": ">=2x"}, True),
        (0.93, 0.94, {"ceilings": None}, False),
    ],
)
def test_an_original_at_its_ceiling_is_not_worth_a_round(quick, project, fields, ends_here):
    known = campaign(quick, project, **fields)
    assert has_nothing_to_gain(known) is ends_here
    assert t2(known).satisfied is ends_here
    assert t2(known).description.startswith("nothing to gain: ") is ends_here


def test_the_reason_names_number_ceiling_source_and_what_is_left():
    assert t2(campaign(0.93, 0.94)).description == (
        "nothing to gain: 93.0 % of the memory ceiling (copy bandwidth 20 GB/s, measured here: copy loop), "
        "asked 90 %; at most 1.075x is left for any change"
    )


def test_before_the_baseline_nothing_is_said():
    known = campaign(0.93, 0.94).model_copy(update={"baseline": None})
    assert compute_best_headroom(known) == "the baseline is not measured yet"
    assert not has_nothing_to_gain(known)


def test_a_kept_version_at_the_ceiling_is_a_gain_and_no_nothing():
    known = campaign(0.5, 0.5, make_round(2, gain=0.10), target_peak_fraction=0.01)
    # the rows of the round are those of the default benchmark, which have M and K too
    assert not t2(known).description.startswith("nothing to gain")
    assert not has_nothing_to_gain(known)


@pytest.mark.feature("F072")
@pytest.mark.parametrize(
    ("fields", "target", "line", "stops_at"),
    [
        ({}, {}, "- T2 hardware efficiency: 90% of the bounding ceiling", 0.9),
        ({"target_peak_fraction": 0.8}, {}, "- T2 hardware efficiency: 80% of the bounding ceiling", 0.8),
        ({"target_peak_fraction": None}, {}, "- T2 hardware efficiency: off", None),
        ({"preset": "autonomous", "target_peak_fraction": 0.8}, {}, "- T2 hardware efficiency: off", None),
        ({"goal": ">=95% peak"}, {}, "- T2 hardware efficiency: 95% of the bounding ceiling", 0.95),
    ],
)
def test_the_readme_prints_what_the_stop_check_decides_by(fields, target, line, stops_at):
    known = campaign(0.5, 0.5, **fields)
    text = str(render_all(known, worktree="tree")["README.md"])
    assert line in text.splitlines()
    asked = known.opened.target.performance_target
    assert ends.peak_fraction(known.limits, asked) == (None if stops_at is None else pytest.approx(stops_at))
    assert ("memory-bound target >= " in text) is (stops_at is not None)
    if stops_at is not None:
        assert f"memory-bound target >= {stops_at * 20 / 1e3:.4g} TB/s" in text


@pytest.mark.feature("F072")
@pytest.mark.parametrize(
    ("limits", "max_iterations", "rounds"),
    [
        (make_limits(), None, None),
        (make_limits(max_rounds=3), 9, 3),
        (make_limits(max_rounds=9), 3, 3),
        (make_limits("autonomous"), 3, None),
        (make_limits("autonomous", max_rounds=5), 3, 5),
    ],
)
def test_rounds_are_bounded_once(limits, max_iterations, rounds):
    opened = make_opened(limits=limits, target=make_target(max_iterations=max_iterations))
    assert ends.round_limit(limits, opened.target) == rounds
    text = str(render_all(make_history(opened=opened), worktree="tree")["README.md"])
    assert f"- T3 rounds: {rounds if rounds is not None else 'no limit'}" in text.splitlines()
