"""The prediction of a hypothesis against what was seen, whatever the verdict."""

from math import log
from typing import Literal

from ridgeline.graph.evidence import Profiled
from ridgeline.graph.record import PredictionCheck
from ridgeline.graph.values import Prediction

HALF = 0.5
"""A change in the predicted direction counts as the predicted one from half of its size, on a log scale."""


def check(
    prediction: Prediction, before: Profiled | None, after: Profiled | None, *, tolerance: float = 0.02
) -> PredictionCheck:
    """Confirmed, refuted, or unclear.

    unclear: a value is missing, the two profiles come from different rungs or machines, the counter moved less than
    `tolerance` (relative) where no size was predicted, or it moved as said but by less than half of the said size.
    refuted: it moved the other way, or stood still although a size beyond `tolerance` was predicted.
    """
    first = before.counter(prediction.counter) if before else None
    second = after.counter(prediction.counter) if after else None
    outcome: Literal["confirmed", "refuted", "unclear"] = "unclear"
    if before and after and first is not None and second is not None and _comparable(prediction.counter, before, after):
        outcome = _outcome(prediction, first, second, tolerance)
    return PredictionCheck(
        counter=prediction.counter, expected=prediction.direction, before=first, after=second, outcome=outcome
    )


def _comparable(counter: str, before: Profiled, after: Profiled) -> bool:
    same_stand = before.rung_of(counter) == after.rung_of(counter)
    return same_stand and (before.rung, before.machine) == (after.rung, after.machine)


def _outcome(
    prediction: Prediction, first: float, second: float, tolerance: float
) -> Literal["confirmed", "refuted", "unclear"]:
    sign = 1 if prediction.direction == "up" else -1
    said = _said(prediction, sign)
    if abs(second - first) <= tolerance * abs(first):
        return "refuted" if said > log(1 + tolerance) else "unclear"
    if (second - first) * sign < 0:
        return "refuted"
    return "confirmed" if _moved(first, second, sign) >= HALF * said else "unclear"


def _said(prediction: Prediction, sign: int) -> float:
    """Size of the predicted move as a positive log-ratio; 0 when none was predicted or it contradicts the direction."""
    if prediction.ratio is None or prediction.ratio <= 0:
        return 0.0
    return max(0.0, sign * log(prediction.ratio))


def _moved(first: float, second: float, sign: int) -> float:
    """Log-ratio in the predicted direction; a counter that reaches or leaves zero has moved without limit."""
    if first <= 0 or second <= 0:
        return float("inf")
    return sign * log(second / first)
