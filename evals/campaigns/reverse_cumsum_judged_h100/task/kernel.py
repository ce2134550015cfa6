"""Reverse cumulative sum of each row of a two-dimensional fp32 tensor: flip, cumulative sum, flip."""

import torch
import triton
import triton.language as tl


@triton.jit
def flip_kernel(out_ptr, x_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row * n_cols + (n_cols - 1 - cols), x, mask=cols < n_cols)


@triton.jit
def cumsum_kernel(out_ptr, x_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * n_cols
    out_row = out_ptr + row * n_cols
    left = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=0.0)
        y = tl.cumsum(x, axis=0) + left
        tl.store(out_row + cols, y, mask=cols < n_cols)
        left += tl.sum(x, axis=0)


def flip(x: torch.Tensor, out: torch.Tensor) -> None:
    """The columns from right to left, into another matrix."""
    n_rows, n_cols = x.shape
    flip_kernel[lambda meta: (n_rows, triton.cdiv(n_cols, meta["BLOCK_SIZE"]))](
        out, x, n_cols, BLOCK_SIZE=1024, num_warps=4
    )


def run(x: torch.Tensor, out: torch.Tensor) -> None:
    """out[i, j] = x[i, j] + ... + x[i, last] for contiguous fp32 matrices; x has finite values."""
    flipped, sums = torch.empty_like(x), torch.empty_like(x)
    flip(x, flipped)
    n_rows, n_cols = x.shape
    cumsum_kernel[(n_rows,)](sums, flipped, n_cols, BLOCK_SIZE=1024, num_warps=4)
    flip(sums, out)
