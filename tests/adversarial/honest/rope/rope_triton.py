import triton
import triton.language as tl


@triton.jit
def rope_kernel(x, cos, sin, out, heads, half, BLOCK: tl.constexpr):
    item, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside, low = at < half, item * 2 * half + at
    c = tl.load(cos + item // heads * half + at, inside, 0.0)
    s = tl.load(sin + item // heads * half + at, inside, 0.0)
    a, b = tl.load(x + low, inside, 0.0), tl.load(x + low + half, inside, 0.0)
    tl.store(out + low, a * c - b * s, inside)
    tl.store(out + low + half, b * c + a * s, inside)


def rope_head(x, cos, sin, out):
    (seq, heads, _), half = x.shape, cos.shape[1]
    rope_kernel[(seq * heads,)](x, cos, sin, out, heads, half, BLOCK=triton.next_power_of_2(half))
