"""The gates that hold in every preset, trials that ended early, and the sentences."""

import pytest

from ridgeline.graph.evidence import BuildResult, MixedEvidence
from ridgeline.graph.rules.acceptance import decide_verdict
from ridgeline.graph.trial import Broken, Timed, Traced
from tests.builders import (
    BASE,
    VALUES,
    make_benchmark,
    make_built,
    make_comparison,
    make_contract,
    make_failed,
    make_hypothesis,
    make_limits,
    make_profiled,
    make_row,
    make_scaled,
    make_standing,
    make_test,
    make_timed,
    make_traced,
    make_verified,
)
from tests.judging import by_gain, drive, shaped

PRESETS = ("evidence", "campaign", "router", "autonomous")
CAMPAIGN, ROUTER = make_limits("campaign"), make_limits("router")


def per_shape(gains):
    return lambda want: shaped(want, gains if want.which == "candidate" else dict.fromkeys(VALUES, 0.0))


# what wanted() would never leave undone is still not kept


@pytest.mark.parametrize(
    ("evidence", "limits", "reason"),
    [
        ((make_scaled(1.015, level="quick"),), CAMPAIGN, "noise"),
        ((make_scaled(1.03, level="quick"),), CAMPAIGN, "undecided"),
        ((make_scaled(1.30, level="full"),), ROUTER, "undecided"),
        ((make_scaled(1.30, level="quick"),), make_limits("autonomous"), "undecided"),
        ((make_scaled(1.008),), make_limits("autonomous"), "noise"),
        ((make_scaled(1.30),), make_limits(), "undecided"),
    ],
)
def test_missing_measurements_are_not_a_gain(evidence, limits, reason):
    verdict = decide_verdict(
        make_traced(*evidence),
        make_standing(full=None) if reason == "undecided" else make_standing(),
        limits,
        best_profile=None,
    )
    assert (verdict.decision, verdict.reason, verdict.faster) == ("rolled_back", reason, "unverified")


def test_neither_level_is_comparable():
    only_full = make_traced(make_scaled(1.3, level="full"))
    verdict = decide_verdict(only_full, make_standing(full=None), CAMPAIGN, best_profile=None)
    assert verdict.reason == "undecided"


# hard gates


@pytest.mark.parametrize("preset", PRESETS)
def test_no_evidence_at_all_is_a_failed_benchmark(preset):
    trial = Traced(timed=Timed(verified=make_verified(), evidence=()), profile=None)
    assert decide_verdict(trial, make_standing(), make_limits(preset), best_profile=None).reason == "benchmark_failed"


def test_an_unbuilt_or_wrong_candidate_is_never_kept():
    unbuilt = make_verified(make_built(ok=False))
    wrong = make_verified().model_copy(update={"test": make_test("incorrect")})
    for verified, reason, correct in ((unbuilt, "build_failed", "unverified"), (wrong, "incorrect", "no")):
        trial = Traced(timed=make_timed(make_scaled(1.5, level="quick"), verified=verified), profile=None)
        verdict = decide_verdict(trial, make_standing(), ROUTER, best_profile=None)
        assert (verdict.decision, verdict.reason, verdict.correct) == ("rolled_back", reason, correct)
    assert isinstance(unbuilt.built.build, BuildResult)


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (
            (make_scaled(1.3, level="quick"), make_benchmark({"small": 1.0}, commit=BASE, level="quick", repeat=1)),
            "no row",
        ),
        (
            (
                make_scaled(1.3, level="quick"),
                make_benchmark(commit=BASE, level="quick", repeat=1, rows=[make_row(n, check="FAIL") for n in VALUES]),
            ),
            "did not pass",
        ),
        ((make_scaled(1.3), make_comparison({"small": ((0.1,), (0.1,))})), "not compared: large, medium"),
        ((make_scaled(1.3), make_comparison(dict.fromkeys(VALUES, ((0.1,), ())))), "without a single block"),
        ((make_scaled(0.0),), "positive and finite"),
    ],
)
def test_unusable_numbers_are_a_failed_benchmark(evidence, words):
    verdict = decide_verdict(make_traced(*evidence), make_standing(), CAMPAIGN, best_profile=None)
    assert verdict.reason == "benchmark_failed"
    assert words in verdict.sentence


@pytest.mark.feature("F046")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("bucket", ["W2", "W3"])
def test_rule_11_rejects_whatever_the_score(preset, bucket):
    evidence = (make_scaled(2.0, level="quick"), make_scaled(2.0), make_comparison())
    trial = make_traced(*evidence, hypothesis=make_hypothesis(bucket=bucket))
    verdict = decide_verdict(trial, make_standing(), make_limits(preset), best_profile=None)
    assert (verdict.decision, verdict.reason, verdict.own_work) == ("rolled_back", "overfit", "no")


@pytest.mark.feature("F051")
@pytest.mark.parametrize(
    ("on_skew", "reason"), [(0.20, "faster"), (0.02, "faster"), (0.01, "overfit"), (0.0, "overfit"), (-0.03, "overfit")]
)
def test_a_gain_that_vanishes_under_skew_is_overfit(on_skew, reason):
    standing = make_standing(contract=make_contract(target_op="moe_fp32", skew_shapes=("large",)))
    verdict, _ = drive(per_shape({"small": 0.3, "medium": 0.3, "large": on_skew}), CAMPAIGN, standing=standing)
    assert verdict.reason == reason


@pytest.mark.parametrize("preset", ["campaign", "router", "autonomous"])
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({"spills": 0.0}, {"spills": 4.0}, "isa_regression"),
        ({"spills": 8.0}, {"spills": 8.0}, "faster"),
        ({"spills": 8.0}, {"spills": 0.0}, "faster"),
        ({"occupancy": 8.0}, {"occupancy": 6.0}, "isa_regression"),
        ({"occupancy": 8.0}, {"occupancy": 6.1}, "faster"),
        ({"occupancy": 0.0}, {"occupancy": 0.0}, "faster"),
        ({"spills": 0.0}, {"occupancy": 1.0}, "faster"),
        ({"occupancy": 8.0}, {"spills": 1.0}, "faster"),
    ],
)
def test_new_spills_and_lost_occupancy_undo_an_acceptance(preset, before, after, reason):
    profiles = {"best_profile": make_profiled(before, commit=BASE), "profile": make_profiled(after)}
    verdict, _ = drive(by_gain(0.2), make_limits(preset), **profiles)
    assert verdict.reason == reason
    assert verdict.gain == pytest.approx(0.2)


@pytest.mark.parametrize("other", [{"rung": "ncu"}, {"machine": "elsewhere"}])
def test_profiles_of_two_rungs_say_nothing(other):
    profiles = {"best_profile": make_profiled({"spills": 0.0}), "profile": make_profiled({"spills": 9.0}, **other)}
    assert drive(by_gain(0.2), ROUTER, **profiles)[0].accepted


@pytest.mark.feature("F055")
@pytest.mark.parametrize(("gain", "noted"), [(0.40, True), (0.30, False), (0.2, False)])
@pytest.mark.parametrize("preset", ["campaign", "router", "autonomous"])
def test_a_gain_too_large_to_be_true_asks_for_a_second_look(gain, noted, preset):
    verdict, _ = drive(by_gain(gain), make_limits(preset))
    assert verdict.accepted
    assert any(note.startswith("suspicious:") for note in verdict.notes) == noted


@pytest.mark.feature("F019")
@pytest.mark.parametrize("preset", PRESETS)
def test_mixed_evidence_is_never_judged(preset):
    evidence = [make_scaled(1.5, level=level, engine="event") for level in ("quick", "full")]
    with pytest.raises(MixedEvidence):
        decide_verdict(make_traced(*evidence), make_standing(), make_limits(preset), best_profile=None)


# trials that ended early


@pytest.mark.parametrize(
    ("reason", "correct", "own_work"),
    [
        ("no_edit", "unverified", "unverified"),
        ("build_failed", "unverified", "unverified"),
        ("incorrect", "no", "unverified"),
        ("test_timeout", "unverified", "unverified"),
        ("tampered", "unverified", "no"),
        ("overfit", "unverified", "no"),
    ],
)
def test_a_failed_trial_keeps_its_reason_and_claims_nothing(reason, correct, own_work):
    verdict = decide_verdict(make_failed(reason), make_standing(), CAMPAIGN, best_profile=None)
    assert (verdict.decision, verdict.reason) == ("rolled_back", reason)
    assert (verdict.correct, verdict.faster, verdict.own_work) == (correct, "unverified", own_work)
    assert verdict.gain is None
    assert verdict.sentence.startswith("Round 2: ROLLED BACK - tile the inner loops by 64 was not kept because ")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("answer", ["yes", "no", "unverified"])
def test_what_the_judge_says_of_own_work_reaches_the_verdict(preset, answer):
    verified = make_verified()
    test = verified.test.model_copy(update={"own_work": answer})
    trial = Traced(
        timed=make_timed(make_scaled(1.2), verified=verified.model_copy(update={"test": test})), profile=None
    )
    assert decide_verdict(trial, make_standing(), make_limits(preset), best_profile=None).own_work == answer


def test_a_right_result_that_is_not_its_own_work_is_called_that():
    test = make_test("incorrect").model_copy(update={"own_work": "no"})
    trial = make_failed(
        "incorrect", reached=Broken(built=make_built(), test=test), detail="MISMATCH: a library made it"
    )
    verdict = decide_verdict(trial, make_standing(), CAMPAIGN, best_profile=None)
    assert (verdict.correct, verdict.own_work) == ("yes", "no")
    assert verdict.sentence.endswith("was not kept because it is not its own work: MISMATCH: a library made it")


def test_a_repair_that_changed_nothing_is_said_beside_what_it_left_broken():
    detail = "a.c:3:1: error: expected ';'\nmake: Error 1\n\nrepair 1: the edits undo the change"
    verdict = decide_verdict(make_failed("build_failed", detail=detail), make_standing(), CAMPAIGN, best_profile=None)
    assert verdict.sentence.endswith(
        "because the build failed: a.c:3:1: error: expected ';'; repair 1: the edits undo the change"
    )


@pytest.mark.parametrize(("reason", "correct"), [("benchmark_failed", "yes"), ("tampered", "unverified")])
def test_what_was_tested_stays_tested(reason, correct):
    trial = make_failed(reason, reached=make_verified(), detail="")
    verdict = decide_verdict(trial, make_standing(), CAMPAIGN, best_profile=None)
    assert verdict.correct == correct
    assert verdict.notes == ()


def test_a_long_tool_message_is_cut_in_the_sentence():
    verdict = decide_verdict(
        make_failed(detail="\n" + "x" * 500 + "\nmore"), make_standing(), CAMPAIGN, best_profile=None
    )
    assert verdict.sentence.endswith("x...")
    assert len(verdict.sentence) < 300


def test_sentences():
    verdict, _ = drive(per_shape({"small": 0.02, "medium": 0.1, "large": 0.2}), CAMPAIGN)
    assert verdict.sentence == "Round 2: ACCEPTED - avg +10.4%, from +2.0% (small) to +20.0% (large)"
    one = make_standing({"small": 50.0})
    verdict, _ = drive(lambda want: shaped(want, {"small": 0.1}), ROUTER, standing=one)
    assert verdict.sentence == "Round 2: ACCEPTED - avg +10.0%"


@pytest.mark.parametrize(
    "profile", [None, make_profiled({"instructions": 1.0}), make_profiled({"spills": 0.0}, rung="ncu")]
)
def test_spills_that_were_not_read_of_the_candidate_are_said(profile):
    best = make_profiled({"spills": 0.0})
    verdict, _ = drive(by_gain(0.1), ROUTER, profile=profile, best_profile=best)
    assert verdict.accepted
    assert "not read of the candidate, so not compared: spills" in verdict.notes


def test_a_gain_that_is_noise_itself_is_not_called_overfit():
    standing = make_standing(contract=make_contract(target_op="moe_fp32", skew_shapes=("large",)))
    world = per_shape({"small": 0.008, "medium": 0.007, "large": 0.0})
    verdict, _ = drive(world, CAMPAIGN, standing=standing)
    assert (verdict.reason, verdict.own_work) == ("noise", "unverified")
    verdict, _ = drive(world, ROUTER, standing=standing)
    assert (verdict.reason, verdict.own_work) == ("overfit", "unverified")


@pytest.mark.feature("F033")
def test_pairs_that_lack_a_shape_decide_nothing_even_when_it_is_not_representative():
    standing = make_standing(shapes=("small", "medium"))
    pairs = make_comparison(dict.fromkeys(("small", "medium"), ((0.2,), (0.21,), (0.2,))))
    verdict = decide_verdict(make_traced(make_scaled(1.2), pairs), standing, make_limits(), best_profile=None)
    assert (verdict.reason, verdict.faster) == ("benchmark_failed", "unverified")
    assert "not compared: large" in verdict.sentence
