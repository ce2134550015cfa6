"""What was not timed in pairs never undoes what pairs proved: every such finding in every preset, in one table."""

import math
from collections.abc import Mapping

import pytest

from ridgeline.graph.evidence import Profiled
from ridgeline.graph.limits import DOCUMENTS
from ridgeline.graph.rules.acceptance import decide_verdict
from ridgeline.graph.standing import BenchmarkWant
from ridgeline.graph.verdict import Verdict
from tests.builders import (
    BASE,
    VALUES,
    make_applied,
    make_benchmark,
    make_built,
    make_comparison,
    make_contract,
    make_hypothesis,
    make_limits,
    make_profiled,
    make_row,
    make_scaled,
    make_standing,
    make_timed,
    make_traced,
    make_verified,
)
from tests.builders_findings import make_finding
from tests.judging import by_gain, by_pairs, drive, shaped

PRESETS = ("evidence", *DOCUMENTS)
PROVED = dict.fromkeys(VALUES, 0.0778)
"""ln(1.081): the gain that was thrown away."""


def world(gains: Mapping[str, float]):
    """Benchmarks and pairs that agree: label -> ln of the candidate's speedup."""
    pairs = by_pairs(lambda label, pair: (gains[label] + 0.0005 * (-1) ** pair,))

    def answer(want):
        if isinstance(want, BenchmarkWant):
            mine = want.which == "candidate"
            return shaped(want, {label: math.expm1(gain) if mine else 0.0 for label, gain in gains.items()})
        return pairs(want)

    return answer


def verdict_of(preset, before: Mapping[str, float], after: Mapping[str, float], **fields) -> Verdict:
    profiles: dict[str, Profiled] = {
        "best_profile": make_profiled(before, commit=BASE),
        "profile": make_profiled(after),
    }
    return drive(world(PROVED), make_limits(preset), **profiles, **fields)[0]


COUNTERS = [
    ("spills", 0.0, 4.0, "register spills rose from 0 to 4"),
    ("scratch_bytes", 0.0, 48.0, "local memory is new: scratch_bytes rose from 0 to 48"),
    ("spill_ops", 0.0, 9.0, "local memory is new: spill_ops rose from 0 to 9"),
    ("occupancy", 62.5, 31.25, "occupancy fell from 62.5 to 31.25"),
]


@pytest.mark.feature("F081")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("name", "before", "after", "words"), COUNTERS)
def test_a_counter_undoes_only_what_was_not_proven(preset, name, before, after, words):
    verdict = verdict_of(preset, {name: before}, {name: after})
    assert verdict.faster == "yes"
    assert verdict.gain == pytest.approx(0.081, abs=0.002)
    if preset == "evidence":
        assert (verdict.decision, verdict.reason) == ("accepted", "faster")
        assert f"counters, which explain and overrule no measured time: {words}" in verdict.notes
        return
    assert (verdict.decision, verdict.reason) == ("rolled_back", "isa_regression")
    assert f"{words}, by the rule of preset `{preset}` ({DOCUMENTS[preset]}), whatever was timed (+" in verdict.sentence
    assert "was not kept because" in verdict.sentence


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("name", "before", "after", "words"), COUNTERS)
def test_a_counter_explains_what_was_rolled_back_for_its_times(preset, name, before, after, words):
    profiles = {"best_profile": make_profiled({name: before}), "profile": make_profiled({name: after})}
    slower = world(dict.fromkeys(VALUES, -0.1))
    verdict, _ = drive(slower, make_limits(preset), **profiles)
    assert (verdict.decision, verdict.reason) == ("rolled_back", "not_better")
    assert any(words in note for note in verdict.notes)
    assert words not in verdict.sentence


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("grew", [{"instructions": 9e9}, {"dram_pct": 99.0}, {"kernel_time_us": 900.0}])
def test_no_other_counter_decides_but_the_kernel_time_where_its_document_says_so(preset, grew):
    verdict = verdict_of(preset, dict.fromkeys(grew, 1.0), grew)
    if preset == "autonomous" and "kernel_time_us" in grew:
        assert verdict.reason == "trace_not_improved"
        assert "by the rule of preset `autonomous` (design document 003)" in verdict.sentence
        assert "the benchmark alone changed by +8.1%" in verdict.sentence
    else:
        assert verdict.accepted


@pytest.mark.parametrize("preset", PRESETS)
def test_a_profile_that_could_not_be_read_undoes_nothing_but_by_document(preset):
    profiles = {"best_profile": make_profiled({"spills": 0.0, "kernel_time_us": 9.0}, commit=BASE), "profile": None}
    verdict, _ = drive(world(PROVED), make_limits(preset), **profiles)
    assert verdict.accepted == (preset != "autonomous")
    if not verdict.accepted:
        assert "by the rule of preset `autonomous`" in verdict.sentence
        assert "(+8.1%)" in verdict.sentence


# a gain on skewed shapes is timed: the pairs decide it where they resolve it


@pytest.mark.feature("F051")
@pytest.mark.parametrize("preset", PRESETS)
def test_a_gain_that_vanishes_on_skewed_shapes_is_undone_everywhere(preset):
    standing = make_standing(contract=make_contract(target_op="moe_fp32", skew_shapes=("large",)))
    verdict, _ = drive(world({"small": 0.3, "medium": 0.3, "large": 0.0}), make_limits(preset), standing=standing)
    assert (verdict.decision, verdict.reason) == ("rolled_back", "overfit")
    assert ("at most" in verdict.sentence) == (preset == "evidence")
    assert verdict.own_work == "unverified", "a gain that does not carry over is no theft"


def test_skewed_shapes_are_measured_on_until_the_looks_are_spent_and_left_open_then():
    standing = make_standing(contract=make_contract(target_op="moe_fp32", skew_shapes=("large",)), noise=None)

    def draw(label, pair):
        return (-0.04 * (-1) ** pair if label == "large" else 0.3 + 0.001 * (-1) ** pair,)

    verdict, asked = drive(by_pairs(draw), make_limits(), standing=standing)
    assert asked[-1] == (11, 1), "a winner whose skewed shapes are open is measured on"
    assert verdict.accepted
    assert any(note.startswith("not settled: whether its gain of") for note in verdict.notes)


# another primary metric, which pairs do not time


@pytest.mark.feature("F025")
@pytest.mark.parametrize(("b", "kept", "noted"), [(0.90, False, False), (0.97, True, True), (0.995, True, False)])
def test_another_primary_metric_undoes_a_proven_gain_only_by_a_large_fall(b, kept, noted):
    contract = make_contract(
        benchmark_output={"columns": ("label", "Check", "a", "b")}, scoring={"primary_metric": ["a", "b"]}, work={}
    )

    def measured(value, **fields):
        return make_benchmark(rows=[make_row("s", metrics={"a": 1.0, "b": value})], **fields)

    best = measured(1.0, commit="b" * 40)
    standing = make_standing({"s": 1.0}, contract=contract, quick=best, full=best)
    pairs = by_pairs(lambda label, pair: (0.1 + 0.0005 * (-1) ** pair,), labels=("s",))
    verdict, _ = drive(
        lambda want: pairs(want) if want.kind == "comparison" else measured(b), make_limits(), standing=standing
    )
    assert verdict.accepted == kept
    assert any("read lower in single runs: b -3.0%" in note for note in verdict.notes) == noted
    assert ("which pairs do not time, fell: b -10.0%" in verdict.sentence) == (not kept)


# integrity is no proxy


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("left_open", [True, False])
def test_what_the_audit_left_open_of_an_unexplained_gain_undoes_it_in_every_preset(preset, left_open):
    findings = (make_finding(rule="lossy-cast"),) if left_open else ()
    verified = make_verified(make_built(make_applied().model_copy(update={"audit": findings})))
    evidence = [make_scaled(4.0, level=level) for level in ("quick", "full")]
    pairs = make_comparison(dict.fromkeys(VALUES, ((1.38,), (1.381,), (1.379,))))
    trial = make_traced().model_copy(update={"timed": make_timed(*evidence, pairs, verified=verified)})
    standing = make_standing(contract=make_contract(work={}))
    verdict = decide_verdict(trial, standing, make_limits(preset), best_profile=None)
    assert verdict.accepted == (not left_open)
    assert any(note.startswith("unexplained: ") for note in verdict.notes)
    assert verdict.reason == ("unsettled" if left_open else "faster")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    ("change", "reason"),
    [("bucket", "overfit"), ("check", "check_failed"), ("test", "incorrect"), ("physics", "benchmark_failed")],
)
def test_correctness_rule_11_and_physics_keep_their_power_over_a_proven_gain(preset, change, reason):
    evidence = [make_scaled(2.0, level=level) for level in ("quick", "full")]
    pairs = make_comparison(dict.fromkeys(VALUES, ((0.69,), (0.691,), (0.689,))))
    if change == "check":
        evidence[1] = make_benchmark(rows=[make_row(name, check="FAIL") for name in VALUES])
    if change == "physics":
        evidence[1] = make_scaled(float("inf"))
    trial = make_traced(*evidence, pairs, hypothesis=make_hypothesis(bucket="W3" if change == "bucket" else "K1"))
    if change == "test":
        wrong = trial.timed.verified.test.model_copy(update={"passed": False, "kind": "incorrect"})
        verified = trial.timed.verified.model_copy(update={"test": wrong})
        trial = trial.model_copy(update={"timed": trial.timed.model_copy(update={"verified": verified})})
    verdict = decide_verdict(trial, make_standing(), make_limits(preset), best_profile=None)
    assert (verdict.decision, verdict.reason) == ("rolled_back", reason)


@pytest.mark.feature("F043")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("drop", [0.012, 0.008, 0.0])
def test_a_version_that_fell_is_accepted_in_no_preset(preset, drop):
    fallen = by_gain(-drop) if preset != "evidence" else world(dict.fromkeys(VALUES, -drop))
    assert not drive(fallen, make_limits(preset))[0].accepted
