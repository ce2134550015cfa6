"""The archive of search mode `evolve`: cells, islands, migration, elites, parents and ends, by their document's numbers."""

import random
from math import isclose

import pytest

from ridgeline.graph.record import Code
from ridgeline.graph.rules.archive import (
    choose_parent,
    compute_code_distance,
    compute_population_diversity,
    compute_temperature,
    count_bins,
    count_generations_without_gain,
    fold_archive,
    measure_code,
)
from ridgeline.graph.rules.stop import evaluate_stop_checks
from ridgeline.graph.trial import Drafted, find, replace_draft
from ridgeline.graph.values import FileEdit
from tests.builders import (
    make_baseline,
    make_failed,
    make_history,
    make_hypothesis,
    make_judged,
    make_limits,
    make_round,
)

SEED = Code(length=100, lines=10, characters="abc")


def evolve(*rounds, **limits):
    limits = make_limits(**{"search_mode": "evolve", "candidates": 3, "target_peak_fraction": None, **limits})
    return make_history(*rounds, limits=limits, baseline=make_baseline(code=SEED))


def candidate(number, gain, *, beside=None, kept=False, length=100, lines=10, characters="abc", parent=None, **about):
    """A measured round of the question whose first round is `beside`; `gain` is over the best version of the time."""
    closed = make_round(
        number, "accepted" if kept else "rolled_back", gain=gain, hypothesis=make_hypothesis(**about), code=None
    )
    code = Code(length=length, lines=lines, characters=characters)
    drafted = find(closed.judged, Drafted)
    asked = drafted.proposed.model_copy(update={"beside": beside, "parent": parent})
    trial = replace_draft(closed.judged.trial, drafted.model_copy(update={"proposed": asked}))
    return closed.model_copy(update={"judged": closed.judged.model_copy(update={"trial": trial}), "code": code})


def cells(history, island=0):
    return dict(fold_archive(history).islands[island].cells)


@pytest.mark.feature("F094")
def test_a_cell_is_taken_by_a_strictly_better_score_and_by_nothing_else():
    first = candidate(2, 0.5, beside=2, length=300)
    worse = candidate(3, 0.4, beside=2, length=300)
    equal = candidate(4, 0.5, beside=2, length=300)
    better = candidate(5, 0.6, length=300)
    one_island = {"islands": 1, "elites": 1}
    assert count_bins(1) == 1, "one cell: whatever is best holds it"
    assert cells(evolve(first, **one_island)) == {(0, 0, 0): 2}
    assert cells(evolve(first, worse, equal, **one_island)) == {(0, 0, 0): 2}
    assert cells(evolve(first, worse, equal, better, **one_island)) == {(0, 0, 0): 5}
    admitted = [item.admitted for item in fold_archive(evolve(first, worse, equal, better, **one_island)).generations]
    assert admitted == [(2,), (5,)]


@pytest.mark.feature("F094")
def test_versions_unlike_each_other_hold_cells_of_their_own():
    """Four bins of length, of distance and of score, between the least and the greatest so far."""
    assert count_bins(50) == 4
    long = candidate(2, 1.0, beside=2, length=500, lines=50, characters="abcdef")
    middle = candidate(3, 0.5, beside=2, length=300, lines=30)
    history = evolve(long, middle, islands=1)
    to_long, to_seed = compute_code_distance(long.code, middle.code), compute_code_distance(middle.code, SEED)
    furthest = compute_code_distance(long.code, SEED)
    assert (furthest, to_long, to_seed) == (441.5, 221.5, 220.0)
    assert int(4 * (to_long + to_seed) / 2 / furthest) == 2, "its mean distance to the two before it"
    assert cells(history) == {(0, 0, 0): 1, (3, 3, 3): 2, (2, 2, 2): 3}


@pytest.mark.feature("F094")
def test_generations_take_the_islands_in_turn_and_the_original_stands_on_each():
    history = evolve(*(candidate(number, 0.1 * number, length=100 * number) for number in range(2, 7)))
    stored = fold_archive(history)
    assert [island.members for island in stored.islands] == [(1, 2, 5), (1, 3, 6), (1, 4)]
    assert [item.island for item in stored.generations] == [0, 1, 2, 0, 1]


@pytest.mark.feature("F094")
def test_every_ten_generations_a_fifth_of_each_island_moves_on_in_a_ring():
    rounds = [candidate(number, 0.01 * number, length=100 + 10 * number) for number in range(2, 17)]
    before, after = fold_archive(evolve(*rounds[:9])), fold_archive(evolve(*rounds[:10]))
    assert [len(island.members) for island in before.islands] == [4, 4, 4]
    members = [set(island.members) for island in after.islands]
    assert members[0] == {1, 2, 5, 8, 11}
    assert members[1] == {1, 3, 6, 9, 11}, "the best of the first island: int(0.2 * 5) of it"
    assert members[2] == {1, 4, 7, 10}, "int(0.2 * 4) of the second are none"
    more = fold_archive(evolve(*rounds[:10], migration_rate=0.5))
    assert [set(island.members) for island in more.islands] == [
        {1, 2, 5, 8, 11, 10, 7},
        {1, 3, 6, 9, 11, 8},
        {1, 4, 7, 10, 9, 6},
    ]
    never = fold_archive(evolve(*rounds[:10], migration_every=11))
    assert [len(island.members) for island in never.islands] == [5, 4, 4]


@pytest.mark.feature("F094")
def test_elites_are_the_best_scores_up_to_their_number_and_the_population_loses_its_lowest():
    rounds = [candidate(number, 0.1 * number, beside=2, length=100 * number) for number in range(2, 8)]
    assert fold_archive(evolve(*rounds, elites=3)).elites == (7, 6, 5)
    small = fold_archive(evolve(*rounds, population=4))
    assert [solution.round for solution in small.solutions] == [1, 5, 6, 7], "the original stays"
    assert {number for island in small.islands for _, number in island.cells} <= {1, 5, 6, 7}


@pytest.mark.feature("F094")
def test_what_is_not_right_is_stored_with_score_0_holds_no_cell_and_is_no_parent():
    broken = make_round(2, judged=make_judged("rolled_back", "build_failed", gain=None, trial=make_failed()))
    wrong = make_round(3, "rolled_back", gain=0.9)
    verdict = wrong.judged.verdict.model_copy(update={"correct": "no", "reason": "check_failed"})
    wrong = wrong.model_copy(update={"judged": wrong.judged.model_copy(update={"verdict": verdict}), "code": SEED})
    history = evolve(broken, wrong, islands=1)
    stored = fold_archive(history)
    assert [(solution.round, solution.score, solution.cell) for solution in stored.solutions[1:]] == [
        (2, 0.0, None),
        (3, 0.0, None),
    ]
    assert stored.islands[0].members == (1,)
    parents = {choose_parent(evolve(broken, wrong, islands=1, search_seed=seed)).version.round for seed in range(20)}
    assert parents == {1}


def test_a_score_is_what_the_pairs_measured_times_what_was_proven_when_the_question_was_asked():
    history = evolve(
        candidate(2, 0.5, beside=2, kept=True),
        candidate(3, 0.2, beside=2),
        candidate(4, -0.1),
    )
    scores = {solution.round: solution.score for solution in fold_archive(history).solutions}
    assert scores == pytest.approx({1: 1.0, 2: 1.5, 3: 1.2, 4: 1.35})


def test_a_cache_or_a_masked_version_is_no_parent():
    cache = candidate(2, 0.5, length=300, bucket="W1", real_gain_bound=0.02)
    assert {choose_parent(evolve(cache, islands=1, search_seed=seed)).version.round for seed in range(20)} == {1}
    plain = candidate(2, 0.5, length=300)
    free = {choose_parent(evolve(plain, islands=1, search_seed=seed)).version.round for seed in range(20)}
    assert free == {1, 2}


@pytest.mark.feature("F094")
def test_parents_follow_the_recorded_seed_and_prefer_high_scores():
    rounds = [candidate(n, 0.3 * n, beside=2, length=100 * n, lines=5 * n) for n in range(2, 8)]
    drawn = [choose_parent(evolve(*rounds, islands=1, search_seed=seed)).version.round for seed in range(60)]
    assert drawn == [choose_parent(evolve(*rounds, islands=1, search_seed=seed)).version.round for seed in range(60)]
    assert set(drawn) == {1, 2, 3, 4, 5, 6, 7}, "each has a chance"
    assert drawn.count(7) > drawn.count(2)
    parent = choose_parent(evolve(*rounds, islands=1))
    assert parent.version.round not in {elite.round for elite in parent.elites}
    assert choose_parent(make_history(*rounds)) is None, "search mode linear"
    assert choose_parent(evolve(*rounds, candidates=1)) is None, "one candidate is the linear loop"


@pytest.mark.feature("F094")
def test_distances_diversity_and_temperature_by_their_formulas():
    a = measure_code([FileEdit(path="k.c", text="ab\ncd")])
    b = measure_code([FileEdit(path="k.c", text="ab\ncd\nefghij")])
    assert (a.length, a.lines, a.characters) == (5, 2, "\nabcd")
    assert compute_code_distance(a, b) == compute_code_distance(b, a) == pytest.approx(0.7 + 10 + 3)
    expected = 0.4 * 7 / 12 + 0.3 * 1 / 3 + 0.3 * 6 / 11
    assert compute_population_diversity([a, b], random.Random(0)) == pytest.approx(expected)
    assert compute_population_diversity([a, a], random.Random(0)) == 0
    temperatures = [compute_temperature(diversity) for diversity in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert all(map(isclose, temperatures, (0.6, 0.6, 1.0, 1.4, 1.8)))


@pytest.mark.feature("F094")
def test_the_search_ends_for_its_target_then_without_improvement_then_at_its_budget():
    def checks(history):
        found = evaluate_stop_checks(history, stop_requested=False, exhausted="", elapsed_minutes=0)
        return {check.id: check.satisfied for check in found}

    gains = [0.5, *[0.001] * 5]
    rounds = [candidate(number, gain, kept=True) for number, gain in enumerate(gains, start=2)]
    assert [count_generations_without_gain(evolve(*rounds[:count])) for count in range(7)] == [0, 0, 1, 2, 3, 4, 5]
    assert list(checks(evolve(*rounds)))[-2:] == ["T9", "T10"], "after the target: T1 and T2 come first"
    assert not checks(evolve(*rounds[:5]))["T9"]
    assert checks(evolve(*rounds))["T9"]
    assert not checks(evolve(*rounds))["T10"]
    assert checks(evolve(*rounds, max_generations=6))["T10"]
    assert not checks(evolve(*rounds, max_generations=6, endless=True))["T10"]
    assert "T9" not in checks(make_history(*rounds))
    slow = [candidate(number, 0.004, kept=True) for number in range(2, 8)]
    waits = [count_generations_without_gain(evolve(*slow[:count])) for count in range(1, 7)]
    assert waits == [1, 2, 0, 1, 2, 0], "small gains add up to one per cent every third time"
