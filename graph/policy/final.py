"""The one headline number: champion against original, on fresh data, with its lower bound."""

from math import exp

from graph.evidence import Comparison
from graph.limits import Limits
from graph.policy.paired import estimate
from graph.values import Value


class Claim(Value):
    speedup: float
    """Time of the original over time of the champion, geometric mean over shapes."""
    lower: float
    """One-sided lower confidence bound at 1 - alpha."""


def headline(final: Comparison | None, limits: Limits) -> Claim | None:
    """None when there was no usable final comparison: no claim is made then."""
    if final is None:
        return None
    found = estimate((final,), alpha_per_look=limits.alpha)
    return Claim(speedup=exp(found.theta), lower=exp(found.lower))
