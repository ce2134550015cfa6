"""Softmax of each row of a two-dimensional fp16 tensor, computed in fp32."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out_ptr, x_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * n_cols
    out_row = out_ptr + row * n_cols
    top = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), axis=0)
        top = new_top
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - top) / total
        tl.store(out_row + cols, y.to(tl.float16), mask=cols < n_cols)


def run(x: torch.Tensor, out: torch.Tensor) -> None:
    """Softmax along the last dimension of a contiguous fp16 matrix of finite values, into another of the same kind."""
    n_rows, n_cols = x.shape
    softmax_kernel[(n_rows,)](out, x, n_cols, BLOCK_SIZE=256, num_warps=1)
