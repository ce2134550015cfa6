import triton
import triton.language as tl


@triton.jit
def silu_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, at < n, 0.0)
    e = tl.exp(-tl.abs(values))
    tl.store(out + at, values * tl.where(values >= 0, 1 / (1 + e), e / (1 + e)), at < n)


def silu_one_block(x, out):
    silu_kernel[(1,)](x, out, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
