"""Verdicts of the documents' throughput rules: presets `campaign` and `router`."""

import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.graph.rules.acceptance import _format_beside_margin, decide_verdict
from ridgeline.graph.stats.sequential import Estimate
from tests.builders import (
    BASE,
    CANDIDATE,
    VALUES,
    make_benchmark,
    make_contract,
    make_limits,
    make_row,
    make_standing,
    make_traced,
)
from tests.judging import by_gain, drive, shaped

CAMPAIGN, ROUTER = make_limits("campaign"), make_limits("router")
QUICK, FULL = ("candidate", "quick", 0), ("candidate", "full", 0)


def samples(first, again, level="quick"):
    return {("candidate", level, 0): first, **{("candidate", level, n): g for n, g in enumerate(again, 1)}}


def per_shape(gains):
    return lambda want: shaped(want, gains if want.which == "candidate" else dict.fromkeys(VALUES, 0.0))


# golden vectors


@pytest.mark.feature("F028", "F120")
@pytest.mark.parametrize(
    ("again", "decision", "reason"),
    [
        ((0.012, 0.016, 0.014), "accepted", "faster"),
        ((0.002, 0.024, 0.010), "rolled_back", "noise"),
        ((0.009, 0.009, 0.009), "rolled_back", "noise"),
        ((0.010, 0.010, 0.010), "rolled_back", "noise"),
        ((-0.01, 0.0, 0.0), "rolled_back", "not_better"),
        ((0.03, 0.03, 0.03), "accepted", "faster"),
    ],
)
def test_near_noise_golden_vectors(again, decision, reason):
    verdict, asked = drive(by_gain(samples(0.015, again) | {FULL: 0.03}), CAMPAIGN)
    assert (verdict.decision, verdict.reason) == (decision, reason)
    assert len([item for item in asked if item[1] == "quick"]) == 7


@pytest.mark.feature("F029")
@pytest.mark.parametrize(
    ("worst", "decision", "reason"),
    [(-0.05, "rolled_back", "core_regression"), (-0.049, "accepted", "faster_trade_off"), (0.0, "accepted", "faster")],
)
@pytest.mark.parametrize("limits", [CAMPAIGN, ROUTER], ids=["campaign", "router"])
def test_five_per_cent_rule_golden_vectors(worst, decision, reason, limits):
    rest = (1.03**3 / (1 + worst)) ** 0.5 - 1  # the aggregate is +3 per cent
    verdict, _ = drive(per_shape({"small": rest, "medium": rest, "large": worst}), limits)
    assert (verdict.decision, verdict.reason) == (decision, reason)
    assert verdict.gain == pytest.approx(0.03)
    if reason == "faster_trade_off":
        assert verdict.sentence == "Round 2: ACCEPTED (trade-off) - avg +3.0%, shape large regressed 4.9%"
        assert verdict.notes == ("trade-off: shape large regressed 4.9%",)


def test_a_shape_outside_the_core_may_lose_more_with_a_note():
    standing = make_standing(contract=make_contract(core_shapes=("small",)))
    verdict, _ = drive(per_shape({"small": 0.2, "medium": 0.2, "large": -0.06}), CAMPAIGN, standing=standing)
    assert verdict.reason == "faster_trade_off"


# the documents, preset by preset


@pytest.mark.feature("F027")
@pytest.mark.parametrize(("full", "reason"), [(0.03, "faster"), (-0.01, "not_better"), (0.0, "not_better")])
def test_a_borderline_quick_gain_is_decided_on_full(full, reason):
    verdict, _ = drive(by_gain({QUICK: 0.03, FULL: full}), CAMPAIGN)
    assert verdict.reason == reason
    assert verdict.gain == pytest.approx(full)


@pytest.mark.feature("F120")
@pytest.mark.parametrize(
    ("gain", "reason", "faster"),
    [(0.001, "faster", "unverified"), (0.2, "faster", "yes"), (0.0, "not_better", "no"), (-0.01, "not_better", "no")],
)
def test_router_keeps_any_gain(gain, reason, faster):
    verdict, _ = drive(by_gain(gain), ROUTER)
    assert (verdict.reason, verdict.faster) == (reason, faster)


@pytest.mark.feature("F025")
@pytest.mark.parametrize(
    ("a", "b", "accepted"), [(1.1, 0.9, False), (1.1, 1.0, True), (1.0, 1.0, False), (1.1, 1.2, True)]
)
def test_independent_metrics_none_may_fall(a, b, accepted):
    contract = make_contract(
        benchmark_output={"columns": ("label", "Check", "a", "b")}, scoring={"primary_metric": ["a", "b"]}, work={}
    )
    best = make_benchmark(rows=[make_row("s", metrics={"a": 1.0, "b": 1.0})], commit=BASE, level="quick")
    standing = make_standing({"s": 1.0}, contract=contract, quick=best)
    candidate = make_benchmark(rows=[make_row("s", metrics={"a": a, "b": b})], level="quick")
    verdict = decide_verdict(make_traced(candidate), standing, CAMPAIGN, best_profile=None)
    assert verdict.accepted == accepted
    if b < 1:
        assert "(b -10.0%)" in verdict.sentence


def test_lower_is_better():
    contract = make_contract(scoring={"primary_metric": "Time (ms)", "higher_is_better": False})
    standing = make_standing(contract=contract)
    verdict, _ = drive(by_gain(0.10), ROUTER, standing=standing)
    assert verdict.gain == pytest.approx(0.10)
    verdict, _ = drive(by_gain(-0.10), ROUTER, standing=standing)
    assert verdict.reason == "not_better"


@pytest.mark.parametrize(
    ("on", "spread", "gain", "reason"),
    [
        (False, 0.1, 0.0, "not_better"),
        (True, 0.1, 0.0, "tie_with_benefit"),
        (True, 0.1, -0.009, "tie_with_benefit"),
        (True, 0.1, -0.02, "not_better"),
        (True, 0.9, 0.0, "not_better"),
        (True, 0.1, 0.005, "tie_with_benefit"),
        (False, 0.1, 0.005, "noise"),
    ],
)
def test_a_tie_is_kept_only_on_demand_and_for_steadier_rows(on, spread, gain, reason):
    def world(want):
        stddev = spread if want.which == "candidate" else 1.0
        rows = [
            make_row(n, v * (1 + (gain if want.which == "candidate" else 0)), stddev=stddev) for n, v in VALUES.items()
        ]
        commit = CANDIDATE if want.which == "candidate" else BASE
        return make_benchmark(rows=rows, level=want.level, repeat=want.repeat, commit=commit)

    verdict, _ = drive(world, make_limits("campaign", accept_tie_with_benefit=on))
    assert verdict.reason == reason


def test_a_tie_without_spread_has_no_benefit():
    flat = [make_row(label, value, stddev=0.0) for label, value in VALUES.items()]
    standing = make_standing(quick=make_benchmark(rows=flat, level="quick", commit=BASE))
    trial = make_traced(make_benchmark(rows=flat, level="quick"))
    limits = make_limits("campaign", accept_tie_with_benefit=True)
    assert decide_verdict(trial, standing, limits, best_profile=None).reason == "not_better"


def test_a_split_is_offered_when_classes_diverge():
    def world(want):
        gains = (
            {"small": 0.4, "medium": 0.3, "large": -0.2} if want.which == "candidate" else dict.fromkeys(VALUES, 0.0)
        )
        found = shaped(want, gains)
        rows = tuple(
            r.model_copy(update={"config": (("path", "big" if r.label == "large" else "fit"),)}) for r in found.rows
        )
        return found.model_copy(update={"rows": rows})

    verdict, _ = drive(world, CAMPAIGN)
    assert (verdict.decision, verdict.reason) == ("split", "class_regression")
    assert "class path=fit won 34.9%, class path=big lost 20.0%" in verdict.sentence
    assert drive(world, make_limits("campaign", split=False))[0].reason == "core_regression"
    assert drive(world, CAMPAIGN, split=True)[0].reason == "core_regression"
    assert drive(world, ROUTER)[0].reason == "core_regression"


# the whole rule as one function


def mechanical(quick, full, again, core):
    """Rules 11.4, written down a second time: the aggregate only, equal on all shapes but for the core drop."""
    if quick <= 0:
        return "not_better"
    if quick < 0.02:
        mean = statistics.fmean(again)
        if mean <= 0:
            return "not_better"
        if core:
            return "core_regression"
        if mean >= 0.05:
            return "accepted"
        if mean >= 0.02:
            return "accepted" if full >= 0.02 else "full"
        return "accepted" if mean > 0.01 and statistics.stdev(again) < mean / 2 else "noise"
    if core:
        return "core_regression"
    if quick >= 0.05:
        return "accepted"
    return "accepted" if full >= 0.02 else "full"


@pytest.mark.slow
@pytest.mark.feature("F030")
@settings(max_examples=1000, deadline=None)
@given(
    quick=st.floats(-0.1, 0.1),
    full=st.floats(-0.1, 0.1),
    again=st.tuples(*[st.floats(-0.04, 0.06)] * 3),
    core=st.booleans(),
)
def test_the_decision_is_the_mechanical_function(quick, full, again, core):
    edges = (0.0, 0.01, 0.02, 0.05)
    numbers = (quick, full, *again, statistics.fmean(again))
    if any(abs(n - e) < 1e-8 for n in numbers for e in edges):
        return
    gains = samples(quick, again) | {FULL: full}

    def world(want):
        gain = gains.get((want.which, want.level, want.repeat), 0.0)
        if not core or want.which == "best" or want.level == "full":
            return shaped(want, dict.fromkeys(VALUES, gain))
        rest = ((1 + gain) ** 3 / 0.9) ** 0.5 - 1
        return shaped(want, {"small": rest, "medium": rest, "large": -0.1})

    verdict, _ = drive(world, CAMPAIGN)
    expected = mechanical(quick, full, again, core)
    if expected == "full":
        assert verdict.reason in ("not_better", "noise")
    else:
        assert ("accepted" if verdict.accepted else verdict.reason) == expected


@pytest.mark.parametrize(
    ("gain", "margin", "texts"),
    [
        (0.021, 0.005, ("+2.1%", "0.5%")),
        (0.0047, 0.0053, ("+0.47%", "0.53%")),
        (0.00501, 0.00504, ("+0.501%", "0.504%")),
        (-0.004, 0.005, ("-0.4%", "0.5%")),
    ],
)
def test_a_gain_and_the_margin_are_told_apart(gain, margin, texts):
    estimate = Estimate(
        theta=0, lower=0, upper=0, sd=0, pairs=2, required=math.log1p(margin), unlikely=False, shapes=()
    )
    assert _format_beside_margin(gain, estimate) == texts
