"""Rule 11 over the accepted lineage."""

from pathlib import Path

import pytest

from ridgeline.graph.reports.final_report import audit, render_final_report
from ridgeline.graph.rules.history import best_round, fold_ledger, lineage
from ridgeline.graph.rules.result import (
    FinalTest,
    attribute_gain,
    attribution_rows,
    broken_links,
    compute_result,
    overfit_in_lineage,
)
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.builders import make_history, make_hypothesis, make_round


def accepted(number, gain, bucket="K1", bound=None):
    return make_round(number, gain=gain, hypothesis=make_hypothesis(bucket=bucket, real_gain_bound=bound))


def final(speedup, lower=None):
    return FinalTest(speedup=speedup, lower=lower, level=0.99, pairs=8, engine="wall", shapes=())


@pytest.mark.feature("F053")
def test_golden_vector_of_the_documents():
    """K1 +4, K3 +3, W1 +5 of which 1.5 reach a step, headline +12.5: structural 7, cache 1.5, a gap, inflated."""
    history = make_history(accepted(2, 0.04), accepted(3, 0.03, "K3"), accepted(4, 0.05, "W1", 0.015))
    found = attribute_gain(history, final(1.125, 1.12))
    assert (found.structural, found.weight_cache) == (pytest.approx(7.12), pytest.approx(1.5))
    assert found.headline == pytest.approx(12.5)
    assert (found.real, found.gap) == (pytest.approx(8.7268), pytest.approx(100 * (1.125 / 1.087268 - 1)))
    assert found.verdict == "inflated"


@pytest.mark.feature("F053")
@pytest.mark.parametrize(
    ("gains", "tested", "gap", "verdict"),
    [
        ([("K2", 0.04, None)], final(1.04 * 1.01), 1.0, "clean"),
        ([("K4", 0.04, None)], final(1.04 * 1.0101), 1.01, "inflated"),
        ([("K4", 0.04, None)], final(1.04 * 1.05, 1.04 * 1.02), 5.0, "inflated"),
        ([("K4", 0.04, None)], final(1.04 * 1.05, 1.04 * 0.99), 5.0, "clean"),
        ([("K1", 0.04, None)], final(1.03), 100 * (1.03 / 1.04 - 1), "clean"),
        ([("W1", 0.05, None)], final(1.05, 1.04), 5.0, "inflated"),
        ([("W1", 0.01, 0.03)], final(1.01), 0.0, "clean"),
    ],
)
def test_the_final_test_is_held_against_the_rounds(gains, tested, gap, verdict):
    rounds = [accepted(number, gain, bucket, bound) for number, (bucket, gain, bound) in enumerate(gains, start=2)]
    found = attribute_gain(make_history(*rounds), tested)
    assert found.gap == pytest.approx(gap)
    assert found.verdict == verdict
    assert (1 + found.real / 100) * (1 + max(0, found.gap) / 100) == pytest.approx(tested.speedup)


GAPS = {
    "attention_c_mailbox": 0.848,
    "conv3x3_c_mailbox": None,
    "gemm_gelu_h100": -0.486,
    "layernorm_c_mailbox": None,
    "matmul_c_mailbox": 0.227,
    "reverse_cumsum_h100": 0.558,
    "reverse_cumsum_short_h100": -0.007,
    "softmax_c_mailbox": -1.037,
}
"""Of every recorded campaign: what its final test measured beyond its rounds, or less, per cent of speed; None without one."""


@pytest.mark.feature("F053")
@pytest.mark.parametrize("name", GAPS)
def test_the_gap_of_a_recorded_campaign_is_what_its_final_test_says(name):
    ledger = JsonlLedger(Path(__file__).parents[2] / "evals" / "campaigns" / name / "ledger.jsonl")
    history = fold_ledger(ledger.lines())
    result, text, gap = compute_result(history), audit(history), GAPS[name]
    if result.attribution is None:
        assert text == "Nothing was kept: there is no gain to attribute."
        return
    if gap is None:
        assert "- Headline: none: there is no final test" in text
        assert "- Whole gain settled: not measured" in text
        return
    assert result.attribution.headline == pytest.approx(100 * (result.final.speedup - 1))
    assert result.attribution.gap == pytest.approx(gap, abs=0.001)
    assert result.attribution.real <= result.attribution.headline + 1e-9
    assert f"- Gap: {gap:+.2f}% of speed" in text


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
    assert found.gap == pytest.approx(100 * (1.05 / 1.015 - 1))
    assert found.verdict == "inflated"


def test_a_final_test_below_the_rounds_leaves_no_second_headline():
    history = make_history(accepted(2, 0.21), accepted(3, 0.1, "W1", 0.0))
    found = attribute_gain(history, final(1.331**0.5))
    assert found.headline == pytest.approx(100 * (1.331**0.5 - 1))
    assert found.structural == pytest.approx(100 * (1.21**0.5 - 1))
    assert (found.weight_cache, found.verdict) == (pytest.approx(0.0), "inflated")
    assert attribute_gain(make_history(), final(1.0)).headline == 0.0


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
    history = make_history(accepted(2, 0.04), accepted(3, 0.03, "K3"), accepted(4, 0.05, "W1", 0.015))
    assert attribution_rows(attribute_gain(history, final(1.125, 1.12))) == (
        ("Structural kernel work", "K1-K4", "+7.12%", "+7.12%"),
        ("Bounded weight cache", "W1", "+1.50%", "+1.50%"),
        ("Benchmark-only residual", "-", "+3.47%", "+0.00%"),
        ("Total", "all", "+12.50%", "+8.73%"),
    )
    flat = make_history(accepted(2, 0.04))
    assert attribution_rows(attribute_gain(flat, final(1.03999)))[2][2] == "+0.00%"


@pytest.mark.feature("F043")
def test_a_kept_round_that_fell_by_more_than_a_hundredth_breaks_the_chain():
    history = make_history(
        accepted(2, 0.1), accepted(3, -0.012), accepted(4, -0.008), make_round(5, "rolled_back", gain=-0.5)
    )
    assert broken_links(history) == ((3, pytest.approx(0.012)),)
    assert "**Kept although slower than the version before: round-3 (1.2 %).**" in render_final_report(history)
    whole = make_history(accepted(2, 0.1), accepted(3, -0.008))
    assert broken_links(whole) == ()
    assert "slower than the version before" not in render_final_report(whole)
