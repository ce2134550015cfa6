"""Contestants (a wording answered by a model) at the decision points of recordings: answers found, scored, compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ridgeline.evals.decisions.answers import Answers, Given
from ridgeline.evals.decisions.asking import Point, Situation, situations
from ridgeline.evals.decisions.building import tried
from ridgeline.evals.decisions.compare import Compared, compare
from ridgeline.evals.decisions.points import Decision, decisions
from ridgeline.evals.decisions.prompts import Prompt
from ridgeline.evals.decisions.scores import Line, Score, Summary, score, summary

KINDS = ("propose", "draft", "repair")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One decision point, with what was known of it later."""

    situation: Situation
    decision: Decision

    @property
    def point(self) -> Point:
        return self.situation.point


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One wording, answered by one model."""

    prompt: str
    model: str

    def __str__(self) -> str:
        return f"{self.prompt} by {self.model}"


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A contestant at every point that it answered."""

    contestant: Contestant
    scores: Mapping[Point, Score]
    unanswered: tuple[Point, ...]
    stale: int
    """Answers to a question that this wording would put otherwise today."""
    given: Mapping[Point, Given]

    def of(self, kind: str) -> Summary | None:
        """All answers of one kind; None without any."""
        found = [one for point, one in self.scores.items() if point.kind == kind]
        return summary(found) if found else None


def gathered(recordings: Sequence[Path], prompts: Sequence[Prompt], kinds: Sequence[str]) -> tuple[Asked, ...]:
    """The decision points of these kinds. Raises UserError for what is no recording."""
    found: list[Asked] = []
    for path in recordings:
        known = {(one.round, one.kind, one.attempt): one for one in decisions(path)}
        for situation in situations(path, prompts):
            point = situation.point
            decision = known.get((point.round, point.kind, 1)) or known.get((point.round, "propose", 1))
            if point.kind in kinds and decision is not None:
                found.append(Asked(situation=situation, decision=decision.model_copy(update={"kind": point.kind})))
    return tuple(found)


def repeated(asked: Sequence[Asked], times: int) -> tuple[Asked, ...]:
    """The same points so many times over, each under a recording of its own: for measuring what scoring takes."""
    return tuple(_renamed(one, number) if number else one for number in range(times) for one in asked)


def _renamed(asked: Asked, number: int) -> Asked:
    point = asked.point.model_copy(update={"recording": f"{asked.point.recording}+{number}"})
    return replace(asked, situation=replace(asked.situation, point=point))


def scored(
    asked: Sequence[Asked], contestant: Contestant, answers: Answers, *, line: Line, try_here: bool = False
) -> Scored:
    """Every answer of a contestant that is kept, by what was known later; `try_here`: built and tested too."""
    scores: dict[Point, Score] = {}
    given: dict[Point, Given] = {}
    missing: list[Point] = []
    stale = 0
    for one in asked:
        ask = one.situation.asks.get(contestant.prompt)
        if ask is None:
            continue
        found = answers.find(contestant.prompt, contestant.model, one.point)
        if found is None:
            missing.append(one.point)
            continue
        stale += found.question != ask.digest
        checks = one.situation.checks
        told = score(one.decision, found.text, tokens=found.tokens, line=line, checks=checks)
        if try_here and told.applies:
            ran = tried(one.decision, found.text, checks)
            told = told.model_copy(update={"compiles": ran.compiles, "correct": ran.correct})
        scores[one.point] = told
        given[one.point] = found
    return Scored(contestant=contestant, scores=scores, unanswered=tuple(missing), stale=stale, given=given)


def compared(first: Scored, second: Scored, kinds: Sequence[str] = KINDS) -> tuple[Compared, ...]:
    """At the points that both answered, one comparison a kind of question."""
    names = str(first.contestant), str(second.contestant)
    both = [point for point in first.scores if point in second.scores]
    found: list[Compared] = []
    for kind in kinds:
        pairs = {
            (point.recording, point.name): (first.scores[point], second.scores[point])
            for point in both
            if point.kind == kind
        }
        if done := compare(*names, kind, pairs):
            found.append(done)
    return tuple(found)
