"""The one headline number, champion against original on fresh data."""

from math import exp

from ridgeline.graph.evidence import Comparison
from ridgeline.graph.limits import Limits
from ridgeline.graph.stats.paired import run_fixed_test
from ridgeline.graph.values import Value


class Claim(Value):
    speedup: float
    """Time of the original over time of the champion, geometric mean over shapes."""
    lower: float
    """One-sided lower confidence bound at 1 - alpha."""


def headline(final: Comparison | None, limits: Limits) -> Claim | None:
    """None when there was no usable final comparison: no claim is made then."""
    if final is None:
        return None
    found = run_fixed_test(final, alpha=limits.alpha)
    return Claim(speedup=exp(found.theta), lower=exp(found.lower))
