"""Directions out of a model's answer: validated, checked against the rules, and made into hypotheses."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ridgeline.agent.planner.catalog import categories_of
from ridgeline.agent.planner.checks import (
    NO_DIRECTION,
    Checks,
    explain_unknown_class,
    find_repetition,
    is_same_direction,
    list_measurable,
    match_class,
    names,
)
from ridgeline.agent.planner.conversation import Wrong, clip_line, json_of
from ridgeline.agent.planner.edits import apply_candidate
from ridgeline.agent.planner.history import explored_categories, was_disturbed
from ridgeline.agent.planner.tools import resolver
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.record import Reflection, RoundClosed
from ridgeline.graph.rules.change import explain_forbidden, explain_several_changes
from ridgeline.graph.rules.lessons import find_contradiction
from ridgeline.graph.trial import Failed, Judged, find
from ridgeline.graph.values import Bucket, Category, Hypothesis, Prediction, Value
from ridgeline.prompts.render import render

LONGEST = 600
"""Characters of one field that are kept."""
MOST = 12
"""Directions of one answer that are looked at."""
Unresolved = Callable[[str], str]
"""Citation -> why it does not resolve, or nothing."""


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Something, and not only blanks."""


class Answer(BaseModel):
    """Base of what a model sends: unknown fields are dropped, known ones must be right."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True, allow_inf_nan=False)


class Step(Answer):
    """One step of the argument."""

    measured: Text
    """What was measured: a shape, a column of the benchmark, a counter, `bottleneck` or `round N`."""
    evidence: Text
    """What it showed."""
    inference: Text
    """What follows from it."""
    action: Text
    """What is therefore to be done."""


class Predicted(Answer):
    """What is expected to be seen."""

    counter: Text
    """Name of the counter that moves."""
    direction: Literal["down", "up"]
    ratio: float | None = Field(default=None, gt=0)
    """Counter after / before."""
    speedup: float | None = Field(default=None, gt=0)
    """Time before / after."""


class Direction(Answer):
    """One thing that could be tried, with the answers that it owes."""

    id: Text
    """Short stable name, words joined by hyphens."""
    lever: Text
    """Knowledge card or free name of the lever."""
    bottleneck: Text
    """What limits the kernel now."""
    claim: Text
    """One sentence: I expect X to improve because Y."""
    change: Text
    """The one change, in a few words."""
    benefit: Text
    """Expected benefit, with a number where one can be given."""
    risks: Text
    verification: Text
    """The signal that would show that it worked."""
    bucket: Bucket
    """Rule 11."""
    real_gain: Text
    """Expected gain in real use: for K1 to K4 that of the benchmark, for W1 its bound."""
    real_gain_bound: float | None = None
    """W1 only: quantisation time / step time."""
    category: Category
    evidence: tuple[Step, ...] = Field(min_length=1)
    citations: tuple[str, ...] = Field(min_length=1)
    """`path:line` of a source or of the knowledge, each of which exists."""
    prediction: Predicted
    target_class: str = "global"
    """Configuration class that the change is for, and its prediction is about."""
    sweep: bool = False
    """A declared sweep of one parameter's values."""
    high_risk: bool = False
    """Control flow or data layout changes."""
    diagnosis: str = ""
    """After a rollback: how this follows from the diagnosis of it."""


class Directions(Answer):
    """The whole answer, best direction first."""

    directions: tuple[Direction, ...]
    exhausted: str = ""
    """Why nothing is left to try, when the list is empty."""


class CheckedDirections(Value):
    """What an answer leaves to try, best first, and what was dropped."""

    hypotheses: tuple[Hypothesis, ...]
    dropped: tuple[str, ...]
    exhausted: str = ""


def check_directions(answer: str, checks: Checks, unresolved: Unresolved) -> CheckedDirections | Wrong:
    """The directions of a model's answer that may be tried. Wrong when there is none, and when nothing says that none is left."""
    document = json_of(answer)
    if isinstance(document, Wrong):
        return document
    proposals, exhausted = _list_directions(document)
    if not proposals:
        if exhausted:
            return CheckedDirections(hypotheses=(), dropped=(), exhausted=exhausted)
        return Wrong(why="`directions` is missing or empty, and `exhausted` does not say why nothing is left")
    hypotheses: list[Hypothesis] = []
    dropped: list[str] = []
    for number, item in enumerate(proposals[:MOST], start=1):
        direction = _direction(item)
        if isinstance(direction, Wrong):
            dropped.append(f"direction {number}: {direction.why}")
            continue
        candidate = make_hypothesis(direction, checks.classes)
        why = _find_bar(direction, candidate, checks, unresolved)
        if not why and any(is_same_direction(candidate, earlier) for earlier in hypotheses):
            why = "repeats a better ranked direction"
        if why:
            dropped.append(f"{candidate.id}: {why}")
        else:
            hypotheses.append(candidate)
    if not hypotheses:
        return Wrong(why="\n".join(("no direction can be used:", *dropped)))
    return CheckedDirections(hypotheses=tuple(hypotheses), dropped=tuple(dropped))


def make_hypothesis(direction: Direction, classes: Sequence[str] = ()) -> Hypothesis:
    """The direction as the loop knows it, every text bounded and on one line; its class as `classes` spell it."""
    steps = tuple(
        f"{short(step.measured)}: {short(step.evidence)} -> {short(step.inference)} -> {short(step.action)}"
        for step in direction.evidence
    )
    diagnosis = (f"diagnosis -> {short(direction.diagnosis)}",) if direction.diagnosis.strip() else ()
    return Hypothesis(
        id=slug(direction.id) or slug(direction.change) or "unnamed",
        lever=slug(direction.lever) or slug(direction.id) or "unnamed",
        claim=short(direction.claim),
        change=short(direction.change),
        category=direction.category,
        bucket=direction.bucket,
        evidence=(f"bottleneck: {short(direction.bottleneck)}", *steps, *diagnosis),
        risks=short(direction.risks),
        verification=short(direction.verification),
        prediction=Prediction(**direction.prediction.model_dump()),
        target_class=match_class(short(direction.target_class), classes) or "global",
        real_gain_bound=direction.real_gain_bound,
        sweep=direction.sweep,
        high_risk=direction.high_risk,
        sources=tuple(normalize_citation(citation) for citation in direction.citations),
    )


def none_usable(round: int, why: str) -> Hypothesis:
    """What a round is recorded as whose model gave no usable direction: nothing was tried, and nothing is claimed."""
    return Hypothesis(
        id=f"{NO_DIRECTION}-{round}",
        lever=NO_DIRECTION,
        claim="No hypothesis: the model's answers could not be used.",
        change="none",
        category="algorithm",
        bucket="K1",
        evidence=(f"the answers: {short(why)}",),
        risks="none: nothing is changed",
        verification="none: nothing is measured",
        prediction=Prediction(counter="none", direction="down"),
    )


def short(text: str) -> str:
    """One line of a model's text, cut to a bound."""
    return clip_line(text, LONGEST)


def slug(text: str) -> str:
    """A direction's name: lower-case words joined by hyphens, colons and equal signs kept: at most 60 characters."""
    return re.sub(r"[^a-z0-9:=._]+", "-", text.lower()).strip("-")[:60].strip("-")


def normalize_citation(citation: str) -> str:
    """A planner's citation of the knowledge in its plain form."""
    return citation.strip().strip("`[]()\"'").removeprefix("./")


def _list_directions(document: Any) -> tuple[list[Any], str]:
    """The directions of a model's answer that is an object, a bare list, or one bare direction; and what else it says."""
    if isinstance(document, list):
        return document, ""
    if "directions" not in document and "change" in document:
        return [document], ""
    directions, exhausted = document.get("directions"), document.get("exhausted")
    listed = directions if isinstance(directions, list) else []
    return listed, (short(exhausted) if isinstance(exhausted, str) else "")


def _direction(item: Any) -> Direction | Wrong:
    """One item of a model's answer as a direction, or which of its fields are wrong."""
    try:
        return Direction.model_validate(item)
    except ValidationError as error:
        return Wrong(why=complaint(error))


def complaint(error: ValidationError) -> str:
    """What is wrong with which field of a model's answer, in one line."""
    parts = [f"{'.'.join(map(str, problem['loc'])) or 'the whole'}: {problem['msg']}" for problem in error.errors()]
    more = f" and {len(parts) - 6} more" if len(parts) > 6 else ""
    return "; ".join(parts[:6]) + more


def _find_bar(direction: Direction, hypothesis: Hypothesis, checks: Checks, unresolved: Unresolved) -> str:
    """The first rule that drops a model's direction, decided by code whatever the model says of it."""
    if (
        why := explain_forbidden(hypothesis)
        or explain_several_changes(hypothesis)
        or explain_unknown_class(hypothesis.target_class, checks)
        or find_repetition(hypothesis, checks.tried)
    ):
        return why
    if not any(names(step.measured, checks) for step in direction.evidence):
        return f"cites no measurement; `measured` must name one of: {list_measurable(checks)}"
    if checks.diagnose and not direction.diagnosis.strip():
        return "says nothing in `diagnosis` about the last rollback"
    for citation in direction.citations:
        place = normalize_citation(citation)
        if place not in checks.addresses and (why := unresolved(place)):
            return f"citation {short(citation)!r}: {why}"
    return ""


# What a model says when it looks back or around: reflections and directions of a review, checked and bounded.

FEWEST = 3
"""Different directions that a review owes."""
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

    directions: tuple[Aspect, ...] = ()
    exhausted: str = ""
    """With no directions: why nothing worth a round is left; the campaign then ends."""
    deep: str = ""
    """Plan of a deep round, where what is left takes several steps."""


class Learnt(Answer):
    """What a round taught."""

    reached_hot_path: str = ""
    attribution: str
    root_cause: str = ""
    next_direction: str = ""
    lesson: str | None = None
    applies: str = ""
    does_not_apply: str = ""


class CheckedReview(Value):
    """A review that can be used."""

    directions: tuple[str, ...]
    deep: str = ""


def categories(answer: str) -> dict[str, Aspect] | Wrong:
    """The first direction of each category that a review names."""
    document = json_of(answer)
    if isinstance(document, Wrong):
        return document
    try:
        review = Around.model_validate({"directions": document} if isinstance(document, list) else document)
    except ValidationError as error:
        return Wrong(why=complaint(error))
    by_category: dict[str, Aspect] = {}
    for aspect in review.directions:
        if aspect.direction.strip():
            by_category.setdefault(aspect.category, aspect)
    if len(by_category) < FEWEST:
        return Wrong(why=f"only {len(by_category)} different categories are named; name at least {FEWEST}")
    return by_category


def read_end(answer: str) -> str:
    """Why no direction is left, where a model's answer says `{"exhausted": "why"}` and nothing else; else empty."""
    if not answer.lstrip().startswith(("{", "```")):
        return ""
    document = json_of(answer)
    why = document["exhausted"] if isinstance(document, dict) and set(document) == {"exhausted"} else ""
    return _words(why).strip() if isinstance(why, str) else ""


def nothing_left(answer: str) -> str:
    """Why a review sees nothing worth a round; empty where it names directions, or cannot be read."""
    document = json_of(answer)
    if not isinstance(document, dict) or document.get("directions"):
        return ""
    why = document.get("exhausted")
    return _words(why).strip() if isinstance(why, str) else ""


def read_end_or_review(answer: str, briefing: Briefing) -> str | CheckedReview | Wrong:
    """Why no direction is left, or a review with its plan of a deep round, where it has one."""
    review = nothing_left(answer) or read_review(answer, briefing)
    if not isinstance(review, tuple):
        return review
    document = json_of(answer)
    plan = document.get("deep") if isinstance(document, dict) else ""
    return CheckedReview(directions=review, deep=_words(plan).strip() if isinstance(plan, str) else "")


def read_review(answer: str, briefing: Briefing) -> tuple[str, ...] | Wrong:
    """Directions of a review, one for each category, those that no round has touched first."""
    by_category = categories(answer)
    if isinstance(by_category, Wrong):
        return by_category
    touched = explored_categories(briefing.rounds)
    return tuple(
        _sentence(by_category[name], touched) for name in sorted(by_category, key=lambda name: name in touched)
    )


def list_fallback_directions(briefing: Briefing) -> tuple[str, ...]:
    """Directions where the model names none: every category, those that no round has touched first."""
    touched = explored_categories(briefing.rounds)
    order = sorted(categories_of(briefing), key=lambda category: category in touched)
    chosen = order[: max(FEWEST, len(order) - len(touched))]
    return tuple(
        render("direction.v1.md", category=category, explored=category in touched).strip() for category in chosen
    )


def list_untouched_categories(briefing: Briefing) -> str:
    """Categories that no round was about, of those that the target has."""
    touched = explored_categories(briefing.rounds)
    return ", ".join(category for category in categories_of(briefing) if category not in touched)


def read_lessons(answer: str) -> Learnt | Wrong:
    """What a model's answer says was learnt, as it says it."""
    document = json_of(answer)
    if isinstance(document, Wrong):
        return document
    try:
        return Learnt.model_validate(document)
    except ValidationError as error:
        return Wrong(why=complaint(error))


def combine_reflection(
    answer: str, judged: Judged, plain: Reflection, rounds: Sequence[RoundClosed] = ()
) -> Reflection | Wrong:
    """The model's reading beside what the numbers say by themselves (`plain`), which comes first.

    A lesson that `rounds`, those before this one, or this round itself deny is dropped, and why is recorded.
    """
    if why := read_end(answer):
        return plain.model_copy(update={"exhausted": why})
    lessons = read_lessons(answer)
    if isinstance(lessons, Wrong):
        return lessons
    hot = f"Hot path reached: {_words(lessons.reached_hot_path)}. " if lessons.reached_hot_path.strip() else ""
    lesson = _words(lessons.lesson or "") if judged.verdict.reason in SETTLED else ""
    denied = find_contradiction(lesson, judged, rounds) if lesson else ""
    dropped = f"dropped, because it {denied}: {lesson}" if denied else ""
    lesson = "" if denied else lesson
    return Reflection(
        attribution=f"{plain.attribution} {_words(lessons.attribution)}".strip(),
        root_cause="" if judged.verdict.accepted else f"{hot}{_words(lessons.root_cause) or plain.root_cause}",
        next_direction=_words(lessons.next_direction) or plain.next_direction,
        lesson=lesson or None,
        applies=_words(lessons.applies) if lesson else "",
        does_not_apply=_words(lessons.does_not_apply) if lesson else "",
        dropped=dropped,
    )


def nothing_seen(judged: Judged) -> bool:
    """Whether the round to reflect on ended before anything was built, or without a number: nothing to reason from."""
    failed = find(judged, Failed)
    return was_disturbed(judged) or (failed is not None and failed.reason in UNTRIED)


def _sentence(aspect: Aspect, touched: frozenset[str]) -> str:
    """One direction of a review in a sentence, with whether its category was tried."""
    state = "tried before" if aspect.category in touched else "not tried yet"
    because = f", because {_words(aspect.because).rstrip('.')}" if aspect.because.strip() else ""
    return f"{aspect.category} ({state}): {_words(aspect.direction).rstrip('.')}{because}."


def _words(text: str) -> str:
    """One line of a model's direction, at most `WORDS` characters."""
    return clip_line(text, WORDS)


# Whether an answer could be used, asked before it is given: by the checks that travelled with its question.

Line = Callable[[str, int], str | None]
"""A line of the knowledge by path and number; None where there is no such line."""


class AnswerCheck(Value):
    """What the planner would say of an answer."""

    why: str = ""
    """Why it cannot be used; empty when it can."""
    dropped: tuple[str, ...] = ()
    """Directions that would be left out, each with the reason, where others can be used."""


def assess_answer(answer: str, checks: Checks, line: Line) -> AnswerCheck:
    """The planner's own checks of an answer, as far as they can be made away from its campaign."""
    match checks.kind:
        case "propose":
            unresolved = resolver(dict(checks.lengths).get, (lambda path, number: "") if checks.more else line)
            chosen = check_directions(answer, checks, unresolved)
            return AnswerCheck(why=chosen.why) if isinstance(chosen, Wrong) else _list_dropped(chosen)
        case "edits":
            assert checks.contract is not None
            texts, count = dict(checks.texts), checks.candidates
            results = (apply_candidate(answer, texts, checks.contract, count, place) for place in range(count))
            return _explain_refusal(
                read_end(answer) or next((result for result in results if isinstance(result, Wrong)), None)
            )
        case "review":
            return _explain_refusal(nothing_left(answer) or categories(answer))
        case "reflect":
            return _explain_refusal(read_end(answer) or read_lessons(answer))


def _list_dropped(chosen: CheckedDirections) -> AnswerCheck:
    """The check of a planner's answer that can be used, with what would be left out of it."""
    return AnswerCheck(dropped=chosen.dropped)


def _explain_refusal(result: object) -> AnswerCheck:
    """The check of a planner's answer: why it cannot be used, where it cannot."""
    return AnswerCheck(why=result.why) if isinstance(result, Wrong) else AnswerCheck()
