"""What findings do to a candidate: convicted, overfit, or noted."""

import pytest

from graph.finding import Finding
from graph.policy.audit import notes, overall, refusal
from sandbox.audit.examine import audit
from tests.builders import make_hypothesis

WEIGHTS = """
C = {}
def f(x, weight):
    k = (id(weight), weight._version)
    if k not in C: C[k] = q(weight)
    return mine(x, C[k])
"""


def make_finding(severity="routes", **fields) -> Finding:
    default = {
        "rule": "file-access",
        "path": "k.py",
        "line": 3,
        "code": "open(p)",
        "meaning": "reads files",
        "closer": "isolation",
    }
    return Finding(severity=severity, **{**default, **fields})


@pytest.mark.parametrize(
    ("severities", "word"),
    [([], "clean"), (["notes"], "clean"), (["routes", "notes"], "routes"), (["routes", "convicts"], "convicted")],
)
def test_the_audit_in_a_word(severities, word):
    assert overall([make_finding(severity) for severity in severities]) == word


def test_a_convicting_finding_is_named_with_its_place():
    found = refusal([make_finding(), make_finding("convicts", line=9)], make_hypothesis(bucket="K1"))
    assert found is not None
    assert (found.reason, "k.py:9" in found.detail, "open(p)" in found.detail) == ("convicted", True, True)


@pytest.mark.feature("F046")
@pytest.mark.parametrize(("bucket", "reason"), [("K1", "overfit"), ("K4", "overfit"), ("W1", None)])
def test_a_weight_cache_needs_its_own_bucket(bucket, reason):
    found = refusal(
        audit("k.py", WEIGHTS), make_hypothesis(bucket=bucket, real_gain_bound=0.02 if bucket == "W1" else None)
    )
    assert (found.reason if found else None) == reason


def test_a_cache_on_activations_is_overfit_whatever_the_hypothesis_says():
    text = WEIGHTS.replace("id(weight), weight._version", "id(x), x.shape")
    found = refusal(audit("k.py", text), make_hypothesis(bucket="W1", real_gain_bound=0.02))
    assert found is not None
    assert (found.reason, "0/4" in found.detail) == ("overfit", True)


def test_routed_findings_are_notes_and_the_rest_is_counted():
    told = notes([make_finding(line=number) for number in range(1, 10)])
    assert len(told) == 7
    assert told[0] == "audit: k.py:1 file-access: reads files: `open(p)`; settled by isolation"
    assert told[-1] == "audit: 3 more findings of the same kind of weight"
    assert notes([make_finding("convicts")]) == ()
