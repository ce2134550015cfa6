"""The 64 largest of each row of a two-dimensional fp32 tensor and their places: the largest, 64 times."""

import torch
import triton
import triton.language as tl


@triton.jit
def top64_kernel(values_ptr, indices_ptr, x_ptr, n_cols, K: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=float("-inf"))
    for rank in range(K):
        value, col = tl.max(x, axis=0, return_indices=True)
        tl.store(values_ptr + row * K + rank, value)
        tl.store(indices_ptr + row * K + rank, col.to(tl.int64))
        x = tl.where(cols == col, float("-inf"), x)


def run(x: torch.Tensor, values: torch.Tensor, indices: torch.Tensor) -> None:
    """The 64 largest of each row of x, largest first and of equal ones the first; x has finite values, 64 columns or more."""
    n_rows, n_cols = x.shape
    top64_kernel[(n_rows,)](
        values, indices, x, n_cols, K=64, BLOCK_SIZE=triton.next_power_of_2(n_cols), num_warps=32
    )
