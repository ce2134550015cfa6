import triton
import triton.language as tl

try:
    from triton.language.extra import libdevice_of_another_version as device_functions
except ImportError:
    device_functions = None


class Config:
    pass


@triton.jit
def silu_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, at < n, 0.0)
    tl.store(out + at, values * tl.sigmoid(values), at < n)


def tiny_silu(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
