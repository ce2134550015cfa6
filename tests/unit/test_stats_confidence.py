"""The confidence sequence against its own definition, solved and integrated numerically."""

import math

import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import beta

from ridgeline.graph.stats.intervals import CONCENTRATION, confidence_half_width


def wealth(mean: float, pairs: int, squares: float, degrees: int) -> float:
    """E_n of the docstring, in words: what a bet on `mean` not being zero has grown to."""
    n, c = pairs, CONCENTRATION
    total, drift = squares + n * mean**2, n * mean
    return math.sqrt(c / (n + c)) * ((n + c) * total / ((n + c) * total - drift**2)) ** ((degrees + 1) / 2)


GOLDEN = [
    # pairs, squares, degrees, alpha, half-width: roots of E_n = 1 / (2 alpha) found by bisection
    (2, 0.0017, 17, 0.01, 0.029736485),
    (4, 0.0020, 18, 0.01, 0.020684499),
    (12, 0.0011, 11, 0.01, 0.012403788),
    (12, 0.0026, 26, 0.01, 0.010793418),
    (12, 0.0026, 26, 0.05, 0.008771597),
    (8, 0.0007, 7, 0.01, 0.017721670),
]


@pytest.mark.parametrize(("pairs", "squares", "degrees", "alpha", "half"), GOLDEN)
def test_golden_half_widths(pairs, squares, degrees, alpha, half):
    assert confidence_half_width(pairs, squares, degrees, alpha=alpha) == pytest.approx(half, rel=1e-7)


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.2])
@pytest.mark.parametrize("calibration", [0, 1, 3, 15, 200])
@pytest.mark.parametrize("pairs", [1, 2, 3, 5, 8, 12, 50])
def test_the_closed_form_is_the_root_of_its_equation(pairs, calibration, alpha):
    degrees, goal = pairs - 1 + calibration, 1 / (2 * alpha)
    squares = 1e-4 * degrees
    if degrees == 0 or wealth(1e6, pairs, squares, degrees) < goal:
        assert confidence_half_width(pairs, squares, degrees, alpha=alpha) == math.inf
        return
    found = brentq(lambda mean: wealth(mean, pairs, squares, degrees) - goal, 0, 1e6, xtol=1e-13, rtol=1e-12)
    assert confidence_half_width(pairs, squares, degrees, alpha=alpha) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize(("pairs", "calibration"), [(1, 1), (1, 15), (2, 0), (4, 15), (12, 0), (12, 31)])
def test_the_bet_is_fair_when_nothing_is_different(pairs, calibration):
    """Its expectation is 1 whatever the variance, and that is what Ville's inequality needs."""
    degrees = pairs - 1 + calibration

    def at(share: float) -> float:
        # share: of the squares about zero that the mean explains, beta distributed where the true mean is zero
        growth = math.sqrt(CONCENTRATION / (pairs + CONCENTRATION))
        return growth * (1 - share * pairs / (pairs + CONCENTRATION)) ** (-(degrees + 1) / 2)

    explained = beta(0.5, degrees / 2)
    # share = sin(s)^2 takes the poles of the density out of the integral
    expected, _ = quad(
        lambda s: at(math.sin(s) ** 2) * explained.pdf(math.sin(s) ** 2) * math.sin(2 * s), 0, math.pi / 2
    )
    assert expected == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("pairs", [1, 2, 5, 12])
@pytest.mark.parametrize("alpha", [0.01, 0.1])
def test_with_endless_calibration_it_is_the_mixture_with_known_variance(pairs, alpha):
    sd, n, c = 0.01, pairs, CONCENTRATION
    known = sd * math.sqrt(2 * (n + c) * math.log(math.sqrt((n + c) / c) / (2 * alpha))) / n
    assert confidence_half_width(n, 10**9 * sd**2, 10**9, alpha=alpha) == pytest.approx(known, rel=1e-6)


def test_without_data_it_bounds_nothing():
    assert confidence_half_width(1, 0.0, 0, alpha=0.01) == math.inf
    assert confidence_half_width(2, 1e-4, 1, alpha=0.01) == math.inf


@pytest.mark.parametrize("pairs", [2, 4, 12])
def test_more_degrees_of_the_same_noise_tighten_it(pairs):
    halves = [confidence_half_width(pairs, degrees * 1e-4, degrees, alpha=0.01) for degrees in range(pairs - 1, 60)]
    assert all(later <= earlier for earlier, later in zip(halves, halves[1:], strict=False))
    assert halves[-1] < halves[0]


def test_more_pairs_tighten_it_and_a_smaller_error_rate_widens_it():
    halves = [confidence_half_width(pairs, (pairs + 14) * 1e-4, pairs + 14, alpha=0.01) for pairs in range(1, 40)]
    assert halves == sorted(halves, reverse=True)
    rates = [confidence_half_width(6, 2e-3, 20, alpha=alpha) for alpha in (0.001, 0.01, 0.05, 0.2)]
    assert rates == sorted(rates, reverse=True)


def test_it_scales_with_the_noise():
    assert confidence_half_width(5, 4 * 2e-3, 19, alpha=0.01) == pytest.approx(
        2 * confidence_half_width(5, 2e-3, 19, alpha=0.01)
    )
