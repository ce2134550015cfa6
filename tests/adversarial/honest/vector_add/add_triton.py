import torch
import triton
import triton.language as tl


@triton.jit
def blocked_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def strided_kernel(x, y, out, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    for begin in range(tl.program_id(0) * BLOCK, n, PROGRAMS * BLOCK):
        at = begin + tl.arange(0, BLOCK)
        tl.store(
            out + at, tl.load(x + at, mask=at < n, other=0.0) + tl.load(y + at, mask=at < n, other=0.0), mask=at < n
        )


def vector_add_blocked(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor):
    blocked_kernel[(triton.cdiv(x.numel(), 16384),)](x, y, out, x.numel(), BLOCK=16384)


def vector_add_strided(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor):
    strided_kernel[(4,)](x, y, out, x.numel(), PROGRAMS=4, BLOCK=16384)
