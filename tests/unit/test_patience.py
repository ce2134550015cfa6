"""Rule 2.1: no wait is longer than its cap, and two windows in which a command does nothing are a hang."""

import pytest

from ridgeline.agent.campaign.wiring import _gate
from ridgeline.graph.limits import Limits
from ridgeline.sandbox.isolation.process import HangWatchdog, Progress, run, watch
from ridgeline.sandbox.store.campaign_folder import StopFile
from tests.builders import make_contract, make_limits

RULE = HangWatchdog(window_s=Limits().poll_max_s, windows=Limits().poll_stuck_windows)


class Command:
    """One that is waited for on a clock of its own: what it had done after each window, and when it ends."""

    def __init__(self, monkeypatch, *done: tuple[int, float], ends_s: float = float("inf")) -> None:
        self._done, self._ends_s = list(done), ends_s
        self.now_s = 0.0
        self.waits: list[float] = []
        monkeypatch.setattr("ridgeline.sandbox.isolation.process.time.monotonic", lambda: self.now_s)

    def exited(self, most_s: float) -> bool:
        self.waits.append(most_s)
        self.now_s = min(self.now_s + most_s, self._ends_s)
        return self.now_s >= self._ends_s

    def progress(self) -> Progress:
        printed, worked_s = self._done.pop(0) if len(self._done) > 1 else self._done[0]
        return Progress(printed=printed, worked_s=worked_s)

    def watched(self, timeout_s: float, patience: HangWatchdog | None = RULE) -> str:
        return watch(self.exited, timeout_s=timeout_s, patience=patience, progress=self.progress)


@pytest.mark.feature("F034")
def test_a_wait_of_1000_s_is_two_and_none_is_longer_than_the_cap(monkeypatch):
    command = Command(monkeypatch, (1, 0.0))
    assert command.watched(1000) == "late"
    assert command.waits == [900, 100]


@pytest.mark.feature("F034")
@pytest.mark.parametrize(
    ("done", "ends_s", "how", "after_s"),
    [
        ([(0, 0.0)], float("inf"), "hung", 1800),  # nothing at all
        ([(5, 30.0), (5, 30.0)], float("inf"), "hung", 2700),  # began, then stood still
        ([(5, 0.0), (5, 8.9), (5, 17.8)], float("inf"), "hung", 2700),  # less than a hundredth of a core
        ([(1, 0.0), (1, 0.0), (2, 0.0), (2, 0.0), (3, 0.0), (4, 0.0)], 5000, "exited", 5000),  # prints now and then
        ([(0, 9.0), (0, 18.0), (0, 27.0), (0, 36.0), (0, 45.0), (0, 54.0)], 5000, "exited", 5000),  # computes
        ([(0, 0.0)], 1799, "exited", 1799),
    ],
)
def test_two_windows_without_output_or_work_are_a_hang(monkeypatch, done, ends_s, how, after_s):
    command = Command(monkeypatch, *done, ends_s=ends_s)
    assert command.watched(7200) == how
    assert command.now_s == after_s
    assert max(command.waits) <= 900


def test_without_patience_only_the_limit_counts(monkeypatch):
    command = Command(monkeypatch, (0, 0.0))
    assert command.watched(7200, None) == "late"
    assert command.waits == [7200]


@pytest.mark.feature("F034")
def test_a_real_command_that_sleeps_is_ended_and_its_output_says_why(tmp_path):
    short = HangWatchdog(window_s=0.2, windows=2)
    ended = run(("sh", "-c", "echo begun; sleep 60"), cwd=tmp_path, timeout_s=50, patience=short)
    assert (ended.timed_out, ended.returncode) == (True, None)
    assert ended.seconds < 5
    assert ended.output == "begun\n\n[hung: no output and no work in 2 windows of 0.2 s]\n"


def test_real_commands_that_print_or_compute_are_left_alone(tmp_path):
    short = HangWatchdog(window_s=0.3, windows=2)
    prints = run(
        ("sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done"), cwd=tmp_path, timeout_s=50, patience=short
    )
    assert prints.ok
    spins = "i=0; while [ $i -lt 250000 ]; do i=$((i+1)); done"
    computes = run(("sh", "-c", f"setsid sh -c '{spins}'; :"), cwd=tmp_path, timeout_s=50, patience=short)
    assert computes.ok


@pytest.mark.feature("F034")
@pytest.mark.parametrize(("asked", "cap", "expected"), [(600, 900, 600), (1000, 900, 900), (600, 60, 60)])
def test_the_gate_of_a_card_looks_again_within_the_cap(tmp_path, asked, cap, expected):
    limits = make_limits(gpu_retry_interval_s=asked, poll_max_s=cap)
    gate = _gate(make_contract(target_gpu="H100", target_backend="TRITON"), limits, StopFile(tmp_path))
    assert gate._waiting.retry_s == expected
