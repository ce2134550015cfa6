"""Times that no machine can reach, and gains that no roofline vouches for."""

import pytest

from ridgeline.graph.evidence import Ceilings, Rate
from ridgeline.graph.record import Calibrated, Rooflined
from ridgeline.graph.rules import gates, physics
from ridgeline.graph.rules.acceptance import decide_verdict
from ridgeline.graph.rules.history import standing as standing_of
from ridgeline.graph.rules.readings import sort_readings
from ridgeline.graph.trial import Timed, Traced
from tests.builders import (
    BASE,
    MACHINE,
    METRIC,
    VALUES,
    make_applied,
    make_benchmark,
    make_built,
    make_comparison,
    make_contract,
    make_history,
    make_limits,
    make_machine,
    make_round,
    make_row,
    make_scaled,
    make_standing,
    make_traced,
    make_verified,
)
from tests.builders_findings import make_finding

CEILINGS = Ceilings(copy_gbps=20.0, flops_gflops=400.0, method="copy loop, one thread", machine=MACHINE)
SIZE = 4096  # 64 MiB, twice the last-level cache of the test machine
FLOOR_MS = 4 * (SIZE * SIZE + 2 * SIZE) / 20e6
MATVEC = {"flops": "2*M*K", "bytes": "4*(M*K+M+K)"}
ROUTER = make_limits("router")


def standing(ceilings=CEILINGS, *, machine=None, **fields):
    roof = Rooflined(ceilings=ceilings, specs=(), bound="unknown")
    return make_standing(roofline=roof, machine=machine or make_machine(), **fields)


def matvec(share, commit=BASE):
    row = make_row("v", metrics={"M": SIZE, "K": SIZE, METRIC: 1.0, "Time (ms)": FLOOR_MS / share})
    return make_benchmark(rows=[row], commit=commit)


def of_matvec(share, **fields):
    known = standing(contract=make_contract(work=MATVEC), quick=matvec(0.2), full=matvec(0.2), **fields)
    return sort_readings(make_traced(matvec(share, "c" * 40)), known, ROUTER), known


def told(factor, known=None):
    known = known or standing()
    return physics.find_impossible_time(sort_readings(make_traced(make_scaled(factor)), known, ROUTER), known)


# 400 GFLOP/s: `large` runs at 200 in the best version, so four times as fast is twice what the machine can
@pytest.mark.parametrize(("factor", "refused"), [(1.0, False), (1.9, False), (3.99, False), (4.01, True), (1e6, True)])
def test_a_time_below_half_of_its_floor_cannot_be(factor, refused):
    assert bool(told(factor)) == refused


def test_the_refusal_names_both_times_and_the_ceiling():
    assert told(100.0) == (
        "faster than this machine can be: small takes 0.105 us, its work needs at least 1.31 us at 400 GFLOP/s;"
        " not all of it was done, or `work:` counts too much"
    )


@pytest.mark.parametrize(
    ("share", "refused", "fields"),
    [
        (0.99, False, {}),
        (1.5, False, {}),
        (2.1, True, {}),
        (2.1, False, {"machine": make_machine(l3_bytes=256 << 20)}),  # the data stays in a cache
        (2.1, True, {"machine": make_machine(l3_bytes=None, l2_bytes=1 << 20)}),
    ],
)
def test_bytes_bound_only_what_no_cache_holds(share, refused, fields):
    found, known = of_matvec(share, **fields)
    assert bool(physics.find_impossible_time(found, known)) == refused


@pytest.mark.parametrize(
    "known",
    [
        make_standing(),  # nobody asked for ceilings
        standing(None),
        standing(CEILINGS.model_copy(update={"machine": "elsewhere"})),
        standing(contract=make_contract(work={})),
        standing(contract=make_contract(work={"flops": "2*ROWS"})),  # a column that is not there
        standing(contract=make_contract(scoring={"primary_metric": METRIC})),  # no time of one call
        standing(CEILINGS.model_copy(update={"flops_gflops": 20.0})),  # the best version is beyond it as well
    ],
    ids=["none", "empty", "other machine", "no work", "no such column", "no time", "does not govern"],
)
def test_where_nothing_is_known_nothing_is_refused(known):
    assert told(1000.0, known) == ""


def after_a_round(gain, ceilings=CEILINGS, **fields):
    """The best version is one of round 2, `1 + gain` times as fast as the original."""
    roof = Rooflined(ceilings=ceilings, specs=(), bound="unknown")
    return standing_of(make_history(make_round(2, gain=gain), roofline=roof, **fields))


# 1.8: `large` of the second version takes 0.71 of its floor, which is unexplained and was kept
@pytest.mark.parametrize(("gain", "factor", "refused"), [(1.8, 50.0, True), (1.8, 3.9, False), (0.5, 50.0, True)])
def test_a_kept_version_below_its_floor_does_not_lift_it_for_the_next(gain, factor, refused):
    known = after_a_round(gain)
    assert known.round == 2
    found = sort_readings(make_traced(make_scaled(factor)), known, ROUTER)
    assert bool(physics.find_impossible_time(found, known)) == refused
    assert bool(physics.compute_floors(found, known).get("large"))


def test_a_floor_that_the_original_breaks_stays_lifted():
    slow = CEILINGS.model_copy(update={"flops_gflops": 20.0})
    assert told(1000.0, after_a_round(1.8, slow)) == ""


def test_times_of_the_original_in_pairs_lift_a_floor_as_well():
    alike = make_comparison(candidate=BASE)
    quick = alike.model_copy(update={"shapes": tuple(s.model_copy(update={"best_us": 0.001}) for s in alike.shapes)})
    later = quick.model_copy(update={"best": "02" * 20})
    for comparison, lifted in ((quick, True), (later, False)):
        runs = (Calibrated(after_round=1, fresh=True, comparison=comparison),)
        assert (told(1000.0, after_a_round(1.8, calibrations=runs)) == "") == lifted


def test_a_time_of_zero_is_below_every_floor():
    rows = [make_row(n, metrics={"M": 64, "N": 64, "K": 64, METRIC: v, "Time (ms)": 0.0}) for n, v in VALUES.items()]
    known = standing()
    trial = make_traced(make_benchmark(rows=rows))
    assert "small takes 0 us" in physics.find_impossible_time(sort_readings(trial, known, ROUTER), known)


def test_pairs_are_looked_at_as_well():
    quick = make_comparison()
    fast = quick.model_copy(
        update={"shapes": tuple(s.model_copy(update={"candidate_us": 0.001}) for s in quick.shapes)}
    )
    known = standing()
    found = sort_readings(make_traced(make_scaled(1.0), fast), known, ROUTER)
    assert "takes 0.001 us" in physics.find_impossible_time(found, known)


def test_threads_share_no_ceiling_of_one_thread():
    many = standing(contract=make_contract(threads=4))
    assert told(15.9, many) == ""
    assert told(16.1, many)


def test_a_gpu_may_use_the_type_that_is_fastest_there():
    gpu = make_machine(kind="nvidia")
    alone = standing(CEILINGS, machine=gpu)
    assert told(100.0, alone) == ""  # one type was measured: a kernel may use another
    rates = (
        Rate(name="fp16 matrix product", value=4.0, unit="TFLOPS"),
        Rate(name="read bandwidth", value=9, unit="GB/s"),
    )
    known = standing(CEILINGS.model_copy(update={"others": rates}), machine=gpu)
    assert told(39.0, known) == ""
    assert told(41.0, known)


@pytest.mark.parametrize("preset", ["campaign", "router", "autonomous", "evidence"])
def test_an_impossible_time_is_rolled_back_in_every_preset(preset):
    verdict = decide_verdict(
        make_traced(make_scaled(1e5, level="quick")), standing(), make_limits(preset), best_profile=None
    )
    assert (verdict.decision, verdict.reason, verdict.faster) == ("rolled_back", "benchmark_failed", "unverified")
    assert "faster than this machine can be" in verdict.sentence


def router(factor, *findings, known):
    verified = make_verified(make_built(make_applied(audit=findings)))
    evidence = (make_scaled(factor, level="quick"),)
    return decide_verdict(
        Traced(timed=Timed(verified=verified, evidence=evidence * 1), profile=None), known, ROUTER, best_profile=None
    )


THREAD = make_finding(rule="thread", closer="stream_fingerprint")
SLOW = standing(CEILINGS.model_copy(update={"flops_gflops": 1e5}))


@pytest.mark.feature("F055")
@pytest.mark.parametrize(
    ("factor", "findings", "known", "reason", "noted"),
    [
        (2.9, (THREAD,), make_standing(), "faster", False),  # below three times
        (4.0, (THREAD,), make_standing(), "unsettled", True),
        (4.0, (), make_standing(), "faster", True),
        (4.0, (THREAD,), SLOW, "faster", False),  # the roofline leaves room for it
        (4.0, (), SLOW, "faster", False),
        (4.0, (THREAD,), make_standing(contract=make_contract(audit={"allow": ["thread"]})), "faster", True),
        (4.0, (make_finding(rule="inline-asm", closer="reading"),), make_standing(), "faster", True),
    ],
)
def test_three_times_as_fast_in_a_round_needs_a_roofline_or_a_clean_audit(factor, findings, known, reason, noted):
    verdict = router(factor, *findings, known=known)
    assert verdict.reason == reason
    assert any(note.startswith(gates.UNEXPLAINED) for note in verdict.notes) == noted
    assert gates.needs_person(verdict) == (noted and reason == "faster")
    if reason == "unsettled":
        assert "audit: {allow: [thread]}" in verdict.sentence


def test_a_judged_task_looks_closer_itself():
    judged = dict.fromkeys(("test_command", "benchmark_command", "quick_command"), ("ridgeline", "judge", "x", "{csv}"))
    known = make_standing(contract=make_contract(**judged))
    assert known.contract.judged
    assert router(4.0, THREAD, known=known).reason == "faster"
    assert not make_contract(**{**judged, "test_command": ("build/test",)}).judged
