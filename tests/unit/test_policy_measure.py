"""What is measured next, preset by preset."""

import pytest

from ridgeline.graph.evidence import BenchmarkFailed, MixedEvidence
from ridgeline.graph.rules.acceptance import choose_measurement
from ridgeline.graph.standing import BenchmarkWant, CompareWant
from tests.builders import (
    BASE,
    CANDIDATE,
    VALUES,
    make_benchmark,
    make_comparison,
    make_contract,
    make_hypothesis,
    make_limits,
    make_noise,
    make_standing,
    make_timed,
    make_verified,
)
from tests.judging import by_gain, by_pairs, drive, shaped

CAMPAIGN, ROUTER, AUTONOMOUS = (make_limits(name) for name in ("campaign", "router", "autonomous"))
QUICK, FULL = ("candidate", "quick", 0), ("candidate", "full", 0)
ONCE_MORE = [("candidate", "quick", 1), ("best", "quick", 1)]
ALL_LOOKS = [(pair, 1) for pair in range(12)]
AGAIN = [(which, "quick", n) for n in (1, 2, 3) for which in (("candidate", "best"), ("best", "candidate"))[n % 2 == 0]]


def steady(theta, spread=0.0005):
    return lambda label, pair: (theta + spread * (-1) ** pair,) * 2


@pytest.mark.feature("F027", "F028", "F120")
@pytest.mark.parametrize(
    ("gain", "high_risk", "expected"),
    [
        (-0.01, False, [QUICK]),
        (0.0, False, [QUICK]),
        (-0.01, True, [QUICK]),
        (0.001, False, [QUICK, *AGAIN]),
        (0.0199, False, [QUICK, *AGAIN]),
        (0.02, False, [QUICK, FULL]),
        (0.04, False, [QUICK, FULL]),
        (0.0499, False, [QUICK, FULL]),
        (0.05, False, [QUICK]),
        (0.05, True, [QUICK, FULL]),
        (0.30, False, [QUICK]),
        (0.31, False, [QUICK, *ONCE_MORE]),
    ],
)
def test_campaign_ladder(gain, high_risk, expected):
    gains = {QUICK: gain, FULL: gain, **{("candidate", "quick", n): 0.0 for n in (1, 2, 3)}}
    _, asked = drive(by_gain(gains), CAMPAIGN, hypothesis=make_hypothesis(high_risk=high_risk))
    assert asked == expected


@pytest.mark.feature("F027")
def test_campaign_measures_the_best_fully_when_it_has_no_full_numbers():
    _, asked = drive(by_gain({QUICK: 0.03, FULL: 0.03}), CAMPAIGN, standing=make_standing(full=None))
    assert asked == [QUICK, FULL, ("best", "full", 0)]


@pytest.mark.feature("F028")
def test_campaign_repeats_on_full_when_full_is_near_noise():
    gains = {QUICK: 0.03, FULL: 0.015, **{("candidate", "full", n): 0.014 for n in (1, 2, 3)}}
    verdict, asked = drive(by_gain(gains), CAMPAIGN)
    assert [item[1] for item in asked] == ["quick", *["full"] * 7]
    assert verdict.reason == "faster"
    assert verdict.gain == pytest.approx(0.014)


def test_a_steady_small_gain_of_high_risk_still_goes_full():
    gains = {("candidate", "quick", n): 0.015 + n / 1e4 for n in range(4)} | {FULL: 0.06}
    verdict, asked = drive(by_gain(gains), CAMPAIGN, hypothesis=make_hypothesis(high_risk=True))
    assert asked == [QUICK, *AGAIN, FULL]
    assert verdict.gain == pytest.approx(0.06)


def test_fewer_than_two_samples_are_never_a_standard_deviation():
    gains = {("candidate", "quick", n): 0.015 for n in range(4)}
    verdict, asked = drive(by_gain(gains), make_limits("campaign", min_remeasure=1))
    assert asked == [QUICK, *AGAIN[:4]]
    assert verdict.accepted


@pytest.mark.feature("F029")
def test_a_core_drop_within_two_sigma_is_measured_again_before_it_rejects():
    noisy = {"small": 0.10, "medium": 0.10, "large": -0.06}

    def world(want, stddev):
        gains = noisy if want.which == "candidate" and want.repeat == 0 else dict.fromkeys(VALUES, 0.06)
        found = shaped(want, gains if want.which == "candidate" else dict.fromkeys(VALUES, 0.0))
        rows = tuple(
            row.model_copy(
                update={
                    "metrics": tuple(
                        m.model_copy(update={"value": stddev * row.metric("GFLOPS")})
                        if m.name.endswith("_stddev")
                        else m
                        for m in row.metrics
                    )
                }
            )
            for row in found.rows
        )
        return found.model_copy(update={"rows": rows})

    verdict, asked = drive(lambda want: world(want, 0.04), CAMPAIGN)
    assert asked == [QUICK, *AGAIN]
    assert verdict.accepted
    verdict, asked = drive(lambda want: world(want, 0.001), CAMPAIGN)
    assert asked == [QUICK]
    assert verdict.reason == "core_regression"


@pytest.mark.feature("F120")
@pytest.mark.parametrize("gain", [-0.1, 0.0, 0.001, 0.03, 0.3])
def test_router_measures_once(gain):
    _, asked = drive(by_gain(gain), ROUTER)
    assert asked == [QUICK]


@pytest.mark.feature("F105", "F120")
@pytest.mark.parametrize(
    ("gain", "expected"),
    [
        (-0.01, [FULL]),
        (0.0, [FULL]),
        (0.008, [FULL, ("candidate", "full", 1)]),
        (0.02, [FULL]),
    ],
)
def test_autonomous_sees_a_small_gain_twice(gain, expected):
    _, asked = drive(by_gain(gain), AUTONOMOUS)
    assert asked == expected


def test_autonomous_measures_the_best_fully_when_it_has_no_full_numbers():
    _, asked = drive(by_gain(0.05), AUTONOMOUS, standing=make_standing(full=None))
    assert asked == [FULL, ("best", "full", 0)]


@pytest.mark.feature("F120")
@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (steady(0.10), [FULL, (0, 1), (1, 1)]),
        (steady(-0.10), [FULL, (0, 1)]),
        (steady(0.0), [FULL, (0, 1)]),
        (steady(0.0051), [FULL, *ALL_LOOKS]),
        (lambda label, pair: (0.03 + 0.02 * (-1) ** pair,), [FULL, *ALL_LOOKS]),
        (lambda label, pair: (-0.3 if label == "large" else 0.3,), [FULL, (0, 1)]),
    ],
)
def test_evidence_stops_at_the_look_that_decides(draw, expected):
    _, asked = drive(by_pairs(draw), make_limits())
    assert asked == expected


def test_evidence_measures_on_while_a_shape_looks_slower_but_not_surely():
    def draw(label, pair):
        return ((0.30 if label != "large" else (-0.024 + 0.004 * pair)),)

    verdict, asked = drive(by_pairs(draw), make_limits())
    assert asked == [FULL, *ALL_LOOKS[:3]]
    assert verdict.accepted


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"looks": (3, 6, 12)}, [(0, 3), (3, 3), (6, 6)]),
        ({"looks": (2, 3)}, [(0, 2), (2, 1)]),
        ({"looks": (8,)}, [(0, 8)]),
    ],
)
def test_the_limits_say_when_to_look(changes, expected):
    _, asked = drive(by_pairs(lambda label, pair: (0.03 + 0.03 * (-1) ** pair,)), make_limits(**changes))
    assert asked[1:] == expected


def test_a_short_batch_does_not_ask_the_same_question_again():
    def world(want):
        if isinstance(want, CompareWant):
            return make_comparison(dict.fromkeys(VALUES, ((0.03,), (0.04,))))
        return shaped(want, dict.fromkeys(VALUES, 0.0))

    _, asked = drive(world, make_limits(looks=(3, 6, 12)), standing=make_standing(noise=make_noise(sd=0.03)))
    assert asked[1:] == [(0, 3), (3, 3), (6, 6)]


@pytest.mark.feature("F022")
@pytest.mark.parametrize("preset", ["evidence", "campaign", "router", "autonomous"])
@pytest.mark.parametrize("check", ["FAIL", "ERROR"])
def test_a_failed_row_ends_measuring(preset, check):
    verdict, asked = drive(by_gain(0.30, checks=check), make_limits(preset))
    assert len(asked) == 1
    assert (verdict.decision, verdict.reason, verdict.correct) == ("rolled_back", "check_failed", "no")
    assert verdict.gain is None


@pytest.mark.parametrize("preset", ["evidence", "campaign", "router", "autonomous"])
def test_a_failed_benchmark_ends_measuring(preset):
    failed = BenchmarkFailed(commit=CANDIDATE, reason="no_csv", detail="no file", seconds=1.0)
    verdict, asked = drive(lambda want: failed, make_limits(preset))
    assert len(asked) == 1
    assert verdict.reason == "benchmark_failed"
    assert "no file" in verdict.sentence


def test_a_shape_without_a_row_ends_measuring():
    verdict, asked = drive(lambda want: shaped(want, {"small": 0.3, "medium": 0.3}), CAMPAIGN)
    assert asked == [QUICK]
    assert verdict.reason == "benchmark_failed"
    assert "large" in verdict.sentence


@pytest.mark.feature("F019")
@pytest.mark.parametrize(
    "evidence",
    [
        make_benchmark(level="quick", engine="event"),
        make_benchmark(level="quick", source="project"),
        make_benchmark(level="quick", machine="elsewhere"),
        make_benchmark(level="quick", commit="d" * 40),
        make_comparison(best="d" * 40),
        make_comparison(candidate=BASE),
    ],
)
def test_evidence_of_another_origin_raises(evidence):
    with pytest.raises(MixedEvidence):
        choose_measurement(make_timed(evidence), make_standing(), CAMPAIGN)


def test_first_questions():
    expected = {
        "evidence": BenchmarkWant(which="candidate", level="full", repeat=0),
        "campaign": BenchmarkWant(which="candidate", level="quick", repeat=0),
        "router": BenchmarkWant(which="candidate", level="quick", repeat=0),
        "autonomous": BenchmarkWant(which="candidate", level="full", repeat=0),
    }
    for preset, want in expected.items():
        assert choose_measurement(make_verified(), make_standing(), make_limits(preset)) == want


def test_extra_rows_of_the_benchmark_do_not_disturb():
    contract = make_contract(core_shapes=("small",))
    world = lambda want: shaped(want, {**dict.fromkeys(VALUES, 0.2), "bonus": -0.9})  # noqa: E731
    verdict, _ = drive(world, ROUTER, standing=make_standing(contract=contract))
    assert verdict.gain == pytest.approx(0.2)


@pytest.mark.feature("F055")
@pytest.mark.parametrize("limits", [CAMPAIGN, ROUTER], ids=["campaign", "router"])
@pytest.mark.parametrize(("again", "reason"), [(0.45, "faster"), (0.0, "not_better")])
def test_a_suspiciously_large_gain_is_believed_only_when_it_is_seen_again(limits, again, reason):
    verdict, asked = drive(by_gain({QUICK: 0.45, ("candidate", "quick", 1): again}), limits)
    assert asked == [QUICK, *ONCE_MORE]
    assert (verdict.reason, verdict.gain) == (reason, pytest.approx(again))
    assert any(note.startswith("suspicious") for note in verdict.notes) == verdict.accepted
