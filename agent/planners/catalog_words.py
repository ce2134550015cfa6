"""What the catalog planner writes: hypotheses, explanations, directions, reflections, from cards and evidence."""

import re
from functools import lru_cache
from typing import get_args

from ridgeline.agent.planners.catalog_candidates import Candidate, hypothesis_of, texts
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.policy import predict
from ridgeline.graph.record import PredictionCheck, Reflection
from ridgeline.graph.trial import Failed, Judged, Traced, find, proposed
from ridgeline.graph.values import Category, Hypothesis, Prediction
from ridgeline.knowledge.cards import Card
from ridgeline.knowledge.rewrite import where_first
from ridgeline.knowledge.source import line_of
from ridgeline.knowledge.steps import Edit

NOTHING_LEFT = {
    "tile": "work on larger or smaller pieces; no card for it applies to this source any more",
    "layout": "move data into the order in which it is read; no card for it applies to this source",
    "pipelining": "overlap loading with computing; no card for it applies to this source",
    "occupancy": "trade registers and shared memory against parallel work; no card for it applies to this source",
    "backend": "compare with another backend's kernel of the same operator; cards cannot do that",
    "algorithm": "look for work that is done twice or need not be done; no card for it applies to this source",
    "compiler": "read the compiler's report of what it did not vectorise; no flag is left to try",
}
CATEGORIES: tuple[Category, ...] = get_args(Category)
OF_GPUS: frozenset[Category] = frozenset({"occupancy"})
"""Categories without a meaning on a processor."""


def categories_of(briefing: Briefing) -> tuple[Category, ...]:
    """Those of the target: a processor has no occupancy to trade."""
    cpu = briefing.machine.kind == "cpu"
    return tuple(name for name in CATEGORIES if not (cpu and name in OF_GPUS))


def hypothesis(candidate: Candidate, briefing: Briefing) -> Hypothesis:
    """The candidate as a falsifiable claim with its evidence."""
    card = candidate.card
    predicted = card.prediction
    return Hypothesis(
        id=candidate.id,
        lever=card.id,
        claim=f"I expect {briefing.target.primary_metric} of {briefing.target.target_op} to improve because "
        f"{card.because}.",
        change=candidate.change,
        category=card.category,
        bucket=card.bucket,
        evidence=_evidence(candidate, briefing),
        risks=card.risks,
        verification=card.verification,
        prediction=Prediction(
            counter=predicted.counter,
            direction=predicted.direction,
            ratio=predicted.ratio,
            speedup=candidate.expected,
        ),
        sweep=card.sweep,
        high_risk=card.high_risk,
        sources=(f"{card.path}:1", *card.sources),
    )


def _evidence(candidate: Candidate, briefing: Briefing) -> tuple[str, ...]:
    card = candidate.card
    counter = card.prediction.counter
    value = briefing.profile.counter(counter) if briefing.profile else None
    if briefing.profile and value is not None:
        seen = f"{counter} = {value:g} ({briefing.profile.rung}, best version of round {briefing.best_round})"
    else:
        seen = f"{briefing.bottleneck} bottleneck ({briefing.bottleneck_evidence or 'no counters here'})"
    lines = [f"{seen} -> {card.because} -> {candidate.change}"]
    place = _place(candidate.edits, tuple(texts(briefing).items()))
    if place:
        path, offset = place
        lines.append(f"{path}:{line_of(texts(briefing)[path], offset)} has the code that the card describes")
    if briefing.consecutive_rollbacks and briefing.rounds:
        last = briefing.rounds[-1]
        cause = last.reflection.root_cause or last.judged.verdict.reason
        lines.append(f"round {last.round} rolled back {hypothesis_of(last).lever}: {cause} -> another approach")
    return tuple(lines)


@lru_cache(maxsize=256)
def _place(edits: tuple[Edit, ...], sources: tuple[tuple[str, str], ...]) -> tuple[str, int] | None:
    """Asked for every candidate in every round, mostly of sources that are still the same."""
    return where_first(edits, dict(sources))


def explanation(candidate: Candidate) -> str:
    """Why it works, for the commit message."""
    because = candidate.card.because
    return f"{candidate.card.title}: {because[:1].upper()}{because[1:]}. {section(candidate.card, 'How')}"


def section(card: Card, heading: str) -> str:
    """One part of the card's text on one line."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", card.body, re.M | re.S)
    return " ".join(found.group(1).split()) if found else ""


def directions(ranked: list[Candidate], briefing: Briefing) -> tuple[str, ...]:
    """One sentence per category, those that no round has touched first, then those with the best lever left."""
    explored = {hypothesis_of(closed).category for closed in briefing.rounds}
    best: dict[str, Candidate] = {}
    for candidate in ranked:
        best.setdefault(candidate.card.category, candidate)
    order = {candidate.id: index for index, candidate in enumerate(ranked)}
    categories = sorted(
        categories_of(briefing), key=lambda c: (c not in best, c in explored, order[best[c].id] if c in best else 0)
    )
    return tuple(_direction(category, best.get(category), explored) for category in categories[: max(3, len(best))])


def _direction(category: str, candidate: Candidate | None, explored: set[Category]) -> str:
    state = "tried before" if category in explored else "not tried yet"
    if candidate is None:
        return f"{category} ({state}): {NOTHING_LEFT[category]}."
    return (
        f"{category} ({state}): {candidate.change}, because {candidate.card.because} "
        f"({candidate.card.id}, {candidate.expected:.2f}x expected)."
    )


def reflection(briefing: Briefing, judged: Judged, *, card: Card | None) -> Reflection:
    """Attribution from prediction against profile; a lesson only where the round settled something."""
    asked = proposed(judged).hypothesis
    traced = find(judged, Traced)
    checked = predict.check(asked.prediction, briefing.profile, traced.profile if traced else None)
    verdict = judged.verdict
    clear = verdict.accepted or (verdict.reason == "not_better" and checked.outcome == "refuted")
    return Reflection(
        attribution=_attribution(judged, checked),
        root_cause="" if verdict.accepted else _cause(judged, checked),
        next_direction=_next(asked, accepted=verdict.accepted),
        lesson=_lesson(briefing, judged, asked, card) if clear and card else None,
        applies=section(card, "Applies when") if clear and card else "",
        does_not_apply=section(card, "Pitfalls") if clear and card else "",
    )


def _attribution(judged: Judged, checked: PredictionCheck) -> str:
    failed = find(judged, Failed)
    if failed is not None:
        first = (failed.detail.strip().splitlines() or [""])[0][:200]
        return f"Ended before it could be measured ({failed.reason}): {first}"
    gain = judged.verdict.gain
    time = f"{gain:+.1%}" if gain is not None else "not resolved"
    if checked.before is None or checked.after is None:
        return f"{checked.counter} was expected {checked.expected} and was not measured here; result {time}."
    ratio = f" ({checked.after / checked.before:.2f}x)" if checked.before else ""
    moved = f"{checked.counter} {checked.before:g} -> {checked.after:g}{ratio}"
    return f"{moved}, predicted {checked.expected}: {checked.outcome}; result {time}."


def _cause(judged: Judged, checked: PredictionCheck) -> str:
    failed = find(judged, Failed)
    if failed is not None:
        return f"the change did not survive: {failed.reason}"
    if checked.outcome == "confirmed":
        return f"{checked.counter} moved as predicted and the result did not follow, so it is not what limits"
    if checked.outcome == "refuted":
        return f"{checked.counter} did not move as predicted: the change did not do here what the card says"
    return f"no effect beyond the noise ({judged.verdict.reason})"


def _next(asked: Hypothesis, *, accepted: bool) -> str:
    if accepted:
        return f"what the new version made possible after {asked.lever}, the largest expected gain first"
    return f"another lever than {asked.lever}, from another category than {asked.category} if one is left"


def _lesson(briefing: Briefing, judged: Judged, asked: Hypothesis, card: Card) -> str:
    place = f"{briefing.target.target_op} on {briefing.machine.name}"
    gain = judged.verdict.gain
    if judged.verdict.accepted and gain is not None:
        return f"{card.title} ({asked.change}): {gain:+.1%} for {place}."
    return f"{card.title} ({asked.change}) does not help {place}: {asked.prediction.counter} did not move as predicted."
