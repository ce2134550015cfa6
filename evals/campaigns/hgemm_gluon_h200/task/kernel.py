"""Product of two row-major fp16 matrices, summed in fp32: a program for each tile of the result."""

import torch
import triton
import triton.language as tl


@triton.jit
def hgemm_kernel(c_ptr, a_ptr, b_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        at = (start + tl.arange(0, BLOCK_K)).to(tl.int64)
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + cols[None, :], mask=(at[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    tl.store(
        c_ptr + rows[:, None] * N + cols[None, :],
        acc.to(c_ptr.dtype.element_ty),
        mask=(rows[:, None] < M) & (cols[None, :] < N),
    )


def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """c = a @ b for contiguous fp16 matrices of finite values."""
    m, k = a.shape
    n = b.shape[1]
    hgemm_kernel[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](
        c, a, b, m, n, k, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4
    )
