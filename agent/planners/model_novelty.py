"""Whether a direction was tried before, whatever it is called this time."""

import re
from collections.abc import Sequence

from ridgeline.agent.planners.model_checks import Tried
from ridgeline.graph.values import Hypothesis

ALIKE = 0.75
"""Share of common words from which two changes with the same numbers are one direction."""
MAX_TRIES = 2
"""Attempts at a direction that has never been settled."""
UNTESTED = frozenset({"no_edit", "refused_edit", "no_change", "build_failed", "build_timeout", "benchmark_failed"})
"""Reasons that say nothing about the direction: its code never ran to the end."""
UNRESOLVED = frozenset(
    {"noise", "undecided", "not_better", "core_regression", "class_regression", "trace_not_improved"}
)
"""Reasons that speak about one best version only; a wrong result stays wrong."""
NO_DIRECTION = "no-direction"
"""Lever of a round whose model gave no usable direction; such a round is about nothing."""
_FILLER = frozenset({"a", "an", "and", "as", "by", "for", "from", "in", "into", "of", "on", "the", "to", "use", "with"})


def repeated(asked: Hypothesis, rounds: Sequence[Tried]) -> str:
    """Why a direction is not tried (again), or nothing. Knows only the rounds it is given: masked ones count nothing.

    What was accepted is in the sources already. What failed may come back once, when its code never ran, or when
    another best version has been accepted since and the failure was about the old one.
    """
    past = [closed for closed in rounds if same(asked, closed.hypothesis)]
    if not past:
        return ""
    last = past[-1]
    if last.accepted:
        return f"round {last.round} was this direction and was accepted; its change is in the sources"
    reason = last.reason
    why = f"round {last.round} was this direction and was rolled back ({reason})"
    if len(past) >= MAX_TRIES:
        return f"{why}, and it had {len(past)} rounds"
    if reason in UNTESTED:
        return ""
    if reason not in UNRESOLVED:
        return why
    if not any(closed.accepted and closed.round > last.round for closed in rounds):
        return f"{why}; the best version is still the same"
    return ""


def same(one: Hypothesis, other: Hypothesis) -> bool:
    """Whether two hypotheses are one direction: the same numbers for the same class, and the same name or words."""
    if NO_DIRECTION in (one.lever, other.lever) or one.target_class != other.target_class:
        return False
    if one.change.split() == other.change.split():
        return True
    if _numbers(one) != _numbers(other):
        return False
    return one.id == other.id or _alike(_words(one), _words(other))


def _numbers(asked: Hypothesis) -> set[str]:
    return set(re.findall(r"\d+", asked.change))


def _words(asked: Hypothesis) -> frozenset[str]:
    found = re.findall(r"[a-z]+|\d+", asked.change.lower())
    return frozenset(word for word in found if word not in _FILLER)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one | other) and len(one & other) / len(one | other) >= ALIKE
