"""What a model says when it looks back or around: reflections and directions of a review, checked and bounded."""

from collections.abc import Sequence

from pydantic import ValidationError

from ridgeline.agent.planners.catalog_words import categories_of
from ridgeline.agent.planners.model_directions import Answer, complaint
from ridgeline.agent.planners.model_fit import clipped
from ridgeline.agent.planners.model_history import disturbed, explored
from ridgeline.agent.planners.model_parse import Wrong, json_of
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.policy.lesson import contradiction
from ridgeline.graph.record import Reflection, RoundClosed
from ridgeline.graph.trial import Failed, Judged, find
from ridgeline.graph.values import Category
from ridgeline.prompts.render import render

FEWEST = 3
"""Different directions that a review owes (rules 17.2)."""
WORDS = 1000
"""Characters of one text."""
SETTLED = frozenset({"faster", "faster_trade_off", "tie_with_benefit", "not_better", "core_regression"})
"""Reasons that rest on a resolved measurement: only these rounds may teach a lesson to other kernels."""
UNTRIED = frozenset(
    {"no_edit", "refused_edit", "no_change", "more_than_one_change", "overfit", "convicted", "unsettled"}
)
"""Reasons with which nothing was built: there is nothing to diagnose."""


class Aspect(Answer):
    """One direction of a review."""

    category: Category
    direction: str
    because: str = ""


class Around(Answer):
    """A review's whole answer."""

    directions: tuple[Aspect, ...]


class Learnt(Answer):
    """What a round taught."""

    reached_hot_path: str = ""
    attribution: str
    root_cause: str = ""
    next_direction: str = ""
    lesson: str | None = None
    applies: str = ""
    does_not_apply: str = ""


def categories(answer: str) -> dict[str, Aspect] | Wrong:
    """The first direction of each category that a review names."""
    found = json_of(answer)
    if isinstance(found, Wrong):
        return found
    try:
        given = Around.model_validate({"directions": found} if isinstance(found, list) else found)
    except ValidationError as error:
        return Wrong(why=complaint(error))
    first: dict[str, Aspect] = {}
    for aspect in given.directions:
        if aspect.direction.strip():
            first.setdefault(aspect.category, aspect)
    if len(first) < FEWEST:
        return Wrong(why=f"only {len(first)} different categories are named; name at least {FEWEST}")
    return first


def around(answer: str, briefing: Briefing) -> tuple[str, ...] | Wrong:
    """Directions of a review, one for each category, those that no round has touched first."""
    first = categories(answer)
    if isinstance(first, Wrong):
        return first
    touched = explored(briefing.rounds)
    return tuple(_sentence(first[name], touched) for name in sorted(first, key=lambda name: name in touched))


def anyway(briefing: Briefing) -> tuple[str, ...]:
    """Directions where the model names none: every category, those that no round has touched first."""
    touched = explored(briefing.rounds)
    order = sorted(categories_of(briefing), key=lambda category: category in touched)
    chosen = order[: max(FEWEST, len(order) - len(touched))]
    return tuple(
        render("direction.v1.md", category=category, explored=category in touched).strip() for category in chosen
    )


def untouched(briefing: Briefing) -> str:
    """Categories that no round was about, of those that the target has."""
    touched = explored(briefing.rounds)
    return ", ".join(category for category in categories_of(briefing) if category not in touched)


def reflected(answer: str) -> Learnt | Wrong:
    """What an answer says was learnt, as it says it."""
    found = json_of(answer)
    if isinstance(found, Wrong):
        return found
    try:
        return Learnt.model_validate(found)
    except ValidationError as error:
        return Wrong(why=complaint(error))


def learnt(answer: str, judged: Judged, plain: Reflection, rounds: Sequence[RoundClosed] = ()) -> Reflection | Wrong:
    """The model's reading beside what the numbers say by themselves (`plain`), which comes first.

    A lesson that `rounds`, those before this one, or this round itself deny is dropped, and why is recorded.
    """
    said = reflected(answer)
    if isinstance(said, Wrong):
        return said
    hot = f"Hot path reached: {_words(said.reached_hot_path)}. " if said.reached_hot_path.strip() else ""
    lesson = _words(said.lesson or "") if judged.verdict.reason in SETTLED else ""
    denied = contradiction(lesson, judged, rounds) if lesson else ""
    dropped = f"dropped, because it {denied}: {lesson}" if denied else ""
    lesson = "" if denied else lesson
    return Reflection(
        attribution=f"{plain.attribution} {_words(said.attribution)}".strip(),
        root_cause="" if judged.verdict.accepted else f"{hot}{_words(said.root_cause) or plain.root_cause}",
        next_direction=_words(said.next_direction) or plain.next_direction,
        lesson=lesson or None,
        applies=_words(said.applies) if lesson else "",
        does_not_apply=_words(said.does_not_apply) if lesson else "",
        dropped=dropped,
    )


def nothing_seen(judged: Judged) -> bool:
    """Whether the round ended before anything was built, or without a number: there is nothing to reason from."""
    failed = find(judged, Failed)
    return disturbed(judged) or (failed is not None and failed.reason in UNTRIED)


def _sentence(aspect: Aspect, touched: frozenset[str]) -> str:
    state = "tried before" if aspect.category in touched else "not tried yet"
    because = f", because {_words(aspect.because).rstrip('.')}" if aspect.because.strip() else ""
    return f"{aspect.category} ({state}): {_words(aspect.direction).rstrip('.')}{because}."


def _words(text: str) -> str:
    return clipped(text, WORDS)
