"""Scores of answers: pure, so that a recorded answer and a fresh one are judged alike."""

import itertools
import math
import random
import re
import statistics
from collections.abc import Callable, Mapping, Sequence

from pydantic import ValidationError

from ridgeline.agent.planner.checks import Checks, find_repetition, is_same_direction
from ridgeline.agent.planner.conversation import Wrong, json_of
from ridgeline.agent.planner.directions import (
    MOST,
    Direction,
    check_directions,
    make_hypothesis,
    normalize_citation,
    nothing_left,
)
from ridgeline.agent.planner.edits import apply_answer
from ridgeline.agent.planner.tools import resolver
from ridgeline.evals.decisions.points import Decision
from ridgeline.graph.rules.change import explain_forbidden, explain_several_changes
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
    """Of directions: at least one with every field, or why nothing is left. Of edits: blocks that can be read and applied."""
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
    """Score of any answer to a recorded question. `line` looks up citations of the knowledge, `checks` are those of the loop."""
    if decision.kind != "propose":
        texts = dict(checks.texts) if checks and checks.texts else dict(decision.sources)
        applies = not isinstance(apply_answer(answer, texts, decision.contract), Wrong)
        return Score(parses=applies, applies=applies, usable=float(applies), tokens=tokens)
    items, directions = _list_directions(answer), _directions(decision, answer)
    usable = _usable(answer, len(items), checks, line) if checks else None
    cites = statistics.fmean([_cites(item) for item in items]) if items else None
    if not directions:
        is_end = bool(nothing_left(answer))
        return Score(parses=is_end, directions=len(items), usable=usable, cites=cites, tokens=tokens)
    single_changes = [
        direction
        for direction in directions
        if not (explain_forbidden(direction) or explain_several_changes(direction))
    ]
    places = [
        place
        for place, direction in enumerate(directions, start=1)
        if any(alike(direction, good) for good in decision.good)
    ]
    predicted, measured = _prediction(decision, directions)
    return Score(
        parses=True,
        directions=len(items),
        usable=usable,
        cites=cites,
        one_change=len(single_changes) / len(directions),
        resolved=_resolved_share(decision, directions, line),
        repeats=sum(bool(find_repetition(direction, decision.tried)) for direction in directions) / len(directions)
        if decision.tried
        else None,
        hit_at=places[0] if places else None,
        predicted=predicted,
        measured=measured,
        tokens=tokens,
    )


def summary(scores: Sequence[Score]) -> Summary:
    """Scores of answers to recorded questions of one kind; ValueError for none."""
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


def alike(direction: Hypothesis, good: Hypothesis) -> bool:
    """Whether an answered direction is what was accepted, in other words and perhaps with other numbers.

    Looser than what the loop calls a repeat, which must not forbid a neighbour: by the words that both changes share,
    and fewer of them suffice in the same category. Read on 70 pairs of fresh and accepted directions of three kernels.
    """
    words, good_words = (set(re.findall(r"[a-z_]{2,}|\d+", text.change.lower())) for text in (direction, good))
    shared = len(words & good_words) / len(words | good_words) if words | good_words else 0.0
    return is_same_direction(direction, good) or shared >= (LOOSELY if direction.category == good.category else CLOSELY)


def rank_correlation(predicted: Sequence[float], measured: Sequence[float]) -> float | None:
    """Spearman's correlation of scores, with mean ranks for ties; None below three pairs or where one side does not vary."""
    if len(predicted) < 3 or len(set(predicted)) < 2 or len(set(measured)) < 2:
        return None
    return statistics.correlation(_ranks(predicted), _ranks(measured))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return statistics.fmean(numbers) if numbers else None


def _directions(decision: Decision, answer: str) -> tuple[Hypothesis, ...]:
    """Directions of a scored answer that have every field, best first."""
    directions: list[Hypothesis] = []
    for item in _list_directions(answer):
        try:
            directions.append(make_hypothesis(Direction.model_validate(item), decision.classes))
        except ValidationError:
            continue
    return tuple(directions)


def _list_directions(answer: str) -> list[object]:
    """Whatever an answer lists as directions, as many as the loop reads."""
    document = json_of(answer)
    items = document.get("directions") if isinstance(document, dict) else document
    return items[:MOST] if isinstance(items, list) else []


def _usable(answer: str, count: int, checks: Checks, line: Line) -> float:
    """Share of the directions that pass every check. Citations of files that are not at hand here count as resolved."""
    lengths = dict(checks.lengths)
    find_missing = resolver(lengths.get, line)

    def find_unresolved(place: str) -> str:
        path = place.partition(":")[0]
        return find_missing(place) if path in lengths or path.startswith("knowledge/") or not checks.more else ""

    chosen = check_directions(answer, checks, find_unresolved)
    return 0.0 if isinstance(chosen, Wrong) or not count else len(chosen.hypotheses) / count


def _cites(item: object) -> bool:
    places = item.get("citations") if isinstance(item, dict) else None
    return isinstance(places, list) and any(isinstance(place, str) and place.strip() for place in places)


def _prediction(decision: Decision, directions: Sequence[Hypothesis]) -> tuple[float | None, float | None]:
    came = decision.outcome
    predicted = directions[0].prediction.speedup
    if (
        came is None
        or came.speedup is None
        or predicted is None
        or not is_same_direction(directions[0], came.hypothesis)
    ):
        return None, None
    return predicted, came.speedup


def _resolved_share(decision: Decision, directions: Sequence[Hypothesis], line: Line) -> float | None:
    """Files that a recording does not have, such as the benchmark, cannot be looked up and are left out."""
    lengths = {path: len(text.splitlines()) for path, text in decision.sources}
    unresolved = resolver(lengths.get, line)
    places = [normalize_citation(place) for direction in directions for place in direction.sources]
    readable = [place for place in places if place.partition(":")[0] in lengths or place.startswith("knowledge/")]
    return sum(not unresolved(place) for place in readable) / len(readable) if readable else None


# Two wordings, or two models, at the same decision points: paired differences with their uncertainty. Pure.
#
# Points of one campaign share a kernel, a machine and a history, so the campaign is the unit: intervals come from drawing
# campaigns and then points in them, p-values from flipping the signs of whole campaigns. One score decides and was
# named before anybody looked (`usable`); the others are looked at together, so their p-values are Holm's.

DECIDES = "usable"
LEVEL = 0.95
ALPHA = 0.05
DRAWS = 4000
SEED = 20_260
LEAST_CAMPAIGNS = 6
"""With fewer, no flip of signs can be rarer than 5 per cent (2 / 2**5 is 0.06): points are flipped, and it is said."""
EXACT = 14
"""Units of which every flip is looked at; of more, `DRAWS` at random."""
Metric = Callable[[Score], float | None]
METRICS: dict[str, tuple[Metric, int]] = {
    DECIDES: (lambda s: s.usable, 1),
    "parses": (lambda s: float(s.parses), 1),
    "cites": (lambda s: s.cites, 1),
    "citations resolve": (lambda s: s.resolved, 1),
    "one change": (lambda s: s.one_change, 1),
    "repeats": (lambda s: s.repeats, -1),
    "hit at 1": (lambda s: float(s.hit_at == 1) if s.directions else None, 1),
    "hit at 3": (lambda s: float(s.hit_at is not None and s.hit_at <= 3) if s.directions else None, 1),
    "applies": (lambda s: None if s.applies is None else float(s.applies), 1),
    "compiles": (lambda s: None if s.compiles is None else float(s.compiles), 1),
    "correct": (lambda s: None if s.correct is None else float(s.correct), 1),
    "tokens": (lambda s: float(s.tokens), 0),
}
"""Name -> value of one answer, and whether more is better (1), worse (-1) or neither."""


class Difference(Value):
    """One score of the second against the first, over the points that have it on both sides."""

    metric: str
    points: int
    campaigns: int
    first: float
    second: float
    difference: float
    """Second minus first."""
    low: float | None
    high: float | None
    """Interval at `LEVEL`; None for a single point."""
    p: float | None
    """Two-sided; of the scores that do not decide, after Holm's correction. None where nothing can be flipped."""
    verdict: str
    """better, worse, differs, or no difference shown."""


class ContestantComparison(Value):
    """Two contestants."""

    first: str
    second: str
    kind: str
    points: int
    campaigns: int
    differences: tuple[Difference, ...]
    verdict: str
    """By the score that decides alone."""
    notes: tuple[str, ...]


def compare(
    reference: str, contender: str, kind: str, pairs: Mapping[tuple[str, str], tuple[Score, Score]]
) -> ContestantComparison | None:
    """Difference of two contestants' scores. `pairs`: (recording, point) -> scores of both; None without any."""
    if not pairs:
        return None
    raw = [row for name in METRICS if (row := _difference(name, pairs)) is not None]
    corrected_rows = [
        difference for difference in raw if difference.metric != DECIDES and METRICS[difference.metric][1]
    ]
    corrected = dict(
        zip(
            (difference.metric for difference in corrected_rows),
            _holm([difference.p for difference in corrected_rows]),
            strict=True,
        )
    )
    differences = tuple(
        _judge_difference(difference.model_copy(update={"p": corrected.get(difference.metric, difference.p)}))
        for difference in raw
    )
    campaigns = len({recording for recording, _ in pairs})
    decided = next(
        (difference.verdict for difference in differences if difference.metric == DECIDES), "no difference shown"
    )
    return ContestantComparison(
        first=reference,
        second=contender,
        kind=kind,
        points=len(pairs),
        campaigns=campaigns,
        differences=differences,
        verdict=decided,
        notes=tuple(_notes(len(pairs), campaigns)),
    )


def _notes(points: int, campaigns: int) -> list[str]:
    notes = []
    if points < FEW:
        notes.append(f"few: {points} points; a small difference cannot be seen, and its absence here proves nothing")
    if campaigns < LEAST_CAMPAIGNS:
        notes.append(f"{campaigns} campaigns: too few to be the unit, so p-values take points as independent: too sure")
    return notes


def _difference(name: str, pairs: Mapping[tuple[str, str], tuple[Score, Score]]) -> Difference | None:
    value = METRICS[name][0]
    both = [
        (recording, before, after)
        for (recording, _), (reference, contender) in pairs.items()
        if (before := value(reference)) is not None and (after := value(contender)) is not None
    ]
    if not both:
        return None
    by_campaign: dict[str, list[float]] = {}
    for recording, before, after in both:
        by_campaign.setdefault(recording, []).append(after - before)
    groups = list(by_campaign.values())
    low, high = _interval(groups)
    return Difference(
        metric=name,
        points=len(both),
        campaigns=len(groups),
        first=statistics.fmean([before for _, before, _ in both]),
        second=statistics.fmean([after for _, _, after in both]),
        difference=statistics.fmean(itertools.chain(*groups)),
        low=low,
        high=high,
        p=_p_value(groups),
        verdict="",
    )


def _judge_difference(row: Difference) -> Difference:
    better = METRICS[row.metric][1]
    sure = row.p is not None and row.p <= ALPHA and row.difference != 0
    if not sure or not better:
        return row.model_copy(update={"verdict": "no difference shown" if better else ""})
    return row.model_copy(update={"verdict": "better" if row.difference * better > 0 else "worse"})


def _interval(groups: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """Interval of a mean score over decision points: campaigns drawn with replacement, then points in each."""
    if sum(map(len, groups)) < 2:
        return None, None
    draw = random.Random(SEED)
    means = sorted(_draw_mean(groups, draw) for _ in range(DRAWS))
    tail = (1 - LEVEL) / 2
    return means[math.floor(tail * (DRAWS - 1))], means[math.ceil((1 - tail) * (DRAWS - 1))]


def _draw_mean(groups: Sequence[Sequence[float]], draw: random.Random) -> float:
    chosen = draw.choices(groups, k=len(groups)) if len(groups) >= 2 else groups
    return statistics.fmean(itertools.chain.from_iterable(draw.choices(group, k=len(group)) for group in chosen))


def _p_value(groups: Sequence[Sequence[float]]) -> float | None:
    """Share of flipped signs of score differences whose sum is at least as far from zero."""
    points = [[difference] for group in groups for difference in group]
    units = [math.fsum(unit) for unit in (groups if len(groups) >= LEAST_CAMPAIGNS else points)]
    units = [unit for unit in units if unit]
    if not units:
        return 1.0
    distance = abs(math.fsum(units)) - 1e-12
    if len(units) <= EXACT:
        flips = itertools.product((1, -1), repeat=len(units))
        sums = [abs(math.fsum(sign * unit for sign, unit in zip(signs, units, strict=True))) for signs in flips]
        return sum(total >= distance for total in sums) / len(sums)
    draw = random.Random(SEED)
    extreme_draws = sum(abs(math.fsum(draw.choice((1, -1)) * unit for unit in units)) >= distance for _ in range(DRAWS))
    return (1 + extreme_draws) / (1 + DRAWS)


def _holm(values: Sequence[float | None]) -> list[float | None]:
    by_size = sorted((value, place) for place, value in enumerate(values) if value is not None)
    p_values: list[float | None] = [None] * len(values)
    worst = 0.0
    for rank, (value, place) in enumerate(by_size):
        worst = max(worst, min(1.0, (len(by_size) - rank) * value))
        p_values[place] = worst
    return p_values
