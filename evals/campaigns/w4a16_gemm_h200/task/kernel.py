"""bf16 x times 4-bit weights, two to a byte, with scales and zeros of groups of 128: a program for each tile, a group at a time."""

import torch
import triton
import triton.language as tl


@triton.jit
def w4a16_kernel(
    out_ptr,
    x_ptr,
    w_ptr,
    scales_ptr,
    zeros_ptr,
    M,
    N,
    K,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for group in range(K // GROUP):
        at = group * GROUP + tl.arange(0, GROUP)
        x = tl.load(x_ptr + rows[:, None] * K + at[None, :], mask=rows[:, None] < M, other=0.0)
        pairs = tl.load(w_ptr + (at[:, None] // 2) * N + cols[None, :], mask=cols[None, :] < N, other=0)
        codes = (pairs.to(tl.int32) >> (at[:, None] % 2) * 4) & 15
        zeros = tl.load(zeros_ptr + group * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        scales = tl.load(scales_ptr + group * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        w = (codes.to(tl.float32) - zeros[None, :]).to(x.dtype)
        acc += tl.dot(x, w) * scales[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc.to(out_ptr.dtype.element_ty), mask=mask)


def run(x: torch.Tensor, w: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor, out: torch.Tensor) -> None:
    """out = x @ ((codes - zeros) * scales) for contiguous finite bf16 x [M, K], K a multiple of 128; zeros are whole numbers in [0, 16)."""
    m, k = x.shape
    n = w.shape[1]
    w4a16_kernel[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](
        out, x, w, scales, zeros, m, n, k, GROUP=128, BLOCK_M=16 if m <= 16 else 64, BLOCK_N=64, num_warps=4
    )
