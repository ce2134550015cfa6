"""Product of float8_e4m3fn matrices with fp32 scales of 1x128 and 128x128: a program for each tile, carried on in fp32 every 128 terms."""

import torch
import triton
import triton.language as tl


@triton.jit
def block_gemm_kernel(
    c_ptr,
    a_ptr,
    a_scales_ptr,
    b_ptr,
    b_scales_ptr,
    M,
    N,
    K,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    groups = K // GROUP
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for group in range(groups):
        at = group * GROUP + tl.arange(0, GROUP)
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=rows[:, None] < M, other=0.0)
        b = tl.load(b_ptr + cols[None, :] * K + at[:, None], mask=cols[None, :] < N, other=0.0)
        a_scale = tl.load(a_scales_ptr + rows * groups + group, mask=rows < M, other=0.0)
        b_scale = tl.load(b_scales_ptr + cols // GROUP * groups + group, mask=cols < N, other=0.0)
        acc += tl.dot(a, b) * a_scale[:, None] * b_scale[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


def run(a: torch.Tensor, a_scales: torch.Tensor, b: torch.Tensor, b_scales: torch.Tensor, c: torch.Tensor) -> None:
    """c = (a * scales) @ (b * scales).T for contiguous a [M, K] and b [N, K] of finite values, N and K multiples of 128; c in bf16."""
    m, k = a.shape
    n = b.shape[0]
    block_gemm_kernel[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](
        c, a, a_scales, b, b_scales, m, n, k, GROUP=128, BLOCK_M=64, BLOCK_N=64, num_warps=4
    )
