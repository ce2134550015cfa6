"""When the direction must change."""

import pytest

from ridgeline.graph.record import Reviewed
from ridgeline.graph.rules.stagnation import advise_escalation, find_stagnation
from tests.builders import make_history, make_hypothesis, make_limits, make_round

PATIENT = {"stagnation_rollbacks": 99, "stagnation_same_category": 99, "stagnation_same_bottleneck": 99}


def rounds(pattern, *, categories="", bottlenecks=""):
    """`pattern`: a accepted, t accepted as a tie, r rolled back; one letter a round. Others cycle by default."""
    names = {"t": "tile", "l": "layout", "p": "pipelining"}
    labels = {"m": "memory", "c": "compute", "u": "unknown"}
    found = []
    for n, letter in enumerate(pattern):
        category = names[categories[n]] if categories else list(names.values())[n % 3]
        bottleneck = labels[bottlenecks[n]] if bottlenecks else ("memory", "compute")[n % 2]
        found.append(
            make_round(
                n + 2,
                "rolled_back" if letter == "r" else "accepted",
                reason="tie_with_benefit" if letter == "t" else None,
                hypothesis=make_hypothesis(category=category),
                bottleneck=bottleneck,
            )
        )
    return found


def review(after_round):
    return Reviewed(after_round=after_round, trigger="", directions=("a", "b", "c"), escalation="")


@pytest.mark.feature("F056")
@pytest.mark.parametrize(
    ("pattern", "due"), [("", False), ("r", False), ("rr", True), ("rar", False), ("arr", True), ("rra", False)]
)
def test_two_rollbacks(pattern, due):
    why = find_stagnation(make_history(*rounds(pattern)))
    assert why == ("2 consecutive rollbacks" if due else None)


@pytest.mark.feature("F056")
@pytest.mark.parametrize(("after", "due"), [((3,), False), ((2,), True), ((1, 2), True), ((2, 3), False)])
def test_no_review_again_before_two_more_rounds_closed(after, due):
    history = make_history(*rounds("rrr"), reviews=tuple(review(n) for n in after))
    assert (find_stagnation(history) is not None) is due


@pytest.mark.feature("F057")
@pytest.mark.parametrize(
    ("pattern", "categories", "due"),
    [
        ("rrr", "ttt", True),
        ("ttt", "ttt", True),
        ("rtr", "ttt", True),
        ("rr", "tt", False),
        ("rrr", "ttl", False),
        ("rar", "ttt", False),
        ("arrr", "tttt", True),
    ],
)
def test_three_rounds_of_one_category_without_gain(pattern, categories, due):
    limits = make_limits(**{**PATIENT, "stagnation_same_category": 3})
    why = find_stagnation(make_history(*rounds(pattern, categories=categories), limits=limits))
    assert why == ("3 rounds of category tile without a measurable gain" if due else None)


@pytest.mark.feature("F057")
@pytest.mark.parametrize(
    ("pattern", "bottlenecks", "due"),
    [
        ("rrrr", "mmmm", True),
        ("rrr", "mmm", False),
        ("rrrr", "mmmc", False),
        ("rrar", "mmmm", False),
        ("rrrr", "uuuu", False),
        ("arrrr", "cmmmm", True),
    ],
)
def test_the_same_bottleneck_for_four_rounds(pattern, bottlenecks, due):
    limits = make_limits(**{**PATIENT, "stagnation_same_bottleneck": 4})
    why = find_stagnation(make_history(*rounds(pattern, bottlenecks=bottlenecks), limits=limits))
    assert why == ("bottleneck memory for 4 rounds with nothing accepted" if due else None)


@pytest.mark.feature("F040")
@pytest.mark.parametrize(
    ("streak", "word"),
    [
        (1, "diagnose"),
        (2, "profile the best version afresh"),
        (3, "machine code"),
        (4, "best known"),
        (9, "best known"),
    ],
)
def test_escalation(streak, word):
    assert word in advise_escalation(streak)


@pytest.mark.parametrize("streak", [0, -1])
def test_nothing_to_escalate(streak):
    assert advise_escalation(streak) == ""
