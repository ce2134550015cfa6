"""What findings do to a candidate: convicted, overfit, or noted."""

from typing import get_args

import pytest
from pydantic import ValidationError

from ridgeline.graph.finding import Allowable
from ridgeline.graph.rules.audit import (
    JUDGE_ONLY_RULES,
    RELAXED_RULE,
    find_refusal,
    list_audit_notes,
    list_open_findings,
    summarize_findings,
)
from ridgeline.sandbox.audit.examine import audit
from ridgeline.sandbox.audit.rules import CONVICTING, RULES
from tests.builders import make_contract, make_hypothesis
from tests.builders_findings import make_finding

WEIGHTS = """
C = {}
def f(x, weight):
    k = (id(weight), weight._version)
    if k not in C: C[k] = q(weight)
    return mine(x, C[k])
"""


JUDGED = make_contract(
    **dict.fromkeys(("test_command", "benchmark_command", "quick_command"), ("ridgeline", "judge", "x", "{csv}"))
)


@pytest.mark.parametrize(
    ("severities", "word"),
    [([], "clean"), (["notes"], "clean"), (["routes", "notes"], "routes"), (["routes", "convicts"], "convicted")],
)
def test_the_audit_in_a_word(severities, word):
    assert summarize_findings([make_finding(severity) for severity in severities]) == word


def test_a_convicting_finding_is_named_with_its_place():
    found = find_refusal(
        [make_finding(), make_finding("convicts", line=9)], make_hypothesis(bucket="K1"), make_contract()
    )
    assert found is not None
    assert (found.reason, "k.py:9" in found.detail, "open(p)" in found.detail) == ("convicted", True, True)


@pytest.mark.feature("F046")
@pytest.mark.parametrize(("bucket", "reason"), [("K1", "overfit"), ("K4", "overfit"), ("W1", None)])
def test_a_weight_cache_needs_its_own_bucket(bucket, reason):
    found = find_refusal(
        audit("k.py", WEIGHTS),
        make_hypothesis(bucket=bucket, real_gain_bound=0.02 if bucket == "W1" else None),
        make_contract(),
    )
    assert (found.reason if found else None) == reason


def test_a_cache_on_activations_is_overfit_whatever_the_hypothesis_says():
    text = WEIGHTS.replace("id(weight), weight._version", "id(x), x.shape")
    found = find_refusal(audit("k.py", text), make_hypothesis(bucket="W1", real_gain_bound=0.02), make_contract())
    assert found is not None
    assert (found.reason, "0/4" in found.detail) == ("overfit", True)


def test_routed_findings_are_notes_and_the_rest_is_counted():
    told = list_audit_notes([make_finding(line=number) for number in range(1, 10)], JUDGED)
    assert len(told) == 7
    assert told[0] == "audit: k.py:1 file-access: reads files: `open(p)`; settled by isolation"
    assert told[-1] == "audit: 3 more findings of the same kind of weight"
    assert list_audit_notes([make_finding("convicts")], JUDGED) == ()


@pytest.mark.parametrize(
    ("finding", "contract", "end"),
    [
        (make_finding(), make_contract(), "nothing here settles it"),
        (make_finding(), JUDGED, "settled by isolation"),
        (make_finding(closer="reading"), make_contract(), "settled by reading"),
        (make_finding(), make_contract(audit={"allow": ["file-access"]}), "allowed by audit.allow"),
        (make_finding("notes", rule="weight-cache"), make_contract(), "settled by the 4-step trace"),
    ],
)
def test_a_note_claims_only_a_check_that_the_campaign_has(finding, contract, end):
    (told,) = list_audit_notes([finding], contract)
    assert told.endswith(f"; {end}")


def refused(finding, **contract):
    found = find_refusal([finding], make_hypothesis(bucket="K1"), make_contract(**contract))
    return found.reason if found else None


@pytest.mark.parametrize("rule", sorted(JUDGE_ONLY_RULES))
def test_what_only_the_judge_of_a_task_could_settle_is_refused_in_a_contract_campaign(rule):
    finding = make_finding(rule=rule)
    assert refused(finding) == "unsettled"
    assert refused(finding, audit={"allow": [rule]}) is None
    assert find_refusal([finding], make_hypothesis(bucket="K1"), JUDGED) is None


def test_the_refusal_says_where_and_how_to_allow_it():
    found = find_refusal([make_finding(line=9)], make_hypothesis(bucket="K1"), make_contract())
    assert found is not None
    assert found.detail == (
        "k.py:9 file-access: reads files; nothing here settles it; write it without,"
        " or allow it in ridgeline.yaml: audit: {allow: [file-access]}: `open(p)`"
    )


@pytest.mark.parametrize("rule", ["thread", "downgrade", "library-call", "layout-cache", "inline-asm", "runs-text"])
def test_what_honest_kernels_are_full_of_is_not_refused(rule):
    assert refused(make_finding(rule=rule)) is None


def test_a_conviction_cannot_be_allowed():
    assert {*get_args(Allowable)} == set(RULES) - CONVICTING - {RELAXED_RULE}
    assert set(RULES) - CONVICTING >= JUDGE_ONLY_RULES
    with pytest.raises(ValidationError, match="audit"):
        make_contract(audit={"allow": ["replaced-clock"]})


def test_a_contract_without_the_switch_reads_as_before():
    assert "audit" not in make_contract().model_dump(mode="json")
    told = make_contract(audit={"allow": ["thread"]}).model_dump(mode="json")
    assert told["audit"] == {"allow": ["thread"]}


def test_what_is_left_open_is_what_nobody_allowed_or_reads_at_a_glance():
    found = [make_finding(rule=rule) for rule in ("thread", "inline-asm", "library-call", "sleeps")]
    contract = make_contract(audit={"allow": ["sleeps"]})
    assert [one.rule for one in list_open_findings(found, contract)] == ["thread"]
    assert list_open_findings(found, JUDGED) == ()
