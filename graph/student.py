"""Quantiles of Student's t for whole degrees of freedom, from closed forms: nothing to install or slow to import."""

import math
from functools import lru_cache

HALVINGS = 64
"""Of an angle below pi / 2: more than a double resolves."""


@lru_cache(maxsize=4096)
def critical(tail: float, degrees: int) -> float:
    """What Student's t with `degrees` >= 1 exceeds with probability `tail`, 0 < tail < 0.5; to 1e-9 of itself.

    The distribution is the finite sum of Abramowitz and Stegun 26.7.3 and 26.7.4 in the angle atan(t / sqrt(degrees)),
    solved by bisection. Raises ValueError outside these ranges.
    """
    if degrees < 1 or not 0 < tail < 0.5:
        raise ValueError(f"no quantile at tail {tail:g} with {degrees} degrees of freedom")
    if degrees == 1:
        return 1 / math.tan(math.pi * tail)
    if degrees == 2:
        return (1 - 2 * tail) / math.sqrt(2 * tail * (1 - tail))
    low, high = 0.0, math.pi / 2  # of the angle's complement: a far tail is near zero, where doubles are dense
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _beyond(middle, degrees) < tail:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) / math.tan((low + high) / 2)


def _beyond(complement: float, degrees: int) -> float:
    """Probability above t = sqrt(degrees) / tan(complement)."""
    cosine, sine = math.sin(complement), math.cos(complement)
    odd = degrees % 2
    term = total = cosine if odd else 1.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if odd:
        return (complement - sine * total) / math.pi
    return (1 - sine * total) / 2
