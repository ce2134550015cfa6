"""A confidence sequence: bounds of a mean that hold at every look together, however often one looks.

For normal pair means of unknown variance: Lai (1976), *Boundary crossing probabilities for sample sums and confidence
sequences*; Wang and Ramdas (2023), *Anytime-valid t-tests and confidence sequences for Gaussian means with unknown
variance*. Pairs of identical versions measured beforehand share the unknown variance, so their squares enter the same
likelihood: without any this is the t e-process, with many it becomes Robbins' normal mixture with known variance.
"""

import math

CONCENTRATION = 0.5
"""Mixture over standardised effects: N(0, 1 / CONCENTRATION) before seeing data. Tuned for effects of 1 to 2 standard
deviations of a pair, where decisions within 12 pairs are won or lost."""


def reach(pairs: int, squares: float, degrees: int, *, alpha: float) -> float:
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
