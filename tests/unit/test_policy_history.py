"""Folds over the ledger: best version, memory, cost."""

import pytest

from ridgeline.graph.errors import LedgerCorrupt
from ridgeline.graph.record import Concluded, Line, Restarted, Reviewed, Rooflined
from ridgeline.graph.rules import history as fold
from ridgeline.graph.trial import Formatted
from ridgeline.graph.values import Cost
from tests.builders import (
    BASE,
    make_applied,
    make_baseline,
    make_comparison,
    make_contract,
    make_history,
    make_judged,
    make_limits,
    make_opened,
    make_profiled,
    make_round,
    make_scaled,
    make_traced,
)

FAST, FASTER = "1" * 40, "2" * 40


def lines(*bodies):
    return tuple(Line(seq=n, key=str(n), prev="0" * 64, body=body, sha256=f"{n}" * 64) for n, body in enumerate(bodies))


def measured(number, *evidence, commit=FAST, profile=None, formatted=None, **fields):
    trial = make_traced(*evidence, round=number, commit=commit, profile=profile)
    return make_round(number, judged=make_judged(trial=trial, formatted=formatted), commit=commit, tree="new", **fields)


def concluded(**fields):
    default = {
        "stop_reason": "T4",
        "checks": (),
        "final": None,
        "project": None,
        "attribution": None,
        "speedup": None,
        "speedup_lower": None,
        "closed_at": "2026-11-21T11:00:00Z",
        "cost": Cost(tokens=1),
    }
    return Concluded(**{**default, **fields})


def test_an_empty_ledger_is_no_history():
    assert fold.fold_ledger(()) is None


def test_a_ledger_begins_with_opened():
    with pytest.raises(LedgerCorrupt, match="line 1: is of kind 'baseline'"):
        fold.fold_ledger(lines(make_baseline(), make_opened()))


def test_bodies_are_sorted_by_kind():
    bodies = (
        make_opened(),
        Rooflined(ceilings=None, specs=(), bound="unknown"),
        make_baseline(),
        make_round(2),
        make_round(3, "rolled_back"),
        Reviewed(after_round=3, trigger="x", directions=("a",), escalation=""),
        Restarted(after_round=3, masked=(2,), note=""),
        concluded(),
    )
    found = fold.fold_ledger(lines(*bodies))
    assert found is not None
    assert (found.opened, found.roofline, found.baseline) == bodies[:3]
    assert found.rounds == bodies[3:5]
    assert (*found.reviews, *found.restarts, found.concluded) == bodies[5:]
    assert found.limits == make_limits()
    assert fold.fold_ledger(lines(make_opened())) == make_history(baseline=None)


def test_a_history_is_folded_once_and_its_copy_anew():
    history = make_history(make_round(2, "rolled_back"))
    assert fold.standing(history) is fold.standing(history)
    assert history == make_history(make_round(2, "rolled_back"))  # what was folded is no part of the value
    longer = history.model_copy(update={"rounds": (*history.rounds, measured(3, make_scaled(1.1, commit=FAST)))})
    assert fold.standing(history).round == 1
    assert fold.standing(longer).round == 3
    assert [closed.round for closed in fold.lineage(longer)] == [3]


def test_the_original_is_the_first_best():
    baseline = make_baseline(representative=("small", "large"))
    best = fold.standing(make_history(make_round(2, "rolled_back"), baseline=baseline))
    assert (best.round, best.commit, best.tree) == (1, BASE, "t" * 40)
    assert best.quick == best.full == baseline.quick
    assert best.shapes == best.core_shapes == ("small", "large")
    assert best.all_shapes == ("small", "medium", "large")


def test_without_representative_shapes_all_are_active():
    assert fold.standing(make_history(baseline=make_baseline(representative=()))).shapes == ("small", "medium", "large")


def test_core_shapes_are_the_contracts():
    contract = make_contract(core_shapes=("large",))
    assert fold.standing(make_history(opened=make_opened(contract=contract))).core_shapes == ("large",)


def test_there_is_no_best_before_the_baseline():
    history = make_history(baseline=None)
    with pytest.raises(ValueError, match="before the baseline"):
        fold.standing(history)
    assert fold.best_profile(history) is None


@pytest.mark.feature("F044")
def test_the_best_is_the_last_accepted_after_two_rollbacks():
    history = make_history(make_round(2), make_round(3), make_round(4, "rolled_back"), make_round(5, "rolled_back"))
    best = fold.standing(history)
    assert (best.round, best.commit) == (3, "03" * 20)
    assert [closed.round for closed in fold.accepted_rounds(history)] == [2, 3]
    assert [closed.round for closed in fold.rolled_back_rounds(history)] == [4, 5]


def test_numbers_of_the_best_are_its_own_latest():
    old, new = make_scaled(1.1, commit=FAST, level="quick"), make_scaled(1.2, commit=FAST, level="quick", repeat=1)
    others = (
        make_scaled(9, commit=BASE),
        make_comparison(),
        make_scaled(9, commit=FAST, source="project"),
    )
    best = fold.standing(make_history(measured(2, old, new, *others)))
    assert (best.quick, best.full, best.tree) == (new, None, "new")
    full = make_scaled(1.3, commit=FAST)
    best = fold.standing(make_history(measured(2, full, new)))
    assert (best.quick, best.full) == (new, full)


def test_formatted_numbers_go_before_those_of_the_candidate():
    plain, tidy = make_scaled(1.1, commit=FAST), make_scaled(1.09, commit=FASTER)
    formatted = Formatted(applied=make_applied(commit=FASTER), evidence=(tidy,))
    assert fold.standing(make_history(measured(2, plain, formatted=formatted))).quick == tidy
    formatted = Formatted(applied=make_applied(commit=FASTER), evidence=(make_comparison(),))
    assert fold.standing(make_history(measured(2, plain, formatted=formatted))).quick == plain


def test_the_commit_of_the_best_without_commits_to_a_branch():
    closed = measured(2, make_scaled(1.1, commit=FAST)).model_copy(update={"commit": None})
    assert fold.standing(make_history(closed)).commit == FAST
    formatted = Formatted(applied=make_applied(commit=FASTER))
    closed = measured(2, make_scaled(1.1, commit=FAST), formatted=formatted).model_copy(update={"commit": None})
    assert fold.standing(make_history(closed)).commit == FASTER


@pytest.mark.parametrize("evidence", [(make_comparison(),), (make_scaled(1.1, commit=BASE),)])
def test_nothing_is_accepted_without_a_benchmark(evidence):
    with pytest.raises(ValueError, match="round 2 is accepted without a benchmark"):
        fold.standing(make_history(measured(2, *evidence)))


def test_profile_of_the_best():
    mine = make_profiled({"n": 1.0}, commit=FAST)
    history = make_history(measured(2, make_scaled(1.1, commit=FAST), profile=mine), make_round(3, "rolled_back"))
    assert fold.best_profile(history) == mine
    assert fold.best_profile(make_history()) == make_baseline().profile
    # another version's counters are not the best version's
    assert fold.best_profile(make_history(measured(2, make_scaled(1.1, commit=FAST)))) is None


@pytest.mark.parametrize(
    ("history", "number"),
    [
        (make_history(baseline=None), 1),
        (make_history(), 2),
        (make_history(make_round(2), make_round(3, "rolled_back")), 4),
    ],
)
def test_round_numbers_are_never_used_twice(history, number):
    assert fold.next_round(history) == number


@pytest.mark.feature("F084")
def test_masked_rounds_are_out_of_planning():
    restarts = (Restarted(after_round=4, masked=(1,), note=""), Restarted(after_round=5, masked=(3, 4), note=""))
    history = make_history(*(make_round(n) for n in range(2, 7)), restarts=restarts)
    assert fold.masked_versions(history) == {1, 3, 4}
    assert [closed.round for closed in fold.unmasked_rounds(history)] == [3, 6]
    assert len(fold.unmasked_rounds(make_history(make_round(2)))) == 1


def test_total_cost_counts_everything_once():
    review = Reviewed(after_round=2, trigger="", directions=(), escalation="", cost=Cost(tokens=3, dollars=0.5))
    history = make_history(make_round(2), make_round(3), reviews=(review,), concluded=concluded())
    assert fold.total_cost(history) == Cost(tokens=204, dollars=0.5, wall_seconds=20.0)
    assert fold.total_cost(make_history(baseline=None)) == Cost()


def test_one_unknown_price_makes_the_sum_unknown():
    history = make_history(make_round(2, cost=Cost(dollars=None)), make_round(3, cost=Cost(dollars=2.0)))
    assert fold.total_cost(history).dollars is None
