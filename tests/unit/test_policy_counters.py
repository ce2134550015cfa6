"""Streaks: what counts as a regression, what resets it, what is remembered."""

import pytest

from ridgeline.graph.rules.stagnation import (
    consecutive_regressions,
    consecutive_rollbacks,
    is_regression,
    recent_regressions,
)
from ridgeline.graph.trial import Formatted
from tests.builders import (
    BASE,
    make_applied,
    make_baseline,
    make_benchmark,
    make_comparison,
    make_contract,
    make_failed,
    make_judged,
    make_limits,
    make_profiled,
    make_round,
    make_scaled,
    make_traced,
)

LIMITS = make_limits("autonomous")
SCORING = make_contract().scoring


def regress(n, gain=-0.05):
    return make_round(n, "rolled_back", reason="not_better", gain=gain)


def tie(n):
    return make_round(n, "rolled_back", reason="noise", gain=0.005)


def failed(n, reason):
    judged = make_judged("rolled_back", reason, gain=None, correct="unverified", trial=make_failed(reason, round=n))
    return make_round(n, judged=judged)


KINDS = {
    "regress": regress,
    "tie": tie,
    "kept": make_round,
    "abandoned": lambda n: failed(n, "incorrect"),
    "crash": lambda n: failed(n, "benchmark_failed"),
}


def story(*kinds):
    return tuple(KINDS[kind](n) for n, kind in enumerate(kinds, 2))


@pytest.mark.feature("F102")
@pytest.mark.parametrize(
    ("kinds", "regressions", "rollbacks"),
    [
        ((), 0, 0),
        (("regress", "regress", "tie", "regress"), 1, 4),
        (("regress",) * 5, 5, 5),
        (("regress", "regress", "abandoned"), 0, 3),
        (("regress", "crash"), 0, 2),
        (("regress", "kept", "regress", "regress"), 2, 2),
        (("regress", "kept"), 0, 0),
        (("tie", "tie"), 0, 2),
    ],
)
def test_streaks(kinds, regressions, rollbacks):
    rounds = story(*kinds)
    assert consecutive_regressions(rounds, LIMITS) == regressions == len(recent_regressions(rounds, LIMITS))
    assert consecutive_rollbacks(rounds) == rollbacks


@pytest.mark.parametrize(("gain", "expected"), [(-0.0101, True), (-0.01, False), (-0.009, False), (0.2, False)])
def test_worse_means_beyond_noise(gain, expected):
    assert is_regression(regress(2, gain), LIMITS) == expected


@pytest.mark.feature("F103")
def test_the_window_keeps_the_last_five():
    rounds = story(*["regress"] * 8)
    assert consecutive_regressions(rounds, LIMITS) == 8
    assert [item.at for item in recent_regressions(rounds, LIMITS)] == [closed.closed_at for closed in rounds[-5:]]


@pytest.mark.feature("F103")
def test_a_summary_has_its_nine_fields():
    trial = make_traced(
        make_scaled(0.9, commit="3" * 40),
        commit="3" * 40,
        profile=make_profiled({"kernel_time_us": 55.0, "instructions": 3e6, "d1_misses": 10.0}),
    )
    closed = make_round(2, judged=make_judged("rolled_back", gain=-0.1, trial=trial))
    profile = make_profiled({"kernel_time_us": 50.0, "instructions": 1e6, "d1_misses": 20.0, "spills": 0.0, "x": 1.0})
    (found,) = recent_regressions((closed,), LIMITS, baseline=make_baseline(profile=profile), scoring=SCORING)
    assert len(type(found).model_fields) == 9
    assert found.at == closed.closed_at
    assert found.baseline_commit == "original"
    assert found.candidate == "3" * 40
    assert found.files == ("kernel.c",)
    assert found.hypothesis.startswith("I expect")
    assert found.script == (pytest.approx(100.0), pytest.approx(90.0))
    assert found.gpu_time_us == (50.0, 55.0)
    assert found.change == -0.1
    assert found.trace_points == ("instructions x3", "kernel_time_us x1.1")


def test_after_an_acceptance_the_best_is_the_accepted_round():
    kept = make_round(2, gain=0.2)
    (found,) = recent_regressions((kept, regress(3)), LIMITS, baseline=make_baseline(), scoring=SCORING)
    assert found.baseline_commit == kept.commit
    assert found.script == (pytest.approx(120.0), pytest.approx(95.0))
    uncommitted = make_round(2, commit=None)
    assert recent_regressions((uncommitted, regress(3)), LIMITS)[0].baseline_commit == uncommitted.tree


def test_a_formatted_best_is_read_from_its_formatted_run():
    formatted = Formatted(
        applied=make_applied(commit="f" * 40), evidence=(make_scaled(1.3, commit="f" * 40), make_comparison())
    )
    kept = make_round(2, judged=make_judged(formatted=formatted))
    (found,) = recent_regressions((kept, regress(3)), LIMITS, scoring=SCORING)
    assert found.script[0] == pytest.approx(130.0)


def test_pairs_give_times_and_missing_numbers_stay_missing():
    paired = make_round(
        2, judged=make_judged("rolled_back", gain=-0.1, trial=make_traced(make_benchmark(), make_comparison()))
    )
    assert recent_regressions((paired,), LIMITS)[0].script == (pytest.approx(100.0), pytest.approx(95.0))
    bare = recent_regressions((regress(2),), LIMITS)[0]
    assert (bare.script, bare.gpu_time_us) == ((None, None), (None, None))
    assert bare.trace_points == ("no trace of both versions",)
    no_best = recent_regressions((regress(2),), LIMITS, scoring=SCORING)[0]
    assert no_best.script == (None, pytest.approx(95.0))
    other = make_baseline(quick=make_benchmark({"small": 1.0}, commit=BASE))
    assert recent_regressions((regress(2),), LIMITS, baseline=other, scoring=SCORING)[0].script[0] is None
    strange = make_contract(scoring={"primary_metric": "M", "forward": "nope", "backward": "K"}).scoring
    assert recent_regressions((regress(2),), LIMITS, scoring=strange)[0].script == (None, None)


def test_no_counter_grew():
    trial = make_traced(profile=make_profiled({"instructions": 1.0}))
    closed = make_round(2, judged=make_judged("rolled_back", gain=-0.1, trial=trial))
    best = make_baseline(profile=make_profiled({"instructions": 2.0}))
    assert recent_regressions((closed,), LIMITS, baseline=best)[0].trace_points == ("no counter grew",)


def test_a_measured_failure_without_a_candidate_is_summarised_too():
    judged = make_judged("rolled_back", gain=-0.1, trial=make_failed("benchmark_failed"))
    found = recent_regressions((make_round(2, judged=judged),), LIMITS, scoring=SCORING)[0]
    assert (found.candidate, found.files, found.script) == ("", (), (None, None))
