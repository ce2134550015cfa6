"""What a planner is told of numbers and ends: by shape, and by the limits that the stop check decides on."""

import pytest

from ridgeline.graph.contract import Work
from ridgeline.graph.evidence import Ceilings
from ridgeline.graph.loop.context import describe_shapes, describe_terms
from ridgeline.graph.record import Rooflined
from ridgeline.graph.rules.roofline import compute_shape_roofs
from ridgeline.graph.values import Cost
from tests.builders import (
    CANDIDATE,
    MACHINE,
    VALUES,
    make_baseline,
    make_benchmark,
    make_contract,
    make_history,
    make_judged,
    make_limits,
    make_opened,
    make_round,
    make_row,
    make_scaled,
    make_target,
    make_traced,
)

CEILINGS = Ceilings(copy_gbps=1e-3, flops_gflops=400.0, method="fma loop, pinned", machine=MACHINE)


def kept(factor: float, **run):
    timed = make_scaled(factor, **run)
    return make_round(2, judged=make_judged(trial=make_traced(timed, round=2)), commit=CANDIDATE, tree="new")


def test_before_the_baseline_there_is_no_number():
    assert describe_shapes(make_history(baseline=None)) == ()


def test_every_shape_has_the_original_and_the_best():
    found = describe_shapes(make_history(kept(1.5)))
    assert [shape.label for shape in found] == list(VALUES)
    assert [(shape.original, shape.best) for shape in found] == [(50, 75), (100, 150), (200, 300)]


@pytest.mark.parametrize("named", [True, False])
def test_times_need_a_column_that_the_contract_names(named):
    contract = make_contract()
    scoring = contract.scoring.model_copy(update={"time_ms": "Time (ms)" if named else None})
    opened = make_opened(contract=contract.model_copy(update={"scoring": scoring}))
    shape = describe_shapes(make_history(opened=opened))[0]
    assert (shape.original_us is not None) == named


def test_a_shape_that_the_last_run_left_out_or_failed_has_no_number():
    rows = (make_row("small", 60.0), make_row("medium", 0.0, check="FAIL"))
    history = make_history(kept(1.0))
    part = make_round(
        2, judged=make_judged(trial=make_traced(make_benchmark(rows=rows, level="quick"), round=2)), commit=CANDIDATE
    )
    found = describe_shapes(history.model_copy(update={"rounds": (part,)}))
    assert [shape.best for shape in found] == [60.0, None, None]


def test_a_full_run_fills_in_what_the_quick_one_left_out():
    runs = (make_scaled(1.2), make_benchmark(rows=(make_row("small", 65.0),), level="quick"))
    closed = make_round(2, judged=make_judged(trial=make_traced(*runs, round=2)), commit=CANDIDATE, tree="new")
    assert [shape.best for shape in describe_shapes(make_history(closed))] == [65.0, 120.0, 240.0]


def test_the_terms_are_the_numbers_of_the_stop_check():
    limits = make_limits(max_rounds=7, target_peak_fraction=0.8)
    history = make_history(make_round(2, "rolled_back", cost=Cost(tokens=9)), limits=limits)
    found = describe_terms(history)
    assert (found.rounds_done, found.rounds_most, found.peak_asked) == (1, 7, 0.8)
    assert found.spent.tokens == 9
    assert not found.governed
    assert found.peak_now.startswith("unknown: ")


def test_a_share_is_told_where_the_ceilings_govern():
    contract = make_contract()
    contract = contract.model_copy(update={"work": Work(flops="2*M*N*K", bytes="M*N*K")})
    contract = contract.model_copy(
        update={"scoring": contract.scoring.model_copy(update={"time_ms": "Time (ms)"}), "threads": 1}
    )
    baseline = make_baseline()
    roofs = compute_shape_roofs(baseline.quick.rows, contract.work, CEILINGS.model_copy(update={"copy_gbps": None}))
    roofline = Rooflined(ceilings=CEILINGS.model_copy(update={"copy_gbps": 1e6}), specs=(), bound="compute")
    history = make_history(
        opened=make_opened(contract=contract, limits=make_limits(), target=make_target()),
        baseline=baseline.model_copy(update={"shapes": roofs}),
        roofline=roofline,
    )
    found = describe_terms(history)
    assert found.governed
    assert "% of the compute ceiling" in found.peak_now
    assert describe_shapes(history)[0].roof.floor_us is not None
