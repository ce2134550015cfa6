"""The logs and `performance.md`: columns, golden numbers, and that they only ever grow."""

import time

import pytest

from ridgeline.graph.evidence import Benchmark
from ridgeline.graph.record import StopCheck
from ridgeline.graph.reports.files import render_all, render_changed
from ridgeline.graph.standing import History
from tests.builders import make_benchmark, make_judged, make_limits, make_opened, make_round, make_row, make_traced
from tests.document_builders import complete, growing, long, make_concluded, make_measured, training

TREND = (
    "| Round | Status | Description | Fwd Avg TFLOPS | Fwd Peak TFLOPS | Bwd Avg TFLOPS | Bwd Peak TFLOPS | "
    "Combined Step TFLOPS | vs Baseline | Key Finding |"
)
PERFORMANCE = (
    "| Date | Commit | Status | Benchmark command | Target class / dispatch condition | Kernel | script us | "
    "GPU time | % vs previous best | Note |"
)


def rendered(history: History) -> dict[str, str]:
    return {path: text for path, text in render_all(history, worktree="tree").items() if isinstance(text, str)}


def cells(text: str, first: str) -> list[str]:
    """Cells of the table row that begins with this cell."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def columns(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


@pytest.mark.feature("F041")
def test_trend_has_the_ten_columns_and_the_numbers_of_the_golden_vector() -> None:
    trend = rendered(training())["logs/performance_trend.md"]
    assert TREND in trend
    assert cells(trend, "1")[3:9] == ["500.000", "500.000", "250.000", "250.000", "300.000", "-"]
    assert cells(trend, "2")[7] == "310.077"
    versus = [cells(trend, number)[8] for number in "234"]
    gains = [closed.judged.verdict.gain for closed in training().rounds]
    product = [gains[0], (1 + gains[0]) * (1 + gains[1]) - 1, (1 + gains[0]) * (1 + gains[2]) - 1]
    assert versus == [f"step {100 * gain:+.3f}%" for gain in product]
    assert [cells(trend, number)[1] for number in "1234"] == ["BASELINE", "ACCEPTED", "ROLLBACK", "ACCEPTED"]


@pytest.mark.feature("F041")
def test_averages_are_geometric_means_of_the_combined_step() -> None:
    """Golden vector 26.1: three shapes, geomean 182.692, over a baseline of 168.592."""
    history = training()

    def run(pairs: tuple[tuple[float, float], ...], commit: str) -> Benchmark:
        rows = [
            make_row(f"s{i}", metrics={"Forward TFLOPS": forward, "Backward TFLOPS": backward})
            for i, (forward, backward) in enumerate(pairs)
        ]
        return make_benchmark(rows=rows, commit=commit)

    trial = make_traced(run(((320, 160), (305, 152), (290, 145)), "2" * 40), commit="2" * 40)
    history = history.model_copy(
        update={
            "baseline": history.baseline.model_copy(update={"quick": run(((285, 140),) * 3, "b" * 40)}),
            "rounds": (make_round(2, judged=make_judged(trial=trial)),),
        }
    )
    trend = rendered(history)["logs/performance_trend.md"]
    assert cells(trend, "2")[7] == "182.692"
    assert cells(trend, "2")[8] == "step +8.000%"  # the verdict's gain, not the quotient of two readings


@pytest.mark.feature("F026", "F041")
def test_without_backward_pass_the_unit_is_the_campaigns_and_dashes_are_explained_once() -> None:
    trend = rendered(complete())["logs/performance_trend.md"]
    assert "| Fwd Avg GFLOPS | Fwd Peak GFLOPS | Bwd Avg GFLOPS |" in trend
    assert trend.count("no backward pass") == 1
    assert "no backward pass" in cells(trend, "1")[9]
    assert cells(trend, "2")[8] == "step +8.000%"
    assert cells(trend, "4")[3:9] == ["-"] * 6
    assert {len(row) for row in columns(trend)} == {10}
    assert [row[0] for row in columns(trend)[2:]] == ["1", "2", "3", "4", "5", "6", "7"]


def measured_as(*rows) -> str:
    trial = make_traced(make_benchmark(rows=rows, commit="2" * 40), commit="2" * 40)
    judged = make_judged("rolled_back", "check_failed", gain=None, trial=trial)
    history = complete().model_copy(update={"rounds": (make_round(2, judged=judged),), "concluded": None})
    files = rendered(history)
    assert "summary.md" in "".join(files)
    return files["logs/performance_trend.md"]


def test_rows_that_failed_are_in_no_average() -> None:
    trend = measured_as(make_row("small", 100.0), make_row("medium", float("nan"), check="FAIL"))
    assert cells(trend, "2")[3:9] == ["100.000", "100.000", "-", "-", "100.000", "-"]
    none = measured_as(make_row("small", 100.0, check="ERROR"))
    assert cells(none, "2")[3:9] == ["-"] * 6


def test_a_number_that_cannot_be_a_rate_gives_dashes() -> None:
    assert cells(measured_as(make_row("small", 0.0)), "2")[3:9] == ["-"] * 6
    assert cells(measured_as(make_row("small", metrics={"M": 8.0})), "2")[3:9] == ["-"] * 6


@pytest.mark.feature("F042")
@pytest.mark.parametrize("path", ["logs/optimize.md", "logs/performance_trend.md"])
def test_logs_only_grow(path: str) -> None:
    before = ""
    for history in growing():
        now = render_all(history, worktree="tree")[path]
        assert now.startswith(before)
        before = now
    assert len(before) > 1500


def test_writing_what_changed_after_every_event_leaves_the_same_folder_as_writing_everything() -> None:
    folder: dict[str, object] = {}
    for history in growing():
        folder |= render_changed(history, worktree="tree")
        assert folder == render_all(history, worktree="tree")


def test_logs_tell_every_event() -> None:
    text = rendered(complete())["logs/optimize.md"]
    for heading in (
        "## Basic Information",
        "## Baseline",
        "## Optimization History",
        "### round-2 - change number 2",
        "## Current Best (after round-2, 2026-11-21 10:02)",
        "## Directions to Try (after round-2)",
        "## Verified Ineffective Directions (after round-5)",
        "### Stagnation review (after round-4)",
        "### Partial restart (after round-6)",
        "### Termination Check",
        "## Final Report",
        "### Real-training applicability audit",
    ):
        assert text.splitlines().count(heading) == 1, heading
    assert "-> Satisfied condition(s): T3" in text
    assert "- Historical tips: read (9 characters)" in text
    assert "| change number 3 | round-3 | noise: cause of round 3 |" in text


@pytest.mark.feature("F011")
def test_absent_tips_are_logged() -> None:
    text = rendered(History(opened=make_opened()))["logs/optimize.md"]
    assert "- Historical tips: absent" in text


@pytest.mark.feature("F111")
def test_performance_has_only_baseline_and_kept_rows() -> None:
    text = rendered(complete())["performance.md"]
    assert PERFORMANCE in text
    rows = columns(text)[2:]
    assert [row[2] for row in rows] == ["baseline", "keep", "keep"]
    assert [row[1] for row in rows[1:]] == ["`020202020202`", "`050505050505`"]
    assert {len(row) for row in rows} == {10}
    assert rows[0][6] == "335.544"
    assert rows[1][8] == "+8.00% [+7.00%, +9.00%]"
    assert "Stop Summary" not in text


def stopped(check: str) -> History:
    rounds = tuple(make_measured(number, 0.95, kept=False) for number in range(2, 7))
    every = (StopCheck(id=check, description="why", satisfied=True),)
    history = complete()
    return history.model_copy(
        update={
            "opened": make_opened(limits=make_limits("autonomous")),
            "rounds": rounds,
            "concluded": make_concluded(stop_reason=f"{check} why", checks=every, speedup=None, speedup_lower=None),
        }
    )


@pytest.mark.feature("F112")
def test_five_regressions_end_in_a_stop_summary_with_five_rows() -> None:
    text = rendered(stopped("T5"))["performance.md"]
    assert "## Stop Summary" in text
    assert "- Reason: 5 consecutive measured regressions (T5 why)" in text
    assert f"- BEST_COMMIT: `{'b' * 40}`" in text
    table = columns(text.partition("## Stop Summary")[2])
    assert table[0] == [
        "Attempt",
        "Hypothesis",
        "Changed Files",
        "us best->cand",
        "GPU Time best->cand",
        "Delta",
        "Notes",
    ]
    assert [row[0] for row in table[2:]] == ["round-2", "round-3", "round-4", "round-5", "round-6"]
    assert [row[5] for row in table[2:]] == ["-5.00%"] * 5


@pytest.mark.feature("F112")
def test_no_idle_device_ends_in_a_stop_summary_and_a_round_limit_does_not() -> None:
    assert "no idle GPU available for 60 minutes" in rendered(stopped("T6"))["performance.md"]
    assert "Stop Summary" not in rendered(stopped("T3"))["performance.md"]


def test_a_long_campaign_renders_its_last_round_quickly() -> None:
    before, last = long(119), long(120)
    last = before.model_copy(update={"rounds": (*before.rounds, last.rounds[-1])})
    render_all(before, worktree="tree")
    took = []
    for _ in range(3):
        start = time.process_time()
        files = render_changed(last, worktree="tree")
        took.append(time.process_time() - start)
    assert min(took) < 0.05
    assert "rounds/round-121/summary.md" in files
    assert "rounds/round-120/summary.md" not in files
