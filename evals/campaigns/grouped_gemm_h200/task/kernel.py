"""Rows of bf16 x in groups that follow each other, each times its own matrix, fp32 sums: a kernel for the ends, then one for the tiles."""

import torch
import triton
import triton.language as tl


@triton.jit
def ends_kernel(ends_ptr, draws_ptr, T, E, P, BLOCK_E: tl.constexpr):
    group = tl.arange(0, BLOCK_E)
    sums = tl.zeros([BLOCK_E], dtype=tl.int64)
    for p in range(P):
        sums += tl.load(draws_ptr + p * E + group, mask=group < E, other=0)
    shares = sums * sums
    tl.store(ends_ptr + group, tl.cumsum(shares, axis=0) * T // tl.sum(shares, axis=0), mask=group < E)


@triton.jit
def grouped_gemm_kernel(
    out_ptr, x_ptr, w_ptr, ends_ptr, E, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    tile = tl.program_id(0)
    begin = tl.zeros([], dtype=tl.int64)
    tiles_before = tl.zeros([], dtype=tl.int64)
    first = tl.zeros([], dtype=tl.int64)
    last = tl.zeros([], dtype=tl.int64)
    group = tl.zeros([], dtype=tl.int64)
    for e in range(E):
        end = tl.load(ends_ptr + e)
        tiles = (end - begin + BLOCK_M - 1) // BLOCK_M
        if (tile >= tiles_before) & (tile < tiles_before + tiles):
            first = begin + (tile - tiles_before) * BLOCK_M
            last = end
            group = tl.zeros([], dtype=tl.int64) + e
        tiles_before += tiles
        begin = end
    if first < last:
        rows = first + tl.arange(0, BLOCK_M)
        cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            at = start + tl.arange(0, BLOCK_K)
            x_mask = (rows[:, None] < last) & (at[None, :] < K)
            x = tl.load(x_ptr + rows[:, None] * K + at[None, :], mask=x_mask, other=0.0)
            w_mask = (at[:, None] < K) & (cols[None, :] < N)
            w = tl.load(w_ptr + (group * K + at[:, None]) * N + cols[None, :], mask=w_mask, other=0.0)
            acc += tl.dot(x, w)
        out_mask = (rows[:, None] < last) & (cols[None, :] < N)
        tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc.to(out_ptr.dtype.element_ty), mask=out_mask)


def run(x: torch.Tensor, w: torch.Tensor, draws: torch.Tensor, out: torch.Tensor) -> None:
    """out[r] = x[r] @ w[e] for the rows r of each group e; contiguous bf16 of finite values, draws [P, E] of positive int32."""
    rows, k = x.shape
    groups, _, n = w.shape
    ends = torch.empty(groups, dtype=torch.int64, device=x.device)
    ends_kernel[(1,)](ends, draws, rows, groups, draws.shape[0], BLOCK_E=triton.next_power_of_2(groups), num_warps=1)
    grouped_gemm_kernel[lambda meta: (triton.cdiv(rows, meta["BLOCK_M"]) + groups, triton.cdiv(n, meta["BLOCK_N"]))](
        out, x, w, ends, groups, n, k, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4
    )
