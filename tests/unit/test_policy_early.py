"""Exit code 0 is a pass only with the lines that every run of the original prints."""

import pytest

from ridgeline.graph.evidence import PrintedLine, TestOutput
from ridgeline.graph.rules.early_end import RELIABLE, explain_early_end, note_silent_test


def said(*lines: str | tuple[str, int], cut: bool = False, bad: tuple[str, ...] = ()) -> TestOutput:
    pairs = [(line, 1) if isinstance(line, str) else line for line in lines]
    kept = tuple(PrintedLine(line=line, times=times, complains=line in bad) for line, times in pairs)
    return TestOutput(lines=kept, cut=cut)


ORIGINAL = said("seed #", ("PASS n=#", 5), "all # shapes are right")


@pytest.mark.parametrize(
    "candidate",
    [
        ORIGINAL,
        said("all # shapes are right", "seed #", ("PASS n=#", 5)),
        said("seed #", ("PASS n=#", 7), "all # shapes are right", "tile of #"),
        said("seed #", ("PASS n=#", 5), "all # shapes are exactly right"),
    ],
)
def test_a_whole_run_is_a_pass_in_any_order_and_with_more_lines(candidate):
    assert explain_early_end((ORIGINAL,), candidate) is None


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (said(), "the line 'seed #' (and 2 other lines)"),
        (said("seed #"), "the line 'PASS n=#' (and 1 other lines)"),
        (said("seed #", ("PASS n=#", 5)), "the line 'all # shapes are right'"),
        (said("seed #", ("PASS n=#", 3), "all # shapes are right"), "2 more of the line 'PASS n=#'"),
        (said("seed #", ("PASS n=#", 5), "all # shapes are wrong"), "missing"),
        (said("seed #", ("PASS n=#", 5), "not all # shapes are right"), "missing"),
        (said("seed #", ("PASS n=#", 5), "entirely other words here"), "missing"),
    ],
)
def test_a_run_without_lines_that_the_original_prints_ended_early(candidate, words):
    why = explain_early_end((ORIGINAL,), candidate)
    assert why is not None
    assert words in why
    assert "\n" not in why


NAMED = said("kernel: naive ijk", ("PASS n=#", 5), "all # shapes are right")


@pytest.mark.parametrize(
    ("candidate", "whole"),
    [
        (said("kernel: blocked, table of tiles", ("PASS n=#", 5), "all # shapes are right"), True),
        (said(("PASS n=#", 5), "blocked", "all # shapes are right"), True),
        (said(("PASS n=#", 5), "all # shapes are right"), False),  # nothing stands for it
        (said(("PASS n=#", 5), "all # shapes are right", "blocked"), False),  # not in its place
        (said("blocked", ("PASS n=#", 5)), False),  # and the end is missing
        (said("blocked", ("PASS n=#", 4), "all # shapes are right"), False),
        (said("not blocked", ("PASS n=#", 5), "all # shapes are right"), False),
        (said(("blocked", 2), ("PASS n=#", 5), "all # shapes are right"), False),
        (said("kernel: naive ijk", "blocked", "all # shapes are right"), False),  # what affirms is never replaced
        (said("kernel: naive ijk", ("blocked", 5), "all # shapes are right"), False),
        (said("kernel: naive ijk", ("PASS n=#", 5), "blocked"), False),
        (said("blocked", "begin", "end"), False),  # the lines of another test
    ],
)
def test_what_the_kernel_says_of_itself_may_change_where_the_test_comes_to_its_end(candidate, whole):
    assert (explain_early_end((NAMED,), candidate) is None) == whole


def test_the_mend_comes_before_the_line_that_may_be_long():
    assert (explain_early_end((NAMED,), said()) or "").startswith(
        "the test ended early with exit code 0, let it run to its end: "
    )


def test_lines_that_vary_between_runs_of_the_original_are_not_required():
    first, second = said("a", "luck", ("case #", 3)), said("a", ("case #", 2))
    assert explain_early_end((first,), second) is not None
    assert explain_early_end((first, second), said("a", ("case #", 2))) is None
    assert explain_early_end((first, second), said("a", "case #")) is not None


def test_one_line_stands_in_for_one_only():
    original = said(("size # is right", 3))
    assert explain_early_end((original,), said("size # is right here", "size # is right")) is not None
    assert explain_early_end((original,), said(("size # is right here", 2), "size # is right")) is None


def test_a_known_line_stands_in_for_none():
    original = said("size # is right on host", "size # is right on device")
    assert explain_early_end((original,), said(("size # is right on host", 2))) is not None


def test_new_complaints_are_no_pass_and_old_ones_are_known():
    loud = said("# passed", "# failed", bad=("# failed",))
    assert "'# failed'" in (explain_early_end((said("# passed"),), loud) or "")
    assert explain_early_end((said("# passed", "# failed", bad=("# failed",)),), loud) is None
    assert "'# failed'" in (
        explain_early_end((said("# passed", "# failed"),), loud) or ""
    )  # the original said 0 failed


def test_of_an_output_too_long_only_its_end_is_required():
    many = [f"case {n}" for n in range(100)]
    original = said(*many, "done", cut=True)
    assert explain_early_end((original,), said(*many[-RELIABLE:], "done")) is None
    assert explain_early_end((original,), said(*many, cut=True)) is not None
    assert explain_early_end((said(*many, "done"),), said(*many[-RELIABLE:], "done", cut=True)) is None


def test_a_test_that_prints_nothing_is_said_once_and_judged_by_its_exit_code():
    assert explain_early_end((said(),), said("whatever")) is None
    assert "print a last line" in note_silent_test(said())
    assert note_silent_test(said("ok")) == ""
    assert note_silent_test(None) == ""
