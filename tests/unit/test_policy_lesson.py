"""Lessons of a model against the rounds that they speak of."""

import json
from pathlib import Path

import pytest

from ridgeline.agent.planner.directions import combine_reflection
from ridgeline.graph.record import Reflection
from ridgeline.graph.reports.rounds import summary
from ridgeline.graph.rules import history as fold
from ridgeline.graph.rules.lessons import find_contradiction
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.builders import make_history, make_hypothesis, make_judged, make_round, make_traced

RECORDED = sorted((Path(__file__).parents[2] / "evals" / "campaigns").glob("*/ledger.jsonl"))


def past(number, decision, reason=None, lever="tile-64", **fields):
    return make_round(number, decision, reason=reason, hypothesis=make_hypothesis(id=lever, lever=lever), **fields)


ROUNDS = (
    past(2, "accepted", lever="register-tile"),
    past(3, "rolled_back", "not_better", lever="prefetch-row", gain=-0.01),
    past(4, "rolled_back", "undecided", lever="stream-stores", gain=0.001),
    past(5, "accepted", lever="unroll"),
    past(6, "rolled_back", "not_better", lever="unroll", gain=-0.01),
)


def judged(accepted=True, lever="row-jam"):
    trial = make_traced(round=7, hypothesis=make_hypothesis(id=lever, lever=lever))
    return make_judged("accepted" if accepted else "rolled_back", None if accepted else "not_better", trial=trial)


@pytest.mark.parametrize(
    ("lesson", "why"),
    [
        # cited rounds exist
        ("As round 8 showed, tiles of 64 fit.", "cites round 8, which does not exist: the last one is 7"),
        ("Rounds 2, 3 and 12 agree.", "cites round 12"),
        ("round-0 was the original.", "cites round 0"),
        ("Rounds 1 to 7 agree.", ""),
        # the sign of cited rounds
        ("Round 2 did not help.", "says that round 2 did not help, and it helped as measured"),
        ("Prefetching gained nothing in round 2.", "says that round 2 did not help"),
        ("In round 3 the kernel ran 12 % faster.", "says that round 3 helped, and it did not help as measured"),
        ("Round 2 helped but round 5 was slower.", "says that round 5 did not help"),
        ("Round 3 gained nothing, though round 2 helped.", ""),
        ("Rounds 2 and 3 improved it.", "says that round 3 helped"),
        ("Round 2 helped and round 3 gave nothing.", ""),  # both signs in one clause
        # nothing was resolved, so nothing is denied
        ("Round 4 helped.", ""),
        ("Round 4 did not help.", ""),
        # of some shapes, of what may come, or both ways: not the round's verdict
        ("Round 2 gave nothing on rows of 20011.", ""),
        ("Round 3 may have helped.", ""),
        ("Round 2 helped, though it was slower for short rows.", ""),
        # directions by name
        ("A register tile does not help here.", "says that round 2 did not help"),
        ("Prefetching each row helped.", "says that round 3 helped"),
        ("Unrolling does not help.", ""),  # one round each way
        ("Unrolling helped.", ""),
        ("Prefetching each row gained nothing: the hardware does it.", ""),
        ("Larger pages helped.", ""),  # nobody tried them
        # this round
        ("This change did not help.", "says that round 7 did not help, and it helped as measured"),
        ("Jamming rows was slower.", ""),
        ("A row jam was slower.", "says that round 7 did not help"),
        ("This change gave 4 %.", ""),
        ("", ""),
    ],
)
def test_a_lesson_is_held_against_the_rounds(lesson, why):
    found = find_contradiction(lesson, judged(), ROUNDS)
    assert found.startswith(why) if why else found == ""


def test_a_rollback_is_no_help():
    assert find_contradiction("This change helped.", judged(accepted=False), ROUNDS)
    assert find_contradiction("This change did not help.", judged(accepted=False), ROUNDS) == ""


def reflected(lesson):
    answer = json.dumps({"attribution": "fewer loads", "lesson": lesson, "applies": "rows", "does_not_apply": "-"})
    found = combine_reflection(answer, judged(), Reflection(attribution="plain"), ROUNDS)
    assert isinstance(found, Reflection)
    return found


def test_a_lesson_that_the_rounds_deny_is_dropped_and_why_is_recorded():
    found = reflected("Prefetching each row helped.")
    assert (found.lesson, found.applies, found.does_not_apply) == (None, "", "")
    assert found.dropped == (
        "dropped, because it says that round 3 helped, and it did not help as measured: Prefetching each row helped."
    )
    assert found.attribution == "plain fewer loads"
    history = make_history(make_round(2, "rolled_back", reflection=found))
    assert "because it says that round 3 helped" in summary(history, history.rounds[0])


def test_one_that_they_do_not_deny_is_kept_and_nothing_more_is_recorded():
    found = reflected("Keep constants in registers.")
    assert (found.lesson, found.applies) == ("Keep constants in registers.", "rows")
    assert "dropped" not in found.model_dump(mode="json")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_no_recorded_lesson_is_denied(path):
    known = fold.fold_ledger(JsonlLedger(path).lines())
    assert known is not None
    for number, closed in enumerate(known.rounds):
        assert find_contradiction(closed.reflection.lesson or "", closed.judged, known.rounds[:number]) == ""
