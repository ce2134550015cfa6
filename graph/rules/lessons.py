"""What a closed round taught: its prediction against what was measured, and whether a lesson agrees with the ledger."""

import re
from collections.abc import Iterator, Sequence
from math import exp, fsum, log
from typing import Literal

from ridgeline.graph.contract import Scoring
from ridgeline.graph.evidence import Profiled
from ridgeline.graph.record import PredictionCheck, RoundClosed
from ridgeline.graph.rules.score import higher_wins
from ridgeline.graph.trial import Judged, find_proposal
from ridgeline.graph.values import Hypothesis, Prediction

TOLERANCE = 0.02
"""Relative: a value that moved by less stood still."""

HALF = 0.5
"""A change in the predicted direction counts as the predicted one from half of its size, on a log scale."""


GLOBAL = "global"
"""The target of a hypothesis that is for every shape."""


def check_round(closed: RoundClosed, scoring: Scoring) -> PredictionCheck | None:
    """What came of a closed round's prediction, for every page that tells it; None where nothing was predicted or seen."""
    if find_proposal(closed.judged).author:  # a person's edit: the prediction was of another change
        return closed.prediction
    return check_metric(closed.judged, scoring) or closed.prediction


def check_metric(judged: Judged, scoring: Scoring) -> PredictionCheck | None:
    """A prediction of the metric itself against the verdict's paired times; None where it is of a counter.

    Where the gain has bounds, they must say the same as the gain; else it is unclear.
    """
    forecast, verdict = find_proposal(judged).hypothesis.prediction, judged.verdict
    if not is_metric(forecast.counter, scoring):
        return None
    speedup = class_speedup(judged)
    factors = [] if speedup is None else [speedup]
    if speedup is not None and find_proposal(judged).hypothesis.target_class == GLOBAL:
        factors += [1 + bound for bound in (verdict.lower, verdict.upper) if bound is not None and bound > -1]
    is_rate = forecast.counter.strip().lower() == "score" or (
        forecast.counter.strip().lower() not in _names_of_time(scoring) and higher_wins(scoring)
    )
    outcomes = {_compare_prediction(forecast, 1.0, factor if is_rate else 1 / factor, TOLERANCE) for factor in factors}
    return PredictionCheck(
        counter=forecast.counter,
        expected=forecast.direction,
        before=None,
        after=None,
        outcome=outcomes.pop() if len(outcomes) == 1 else "unclear",
        speedup=speedup,
    )


def class_speedup(judged: Judged) -> float | None:
    """Measured speedup of the shapes that the hypothesis was for; None where nothing, or no such shape, was timed."""
    target, verdict = find_proposal(judged).hypothesis.target_class, judged.verdict
    if target == GLOBAL:
        return 1 + verdict.gain if verdict.gain is not None and verdict.gain > -1 else None
    gains = [shape.gain for shape in verdict.shapes if aimed_at(target, shape.label, shape.config_class)]
    if not gains or min(gains) <= -1:
        return None
    return exp(fsum(log(1 + gain) for gain in gains) / len(gains))


def aimed_at(target_class: str, label: str, config_class: str) -> bool:
    """Whether a hypothesis is for this shape: it names all, its class, or the shape itself, alone or in a list."""
    names = (name.strip() for name in target_class.split(","))
    return target_class in (GLOBAL, config_class) or label in names


def is_metric(counter: str, scoring: Scoring) -> bool:
    """Whether a prediction names what the benchmark measures, and no counter."""
    names = {name.lower() for name in scoring.primary_metric}
    return counter.strip().lower() in names | {"score"} | _names_of_time(scoring)


def _names_of_time(scoring: Scoring) -> set[str]:
    """For a round's lesson: names by which a prediction means the time of one call."""
    return {"time", (scoring.time_ms or "time").lower()}


def check_prediction(
    prediction: Prediction, before: Profiled | None, after: Profiled | None, *, tolerance: float = TOLERANCE
) -> PredictionCheck:
    """Whether a round's predicted counter was confirmed, refuted, or unclear.

    unclear: a value is missing, the two profiles come from different rungs or machines, the counter moved less than
    `tolerance` (relative) where no size was predicted, or it moved as said but by less than half of the said size.
    refuted: it moved the other way, or stood still although a size beyond `tolerance` was predicted.
    """
    old_value = before.counter(prediction.counter) if before else None
    new_value = after.counter(prediction.counter) if after else None
    outcome: Literal["confirmed", "refuted", "unclear"] = "unclear"
    if (
        before
        and after
        and old_value is not None
        and new_value is not None
        and _is_comparable(prediction.counter, before, after)
    ):
        outcome = _compare_prediction(prediction, old_value, new_value, tolerance)
    return PredictionCheck(
        counter=prediction.counter, expected=prediction.direction, before=old_value, after=new_value, outcome=outcome
    )


def _is_comparable(counter: str, before: Profiled, after: Profiled) -> bool:
    same_stand = before.rung_of(counter) == after.rung_of(counter)
    return same_stand and (before.rung, before.machine) == (after.rung, after.machine)


def _compare_prediction(
    prediction: Prediction, old_value: float, new_value: float, tolerance: float
) -> Literal["confirmed", "refuted", "unclear"]:
    sign = 1 if prediction.direction == "up" else -1
    size = _predicted_size(prediction, sign)
    if abs(new_value - old_value) <= tolerance * abs(old_value):
        return "refuted" if size > log(1 + tolerance) else "unclear"
    if (new_value - old_value) * sign < 0:
        return "refuted"
    return "confirmed" if _log_move(old_value, new_value, sign) >= HALF * size else "unclear"


def _predicted_size(prediction: Prediction, sign: int) -> float:
    """Size of the predicted move as a positive log-ratio; 0 when none was predicted or it contradicts the direction."""
    if prediction.ratio is None or prediction.ratio <= 0:
        return 0.0
    return max(0.0, sign * log(prediction.ratio))


def _log_move(old_value: float, new_value: float, sign: int) -> float:
    """Log-ratio in the predicted direction; a counter that reaches or leaves zero has moved without limit."""
    if old_value <= 0 or new_value <= 0:
        return float("inf")
    return sign * log(new_value / old_value)


# Whether a lesson says what the ledger says: of the rounds that it cites, and of the directions that it names.
#
# Only plain words are read, and only where they leave no doubt: a sentence about some shapes, about what may come or with
# both signs claims nothing. A lesson that cannot be told to be wrong stands.

Sign = Literal["helped", "did not help"]

_CITED = re.compile(r"\brounds?[\s-]+(\d+(?:\s*(?:,\s*and|,|and|to|-)\s*(?:round\s+)?\d+)*)", re.IGNORECASE)
_SENTENCE = re.compile(r"[.;](?:\s|$)|\n")
_BUT = re.compile(r",?\s+\b(?:but|while|whereas|though|although|yet)\b\s+", re.IGNORECASE)
_NOT_HELPED = re.compile(
    r"\b(?:did|do|does|could|has|have)(?:\s+not|n't)\s+(?:\w+\s+)?(?:help|pay|gain|improve|speed)\w*"
    r"|\b(?:no|not|nothing|never)\s+(?:\w+\s+)?(?:gain\w*|speedup|benefit|effect|improv\w+|faster|better|help\w*)"
    r"|\b(?:gained|gave|brought|bought)\s+nothing"
    r"|\b(?:was|were|is|are|became|ran|it|time|kernel)\s+(?:\w+\s+)?(?:slower|worse)"
    r"|\bhurts?\b|\bslow(?:ed|s)\b|\bwas rolled back|\bregress(?:ed|es)\b|\bmade (?:\w+ ){1,3}(?:slower|worse)",
    re.IGNORECASE,
)
_HELPED = re.compile(
    r"\bhelp(?:ed|s)\b|\bsp(?:ed|eeds) (?:\w+ ){0,3}up|\bpaid off|\bpays off|\bimprove[ds]\b|\bfaster\b"
    r"|\b(?:gave|gained|brought) (?:\w+ )?\+?\d|\bwas (?:accepted|kept)|\bcut (?:the )?time",
    re.IGNORECASE,
)
_MAY = re.compile(
    r"\b(?:can|cannot|may|might|could|would|should|expect\w*|predict\w*|likely|unless|if|try)\b", re.IGNORECASE
)
_PART = re.compile(
    r"\b(?:on|for|at|where|when|only)\s+(?:[\w-]+\s+){0,4}?(?:rows?|shapes?|columns?|sizes?|class(?:es)?|[MNK]\b|\d)",
    re.IGNORECASE,
)
"""About some shapes, where the round's verdict is about all."""
_THIS = re.compile(r"\b(?:this|the same|the) (?:round|change|edit)\b", re.IGNORECASE)
_RESOLVED_DOWN = frozenset({"not_better", "core_regression"})
STEM = 5
"""Letters by which words of a direction are told: `prefetch` and `prefetching`."""


def find_contradiction(lesson: str, judged: Judged, rounds: Sequence[RoundClosed]) -> str:
    """Why the lesson of `judged` is not kept; empty when nothing in the rounds before it or in itself denies it.

    A cited round must have been closed, or be this one. Where a lesson says of a round, or of the direction that it
    was about, that it helped or did not, the verdict must say so too, as far as it resolved that.
    """
    proposal = find_proposal(judged)
    signs: dict[int, Sign | None] = {closed.round: _read_sign(closed.judged) for closed in rounds}
    signs[proposal.round] = _read_sign(judged)
    ideas = {closed.round: find_proposal(closed.judged).hypothesis for closed in rounds} | {
        proposal.round: proposal.hypothesis
    }
    claims_by_round: dict[int, set[Sign]] = {}
    for part, cited in _split_clauses(lesson):
        if absent := [number for number in cited if not 1 <= number <= proposal.round]:
            return f"cites round {absent[0]}, which does not exist: the last one is {proposal.round}"
        if (claim := _claim(part)) is None:
            continue
        for number in cited or _find_rounds_about(part, ideas, signs, proposal.round):
            claims_by_round.setdefault(number, set()).add(claim)
    for number, claims in claims_by_round.items():
        measured = signs.get(number)
        if measured is not None and measured not in claims:
            return f"says that round {number} {next(iter(claims))}, and it {measured} as measured"
    return ""


def _split_clauses(lesson: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Clauses with the rounds that they cite; one without inherits those of the clause before it in its sentence."""
    for sentence in _SENTENCE.split(lesson):
        cited: tuple[int, ...] = ()
        for part in _BUT.split(sentence):
            cited = tuple(int(n) for match in _CITED.finditer(part) for n in re.findall(r"\d+", match[1])) or cited
            yield part, cited


def _claim(part: str) -> Sign | None:
    """Whether a part of a lesson says that its lever helped; None where it says neither or both."""
    if _MAY.search(part) or _PART.search(_CITED.sub(" ", part)):
        return None
    down = _NOT_HELPED.search(part) is not None
    up = _HELPED.search(_NOT_HELPED.sub(" ", part)) is not None
    if up == down:
        return None
    return "helped" if up else "did not help"


def _find_rounds_about(
    part: str, ideas: dict[int, Hypothesis], signs: dict[int, Sign | None], this: int
) -> tuple[int, ...]:
    """Rounds whose direction the text names; none where verdicts on that direction differ."""
    words = {word[:STEM] for word in re.findall(r"[a-z]{3,}", part.lower())}
    numbers = [number for number, idea in ideas.items() if _is_named(idea, words)]
    if not numbers and _THIS.search(part):
        return (this,)
    return tuple(numbers) if len({signs[number] for number in numbers}) == 1 else ()


def _is_named(idea: Hypothesis, words: set[str]) -> bool:
    stems = {word[:STEM] for word in re.findall(r"[a-z]{3,}", idea.lever.lower())}
    return bool(stems) and stems <= words


def _read_sign(judged: Judged) -> Sign | None:
    """What the round resolved; None where it resolved nothing, or was not measured."""
    if judged.verdict.accepted:
        return "helped"
    return "did not help" if judged.verdict.reason in _RESOLVED_DOWN else None
