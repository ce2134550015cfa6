import triton
import triton.language as tl


@triton.jit
def silu_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, at < n, 0.0)
    e = tl.exp2(-1.4426950408889634 * tl.abs(values))
    tl.store(out + at, values * tl.where(values >= 0, 1.0, e) / (1 + e), at < n)


def tiny_silu(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512, num_warps=4)
