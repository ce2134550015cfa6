"""What a sentence repeats of the words of others, and of our own."""

import pytest

from ridgeline.graph.rules.audit import find_refusal
from ridgeline.graph.rules.outcome import (
    LONGEST_DETAIL,
    LONGEST_REFUSAL,
    describe_gain,
    explain_failure,
    write_sentence,
)
from tests.builders import make_contract, make_failed, make_hypothesis, make_traced, make_verdict
from tests.builders_findings import make_finding


def test_the_mend_of_a_refusal_is_whole():
    finding = make_finding(rule="file-access", path=f"src/{'deep/' * 12}kernel.c", code="x" * 400)
    found = find_refusal([finding], make_hypothesis(bucket="K1"), make_contract())
    assert found is not None
    said = explain_failure(make_failed(found.reason, detail=found.detail))
    assert "or allow it in ridgeline.yaml: audit: {allow: [file-access]}: `xxx" in said
    assert said.endswith("...")


@pytest.mark.parametrize(
    ("reason", "longest"),
    [("build_failed", LONGEST_DETAIL), ("unsettled", LONGEST_REFUSAL), ("convicted", LONGEST_REFUSAL)],
)
def test_what_is_too_long_is_cut_at_its_end(reason, longest):
    whole, over = (
        explain_failure(make_failed(reason, detail="y" * size)).rpartition(": ")[2] for size in (longest, longest + 1)
    )
    assert whole == "y" * longest
    assert over == "y" * (longest - 3) + "..."


def test_a_refused_hypothesis_says_who_and_why():
    assert explain_failure(make_failed("rejected", detail="rejected by Ada: we tried that in June")) == (
        "it was rejected by Ada: we tried that in June"
    )
    late = "rejected by policy: nobody decided within 2 h"
    assert explain_failure(make_failed("rejected", detail=late)) == f"it was {late}"
    assert explain_failure(make_failed("rejected", detail="")) == "a person rejected it"


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"gain": -0.1244, "lower": -0.1319, "upper": -0.1169, "faster": "no"}, "-12.44% [-13.19%, -11.69%], slower"),
        ({"gain": 0.001, "lower": -0.001, "upper": 0.003, "faster": "no"}, "+0.10% [-0.10%, +0.30%], no gain above"),
        ({"gain": 0.02, "lower": None, "upper": None, "faster": "unverified"}, "+2.00%, not resolved"),
        ({"gain": 0.08, "lower": 0.07, "upper": 0.09, "faster": "yes"}, "+8.00% [+7.00%, +9.00%], faster"),
        ({"gain": None, "faster": "unverified"}, "not measured"),
    ],
)
def test_what_was_measured_is_said_with_its_bounds(numbers, words):
    assert describe_gain(make_verdict("rolled_back", "not_better", **numbers)).startswith(words)


@pytest.mark.parametrize(
    ("faster", "verb"), [("no", "did not help"), ("yes", "was not kept"), ("unverified", "was not kept")]
)
def test_only_what_was_timed_and_is_no_faster_did_not_help(faster, verb):
    assert f" {verb} because why" in write_sentence(make_traced(), "rolled_back", why="why", helped=faster)


def test_a_failed_build_is_told_by_the_compilers_error_and_not_by_who_included_the_file():
    detail = "In file included from a/lib.h:224,\n                 from unit.cpp:2:\na/l2.h:7:1: error: expected ')'\n"
    assert (
        explain_failure(make_failed("build_failed", detail=detail))
        == "the build failed: a/l2.h:7:1: error: expected ')'"
    )


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("row 3 of `y`: 1.5, not 2.5", "its results are wrong: row 3 of `y`: 1.5, not 2.5"),
        ("load: it does not compile: a.c:1: error: x", "it cannot be loaded: it does not compile: a.c:1: error: x"),
    ],
)
def test_a_wrong_kernel_is_told_by_what_is_wrong_and_not_by_the_judges_no(why, said):
    detail = f"correct: no\n  {why}\nfaster: unverified\n  not timed: only tested"
    assert explain_failure(make_failed("incorrect", detail=detail)) == said
