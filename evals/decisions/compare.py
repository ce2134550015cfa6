"""Two wordings, or two models, at the same decision points: paired differences with their uncertainty. Pure.

Points of one campaign share a kernel, a machine and a history, so the campaign is the unit: intervals come from drawing
campaigns and then points in them, p-values from flipping the signs of whole campaigns. One score decides and was
named before anybody looked (`usable`); the others are looked at together, so their p-values are Holm's.
"""

import itertools
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence

from ridgeline.evals.decisions.scores import FEW, Score
from ridgeline.graph.values import Value

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


class Compared(Value):
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
    first: str, second: str, kind: str, pairs: Mapping[tuple[str, str], tuple[Score, Score]]
) -> Compared | None:
    """`pairs`: (recording, point) -> scores of both; None without any."""
    if not pairs:
        return None
    raw = [found for name in METRICS if (found := _difference(name, pairs)) is not None]
    others = [one for one in raw if one.metric != DECIDES and METRICS[one.metric][1]]
    corrected = dict(zip((one.metric for one in others), _holm([one.p for one in others]), strict=True))
    told = tuple(_judged(one.model_copy(update={"p": corrected.get(one.metric, one.p)})) for one in raw)
    campaigns = len({recording for recording, _ in pairs})
    decided = next((one.verdict for one in told if one.metric == DECIDES), "no difference shown")
    return Compared(
        first=first,
        second=second,
        kind=kind,
        points=len(pairs),
        campaigns=campaigns,
        differences=told,
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
    known = [
        (recording, one, other)
        for (recording, _), (first, second) in pairs.items()
        if (one := value(first)) is not None and (other := value(second)) is not None
    ]
    if not known:
        return None
    by_campaign: dict[str, list[float]] = {}
    for recording, one, other in known:
        by_campaign.setdefault(recording, []).append(other - one)
    groups = list(by_campaign.values())
    low, high = _interval(groups)
    return Difference(
        metric=name,
        points=len(known),
        campaigns=len(groups),
        first=statistics.fmean([one for _, one, _ in known]),
        second=statistics.fmean([other for _, _, other in known]),
        difference=statistics.fmean(itertools.chain(*groups)),
        low=low,
        high=high,
        p=_p_value(groups),
        verdict="",
    )


def _judged(found: Difference) -> Difference:
    better = METRICS[found.metric][1]
    sure = found.p is not None and found.p <= ALPHA and found.difference != 0
    if not sure or not better:
        return found.model_copy(update={"verdict": "no difference shown" if better else ""})
    return found.model_copy(update={"verdict": "better" if found.difference * better > 0 else "worse"})


def _interval(groups: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """Of the mean over points: campaigns drawn with replacement, then points in each."""
    if sum(map(len, groups)) < 2:
        return None, None
    draw = random.Random(SEED)
    means = sorted(_drawn(groups, draw) for _ in range(DRAWS))
    tail = (1 - LEVEL) / 2
    return means[math.floor(tail * (DRAWS - 1))], means[math.ceil((1 - tail) * (DRAWS - 1))]


def _drawn(groups: Sequence[Sequence[float]], draw: random.Random) -> float:
    chosen = draw.choices(groups, k=len(groups)) if len(groups) >= 2 else groups
    return statistics.fmean(itertools.chain.from_iterable(draw.choices(group, k=len(group)) for group in chosen))


def _p_value(groups: Sequence[Sequence[float]]) -> float | None:
    """Share of flipped signs whose sum is at least as far from zero."""
    points = [[difference] for group in groups for difference in group]
    units = [math.fsum(unit) for unit in (groups if len(groups) >= LEAST_CAMPAIGNS else points)]
    units = [unit for unit in units if unit]
    if not units:
        return 1.0
    seen = abs(math.fsum(units)) - 1e-12
    if len(units) <= EXACT:
        flips = itertools.product((1, -1), repeat=len(units))
        sums = [abs(math.fsum(sign * unit for sign, unit in zip(signs, units, strict=True))) for signs in flips]
        return sum(one >= seen for one in sums) / len(sums)
    draw = random.Random(SEED)
    far = sum(abs(math.fsum(draw.choice((1, -1)) * unit for unit in units)) >= seen for _ in range(DRAWS))
    return (1 + far) / (1 + DRAWS)


def _holm(values: Sequence[float | None]) -> list[float | None]:
    known = sorted((value, place) for place, value in enumerate(values) if value is not None)
    found: list[float | None] = [None] * len(values)
    worst = 0.0
    for rank, (value, place) in enumerate(known):
        worst = max(worst, min(1.0, (len(known) - rank) * value))
        found[place] = worst
    return found
