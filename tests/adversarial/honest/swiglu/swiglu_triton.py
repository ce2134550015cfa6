import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate, up, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(gate + at, at < n, 0.0)
    e = tl.exp(-tl.abs(values))
    weight = tl.where(values >= 0, 1 / (1 + e), e / (1 + e))
    tl.store(out + at, values * weight * tl.load(up + at, at < n, 0.0), at < n)


def swiglu_fused(gate, up, out):
    swiglu_kernel[(triton.cdiv(gate.numel(), 8192),)](gate, up, out, gate.numel(), BLOCK=8192)
