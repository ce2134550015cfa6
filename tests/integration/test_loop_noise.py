"""Identical versions in whole campaigns: calibrated once, checked now and then, calibrated again when they changed."""

from dataclasses import replace

import pytest

from ridgeline.graph.evidence import BenchmarkFailed
from tests.builders import make_limits
from tests.campaigns import make_campaign

ROUNDS = ["speed 120", *(f"speed {60 + n}" for n in range(5))]


class Shifted:
    """A timer on which every canary, and no calibration, sees a difference of `shift` between identical versions."""

    def __init__(self, inner, shift=0.0, failed=False):
        self._inner, self._shift, self._failed = inner, shift, failed

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def calibrate(self, commit, **question):
        if self._failed:
            return BenchmarkFailed(commit=commit, reason="unstable", detail="others took the core", seconds=2.0)
        found = self._inner.calibrate(commit, **question)
        if "canary" not in question["purpose"]:
            return found
        shapes = tuple(
            shape.model_copy(update={"pairs": tuple(tuple(b + self._shift for b in pair) for pair in shape.pairs)})
            for shape in found.shapes
        )
        return found.model_copy(update={"shapes": shapes})


def keys(campaign):
    return [line.key for line in campaign.ports.ledger.lines() if "after" in line.key and "review" not in line.key]


def make(tmp_path, *, timer=None, **limits):
    limits = make_limits(target_peak_fraction=None, max_rounds=len(ROUNDS), max_restarts=0, canary_every=3, **limits)
    campaign = make_campaign(tmp_path, *ROUNDS, limits=limits)
    if timer:
        campaign.ports = replace(campaign.ports, timer=timer(campaign.ports.timer))
    return campaign


def test_a_calibration_comes_before_round_two_and_canaries_follow(tmp_path):
    campaign = make(tmp_path)
    campaign.drive()
    # none after round 7, the last: no candidate would be judged by it
    assert keys(campaign) == ["calibration-after-1", "canary-after-4"]
    history = campaign.history()
    assert [run.alarm for run in history.calibrations] == ["", ""]
    assert history.calibrations[1].comparison.best == history.rounds[0].commit
    assert "identical versions" in campaign.files.read("README.md")
    assert "Measurement Noise" in campaign.files.read("final_report.md")


def test_a_calibration_waits_for_the_first_candidate_that_is_measured(tmp_path):
    """The first question is there sooner by what calibrating takes; a campaign that measures no candidate has none."""
    campaign = make(tmp_path, calibration_late=True)
    campaign.drive()
    lines = [line.key for line in campaign.ports.ledger.lines()]
    assert keys(campaign) == ["calibration-after-1", "canary-after-4"]
    before = lines.index("calibration-after-1")
    assert "round-2" not in lines[:before]
    assert campaign.history().rounds[0].commit
    idle = make_campaign(tmp_path / "idle", limits=make_limits(target_peak_fraction=None, calibration_late=True))
    idle.drive()
    assert keys(idle) == []


def test_a_canary_that_differs_has_the_machine_calibrated_again(tmp_path):
    campaign = make(tmp_path, timer=lambda inner: Shifted(inner, 0.05))
    campaign.drive()
    assert keys(campaign)[:3] == ["calibration-after-1", "canary-after-4", "calibration-after-4"]
    assert "differ by 5" in campaign.history().calibrations[1].alarm
    assert "calibrated again" in campaign.files.read("final_report.md")


def test_where_identical_versions_cannot_be_timed_the_own_scatter_decides_and_the_record_says_so(tmp_path):
    campaign = make(tmp_path, timer=lambda inner: Shifted(inner, failed=True))
    campaign.drive()
    history = campaign.history()
    assert "others took the core" in history.calibrations[0].note
    assert history.rounds[0].accepted
    assert sum(item.kind == "comparison" for item in history.rounds[0].judged.trial.timed.evidence) > 3
    report = campaign.files.read("final_report.md")
    assert "own scatter alone" in report
    assert "Not measured (" in report
    assert "not measured (" not in report


class Busy(Shifted):
    """Calibrates nothing, and the machine disturbs every third pair of a candidate."""

    def __init__(self, inner):
        super().__init__(inner, failed=True)

    def compare(self, *, candidate, first_pair, **question):
        if first_pair % 3 == 1:
            return BenchmarkFailed(commit=candidate, reason="unstable", detail="others took the core", seconds=2.0)
        return self._inner.compare(candidate=candidate, first_pair=first_pair, **question)


def test_a_disturbed_pair_is_made_up_for_and_costs_neither_the_round_nor_its_profile(tmp_path):
    campaign = make(tmp_path, timer=Busy)
    campaign.drive()
    first = campaign.history().rounds[0]
    timed = first.judged.trial.timed.evidence
    assert [item.kind for item in timed[1:5]] == ["comparison", "benchmark_failed", "comparison", "comparison"]
    assert first.accepted
    assert first.judged.trial.profile is not None
    assert "looks gave no pair, since the machine was disturbed" in campaign.files.read("rounds/round-2/summary.md")
    assert first.cost.command_seconds >= 2.0 * sum(item.kind == "benchmark_failed" for item in timed)


@pytest.mark.parametrize("limits", [{"calibration_pairs": 0}, {"preset": "campaign"}])
def test_nothing_is_calibrated_where_nothing_asks_for_it(tmp_path, limits):
    preset = limits.pop("preset", "evidence")
    asked = make_limits(preset, target_peak_fraction=None, max_rounds=2, **limits)
    campaign = make_campaign(tmp_path, *ROUNDS[:2], limits=asked)
    campaign.drive()
    assert keys(campaign) == []
