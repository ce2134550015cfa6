"""Softmax of each row of an fp16 matrix: a program for each row reads it three times, for its maximum, its sum and its results."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out_ptr, x_ptr, C, BLOCK_C: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    tops = tl.full([BLOCK_C], float("-inf"), dtype=tl.float32)
    for start in range(0, C, BLOCK_C):
        at = start + tl.arange(0, BLOCK_C)
        x = tl.load(x_ptr + row * C + at, mask=at < C, other=float("-inf")).to(tl.float32)
        tops = tl.maximum(tops, x)
    top = tl.max(tops, axis=0)
    sums = tl.zeros([BLOCK_C], dtype=tl.float32)
    for start in range(0, C, BLOCK_C):
        at = start + tl.arange(0, BLOCK_C)
        x = tl.load(x_ptr + row * C + at, mask=at < C, other=float("-inf")).to(tl.float32)
        sums += tl.exp(x - top)
    total = tl.sum(sums, axis=0)
    for start in range(0, C, BLOCK_C):
        at = start + tl.arange(0, BLOCK_C)
        x = tl.load(x_ptr + row * C + at, mask=at < C, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * C + at, (tl.exp(x - top) / total).to(out_ptr.dtype.element_ty), mask=at < C)


def run(x: torch.Tensor, out: torch.Tensor) -> None:
    """out = softmax of the rows of x; contiguous fp16 [T, C] of finite values."""
    t, c = x.shape
    softmax_kernel[(t,)](out, x, c, BLOCK_C=1024, num_warps=4)
