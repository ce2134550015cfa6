"""Rule 11 over the accepted lineage."""

import pytest

from ridgeline.graph.reports.final_report import audit
from ridgeline.graph.rules.history import best_round, lineage
from ridgeline.graph.rules.result import (
    apportion,
    attribute_gain,
    attribute_percent,
    attribution_rows,
    overfit_in_lineage,
)
from tests.builders import make_history, make_hypothesis, make_round


def accepted(number, gain, bucket="K1", bound=None):
    return make_round(number, gain=gain, hypothesis=make_hypothesis(bucket=bucket, real_gain_bound=bound))


@pytest.mark.feature("F053")
def test_golden_plain_per_cents():
    found = attribute_percent([("K1", 4, None), ("K3", 3, None), ("W1", 5, 1.5)], 12.5)
    assert (found.structural, found.weight_cache, found.real) == (7.0, 1.5, 8.5)
    assert (found.gap, found.headline, found.verdict) == (4.0, 12.5, "inflated")


@pytest.mark.feature("F053")
@pytest.mark.parametrize(
    ("rounds", "headline", "gap", "verdict"),
    [
        ([("K2", 4, None)], 5.0, 1.0, "clean"),
        ([("K4", 4, None)], 5.01, 1.01, "inflated"),
        ([("K1", 4, None)], 3.0, -1.0, "clean"),
        ([("W1", 5, None)], 5.0, 5.0, "inflated"),
        ([("W1", 1, 3)], 1.0, 0.0, "clean"),
        ([("W2", 5, None)], 5.0, 5.0, "inflated"),
        ([], 0.0, 0.0, "clean"),
    ],
)
def test_gap_and_verdict(rounds, headline, gap, verdict):
    found = attribute_percent(rounds, headline)
    assert found.gap == pytest.approx(gap)
    assert found.verdict == verdict


@pytest.mark.feature("F053")
def test_compounding_leaves_no_gap():
    found = attribute_gain(
        make_history(*(accepted(n, 0.10) for n in range(2, 12)), make_round(12, "rolled_back", gain=-0.5))
    )
    assert found.headline == found.real == pytest.approx(100 * (1.1**10 - 1))
    assert (found.gap, found.verdict) == (0.0, "clean")
    assert "log" in found.method


@pytest.mark.feature("F053")
def test_a_bounded_cache_leaves_its_excess_in_the_gap():
    found = attribute_gain(make_history(accepted(2, 0.04), accepted(3, 0.03, "K3"), accepted(4, 0.05, "W1", 0.015)))
    assert found.headline == pytest.approx(100 * (1.04 * 1.03 * 1.05 - 1))
    assert found.structural == pytest.approx(100 * (1.04 * 1.03 - 1))
    assert found.weight_cache == pytest.approx(1.5)
    assert found.real == pytest.approx(100 * (1.04 * 1.03 * 1.015 - 1))
    assert found.gap == pytest.approx(found.headline - found.real)
    assert found.verdict == "inflated"


def test_the_gain_of_the_final_test_is_divided_as_the_rounds_gains_are():
    found = attribute_gain(make_history(accepted(2, 0.21), accepted(3, 0.1, "W1", 0.0)))
    held = apportion(found, 1.331**2)
    assert held.headline == pytest.approx(100 * (1.331**2 - 1))
    assert held.structural == pytest.approx(100 * (1.21**2 - 1))
    assert (held.weight_cache, held.verdict) == (pytest.approx(0.0), "inflated")
    assert held.gap == pytest.approx(held.headline - held.real)


def test_a_final_test_below_the_rounds_leaves_no_second_headline():
    held = apportion(attribute_gain(make_history(accepted(2, 0.10))), 1.011)
    assert (held.headline, held.real, held.verdict) == (pytest.approx(1.1), pytest.approx(1.1), "clean")
    assert apportion(attribute_gain(make_history()), 1.0).headline == 0.0


def test_nothing_accepted_is_clean():
    found = attribute_gain(make_history())
    assert (found.structural, found.weight_cache, found.headline, found.gap, found.verdict) == (0, 0, 0, 0, "clean")


@pytest.mark.feature("F054")
def test_forbidden_buckets_in_the_lineage_are_named():
    history = make_history(
        accepted(2, 0.1), accepted(3, 0.1, "W2"), accepted(4, 0.1, "W3"), make_round(5, "rolled_back")
    )
    assert overfit_in_lineage(history) == (3, 4)
    found = attribute_gain(history)
    assert (found.verdict, found.headline) == ("rolled-back", pytest.approx(10.0))
    assert best_round(history).round == 2
    assert [closed.round for closed in lineage(history)] == [2]
    assert "rolled-back - see round-3, round-4" in audit(history)


@pytest.mark.feature("F053")
def test_table():
    found = attribution_rows(attribute_percent([("K1", 4, None), ("K3", 3, None), ("W1", 5, 1.5)], 12.5))
    assert found == (
        ("Structural kernel work", "K1-K4", "+7.00%", "+7.00%"),
        ("Bounded weight cache", "W1", "+1.50%", "+1.50%"),
        ("Benchmark-only residual", "-", "+4.00%", "+0.00%"),
        ("Total", "all", "+12.50%", "+8.50%"),
    )
    assert attribution_rows(attribute_percent([("K1", 4, None)], 3.999))[2][2] == "+0.00%"
