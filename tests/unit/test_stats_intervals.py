"""Student's t from closed forms, against golden numbers (scipy 1.17.1, `scipy.stats.t.isf`) and the density itself."""

import math

import pytest
from scipy import stats

from ridgeline.graph.stats.intervals import student_quantile

TAILS = (1e-6, 1e-4, 0.01, 0.05, 0.2)
GOLDEN = [
    (1, 318309.886183, 3183.09875712, 31.8205159538, 6.31375151468, 1.37638192047),
    (2, 707.105720526, 70.700071075, 6.96455673428, 2.91998558035, 1.06066017178),
    (3, 103.29946778, 22.2037422732, 4.54070285857, 2.3533634348, 0.978472312363),
    (4, 41.5778541505, 13.0336717209, 3.74694738798, 2.13184678633, 0.940964577235),
    (5, 24.7710297205, 9.67756630088, 3.36492999891, 2.01504837333, 0.919543780241),
    (8, 12.1098346656, 6.44199982102, 2.89645944771, 1.85954803753, 0.888889517767),
    (11, 9.04327592127, 5.45276208882, 2.71807918381, 1.7958848187, 0.875529978074),
    (31, 5.8286018039, 4.21550258084, 2.4528241934, 1.69551878255, 0.853370295697),
    (60, 5.26355485465, 3.96208936471, 2.39011947262, 1.6706488649, 0.847653006357),
    (200, 4.89730210283, 3.78912078875, 2.34513708226, 1.65250810091, 0.843422131535),
]


@pytest.mark.parametrize(("degrees", "values"), [(row[0], row[1:]) for row in GOLDEN])
def test_golden_quantiles(degrees, values):
    assert [student_quantile(tail, degrees) for tail in TAILS] == pytest.approx(values, rel=1e-9)


@pytest.mark.parametrize("tail", [1e-6, 3e-5, 0.001, 0.01, 0.025, 0.1, 0.2, 0.4999])
def test_every_count_of_pairs_that_a_campaign_can_have_agrees_with_scipy(tail):
    degrees = range(1, 201)
    assert [student_quantile(tail, each) for each in degrees] == pytest.approx(
        stats.t.isf(tail, list(degrees)), rel=1e-9
    )


def test_many_degrees_are_the_normal_distribution():
    assert student_quantile(0.01, 20_001) == pytest.approx(2.3263478740408408, rel=1e-4)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 30, 31])
def test_it_falls_with_the_tail_and_is_near_zero_at_one_half(degrees):
    values = [student_quantile(tail / 100, degrees) for tail in range(1, 50)]
    assert values == sorted(values, reverse=True)
    assert 0 < student_quantile(0.5 - 1e-9, degrees) < 1e-7


@pytest.mark.parametrize(("tail", "degrees"), [(0.0, 3), (0.5, 3), (1.0, 3), (-0.1, 3), (math.nan, 3), (0.01, 0)])
def test_there_is_no_quantile_outside_the_range(tail, degrees):
    with pytest.raises(ValueError, match="no quantile"):
        student_quantile(tail, degrees)
