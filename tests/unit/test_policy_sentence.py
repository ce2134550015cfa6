"""What a sentence repeats of the words of others, and of our own."""

import pytest

from ridgeline.graph.policy.audit import refusal
from ridgeline.graph.policy.sentence import LONGEST_DETAIL, LONGEST_REFUSAL, cause
from tests.builders import make_contract, make_failed, make_hypothesis
from tests.builders_findings import make_finding


def test_the_mend_of_a_refusal_is_whole():
    finding = make_finding(rule="file-access", path=f"src/{'deep/' * 12}kernel.c", code="x" * 400)
    found = refusal([finding], make_hypothesis(bucket="K1"), make_contract())
    assert found is not None
    said = cause(make_failed(found.reason, detail=found.detail))
    assert "or allow it in ridgeline.yaml: audit: {allow: [file-access]}: `xxx" in said
    assert said.endswith("...")


@pytest.mark.parametrize(
    ("reason", "longest"),
    [("build_failed", LONGEST_DETAIL), ("unsettled", LONGEST_REFUSAL), ("convicted", LONGEST_REFUSAL)],
)
def test_what_is_too_long_is_cut_at_its_end(reason, longest):
    whole, over = (cause(make_failed(reason, detail="y" * size)).rpartition(": ")[2] for size in (longest, longest + 1))
    assert whole == "y" * longest
    assert over == "y" * (longest - 3) + "..."
