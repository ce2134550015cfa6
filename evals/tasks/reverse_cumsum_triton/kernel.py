"""Reverse cumulative sum of each row of a two-dimensional fp32 tensor."""

import torch
import triton
import triton.language as tl


@triton.jit
def reverse_cumsum_kernel(out_ptr, x_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * n_cols
    out_row = out_ptr + row * n_cols
    last = (tl.cdiv(n_cols, BLOCK_SIZE) - 1) * BLOCK_SIZE
    right = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = last - start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=0.0)
        y = tl.cumsum(x, axis=0, reverse=True) + right
        tl.store(out_row + cols, y, mask=cols < n_cols)
        right += tl.sum(x, axis=0)


def run(x: torch.Tensor) -> torch.Tensor:
    """out[i, j] = x[i, j] + ... + x[i, last] for a contiguous fp32 matrix of finite values; a new tensor."""
    out = torch.empty_like(x)
    n_rows, n_cols = x.shape
    reverse_cumsum_kernel[(n_rows,)](out, x, n_cols, BLOCK_SIZE=1024, num_warps=4)
    return out
