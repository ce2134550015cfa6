"""When the direction must change, and how deep to look after how many rollbacks (rules 17)."""

from collections.abc import Sequence

from ridgeline.graph.policy.counters import consecutive_rollbacks, without_edits
from ridgeline.graph.record import RoundClosed
from ridgeline.graph.standing import History
from ridgeline.graph.trial import proposed

ROUNDS_BETWEEN = 2
"""Rounds that must close after a review before the next one: its directions get their chance."""

_STEPS = (
    "",
    "diagnose the rollback: did the change reach the hot path? Then another approach to the same bottleneck",
    "profile the best version afresh with every profiler at hand and classify its bottleneck again",
    "inspect the machine code of the hot loop against a reference",
    "compare with the best known kernel for this operator and take a different approach",
)


def trigger(history: History) -> str | None:
    """Why a stagnation review is due now; None when none is."""
    rounds, limits = without_edits(history.rounds), history.limits
    if not rounds or _just_reviewed(history):
        return None
    if (streak := consecutive_rollbacks(rounds)) >= limits.stagnation_rollbacks:
        return f"{streak} consecutive rollbacks"
    recent = rounds[-limits.stagnation_same_category :]
    if len(recent) == limits.stagnation_same_category and _same_direction(recent):
        return f"{len(recent)} rounds of category {_category(recent[0])} without a measurable gain"
    recent = rounds[-limits.stagnation_same_bottleneck :]
    if len(recent) == limits.stagnation_same_bottleneck and _same_bottleneck(recent):
        return f"bottleneck {recent[0].bottleneck} for {len(recent)} rounds with nothing accepted"
    return None


def escalation(streak: int) -> str:
    """What rule 7 asks for after so many rollbacks in a row; empty after none."""
    return _STEPS[min(max(streak, 0), len(_STEPS) - 1)]


def _just_reviewed(history: History) -> bool:
    if not history.reviews:
        return False
    return history.rounds[-1].round - history.reviews[-1].after_round < ROUNDS_BETWEEN


def _same_direction(rounds: Sequence[RoundClosed]) -> bool:
    return len({_category(closed) for closed in rounds}) == 1 and not any(_gained(closed) for closed in rounds)


def _same_bottleneck(rounds: Sequence[RoundClosed]) -> bool:
    """An unknown bottleneck says nothing about whether it changed."""
    labels = {closed.bottleneck for closed in rounds}
    return len(labels) == 1 and "unknown" not in labels and not any(closed.accepted for closed in rounds)


def _gained(closed: RoundClosed) -> bool:
    return closed.accepted and closed.judged.verdict.reason != "tie_with_benefit"


def _category(closed: RoundClosed) -> str:
    return proposed(closed.judged).hypothesis.category
