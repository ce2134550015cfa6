"""Rule 1 and the bucket gate on hypotheses."""

import pytest

from ridgeline.graph.rules.change import explain_forbidden, explain_several_changes
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
        # quoted or mentioned, not changed
        ("tl.range(0, n_cols, BLOCK_SIZE, num_stages=3) instead of range in the loop", True),
        ("`tl.range(0, n_cols, BLOCK_SIZE, num_stages=3)` instead of `range(0, n_cols, BLOCK_SIZE)`", True),
        ("num_stages 2 -> 4, num_warps and BLOCK_M unchanged", True),
        ("raise num_warps to 8 while BLOCK_SIZE=1024 stays", True),
        ("raise num_warps to 8 with the same num_stages=2", True),
        ("BLOCK_SIZE=2048 instead of BLOCK_SIZE=1024 for rows longer than 1024", True),
        ("num_warps=1 instead of 4 for rows of at most BLOCK_SIZE columns", True),
        ("unroll the loop over BLOCK_K; keep num_stages at 2", True),
        ("prefetch the next row and keep the tile size", True),
        ('write "tile, then prefetch" into the launch comment', True),
        ("load rows once for each BLOCK_M", True),
        ("one program per BLOCK_M rows, each walking BLOCK_N columns", True),
        ("`num_warps` 4 -> 8", True),
        ("compute addresses from BLOCK_M and BLOCK_N once", True),
        ("double the loads of each BLOCK_M x BLOCK_N tile", True),
        ("mirror the columns of the scan; BLOCK_SIZE and num_warps stay as they are", True),
        ("prefetch the next row, the tile size and the number of warps as before", True),
        ("double buffer the loads; neither BLOCK_M nor num_warps changes", True),
        ("persistent scheduling without changing the tile", True),
        # a tile with what it needs is one
        ("the tile becomes 128 x 256 x 64, with num_warps=8 and num_stages=3 that a tile of this size needs", True),
        ("BLOCK_M 64 -> 128, BLOCK_N 64 -> 256 and the num_warps=8 that the tile needs", True),
        ("num_warps=8 and the num_stages=3 that it needs", False),
        # really two
        ("BLOCK_M to 128 and num_warps to 8 at the same num_stages", False),
        ("tile by 64, keep the order of the loops and prefetch the next row", False),
        ("tl.range(0, n, BLOCK_SIZE) for the loop, num_warps=8, num_stages=3", False),
        ("`num_warps` 4 -> 8 and `num_stages` 2 -> 3", False),
        ("raise `num_warps` and `num_stages`", False),
        ("num_warps becomes 8 and num_stages becomes 4, BLOCK_M unchanged", False),
        ("set BLOCK_M/BLOCK_N to 128", False),
        ("halve BLOCK_M and BLOCK_N", False),
        ("raise the launch's num_warps, and lower num_stages", False),
        ("num_warps=8, num_stages=4", False),
        ("BLOCK_K doubles and num_stages falls to 2", False),
        ("num_warps and num_stages", False),
    ],
)
def test_one_change(change, single):
    assert (explain_several_changes(make_hypothesis(change=change)) is None) is single


@pytest.mark.feature("F031")
def test_a_declared_sweep_is_one_change():
    assert explain_several_changes(make_hypothesis(change="BLOCK_M, BLOCK_N and num_stages", sweep=True)) is None


@pytest.mark.feature("F063", "F117")
@pytest.mark.parametrize("field", ["claim", "change", "risks", "verification"])
def test_every_answer_is_needed(field):
    assert (explain_several_changes(make_hypothesis(**{field: " "})) or "").startswith(f"{field} is empty")


@pytest.mark.feature("F117")
@pytest.mark.parametrize("evidence", [(), ("",), (" ", "")])
def test_evidence_is_needed(evidence):
    assert "evidence is empty" in (explain_several_changes(make_hypothesis(evidence=evidence)) or "")


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
    assert (explain_forbidden(make_hypothesis(bucket=bucket, real_gain_bound=bound)) is None) is allowed
