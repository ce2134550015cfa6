"""Preset `evidence`: what interleaved pairs prove, and what they do not."""

import math
import random

import pytest

from tests.builders import VALUES, make_benchmark, make_contract, make_limits, make_noise, make_row, make_standing
from tests.judging import by_pairs, drive, shaped

LIMITS = make_limits()


def steady(gains, spread=0.0005):
    """Blocks near ln(1 + gain), the same for all pairs but for a small alternating spread."""
    return lambda label, pair: (math.log1p(gains[label]) + spread * (-1) ** pair,) * 2


def every(gain):
    return steady(dict.fromkeys(VALUES, gain))


@pytest.mark.feature("F120")
@pytest.mark.parametrize(
    ("gain", "decision", "reason", "faster"),
    [
        (0.10, "accepted", "faster", "yes"),
        (0.02, "accepted", "faster", "yes"),
        (0.005, "rolled_back", "undecided", "unverified"),
        (0.0, "rolled_back", "not_better", "no"),
        (-0.10, "rolled_back", "not_better", "no"),
    ],
)
def test_the_lower_bound_must_exceed_the_margin(gain, decision, reason, faster):
    verdict, _ = drive(by_pairs(every(gain)), LIMITS)
    assert (verdict.decision, verdict.reason, verdict.faster) == (decision, reason, faster)
    assert verdict.gain == pytest.approx(gain, abs=2e-3)
    assert verdict.lower < verdict.gain < verdict.upper


def test_an_acceptance_says_what_is_certain():
    verdict, _ = drive(by_pairs(every(0.10)), LIMITS)
    assert verdict.sentence.startswith("Round 2: ACCEPTED - avg +10.0% (at least +9.")
    assert all(shape.lower < shape.gain < shape.upper for shape in verdict.shapes)


@pytest.mark.feature("F029")
@pytest.mark.parametrize(
    ("worst", "decision", "reason"),
    [
        (-0.10, "rolled_back", "core_regression"),
        (-0.04, "rolled_back", "core_regression"),
        (-0.015, "accepted", "faster_trade_off"),
        (-0.005, "accepted", "faster"),
    ],
)
def test_no_shape_may_be_slower_with_confidence(worst, decision, reason):
    verdict, _ = drive(by_pairs(steady({"small": 0.2, "medium": 0.2, "large": worst})), LIMITS)
    assert (verdict.decision, verdict.reason) == (decision, reason)
    if reason != "faster":
        assert "shape large" in verdict.sentence
    if reason == "core_regression":
        threshold = "core_shape_regress_limit 0.05" if worst <= -0.05 else "shape_guard 0.02, with confidence"
        assert f"lost {-worst:.1%} ({threshold})" in verdict.sentence


@pytest.mark.parametrize(("core", "reason"), [((), "core_regression"), (("small",), "faster_trade_off")])
def test_a_core_shape_that_lost_five_per_cent_rejects_even_unproven(core, reason):
    def draw(label, pair):
        return (0.3,) if label != "large" else (-0.06 + 0.12 * (-1) ** pair,)

    standing = make_standing(contract=make_contract(core_shapes=core))
    verdict, _ = drive(by_pairs(draw), LIMITS, standing=standing)
    assert verdict.reason == reason


def test_one_pair_is_never_enough():
    limits = make_limits(looks=(1,))
    verdict, _ = drive(by_pairs(every(0.5)), limits)
    assert (verdict.reason, verdict.faster) == ("undecided", "unverified")
    assert "1 process pair does not settle it" in verdict.sentence


def test_without_a_calibration_one_pair_bounds_nothing():
    limits = make_limits(looks=(1,))
    verdict, _ = drive(by_pairs(every(0.5)), limits, standing=make_standing(noise=None))
    assert (verdict.lower, verdict.upper) == (None, None)
    assert "at least nothing" in verdict.sentence


def test_without_a_calibration_the_candidates_own_scatter_decides_later():
    verdict, asked = drive(by_pairs(every(0.10)), LIMITS, standing=make_standing(noise=None))
    assert verdict.accepted
    assert asked[-1] == (4, 1)


def test_noise_is_undecided_not_rejected_as_slow():
    verdict, asked = drive(by_pairs(lambda label, pair: (0.02 + 0.05 * (-1) ** pair,)), LIMITS)
    assert asked[-1] == (11, 1)
    assert (verdict.reason, verdict.faster) == ("undecided", "unverified")
    assert "12 process pairs" in verdict.sentence


def test_a_candidate_below_the_margin_is_not_confirmed():
    noise = make_noise(sd=0.02)
    draw = lambda label, pair: (0.02 if pair == 0 else -0.016,)  # noqa: E731
    verdict, asked = drive(by_pairs(draw), LIMITS, standing=make_standing(noise=noise))
    assert asked[-1] == (1, 1)
    assert (verdict.reason, verdict.faster) == ("undecided", "unverified")
    assert "so not confirmed" in verdict.sentence


def test_one_pair_drops_what_is_hopeless():
    verdict, asked = drive(by_pairs(every(-0.10)), LIMITS)
    assert asked[-1] == (0, 1)
    assert "it is slower, by at least 9." in verdict.sentence


@pytest.mark.parametrize(("large", "decision"), [(-0.3, "split"), (0.3, "accepted")])
def test_diverging_classes_are_split(large, decision):
    classes = {"small": "fit", "medium": "fit", "large": "spill"}
    draw = steady({"small": 0.3, "medium": 0.3, "large": large})
    assert drive(by_pairs(draw, classes=classes), LIMITS)[0].decision == decision
    second, _ = drive(by_pairs(draw, classes=classes), LIMITS, split=True)
    assert second.accepted == (decision == "accepted")


def test_a_suspicious_gain_is_kept_with_a_note():
    verdict, _ = drive(by_pairs(every(0.40)), LIMITS)
    assert verdict.accepted
    assert any(note.startswith("suspicious: +40.0%") for note in verdict.notes)


@pytest.mark.feature("F051")
def test_a_gain_that_vanishes_under_skew_is_overfit():
    standing = make_standing(contract=make_contract(target_op="moe_fp32", skew_shapes=("large",)))
    verdict, _ = drive(by_pairs(steady({"small": 0.3, "medium": 0.3, "large": 0.0})), LIMITS, standing=standing)
    assert verdict.reason == "overfit"


@pytest.mark.feature("F025")
@pytest.mark.parametrize(("b", "full", "accepted"), [(0.9, True, False), (0.995, True, True), (0.9, False, True)])
def test_another_primary_metric_may_not_fall(b, full, accepted):
    contract = make_contract(
        benchmark_output={"columns": ("label", "Check", "a", "b")}, scoring={"primary_metric": ["a", "b"]}, work={}
    )

    def measured(value, **fields):
        return make_benchmark(rows=[make_row("s", metrics={"a": 1.0, "b": value})], **fields)

    best = measured(1.0, commit="b" * 40)
    standing = make_standing({"s": 1.0}, contract=contract, quick=best, full=best if full else None)
    pairs = by_pairs(lambda label, pair: (0.1 + 0.0005 * (-1) ** pair,), labels=("s",))
    world = lambda want: pairs(want) if want.kind == "comparison" else measured(b)  # noqa: E731
    verdict, _ = drive(world, LIMITS, standing=standing)
    assert verdict.accepted == accepted
    if not accepted:
        assert "b -10.0%" in verdict.sentence


def test_the_absolute_numbers_alone_accept_nothing():
    def world(want):
        if want.kind == "benchmark":
            return shaped(want, dict.fromkeys(VALUES, 0.5))
        return by_pairs(every(0.0))(want)

    assert drive(world, LIMITS)[0].reason == "not_better"


@pytest.mark.slow
def test_identical_versions_are_never_accepted_in_four_hundred_seeded_tries():
    accepted = 0
    for seed in range(400):
        source = random.Random(seed)

        def draw(label, pair, source=source):
            luck = source.gauss(0.0, 0.01)
            return tuple(luck + source.gauss(0.0, 0.01) for _ in range(5))

        accepted += drive(by_pairs(draw), LIMITS)[0].accepted
    assert accepted == 0


def test_a_true_gain_is_found_under_the_same_noise():
    found = 0
    for seed in range(40):
        source = random.Random(seed)

        def draw(label, pair, source=source):
            luck = source.gauss(math.log(1.05), 0.01)
            return tuple(luck + source.gauss(0.0, 0.01) for _ in range(5))

        found += drive(by_pairs(draw), LIMITS)[0].accepted
    assert found >= 38
