"""The Triton levers change exactly what they say, and the result is still Python."""

import ast

import pytest

from ridgeline.agent.planner.catalog import CatalogPlanner
from ridgeline.graph.briefing import Proposal
from tests.builders import make_machine
from tests.catalog_briefs import brief

TRITON = {
    "softmax": """import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out, inp, stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(inp + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
    num = tl.exp(x - tl.max(x, axis=0))
    tl.store(out + row * stride + cols, num / tl.sum(num, axis=0), mask=cols < n_cols)


def softmax(x, y):
    size = triton.next_power_of_2(x.shape[1])
    softmax_kernel[(x.shape[0],)](y, x, x.stride(0), x.shape[1], BLOCK_SIZE=size, num_warps=4)
""",
    "add": """import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y, out):
    grid = lambda meta: (triton.cdiv(out.numel(), meta["BLOCK_SIZE"]),)
    add_kernel[grid](x, y, out, out.numel(), BLOCK_SIZE=1024)
""",
    "matmul": """import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    rm = (pid // tl.cdiv(N, BN)) * BM + tl.arange(0, BM)
    rn = (pid % tl.cdiv(N, BN)) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rm[:, None] * K + (rk + k)[None, :])
        b = tl.load(b_ptr + (rk + k)[:, None] * N + rn[None, :])
        acc += tl.dot(a, b)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc)


def matmul(a, b, c, m, n, k):
    grid = (triton.cdiv(m, 64) * triton.cdiv(n, 64),)
    matmul_kernel[grid](a, b, c, m, n, k, BM=64, BN=64, BK=32, num_warps=4, num_stages=3)
""",
}
CHANGES = {
    "triton-exp2": ("tl.exp(x - tl.max(x, axis=0))", "tl.exp2((x - tl.max(x, axis=0)) * 1.4426950408889634)"),
    "triton-num-warps:num_warps=8": ("num_warps=4", "num_warps=8"),
    "triton-num-warps:num_warps=2": ("num_warps=4", "num_warps=2"),
    "triton-num-stages:num_stages=4": ("num_stages=3", "num_stages=4"),
    "triton-block-sweep:BLOCK_SIZE=2048": ("BLOCK_SIZE=1024", "BLOCK_SIZE=2048"),
    "triton-contiguity": (
        "pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)\n",
        "tl.max_contiguous(tl.multiple_of(pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE), BLOCK_SIZE), BLOCK_SIZE)\n",
    ),
    "triton-block-sweep:BK=64": ("BK=32", "BK=64"),
    "triton-dot-accumulate": ("acc += tl.dot(a, b)", "acc = tl.dot(a, b, acc)"),
    "triton-pipelined-range:stages3": ("range(0, K, BK)", "tl.range(0, K, BK, num_stages=3)"),
    "amd-waves-per-eu:waves_per_eu=2": ("num_stages=3)", "num_stages=3, waves_per_eu=2)"),
}


@pytest.mark.parametrize("name", TRITON)
def test_triton_levers_change_exactly_what_they_say(name: str) -> None:
    planner = CatalogPlanner()
    machine = make_machine(kind="amd", arch="gfx942", features=())
    now = brief({"kernel.py": TRITON[name]}, lang="TRITON", machine=machine)
    proposal = planner.propose(now)
    assert proposal.hypothesis is not None
    offered = [lever.id for lever in planner.order(now)[0]]
    checked = 0
    for lever in offered:
        asked = proposal.hypothesis.model_copy(update={"id": lever, "lever": lever.partition(":")[0]})
        draft = planner.draft(now, Proposal(hypothesis=asked))
        text = draft.edits[0].text if draft.edits else None
        assert text is not None, lever
        ast.parse(text)
        if lever in CHANGES and CHANGES[lever][0] in TRITON[name]:
            assert text == TRITON[name].replace(*CHANGES[lever]), lever
            checked += 1
    assert len(offered) >= 4
    assert checked >= 2


def test_amd_levers_need_an_amd_device() -> None:
    machine = make_machine(kind="nvidia", arch="sm_90", features=())
    proposal = CatalogPlanner().propose(brief({"kernel.py": TRITON["matmul"]}, lang="TRITON", machine=machine))
    assert not any(line.startswith("amd-") for line in proposal.ranked)
    assert len(proposal.ranked) == 3
    assert any(line.startswith("amd-kpack: needs an architecture gfx9") for line in proposal.dropped)
