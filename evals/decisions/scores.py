"""Scores of answers: pure, so that a recorded answer and a fresh one are judged alike."""

import math
import re
import statistics
from collections.abc import Callable, Sequence

from pydantic import ValidationError

from ridgeline.agent.planner.checks import Checks, repeated, same
from ridgeline.agent.planner.conversation import Wrong, json_of
from ridgeline.agent.planner.directions import MOST, Direction, checked, cited, hypothesis
from ridgeline.agent.planner.edits import edited
from ridgeline.agent.planner.tools import resolver
from ridgeline.evals.decisions.points import Decision
from ridgeline.graph.policy.change import forbidden, single_change
from ridgeline.graph.values import Hypothesis, Value

FEW = 30
"""Fewer decision points than this are said to be few: no rate of them is known to better than some ten per cent."""
LOOSELY, CLOSELY = 0.2, 0.35
"""Share of common words from which a direction is an accepted one: of its category, and of any."""
Line = Callable[[str, int], str | None]
"""Cited path and line of the knowledge -> its text; None where there is none."""


class Score(Value):
    """One answer. None: the question does not arise."""

    parses: bool
    """Of directions: at least one with every field. Of edits: blocks that can be read and applied."""
    applies: bool | None = None
    """Edits that fit the best version's files, and change them."""
    compiles: bool | None = None
    """Edits that build on this machine; None where that was not tried, or cannot be."""
    correct: bool | None = None
    """Edits that pass the task's own test on this machine; None where that was not tried, or cannot be."""
    directions: int = 0
    usable: float | None = None
    """Of directions: share that the loop would let through, all its checks together. Of edits: 1 where they apply."""
    cites: float | None = None
    """Share of directions with a citation."""
    one_change: float | None = None
    """Share of directions that are one change with its evidence, in a bucket that rule 11 allows."""
    resolved: float | None = None
    """Share of citations that resolve, among those that can be looked up here."""
    repeats: float | None = None
    """Share of directions that repeat one which was settled."""
    hit_at: int | None = None
    """Place, from 1, of the first direction like one accepted in this round or later; None when there is none."""
    predicted: float | None = None
    """Speedup that the best-ranked direction predicts, where that one was tried and measured."""
    measured: float | None = None
    tokens: int


class Summary(Value):
    """All answers of one kind together; rates are means over answers."""

    answers: int
    parses: float
    applies: float | None
    compiles: float | None
    correct: float | None
    usable: float | None
    cites: float | None
    one_change: float | None
    resolved: float | None
    repeats: float | None
    hit_at_1: float | None
    hit_at_3: float | None
    sign_right: float | None
    """Share of measured predictions on whose side of 1 the measured speedup lies."""
    rank: float | None
    """Spearman's correlation of predicted and measured speedup; None below three."""
    log_error: float | None
    """Median of |ln(predicted / measured)|."""
    predictions: int
    tokens: float
    few: bool


def score(decision: Decision, answer: str, *, tokens: int, line: Line, checks: Checks | None = None) -> Score:
    """Of any answer to that question. `line` looks up citations of the knowledge, `checks` are those of the loop."""
    if decision.kind != "propose":
        texts = dict(checks.texts) if checks and checks.texts else dict(decision.sources)
        applies = not isinstance(edited(answer, texts, decision.contract), Wrong)
        return Score(parses=applies, applies=applies, usable=float(applies), tokens=tokens)
    given, asked = _given(answer), _directions(decision, answer)
    usable = _usable(answer, len(given), checks, line) if checks else None
    cites = statistics.fmean([_cites(item) for item in given]) if given else None
    if not asked:
        return Score(parses=False, directions=len(given), usable=usable, cites=cites, tokens=tokens)
    kept = [one for one in asked if not (forbidden(one) or single_change(one))]
    places = [place for place, one in enumerate(asked, start=1) if any(alike(one, good) for good in decision.good)]
    predicted, measured = _prediction(decision, asked)
    return Score(
        parses=True,
        directions=len(given),
        usable=usable,
        cites=cites,
        one_change=len(kept) / len(asked),
        resolved=_resolved(decision, asked, line),
        repeats=sum(bool(repeated(one, decision.tried)) for one in asked) / len(asked) if decision.tried else None,
        hit_at=places[0] if places else None,
        predicted=predicted,
        measured=measured,
        tokens=tokens,
    )


def summary(scores: Sequence[Score]) -> Summary:
    """Of answers to questions of one kind; ValueError for none."""
    pairs = [(s.predicted, s.measured) for s in scores if s.predicted is not None and s.measured is not None]
    proposing = [s for s in scores if s.directions]
    errors = [abs(math.log(p / m)) for p, m in pairs]
    return Summary(
        answers=len(scores),
        parses=statistics.fmean([s.parses for s in scores]),
        applies=_mean([s.applies for s in scores]),
        compiles=_mean([s.compiles for s in scores]),
        correct=_mean([s.correct for s in scores]),
        usable=_mean([s.usable for s in scores]),
        cites=_mean([s.cites for s in scores]),
        one_change=_mean([s.one_change for s in scores]),
        resolved=_mean([s.resolved for s in scores]),
        repeats=_mean([s.repeats for s in scores]),
        hit_at_1=_mean([s.hit_at == 1 for s in proposing]),
        hit_at_3=_mean([s.hit_at is not None and s.hit_at <= 3 for s in proposing]),
        sign_right=_mean([(p > 1) == (m > 1) for p, m in pairs]),
        rank=rank_correlation([p for p, _ in pairs], [m for _, m in pairs]),
        log_error=statistics.median(errors) if errors else None,
        predictions=len(pairs),
        tokens=statistics.fmean([s.tokens for s in scores]),
        few=len(scores) < FEW,
    )


def alike(one: Hypothesis, good: Hypothesis) -> bool:
    """Whether a direction is what was accepted, in other words and perhaps with other numbers.

    Looser than what the loop calls a repeat, which must not forbid a neighbour: by the words that both changes share,
    and fewer of them suffice in the same category. Read on 70 pairs of fresh and accepted directions of three kernels.
    """
    first, second = (set(re.findall(r"[a-z_]{2,}|\d+", text.change.lower())) for text in (one, good))
    shared = len(first & second) / len(first | second) if first | second else 0.0
    return same(one, good) or shared >= (LOOSELY if one.category == good.category else CLOSELY)


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's, with mean ranks for ties; None below three pairs or where one side does not vary."""
    if len(one) < 3 or len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return statistics.correlation(_ranks(one), _ranks(other))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _directions(decision: Decision, answer: str) -> tuple[Hypothesis, ...]:
    """Those that have every field, best first."""
    directions: list[Hypothesis] = []
    for item in _given(answer):
        try:
            directions.append(hypothesis(Direction.model_validate(item), decision.classes))
        except ValidationError:
            continue
    return tuple(directions)


def _given(answer: str) -> list[object]:
    """Whatever an answer lists as directions, as many as the loop reads."""
    found = json_of(answer)
    given = found.get("directions") if isinstance(found, dict) else found
    return given[:MOST] if isinstance(given, list) else []


def _usable(answer: str, given: int, checks: Checks, line: Line) -> float:
    """Share of the directions that pass every check. Citations of files that are not at hand here count as resolved."""
    lengths = dict(checks.lengths)
    known = resolver(lengths.get, line)

    def unresolved(place: str) -> str:
        path = place.partition(":")[0]
        return known(place) if path in lengths or path.startswith("knowledge/") or not checks.more else ""

    chosen = checked(answer, checks, unresolved)
    return 0.0 if isinstance(chosen, Wrong) or not given else len(chosen.hypotheses) / given


def _cites(item: object) -> bool:
    places = item.get("citations") if isinstance(item, dict) else None
    return isinstance(places, list) and any(isinstance(place, str) and place.strip() for place in places)


def _prediction(decision: Decision, asked: Sequence[Hypothesis]) -> tuple[float | None, float | None]:
    came = decision.outcome
    predicted = asked[0].prediction.speedup
    if came is None or came.speedup is None or predicted is None or not same(asked[0], came.hypothesis):
        return None, None
    return predicted, came.speedup


def _resolved(decision: Decision, asked: Sequence[Hypothesis], line: Line) -> float | None:
    """Files that a recording does not have, such as the benchmark, cannot be looked up and are left out."""
    lengths = {path: len(text.splitlines()) for path, text in decision.sources}
    unresolved = resolver(lengths.get, line)
    places = [cited(place) for one in asked for place in one.sources]
    known = [place for place in places if place.partition(":")[0] in lengths or place.startswith("knowledge/")]
    return sum(not unresolved(place) for place in known) / len(known) if known else None
