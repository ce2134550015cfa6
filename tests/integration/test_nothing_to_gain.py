"""Whole campaigns on an original at its ceiling: no round, no candidate, a reason with number and source."""

from dataclasses import replace

import pytest

from ridgeline.agent.campaign.folders import LEDGER
from ridgeline.graph.evidence import Ceilings, Rate
from tests.builders import METRIC, make_benchmark, make_limits, make_machine, make_row
from tests.campaigns import make_campaign

SIZE = 4096
"""64 MiB of FP32: twice the last-level cache of the test machine."""
FLOOR_MS = 4 * (SIZE * SIZE + 2 * SIZE) / 20e6


class Ceiled:
    """The test machine with measured ceilings."""

    def machine(self):
        return make_machine()

    def ceilings(self, dtype):
        return Ceilings(copy_gbps=20.0, flops_gflops=100.0, method="copy loop, pinned", machine="machine-0")


class Matvec:
    """Times of a matrix-vector product that reaches `share` of its memory floor at speed 100."""

    def __init__(self, inner, share):
        self._inner, self._share = inner, share

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def benchmark(self, commit, *, level, source, shapes, repeat, purpose):
        time_ms = FLOOR_MS / self._share / self._inner.speed(commit)
        metrics = {"M": SIZE, "K": SIZE, METRIC: 2 * SIZE * SIZE / time_ms / 1e6, "Time (ms)": time_ms}
        row = make_row("v4096", metrics=metrics)
        return make_benchmark(rows=[row], commit=commit, level=level, source=source, repeat=repeat)


class Asked:
    """A planner that must not be asked."""

    def __getattr__(self, name):
        raise AssertionError(f"planner.{name} was asked")


def matvec(tmp_path, share, *scripts, **fields):
    limits = make_limits(max_restarts=0, **fields.pop("limits", {}))
    work = {"flops": "2*M*K", "bytes": "4*(M*K+M+K)"}
    campaign = make_campaign(tmp_path, *scripts, limits=limits, work=work, **fields)
    campaign.ports = replace(campaign.ports, device=Ceiled(), timer=Matvec(campaign.ports.timer, share))
    return campaign


@pytest.mark.feature("F058", "F072", "F088")
def test_a_matvec_at_93_per_cent_of_its_floor_ends_before_the_first_round(tmp_path):
    campaign = matvec(tmp_path, 0.93, planner=Asked())
    campaign.drive()
    history = campaign.history()
    assert history.rounds == ()
    # not even noise is measured: no candidate will come
    assert history.calibrations == ()
    assert history.concluded.stop_reason == (
        "T2 nothing to gain: 93.0 % of the memory ceiling (copy bandwidth 20 GB/s, measured here: copy loop), "
        "asked 90 %; at most 1.075x is left for any change"
    )
    assert history.concluded.speedup is None
    report = campaign.files.read("final_report.md")
    assert "\nNothing to gain: 93.0 % of the memory ceiling" in report
    assert "No round was spent; the benchmark, run again at the end: 93.0 % of the ceiling." in report
    assert "| v4096 | memory |" in report
    assert "target_peak_fraction=none" in report
    assert "nothing to gain" in campaign.files.read("logs/optimize.md")
    assert "- T2 hardware efficiency: 90% of the bounding ceiling" in campaign.files.read("README.md")


@pytest.mark.feature("F072")
@pytest.mark.parametrize(
    ("share", "limits", "rounds"),
    [
        (0.93, {}, 0),
        (0.93, {"target_peak_fraction": None}, 1),
        (0.93, {"target_peak_fraction": 0.95}, 1),
        (0.80, {}, 1),
        (0.80, {"target_peak_fraction": 0.75}, 0),
    ],
)
def test_who_changes_the_limit_changes_the_stop(tmp_path, share, limits, rounds):
    campaign = matvec(tmp_path, share, "speed 101", limits=limits)
    campaign.drive()
    assert len(campaign.history().rounds) == rounds
    stated = limits.get("target_peak_fraction", 0.9)
    line = "off" if stated is None else f"{100 * stated:g}% of the bounding ceiling"
    assert f"- T2 hardware efficiency: {line}\n" in campaign.files.read("README.md")


def test_a_gain_that_reaches_the_ceiling_is_kept_and_ends_the_campaign(tmp_path):
    campaign = matvec(tmp_path, 0.70, "speed 134", "speed 135")
    campaign.drive()
    history = campaign.history()
    assert len(history.rounds) == 1
    assert history.rounds[0].accepted
    assert history.concluded.stop_reason.startswith("T2 hardware efficiency 93.8 % of the memory ceiling")
    report = campaign.files.read("final_report.md")
    assert "Speedup over the original" in report
    assert "Nothing to gain" not in report
    assert "At most 1.066x is left." in report


def test_a_crash_after_the_baseline_goes_on_to_the_same_end(tmp_path):
    campaign = matvec(tmp_path, 0.93, planner=Asked())
    campaign.drive()
    whole = (tmp_path / LEDGER).read_text()
    kept = whole.splitlines(keepends=True)[:3]
    assert '"kind":"baseline"' in kept[-1]
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / LEDGER).write_text("".join(kept))
    again = matvec(tmp_path / "again", 0.93, planner=Asked())
    again.drive()
    assert again.history().concluded == campaign.history().concluded


class Slower(Matvec):
    """The same on a machine that is slower at the end than it was at the baseline."""

    def benchmark(self, commit, **question):
        self._share = 0.7 if question["purpose"] == "final" else self._share
        return super().benchmark(commit, **question)


def test_a_last_run_that_disagrees_is_said(tmp_path):
    campaign = matvec(tmp_path, 0.93, planner=Asked())
    campaign.ports = replace(campaign.ports, timer=Slower(campaign.ports.timer, 0.93))
    campaign.drive()
    assert "70.0 % of the ceiling, less than asked: the machine was not steady" in campaign.files.read(
        "final_report.md"
    )


class Kept(Ceiled):
    """A GPU's ceilings from another day; measured again its bandwidth is `gbps`."""

    def __init__(self, gbps):
        self._gbps, self.asked = gbps, 0

    def ceilings(self, dtype, *, fresh=False):
        found = super().ceilings(dtype).model_copy(update={"others": (Rate(name="read", value=21.0, unit="GB/s"),)})
        self.asked += fresh
        return found.model_copy(update={"copy_gbps": self._gbps} if fresh else {"kept": True})


@pytest.mark.parametrize(
    ("share", "gbps", "limits", "asked", "rounds"),
    [
        # the same again: it is the ceiling
        (0.93, 20.0, {}, 1, 0),
        # the card was throttled when it was measured
        (0.93, 25.0, {}, 1, 1),
        # measured again it can no longer be said
        (0.93, None, {}, 1, 1),
        # nothing rests on it
        (0.70, 25.0, {}, 0, 1),
        (0.93, 25.0, {"target_peak_fraction": None}, 0, 1),
    ],
)
def test_kept_ceilings_are_measured_again_before_they_end_a_campaign(tmp_path, share, gbps, limits, asked, rounds):
    campaign = matvec(tmp_path, share, "speed 101", limits=limits)
    device = Kept(gbps)
    campaign.ports = replace(campaign.ports, device=device)
    campaign.drive()
    history = campaign.history()
    assert (device.asked, len(history.rounds)) == (asked, rounds)
    assert history.baseline.roofline is None if not asked else history.roofline == history.baseline.roofline
    if asked:
        assert not history.roofline.ceilings.kept
        assert history.baseline.shapes[0].floor_us != 0
    if gbps and asked:
        assert f"copy bandwidth: {gbps:g} GB/s <- measured here: copy loop, pinned" in campaign.files.read("README.md")
