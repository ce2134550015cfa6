"""Product of a bf16 matrix [M, K] and a bf16 column [K, 1], summed in fp32: a program for each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def matvec_kernel(c_ptr, a_ptr, b_ptr, K, BLOCK_K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    sums = tl.zeros([BLOCK_K], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + row * K + at, mask=at < K, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + at, mask=at < K, other=0.0).to(tl.float32)
        sums += a * b
    tl.store(c_ptr + row, tl.sum(sums, axis=0).to(c_ptr.dtype.element_ty))


def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """c = a @ b for contiguous bf16 a [M, K] and b [K, 1] of finite values."""
    m, k = a.shape
    matvec_kernel[(m,)](c, a, b, k, BLOCK_K=1024, num_warps=4)
