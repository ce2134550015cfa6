"""Rule 1 and the bucket gate on hypotheses."""

import pytest

from graph.policy.change import forbidden, single_change
from tests.builders import make_hypothesis


@pytest.mark.feature("F031")
@pytest.mark.parametrize(
    ("change", "single"),
    [
        ("MFMA 16x16 -> 32x32", True),
        ("double buffer the operand loads", True),
        ("XOR swizzle of the shared tile", True),
        ("BLOCK_M 128 -> 256", True),
        ("persistent scheduling", True),
        ("hoist one multiply", True),
        ("hoist the scale and the bias out of the loop", True),
        ("tile the inner loops by 64", True),
        ("rewrite `c[i] += a[i] and b[i]; x` as one loop", True),
        ("change the order of i and p", True),
        ("-O3 and -march=native", True),
        ("store row-first and tile by 8", True),
        ("MFMA 32x32 and double buffer", False),
        ("double buffer + XOR swizzle", False),
        ("BLOCK_M 128 -> 256 plus persistent scheduling", False),
        ("hoist one multiply; then tile by 64", False),
        ("-O3 and interchange the loops", False),
        ("swizzle & prefetch", False),
        ("BLOCK_M, BLOCK_N, BLOCK_K 64 -> 128", False),
        ("BLOCK_SIZE_M 64 with num_warps 8", False),
        ("", False),
        ("  ", False),
    ],
)
def test_one_change(change, single):
    assert (single_change(make_hypothesis(change=change)) is None) is single


@pytest.mark.feature("F031")
def test_a_declared_sweep_is_one_change():
    assert single_change(make_hypothesis(change="BLOCK_M, BLOCK_N and num_stages", sweep=True)) is None


@pytest.mark.feature("F063", "F117")
@pytest.mark.parametrize("field", ["claim", "change", "risks", "verification"])
def test_every_answer_is_needed(field):
    assert (single_change(make_hypothesis(**{field: " "})) or "").startswith(f"{field} is empty")


@pytest.mark.feature("F117")
@pytest.mark.parametrize("evidence", [(), ("",), (" ", "")])
def test_evidence_is_needed(evidence):
    assert "evidence is empty" in (single_change(make_hypothesis(evidence=evidence)) or "")


@pytest.mark.feature("F046")
@pytest.mark.parametrize(
    ("bucket", "bound", "allowed"),
    [
        ("K1", None, True),
        ("K2", None, True),
        ("K3", None, True),
        ("K4", None, True),
        ("W1", 0.015, True),
        ("W1", None, False),
        ("W1", 0.0, False),
        ("W1", -0.1, False),
        ("W2", 0.5, False),
        ("W3", None, False),
    ],
)
def test_buckets(bucket, bound, allowed):
    assert (forbidden(make_hypothesis(bucket=bucket, real_gain_bound=bound)) is None) is allowed
