"""The final report: headings, the one number, the audit, and honesty about what is missing."""

import re
import shlex

import pytest

from ridgeline.graph.evidence import BenchmarkFailed
from ridgeline.graph.record import PredictionCheck, Reflection
from ridgeline.graph.reports.files import render_all
from ridgeline.graph.reports.final_report import list_wall_time, render_final_report
from ridgeline.graph.reports.html import facts
from ridgeline.graph.rules.history import next_round
from ridgeline.graph.rules.result import compute_result
from ridgeline.graph.standing import History
from ridgeline.graph.values import Cost
from tests.builders import (
    make_contract,
    make_failed,
    make_history,
    make_hypothesis,
    make_judged,
    make_opened,
    make_round,
    make_scaled,
    make_timed,
)
from tests.document_builders import complete, growing, make_concluded, make_measured, make_unbuilt

HEADINGS = [
    "Result",
    "Baseline vs Best",
    "Iterations",
    "Effective Optimizations",
    "Ineffective Directions",
    "Next Steps",
    "Real-training applicability audit",
    "Validation",
    "Measurement Noise",
    "Costs",
    "Environment",
    "Reproduce",
    "Files",
]


def ended(**fields) -> History:
    return complete().model_copy(update={"concluded": make_concluded(**fields)})


@pytest.mark.feature("F059")
def test_the_report_has_its_parts_and_its_links_lead_to_files() -> None:
    files = render_all(complete(), worktree="tree")
    text = files["final_report.md"]
    assert isinstance(text, str)
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == HEADINGS
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert set(links) - {"ledger.jsonl"} <= set(files)
    assert len(links) == 6


@pytest.mark.feature("F059")
def test_the_headline_is_the_final_test_with_its_lower_bound() -> None:
    text = render_final_report(complete())
    assert text.count("Speedup over the original") == 1
    assert "Speedup over the original: 1.200x, at least 1.170x at 99 % confidence" in text
    assert "- Accepted: 2\n- Rolled back: 4\n" in text
    steps = text.partition("## Next Steps\n\n")[2].partition("\n\n")[0].splitlines()
    assert [step[:3] for step in steps] == ["1. ", "2. ", "3. "]
    assert "| medium | 100.0000 | 110.0000 | 0.3355 | 0.3050 |\n" in text


@pytest.mark.feature("F053")
def test_the_audit_table_and_its_closing_lines() -> None:
    text = render_final_report(complete()).partition("## Real-training applicability audit")[2]
    assert "| Source | Buckets | Benchmark gain | Real-training-equivalent gain |" in text
    for source in ("Structural kernel work", "Bounded weight cache", "Benchmark-only residual", "Total"):
        assert text.count(f"| {source} |") == 1
    assert "- Headline: +20.00% (final test)" in text
    assert (
        "- Attribution verdict: inflated - call out residual of +9.47%: part of the gain exists only in the benchmark's"
        in text
    )


def without_cache(speedup: float, lower: float) -> History:
    """The campaign as if its second kept round were kernel work: its rounds account for +18.8 %."""
    history = ended(speedup=speedup, speedup_lower=lower)
    rounds = tuple(closed if closed.round != 5 else make_measured(5, 1.10, kept=True) for closed in history.rounds)
    return history.model_copy(update={"rounds": rounds})


def test_clean_is_said_only_where_nothing_is_open() -> None:
    history = without_cache(1.19, 1.17)
    rounds = []
    for closed in history.rounds:
        verdict = closed.judged.verdict.model_copy(update={"own_work": "yes"})
        rounds.append(closed.model_copy(update={"judged": closed.judged.model_copy(update={"verdict": verdict})}))
    assert "- Whole gain settled: yes, clean - gap < 1%" in render_final_report(
        history.model_copy(update={"rounds": tuple(rounds)})
    )
    assert "**Not settled**" in render_final_report(history)
    assert "clean" not in render_final_report(history)


@pytest.mark.feature("F053")
def test_a_gap_is_called_out() -> None:
    text = render_final_report(without_cache(1.25, 1.23))
    assert "| Benchmark-only residual | - | +5.22% | +0.00% |" in text
    assert "- Gap: +5.22% of speed" in text
    beyond = "the final test measured +5.22% beyond what the kept rounds account for"
    assert f"- Attribution verdict: inflated - call out residual of +5.22%: {beyond}" in text
    assert f"- attribution: inflated: {beyond}; of a gain, only what the kept rounds account for is" in text
    unsure = render_final_report(without_cache(1.25, 1.19))
    assert (
        f"- Whole gain settled: no - the gap lies within the final test's own error; {beyond} (`attribution.ver"
        in unsure
    )
    assert "Verdict:" not in unsure


def test_a_direction_that_was_never_tried_is_not_called_ineffective() -> None:
    """A recorded direction whose edits do not fit, or that nobody answered, was not tried."""

    def list_ineffective(*rounds) -> str:
        text = render_final_report(complete().model_copy(update={"rounds": rounds}))
        return text.partition("## Ineffective Directions\n\n")[2].partition("\n\n## ")[0]

    kept, slower = make_measured(2, 1.08, kept=True), make_measured(3, 0.9, kept=False)
    unfit = make_unbuilt(4, make_failed("no_edit", round=4))
    told = "Not tried, so whether their directions help is not known: round-4 (no_edit)."
    assert list_ineffective(kept, unfit) == told
    rows = "| change number 3 | round-3 | noise: cause of round 3 |"
    assert list_ineffective(kept, slower, unfit).endswith(f"{rows}\n\n{told}")
    assert list_ineffective(kept, slower).endswith(rows)
    for reason in ("local_gate", "build_failed", "incorrect"):
        lost = make_judged("rolled_back", reason, gain=None, trial=make_failed(reason, round=5))
        assert f"| round-5 | {reason}: " in list_ineffective(kept, make_round(5, judged=lost))


def test_without_a_final_test_no_speedup_is_claimed() -> None:
    text = render_final_report(
        ended(final=None, speedup=None, speedup_lower=None, final_note="the device was lost", project=None)
    )
    assert "No speedup is claimed: the device was lost." in text
    assert "Speedup over the original" not in text
    assert "Full validation" not in text


def test_a_final_test_on_a_busy_machine_names_the_command_that_repeats_it() -> None:
    history = ended(
        final=None, speedup=None, speedup_lower=None, final_note="the final test failed (unstable): 18 of 80"
    )
    result = compute_result(history)
    again = f"`ridgeline bench commit:{result.base_commit[:12]} commit:{result.best_commit[:12]}` repeats the test."
    assert f"The machine was busy; on a quiet one, {again}" in render_final_report(history)
    assert "repeats the test" not in render_final_report(complete())


@pytest.mark.parametrize("is_unstable", [False, True])
def test_a_round_that_was_never_measured_is_to_be_measured_and_advises_no_other_lever(is_unstable: bool) -> None:
    failure = BenchmarkFailed(commit="c" * 40, reason="unstable", detail="others", seconds=1.0)
    timed = make_timed(failure) if is_unstable else None
    trial = make_failed("benchmark_failed" if is_unstable else "stopped", reached=timed)
    judged = make_judged("rolled_back", trial.reason, gain=None, trial=trial)
    learnt = Reflection(attribution="none", next_direction="another lever than unroll")
    history = complete().model_copy(update={"rounds": (make_round(2, judged=judged, reflection=learnt),)})
    steps = render_final_report(history).partition("## Next Steps\n\n")[2].partition("##")[0]
    assert "1. measure on a quiet machine what round 2 could not: " in steps
    assert "another lever" not in steps


def test_a_mailbox_campaign_spent_no_money_and_another_without_a_price_says_so() -> None:
    history = complete()
    rounds = tuple(closed.model_copy(update={"cost": Cost(dollars=None)}) for closed in history.rounds)
    history = history.model_copy(update={"rounds": rounds})
    assert "money UNKNOWN (a price was not known)" in render_final_report(history)
    opened = history.opened.model_copy(update={"planner": "mailbox"})
    text = render_final_report(history.model_copy(update={"opened": opened}))
    assert "money none (answers by mailbox)" in text
    assert "| Money | none (answers by mailbox) |" in text


def test_the_baseline_measured_again_beside_the_best_is_preferred() -> None:
    text = render_final_report(ended(baseline_again=make_scaled(1.1, source="project")))
    files = render_all(ended(baseline_again=make_scaled(1.1, source="project")), worktree="tree")
    assert {path for path in files if path.startswith("final/")} == {
        "final/comparison.json",
        "final/benchmark.csv",
        "final/baseline_again.csv",
    }
    assert "project's benchmark, original 2026-11-21 12:00, best 2026-11-21 12:00" in text
    assert "| medium | 110.0000 | 119.0000 |" in text
    assert "geomean" not in text


def test_in_the_middle_it_says_so_at_its_top() -> None:
    for history in list(growing())[:-1]:
        text = render_final_report(history)
        assert "**Not final: the campaign has not concluded.**" in text.splitlines()[2]
        assert "No headline yet" in text
        told = f"closed rounds alone: what is open, from round {next_round(history)} on, is not counted"
        assert f"State after {len(history.rounds)} closed attempts" in text
        assert f"({told})" in text, "beside the cost of the first screen"
        assert ("Counted", told) in facts(history), "and of the page"
        assert f"| Counted | {told} |" in text
        assert "final_report.md" not in render_all(history, worktree="tree")
    assert "Not final" not in render_final_report(complete())
    assert "not counted" not in render_final_report(complete())


def test_nothing_kept_reads_as_a_result_and_not_as_a_gain() -> None:
    history = make_history(
        make_measured(2, 0.9, kept=False),
        concluded=make_concluded(final=None, speedup=None, speedup_lower=None, project=None, attribution=None),
    )
    text = render_final_report(history)
    assert "The original is still the best version: no change was kept." in text
    assert "Nothing was kept: there is no gain to attribute." in text
    assert "No speedup is claimed: no version was kept." in text
    assert "git merge" not in text


def test_predictions_are_counted_apart_from_verdicts() -> None:
    def closed(number: int, outcome: str | None):
        check = outcome and PredictionCheck(counter="c", expected="down", before=2, after=1, outcome=outcome)
        return make_round(number, "rolled_back", prediction=check or None)

    outcomes = ("confirmed", "confirmed", "refuted", "unclear", None)
    history = make_history(*(closed(number, outcome) for number, outcome in enumerate(outcomes, start=2)))
    assert "- Predictions: 2 confirmed, 1 refuted, 2 unclear" in render_final_report(history)


def test_an_unknown_price_is_said_to_be_unknown() -> None:
    history = make_history(make_round(2, cost=Cost(dollars=None, tokens=5)))
    assert "| Money | UNKNOWN (a price was not known) |" in render_final_report(history)


@pytest.mark.feature("F054")
def test_an_overfit_round_in_the_lineage_is_shown() -> None:
    history = make_history(make_round(2, hypothesis=make_hypothesis(bucket="W3")))
    assert "**Overfit rounds in the lineage, to be rolled back: round-2.**" in render_final_report(history)


def test_one_command_line_reproduces_the_best_version() -> None:
    contract = make_contract(
        rebuild={"required": True, "command": "make -s lib"},
        benchmark_command=("./bench it", "--csv", "{csv}"),
    )
    history = complete()
    opened = make_opened(contract=contract, contract_path="tasks/mm/ridgeline.yaml")
    text = render_final_report(history.model_copy(update={"opened": opened}))
    command = text.partition("```sh\n")[2].partition("\n```")[0]
    assert "\n" not in command
    steps = [shlex.split(step) for step in command.split(" && ")]
    assert steps == [
        ["git", "checkout", "--detach", "05" * 20],
        ["cd", "tasks/mm"],
        ["make", "-s", "lib"],
        ["python", "test.py"],
        ["./bench it", "--csv", "benchmark.csv"],
    ]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("ridgeline.yaml", "\nridgeline bench {} {}\n"),
        ("tasks/ridgeline_mm.yaml", "\ncd tasks && ridgeline bench {} {} --contract ridgeline_mm.yaml\n"),
    ],
)
def test_the_command_that_times_the_gain_again_names_the_contract_of_the_campaign(path: str, words: str) -> None:
    history = complete()
    opened = make_opened(contract_path=path)
    text = render_final_report(history.model_copy(update={"opened": opened}))
    assert words.format(opened.base_commit[:12], "05" * 6) in text


def test_the_two_clocks_of_a_campaign_that_waited_agree() -> None:
    history = ended(worked_s=333.9, closed_at="2026-11-21T12:00:00Z")
    assert history.baseline is not None
    baseline = history.baseline.model_copy(update={"opened_at": "2026-11-21T11:52:00Z"})
    waited = history.model_copy(update={"baseline": baseline})
    assert list_wall_time(waited, 451.9) == [
        ("Wall time from the baseline to the end", "8.0 min"),
        ("Wall time in rounds", "7.5 min"),
        ("Wall time with no process at work (waiting for an answer or a resume)", "at least 2.4 min"),
        ("Processes at work, from the start of the command", "5.6 min"),
    ]
    assert history.concluded is not None
    in_one_go = waited.model_copy(update={"concluded": history.concluded.model_copy(update={"worked_s": 495.0})})
    assert "no process" not in str(list_wall_time(in_one_go, 451.9))
