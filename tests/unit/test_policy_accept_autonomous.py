"""Preset `autonomous`: noise twice in the same direction, kernel time, configuration classes."""

import pytest

from ridgeline.graph.rules.acceptance import decide_verdict
from tests.builders import (
    BASE,
    VALUES,
    make_contract,
    make_hypothesis,
    make_limits,
    make_profiled,
    make_scaled,
    make_standing,
    make_traced,
)
from tests.judging import by_gain, drive, shaped

LIMITS = make_limits("autonomous")
FULL, AGAIN = ("candidate", "full", 0), ("candidate", "full", 1)
CLASSES = {"small": "mtp=1", "medium": "mtp=1", "large": "mtp=4"}


def classed(*runs):
    """A world whose n-th candidate run has these gains for classes mtp=1 and mtp=4."""

    def world(want):
        gains = runs[min(want.repeat, len(runs) - 1)] if want.which == "candidate" else (0.0, 0.0)
        found = shaped(want, {"small": gains[0], "medium": gains[0], "large": gains[1]})
        rows = tuple(r.model_copy(update={"config": (tuple(CLASSES[r.label].split("=")),)}) for r in found.rows)
        return found.model_copy(update={"rows": rows})

    return world


def kernel_time(best, candidate):
    return {
        "best_profile": make_profiled({"kernel_time_us": best}, commit=BASE),
        "profile": make_profiled({"kernel_time_us": candidate}),
    }


@pytest.mark.feature("F105", "F120")
@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (0.008, 0.008, "faster"),
        (0.008, -0.001, "noise"),
        (0.008, -0.02, "not_better"),
        (0.02, None, "faster"),
        (0.0, None, "not_better"),
        (-0.02, None, "not_better"),
    ],
)
def test_within_noise_only_twice_in_the_same_direction(first, second, reason):
    verdict, asked = drive(by_gain({FULL: first, AGAIN: second or 0.0}), LIMITS)
    assert verdict.reason == reason
    assert len(asked) == (1 if second is None else 2)


@pytest.mark.feature("F105")
def test_once_is_a_tie():
    trial = make_traced(make_scaled(1.008))
    assert decide_verdict(trial, make_standing(), LIMITS, best_profile=None).reason == "noise"


@pytest.mark.feature("F106", "F120")
@pytest.mark.parametrize(
    ("script", "best_us", "candidate_us", "reason", "faster"),
    [
        (0.10, 100.0, 90.0, "faster", "yes"),
        (0.10, 100.0, 105.0, "trace_not_improved", "no"),
        (0.10, 100.0, 100.0, "trace_not_improved", "no"),
        (0.10, 100.0, 99.5, "trace_not_improved", "unverified"),
        (0.008, 100.0, 99.5, "faster", "unverified"),
        (-0.10, 100.0, 90.0, "not_better", "no"),
    ],
)
def test_kernel_time_decides(script, best_us, candidate_us, reason, faster):
    verdict, _ = drive(by_gain(script), LIMITS, **kernel_time(best_us, candidate_us))
    assert (verdict.reason, verdict.faster) == (reason, faster)
    if reason == "trace_not_improved":
        assert verdict.gain == pytest.approx(best_us / candidate_us - 1)
    if verdict.accepted:
        assert any(note.startswith("kernel time 100 ->") for note in verdict.notes)


@pytest.mark.feature("F106")
@pytest.mark.parametrize(
    "profiles",
    [
        {},
        {"profile": make_profiled({"kernel_time_us": 1.0})},
        {"best_profile": make_profiled({"kernel_time_us": 0.0}), "profile": make_profiled({"kernel_time_us": 1.0})},
    ],
)
def test_where_nothing_reads_kernel_time_the_record_says_so(profiles):
    verdict, _ = drive(by_gain(0.10), LIMITS, **profiles)
    assert verdict.accepted
    assert any("kernel time was not measured" in note for note in verdict.notes)


def test_the_trace_gate_can_be_switched_off():
    verdict, _ = drive(by_gain(0.10), make_limits("autonomous", keep_gpu_time=False), **kernel_time(100.0, 120.0))
    assert verdict.accepted


@pytest.mark.feature("F108")
def test_a_losing_class_blocks_and_is_named():
    verdict, asked = drive(classed((0.2, -0.08)), make_limits("autonomous", split=False))
    assert asked == [FULL, AGAIN]
    assert (verdict.decision, verdict.reason) == ("rolled_back", "class_regression")
    assert "class mtp=4 lost 8.0% in 2 of 2 measurements" in verdict.sentence


@pytest.mark.feature("F109", "F108")
def test_diverging_classes_are_split_once():
    verdict, _ = drive(classed((0.2, -0.08)), LIMITS)
    assert (verdict.decision, verdict.reason) == ("split", "class_regression")
    assert verdict.sentence.startswith("Round 2: SPLIT - tile the inner loops by 64: class mtp=1 won 20.0%")
    second, _ = drive(classed((0.2, -0.08)), LIMITS, split=True)
    assert (second.decision, second.reason) == ("rolled_back", "class_regression")


@pytest.mark.feature("F108")
def test_a_class_must_lose_twice_to_block():
    verdict, asked = drive(classed((0.2, -0.08), (0.2, 0.02)), LIMITS)
    assert asked == [FULL, AGAIN]
    assert verdict.reason == "faster_trade_off"


@pytest.mark.parametrize(("loss", "accepted"), [(-0.02, False), (-0.005, True)])
def test_a_split_draft_may_not_slow_the_others_beyond_noise(loss, accepted):
    verdict, _ = drive(classed((0.2, loss)), LIMITS, split=True)
    assert verdict.accepted == accepted


@pytest.mark.parametrize(
    ("target", "gains", "decision", "reason"),
    [
        ("mtp=4", (0.2, -0.01), "rolled_back", "not_better"),
        ("mtp=4", (0.2, 0.05), "accepted", "faster"),
        ("mtp=4", (0.2, -0.08), "rolled_back", "class_regression"),
        ("mtp=1", (0.2, -0.08), "split", "class_regression"),
        ("mtp=1", (0.005, -0.08), "rolled_back", "class_regression"),
        ("no such class", (0.2, 0.05), "accepted", "faster"),
    ],
)
def test_the_target_class_must_win(target, gains, decision, reason):
    verdict, _ = drive(classed(gains), LIMITS, hypothesis=make_hypothesis(target_class=target))
    assert (verdict.decision, verdict.reason) == (decision, reason)


def test_core_shapes_are_guarded_inside_a_class():
    gains = {"small": 0.3, "medium": 0.3, "large": -0.06}
    world = lambda want: shaped(want, gains if want.which == "candidate" else dict.fromkeys(VALUES, 0.0))  # noqa: E731
    assert drive(world, LIMITS)[0].reason == "core_regression"
    standing = make_standing(contract=make_contract(core_shapes=("small",)))
    assert drive(world, LIMITS, standing=standing)[0].reason == "faster_trade_off"


@pytest.mark.feature("F106")
@pytest.mark.parametrize(
    "profile",
    [None, make_profiled({"spills": 0.0}), make_profiled({"kernel_time_us": 9.0}, rung="ncu")],
    ids=["no profile", "no kernel time", "another rung"],
)
def test_kernel_time_that_only_the_best_version_has_keeps_nothing(profile):
    verdict, _ = drive(by_gain(0.10), LIMITS, best_profile=make_profiled({"kernel_time_us": 1.0}), profile=profile)
    assert (verdict.decision, verdict.reason, verdict.faster) == ("rolled_back", "trace_not_improved", "unverified")
