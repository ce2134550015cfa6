"""Bounds of the mean of pair means: Student's t where the size was fixed, a confidence sequence where one looks often.

The confidence sequence holds at every look together, however often one looks. For normal pair means of unknown
variance: Lai (1976), *Boundary crossing probabilities for sample sums and confidence sequences*; Wang and Ramdas
(2023), *Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance*. Pairs of identical
versions measured beforehand share the unknown variance, so their squares enter the same likelihood: without any this
is the t e-process, with many it becomes Robbins' normal mixture with known variance.
"""

import math
from functools import lru_cache

HALVINGS = 64
"""Of an angle below pi / 2: more than a double resolves."""


@lru_cache(maxsize=4096)
def student_quantile(tail: float, degrees: int) -> float:
    """The value that Student's t with `degrees` >= 1 exceeds with probability `tail`, 0 < tail < 0.5; to 1e-9 of itself.

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
        if _upper_tail(middle, degrees) < tail:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) / math.tan((low + high) / 2)


def _upper_tail(complement: float, degrees: int) -> float:
    """Probability of Student's t above t = sqrt(degrees) / tan(complement)."""
    cosine, sine = math.sin(complement), math.cos(complement)
    odd = degrees % 2
    term = total = cosine if odd else 1.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if odd:
        return (complement - sine * total) / math.pi
    return (1 - sine * total) / 2


CONCENTRATION = 0.5
"""Mixture over standardised effects: N(0, 1 / CONCENTRATION) before seeing data. Tuned for effects of 1 to 2 standard
deviations of a pair, where decisions within 12 pairs are won or lost."""


def confidence_half_width(pairs: int, squares: float, degrees: int, *, alpha: float) -> float:
    """Half-width of the confidence sequence after `pairs` pairs; infinite while the data bound nothing.

    `squares`: squared deviations of these pairs from their mean plus those of the calibration; `degrees`: of both
    together. Solves E_n = sqrt(c / (n + c)) * (((n + c) V) / ((n + c) V - S^2))^((degrees + 1) / 2) = 1 / (2 alpha)
    for the mean, where V = squares + n * mean^2 and S = n * mean.
    """
    n, c = pairs, CONCENTRATION
    if degrees < 1:
        return math.inf
    q = 1 - (math.sqrt((n + c) / c) / (2 * alpha)) ** (-2 / (degrees + 1))
    denominator = n * n - q * n * (n + c)
    return math.sqrt(q * (n + c) * squares / denominator) if denominator > 0 else math.inf
