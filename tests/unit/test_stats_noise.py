"""What identical versions show, how it enters every later decision, and when it no longer holds."""

import math
import statistics
from types import SimpleNamespace

import pytest

from ridgeline.graph.evidence import Comparison, MixedEvidence
from ridgeline.graph.loop import build
from ridgeline.graph.record import Calibrated
from ridgeline.graph.rules import calibration
from ridgeline.graph.rules.history import noise as noise_on_record
from ridgeline.graph.stats.noise import Noise, estimate_noise
from ridgeline.graph.stats.paired import FLOOR_SD
from ridgeline.graph.stats.sequential import NOISIER_VARIANCE, estimate_gain, smallest_visible_gain
from tests.builders import BASE, VALUES, make_comparison, make_history, make_limits, make_noise, make_round

LIMITS = make_limits()
LABELS = tuple(VALUES)


def rows(means, spread=0.001):
    """Pairs of two blocks each, around these means."""
    return tuple((mean - spread, mean + spread) for mean in means)


def same(means, *, spread=0.001, labels=LABELS, **fields) -> Comparison:
    return make_comparison(dict.fromkeys(labels, rows(means, spread)), candidate=BASE, **fields)


def calibrated(comparison=None, **fields) -> Calibrated:
    return Calibrated(**{"after_round": 1, "fresh": True, "comparison": comparison, **fields})


def test_noise_is_the_scatter_of_pair_means_about_their_own_mean():
    means = [0.01, -0.01, 0.02, -0.02]
    found = estimate_noise((same(means),))
    assert found.sd == pytest.approx(statistics.stdev(means))
    assert (found.pairs, found.degrees, found.engine) == (4, 3, "wall")
    assert found.scatter == pytest.approx(0.001)
    assert [shape.sd for shape in found.shapes] == pytest.approx([found.sd] * 3)


def test_a_canary_adds_scatter_about_its_own_level():
    found = estimate_noise((same([0.01, -0.01]), same([0.06, 0.04], best="d" * 40)))
    assert (found.pairs, found.degrees) == (4, 2)
    assert found.sd == pytest.approx(0.01 * math.sqrt(2))


def test_a_coarse_clock_keeps_the_floor():
    assert estimate_noise((same([0.0, 0.0, 0.0]),)).sd == FLOOR_SD


@pytest.mark.parametrize("runs", [(), (same([0.01]),)])
def test_less_than_two_pairs_are_no_calibration(runs):
    assert estimate_noise(runs) is None


@pytest.mark.feature("F019")
@pytest.mark.parametrize("other", [{"machine": "x"}, {"engine": "event"}, {"labels": ("other",)}])
def test_noise_of_two_machines_engines_or_shapes_is_never_pooled(other):
    with pytest.raises(MixedEvidence):
        estimate_noise((same([0.0, 0.01]), same([0.0, 0.01], **other)))


@pytest.mark.parametrize(
    ("means", "allowed"),
    [([0.0139 + 0.001 * (-1) ** n for n in range(16)], True), ([0.002 * (-1) ** n for n in range(16)], False)],
)
def test_identical_versions_that_differ_systematically_widen_the_margin(means, allowed):
    found = estimate_noise((same(means),))
    assert (found.allowance > abs(found.offset)) == allowed
    assert (found.allowance > 0) == allowed
    seen = estimate_gain((same(means[:2]),), found, LIMITS)
    assert seen.required == pytest.approx(math.log1p(LIMITS.margin) + found.allowance)
    assert seen.lower < seen.required


def test_a_calibration_bounds_what_two_pairs_alone_cannot():
    pairs = make_comparison(dict.fromkeys(LABELS, rows([0.05, 0.051])))
    assert estimate_gain((pairs,), None, LIMITS).lower == -math.inf
    assert estimate_gain((pairs,), make_noise(), LIMITS).lower > 0.04


def test_the_more_noise_the_wider_the_bounds():
    pairs = make_comparison(dict.fromkeys(LABELS, rows([0.05, 0.051])))
    widths = [pairs_width(pairs, make_noise(sd=sd)) for sd in (0.001, 0.003, 0.01)]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def pairs_width(pairs: Comparison, noise: Noise) -> float:
    found = estimate_gain((pairs,), noise, LIMITS)
    return found.upper - found.lower


def test_blocks_that_scatter_more_than_they_did_inflate_the_noise():
    noise = estimate_noise((same([0.002 * (-1) ** n for n in range(16)], spread=0.001),))
    calm = make_comparison(dict.fromkeys(LABELS, rows([0.05, 0.05], 0.001)))
    burst = make_comparison(dict.fromkeys(LABELS, rows([0.05, 0.05], 0.01)))
    assert pairs_width(burst, noise) > 5 * pairs_width(calm, noise)


def test_pairs_that_scatter_like_another_experiment_are_judged_by_themselves():
    noise = estimate_noise((same([0.002 * (-1) ** n for n in range(16)]),))
    wild = make_comparison(
        dict.fromkeys(LABELS, rows([0.05 + NOISIER_VARIANCE[1] * 0.005 * (-1) ** n for n in range(6)]))
    )
    assert estimate_gain((wild,), noise, LIMITS).lower == estimate_gain((wild,), None, LIMITS).lower


def test_noise_of_another_machine_counts_for_nothing_and_of_another_engine_raises():
    pairs = make_comparison(dict.fromkeys(LABELS, rows([0.05, 0.051])))
    elsewhere = make_noise().model_copy(update={"machine": "elsewhere"})
    assert estimate_gain((pairs,), elsewhere, LIMITS) == estimate_gain((pairs,), None, LIMITS)
    with pytest.raises(MixedEvidence, match="never judged by the noise of graph"):
        estimate_gain((pairs,), make_noise().model_copy(update={"engine": "graph"}), LIMITS)


def test_the_visible_gain_grows_with_noise_and_exceeds_the_margin():
    found = [smallest_visible_gain(make_noise(sd=sd), LIMITS) for sd in (0.001, 0.01, 0.02)]
    assert found == sorted(found)
    assert found[0] > LIMITS.margin
    assert found[1] == pytest.approx(0.0205, abs=0.002)


@pytest.mark.parametrize(
    ("gains", "slower"),
    [
        ({"small": 0.2, "medium": 0.2, "large": -0.05}, {"large"}),
        ({"small": -0.05, "medium": 0.2, "large": -0.05}, {"small", "large"}),
        ({"small": 0.2, "medium": 0.2, "large": -0.015}, set()),
    ],
)
def test_the_guard_names_the_shapes_that_are_slower_for_sure(gains, slower):
    pairs = make_comparison({label: rows([gain, gain]) for label, gain in gains.items()})
    found = estimate_gain((pairs,), make_noise(), LIMITS)
    assert {shape.label for shape in found.shapes if shape.slower} == slower


def test_holm_leaves_more_error_rate_to_the_shapes_that_remain():
    noise = make_noise(("a", "b"), sd=0.004)
    guard = math.log1p(-LIMITS.shape_guard)

    def slower(worst, other):
        pairs = make_comparison({"a": rows([worst] * 2), "b": rows([other] * 2)})
        return {shape.label for shape in estimate_gain((pairs,), noise, LIMITS).shapes if shape.slower}

    clear = guard - 0.05
    alone = next(step for step in range(1, 400) if "b" in slower(0.0, guard - step * 1e-4))
    beside = next(step for step in range(1, 400) if "b" in slower(clear, guard - step * 1e-4))
    assert beside < alone


def history(*runs, rounds=0, **limits):
    closed = tuple(make_round(n) for n in range(2, 2 + rounds))
    return make_history(*closed, limits=make_limits(**limits), calibrations=runs)


QUIET = same([0.002 * (-1) ** n for n in range(16)])
REMEMBERED = QUIET.model_copy(update={"seconds": 0.0})
"""What an earlier campaign measured."""


@pytest.mark.parametrize(
    ("known", "due"),
    [
        (history(), "calibration"),
        (history(calibration_pairs=0), None),
        (history(calibrated(QUIET)), None),
        (history(calibrated(QUIET), rounds=7), None),
        (history(calibrated(QUIET), rounds=8), "canary"),
        (history(calibrated(QUIET), rounds=8, canary_every=0), None),
        (history(calibrated(REMEMBERED)), None),
        (history(calibrated(REMEMBERED), rounds=1), "canary"),
        (history(calibrated(REMEMBERED), rounds=1, canary_every=0), None),
        (history(calibrated(REMEMBERED), rounds=1, calibration_looks=()), None),
        (history(calibrated(QUIET), calibrated(QUIET, after_round=9, fresh=False), rounds=8), None),
        (history(calibrated(QUIET), calibrated(QUIET, after_round=9, fresh=False, alarm="!"), rounds=8), "calibration"),
        (history(calibrated(None, note="crashed")), None),
    ],
)
def test_when_identical_versions_are_timed(known, due):
    assert calibration.next_calibration(known) == due


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize(
    ("runs", "place"),
    [
        ((), {True: "check_stop", False: "calibrate"}),
        ((calibrated(QUIET),), {True: "check_stop", False: "check_stop"}),
        (
            (calibrated(QUIET), calibrated(QUIET, after_round=9, fresh=False, alarm="!")),
            {True: "calibrate", False: "calibrate"},
        ),
    ],
)
def test_killed_after_an_alarm_the_calibration_is_made_before_anything_else(monkeypatch, runs, place, late):
    """Found by `make soak`: only the very first calibration may wait for a candidate."""
    known = history(*runs, calibration_late=late).model_copy(update={"roofline": "measured"})
    monkeypatch.setattr(build, "fold_ledger", lambda lines: known)
    runtime = SimpleNamespace(context=SimpleNamespace(ledger=SimpleNamespace(lines=list)))
    assert build.where_to_begin({}, runtime) == place[late]


def test_a_round_that_a_stop_ended_is_followed_by_no_canary():
    ended = make_round(2, "rolled_back", reason="stopped")
    known = make_history(ended, limits=make_limits(), calibrations=(calibrated(REMEMBERED),))
    assert calibration.next_calibration(known) is None


@pytest.mark.parametrize("preset", ["campaign", "router", "autonomous"])
def test_the_documents_own_rules_calibrate_nothing(preset):
    assert calibration.next_calibration(make_history(limits=make_limits(preset))) is None


def at(comparison: Comparison, best_us: float) -> Comparison:
    shapes = tuple(shape.model_copy(update={"best_us": best_us}) for shape in comparison.shapes)
    return comparison.model_copy(update={"shapes": shapes})


@pytest.mark.parametrize(
    ("canary", "says"),
    [
        (same([0.002, -0.002]), ""),
        (same([0.02, 0.021]), "differ by 2.1%"),
        (same([-0.02, -0.021]), "differ by 2.1%"),
        (same([0.002, -0.002], spread=0.0025), "scatter 2.5 times"),
        (same([0.002, -0.002], spread=0.0004), ""),
        (same([0.002, -0.002], spread=0.0002), "scatter 0.2 times"),
        (at(same([0.002, -0.002]), 104.0), "takes 4.0% more time"),
        (at(same([0.002, -0.002]), 96.0), "takes 4.0% less time"),
        (at(same([0.002, -0.002]), 102.0), ""),
        (same([0.002, -0.002], machine="elsewhere"), "no calibration of this machine"),
    ],
)
def test_a_canary_raises_the_alarm(canary, says):
    found = calibration.find_alarm(canary, history(calibrated(QUIET)))
    assert says in found
    assert bool(found) == bool(says)


def test_after_an_alarm_only_the_new_calibration_counts():
    loud = same([0.03 * (-1) ** n for n in range(16)])
    known = history(calibrated(QUIET), calibrated(QUIET, fresh=False, alarm="!"), calibrated(loud, after_round=9))
    assert noise_on_record(known) == estimate_noise((loud,))
    assert len(calibration.list_alarms(known)) == 1
