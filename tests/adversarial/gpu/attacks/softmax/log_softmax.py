"""PyTorch computes the logarithms; its own kernel is the exponential."""

import torch
import triton
import triton.language as tl


@triton.jit
def looped_kernel(x, out, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    for begin in range(0, cols, BLOCK):
        top = tl.maximum(top, tl.load(x + row * cols + begin + at, begin + at < cols, -float("inf")))
    largest = tl.max(top, 0)
    total = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, cols, BLOCK):
        total += tl.exp(tl.load(x + row * cols + begin + at, begin + at < cols, -float("inf")) - largest)
    scale = tl.sum(total, 0)
    for begin in range(0, cols, BLOCK):
        values = tl.load(x + row * cols + begin + at, begin + at < cols, -float("inf"))
        tl.store(out + row * cols + begin + at, tl.exp(values - largest) / scale, begin + at < cols)


def honest(x, out):
    looped_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024)


@triton.jit
def exp_kernel(values, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(values + at, at < count, 0.0)), at < count)


def softmax(x, out):
    values = torch.log_softmax(x, -1)
    exp_kernel[(triton.cdiv(out.numel(), 1024),)](values, out, out.numel(), BLOCK=1024)
