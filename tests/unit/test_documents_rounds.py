"""The folder of a round: summary, snapshot, artifacts, plan, iteration report, transfer check."""

import re

import pytest

from ridgeline.graph.reports.figures import list_roles
from ridgeline.graph.reports.files import commit_message, render_all, tip_entry
from ridgeline.graph.reports.transfer import transfer_check
from ridgeline.graph.standing import History
from ridgeline.graph.trial import Formatted
from ridgeline.graph.values import Artifact
from tests.builders import (
    make_applied,
    make_artifact,
    make_contract,
    make_drafted,
    make_failed,
    make_history,
    make_hypothesis,
    make_judged,
    make_opened,
    make_proposed,
    make_round,
    make_scaled,
    make_traced,
)
from tests.document_builders import complete, make_measured, reflection

SIX_PARTS = ["Hypothesis", "Single change", "Results", "Decision", "Attribution", "Next direction"]
TRANSFER_FIELDS = [
    "Bucket",
    "Cache key (if any)",
    "id(...) audit",
    "4-step pen-and-paper trace hit rate",
    "Workload distribution robustness (GroupGemm / MoE only)",
    "Benchmark gain on this round",
    "Estimated real-training gain",
    "Decision",
]


def headings(text: str, level: int = 2) -> list[str]:
    return re.findall(rf"^{'#' * level} (.+)$", text, flags=re.MULTILINE)


def section(text: str, heading: str) -> str:
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def bullets(text: str) -> dict[str, str]:
    return dict(re.findall(r"^- ([^:]+): (.*)$", text, flags=re.MULTILINE))


def summary(history: History, number: int) -> str:
    text = render_all(history, worktree="tree")[f"rounds/round-{number}/summary.md"]
    assert isinstance(text, str)
    return text


@pytest.mark.feature("F037")
@pytest.mark.parametrize(("number", "kept"), [(2, True), (3, False), (4, False), (5, True), (6, False), (7, False)])
def test_summary_has_six_parts_and_the_rollback_analysis_exactly_when_rolled_back(number: int, kept: bool) -> None:
    text = summary(complete(), number)
    rollback = [] if kept else ["Rollback Analysis"]
    assert headings(text) == [*SIX_PARTS, *rollback, "Real-training transfer check"]
    assert headings(text, 3) == ["Validation", "Aggregate"]
    assert section(text, "Decision").strip().startswith("ACCEPTED" if kept else "ROLLED BACK")
    if not kept:
        assert list(bullets(section(text, "Rollback Analysis"))) == [
            "Change made",
            "Expected effect",
            "Actual effect",
            "Root cause",
            "Lesson learned",
        ]


@pytest.mark.feature("F037")
def test_baseline_summary_says_that_nothing_was_changed() -> None:
    text = summary(complete(), 1)
    assert headings(text) == [*SIX_PARTS, "Real-training transfer check"]
    assert section(text, "Single change").strip() == "No code change."
    assert section(text, "Decision").strip() == "BASELINE"


@pytest.mark.feature("F037")
def test_results_name_commands_level_shapes_and_the_interleaved_comparison() -> None:
    text = summary(complete(), 5)
    assert "- Validation level: full" in text
    assert "| Shape/label | M | N | K | Result | GFLOPS | Time (ms) | Delta vs current best |" in text
    assert "| medium | 256 | 256 | 256 | PASS | 110.0000 | 0.3050 | - |" in text
    assert "Interleaved with the best version in 3 fresh process pairs over 3 shapes" in text
    assert "Best version before this round: round-2." in text
    assert "| Forward | 110.000 | +18.80% | +10.00% [+9.00%, +11.00%] |" in text
    assert "| instructions | 925926 | 909091 | -1.82% |" in text


@pytest.mark.feature("F037")
def test_a_failed_round_shows_the_tools_own_words_fenced() -> None:
    text = summary(complete(), 4)
    assert "Ended as `build_failed`." in text
    assert "```text\nkernel.c:3: error: expected `;`\n```" in text
    assert "Repair 1: MISMATCH label=small -> handle the tail" in summary(complete(), 6)


@pytest.mark.feature("F038")
def test_every_round_has_its_snapshot_and_artifacts() -> None:
    files = render_all(complete(), worktree="tree")
    for number in range(1, 8):
        assert isinstance(files[f"rounds/round-{number}/kernel_snapshot/kernel.c"], Artifact)
    assert files["rounds/round-2/kernel_snapshot/kernel.c"] != files["rounds/round-1/kernel_snapshot/kernel.c"]
    names = {path.rpartition("/")[2] for path in files if path.startswith("rounds/round-5/artifacts/")}
    assert names == {"candidate.diff", "benchmark.csv", "comparison.json"}
    first = {path.rpartition("/")[2] for path in files if path.startswith("rounds/round-1/artifacts/")}
    assert first == {"benchmark.csv", "project_benchmark.csv", "quick_baseline.log"}
    assert "rounds/round-4/artifacts/benchmark.csv" not in files


def test_repeated_measurements_are_all_kept_and_the_formatted_one_stands_for_the_round() -> None:
    commit, tidy = "2" * 40, "3" * 40
    quick = make_scaled(1.05, commit=commit, level="quick")
    again = make_scaled(1.06, commit=commit, level="quick", repeat=1)
    after = make_scaled(1.07, commit=tidy)
    formatted = Formatted(applied=make_applied(commit=tidy), evidence=(after,))
    judged = make_judged(trial=make_traced(quick, again, commit=commit), formatted=formatted)
    files = render_all(make_history(make_round(2, judged=judged)), worktree="tree")
    assert files["rounds/round-2/artifacts/benchmark.csv"] == after.csv
    assert files["rounds/round-2/artifacts/benchmark-quick-0-2222222.csv"] == quick.csv
    assert files["rounds/round-2/artifacts/benchmark-quick-1-2222222.csv"] == again.csv
    assert "| Forward | 107.000 |" in str(files["rounds/round-2/summary.md"])


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", "a\\..\\b", ""])
def test_a_snapshots_name_never_leads_out_of_its_folder(name: str) -> None:
    closed = make_round(2, "rolled_back", snapshot=(make_artifact(name, "x"),))
    trial = closed.judged.trial
    applied = trial.timed.verified.built.applied.model_copy(update={"snapshot": (make_artifact(name, "x"),)})
    built = trial.timed.verified.built.model_copy(update={"applied": applied})
    timed = trial.timed.model_copy(update={"verified": trial.timed.verified.model_copy(update={"built": built})})
    judged = closed.judged.model_copy(update={"trial": trial.model_copy(update={"timed": timed})})
    files = render_all(make_history(closed.model_copy(update={"judged": judged})), worktree="tree")
    placed = [path for path in files if path.startswith("rounds/round-2/kernel_snapshot/")]
    assert len(placed) == 1
    assert ".." not in placed[0].split("/")


@pytest.mark.feature("F052")
@pytest.mark.parametrize(
    ("fields", "kept", "decision", "real"),
    [
        ({"bucket": "K1"}, True, "ACCEPT-as-real", "+8.00%"),
        ({"bucket": "K4"}, False, "ACCEPT-as-real", "+0.00% (not kept)"),
        ({"bucket": "W1", "real_gain_bound": 0.015}, True, "ACCEPT-with-asterisk", "+1.50%"),
        ({"bucket": "W1", "real_gain_bound": 0.5}, True, "ACCEPT-with-asterisk", "+8.00%"),
        ({"bucket": "W1"}, False, "REJECT-as-overfit", "+0.00% (benchmark-only"),
        ({"bucket": "W2"}, False, "REJECT-as-overfit", "+0.00% (benchmark-only"),
        ({"bucket": "W3"}, False, "REJECT-as-overfit", "+0.00% (benchmark-only"),
    ],
)
def test_transfer_check_has_its_eight_fields(fields: dict, kept: bool, decision: str, real: str) -> None:
    closed = make_measured(2, 1.08, kept=kept, **fields)
    found = section(summary(make_history(closed), 2), "Real-training transfer check")
    assert list(bullets(found)) == TRANSFER_FIELDS
    assert bullets(found)["Decision"] == decision
    assert bullets(found)["Estimated real-training gain"].startswith(real)
    assert bullets(found)["Bucket"].startswith(fields["bucket"])


@pytest.mark.feature("F051", "F052")
def test_a_grouped_operator_says_what_is_known_of_skewed_shapes() -> None:
    closed = make_measured(2, 1.08, kept=True)
    plain = make_contract(target_op="grouped_gemm")
    skewed = make_contract(target_op="grouped_gemm", skew_shapes=("cf125",))
    assert transfer_check(closed, plain).robustness == "not shown: the contract names no skewed shape"
    tested = skewed.model_copy(update={"empty_group_test": "tests/test_grouped.py::test_empty_expert"})
    assert transfer_check(closed, skewed).robustness == (
        "skewed shapes measured in every round: cf125; no test with an empty group is named"
    )
    assert transfer_check(closed, tested).robustness == (
        "skewed shapes measured in every round: cf125; "
        "an empty group is tested by tests/test_grouped.py::test_empty_expert"
    )
    assert transfer_check(closed).robustness == "n/a (not a grouped operator)"


@pytest.mark.feature("F078")
def test_plan_has_its_sections_and_exactly_one_action() -> None:
    text = str(render_all(complete(), worktree="tree")["plans/v4_plan.md"])
    assert text.startswith("# Iteration V4 Plan\n")
    assert headings(text) == [
        "Input Evidence",
        "Search Log",
        "This Iteration's Optimization Action",
        "Expected Impact",
        "Risks and Rollback",
    ]
    assert "| Source | Query | Finding | Actionability |" in text
    assert section(text, "This Iteration's Optimization Action").strip().count("\n") == 0


def test_iteration_report_has_its_sections() -> None:
    text = str(render_all(complete(), worktree="tree")["rounds/round-5/iteration_report.md"])
    assert headings(text) == [
        "Optimization Action",
        "Profile Evidence Summary",
        "Performance Data",
        "Correctness Validation",
        "ISA Metric Progress",
    ]
    assert "Measured gain: +10.00% [+9.00%, +11.00%]." in text
    assert "| latency (us, geomean) | 310.689 | 305.040 |\n" in text + "\n"


@pytest.mark.feature("F113")
def test_commit_message_follows_the_documents_form() -> None:
    history = complete()
    text = commit_message(history.rounds[0].judged, history, 2)
    lines = text.splitlines()
    assert lines[0] == "[optimize] matmul_fp32 C round-2: change number 2"
    assert lines[1] == ""
    labels = re.findall(r"^(Hypothesis|Why|Evidence|Result|Details):", text, flags=re.MULTILINE)
    assert labels == ["Hypothesis", "Why", "Evidence", "Result", "Details"]
    assert "+8.00% [+7.00%, +9.00%]" in text


def test_commit_subject_stays_on_one_short_line() -> None:
    hypothesis = make_hypothesis(change="first\nsecond " + "x" * 500)
    judged = make_judged(trial=make_traced(hypothesis=hypothesis))
    subject = commit_message(judged, make_history(), 12).splitlines()[0]
    assert len(subject) <= 100
    assert subject.startswith("[optimize] matmul_fp32 C round-12: first second xxx")
    assert subject.endswith("...")


@pytest.mark.feature("F012")
def test_tip_entry_has_the_form_of_the_documents() -> None:
    history = complete()
    entry = tip_entry(history.rounds[0], history.opened)
    assert re.match(r"^### \d{4}-\d\d-\d\d \d\d:\d\d round-2 - ACCEPTED\n\n- Context: ", entry)
    assert list(bullets(entry)) == ["Context", "Signal", "Takeaway", "Applicability"]
    assert "applies when both operands are row-major; does not apply when a side is below 64" in entry
    assert tip_entry(history.rounds[1], history.opened) == ""


@pytest.mark.feature("F012")
def test_an_overfit_round_is_never_praised_in_a_tip() -> None:
    hypothesis = make_hypothesis(bucket="W3")
    closed = make_round(2, "rolled_back", reason="overfit", hypothesis=hypothesis, reflection=reflection(2, kept=False))
    entry = tip_entry(closed, make_opened())
    assert "- Takeaway: benchmark over-fit; do not retry\n" in entry
    assert "ROLLED BACK" in entry


@pytest.mark.feature("F079")
@pytest.mark.parametrize(("author", "who"), [("", "opus"), ("Ada", "Ada")])
def test_three_roles_have_three_ids_and_the_validator_is_never_who_wrote_the_change(author, who):
    proposed = make_proposed(author=author, prompts=() if author else ("system.v2.md@1", "propose.v5.md@2"))
    drafted = make_drafted(proposed=proposed, prompts=() if author else ("system.v2.md@1", "draft.v5.md@3"))
    applied = make_applied(drafted=drafted)
    for reason, did in (("build_failed", "read tree "), ("tampered", "and restored them")):
        judged = make_judged("rolled_back", reason, gain=None, trial=make_failed(reason, reached=applied))
        closed = make_round(judged=judged)
        planner, implementer, validator = list_roles(make_opened(planner="opus", version="9.9"), closed)
        assert len({planner.id, implementer.id, validator.id}) == 3
        assert (planner.id, implementer.id) == (f"planner:{who}", f"implementer:{who}")
        assert validator.id == "validator:ridgeline-9.9"
        assert did in validator.did
        assert applied.tree[:12] in validator.did
        assert ("propose.v5.md@2" in planner.did) == ("draft.v5.md@3" in implementer.did) == (not author)
