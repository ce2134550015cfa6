import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, at < n, 0.0).to(tl.float64)
    inner = 0.7978845608028654 * (values + 0.044715 * values * values * values)
    tl.store(out + at, (values / (1 + tl.exp(-2 * inner))).to(tl.float32), at < n)


def gelu_blocks(x, out):
    gelu_kernel[(triton.cdiv(x.numel(), 8192),)](x, out, x.numel(), BLOCK=8192)
