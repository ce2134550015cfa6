import triton
import triton.language as tl


@triton.jit
def grouped_kernel(a, b, c, m, n, k, BLOCK: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr):
    """Programs go down groups of tile rows, so that neighbours share what they read."""
    high, wide = tl.cdiv(m, BLOCK), tl.cdiv(n, BLOCK)
    group = tl.program_id(0) // (GROUP * wide)
    tall = tl.minimum(high - group * GROUP, GROUP)
    place = tl.program_id(0) % (GROUP * wide)
    rows = (group * GROUP + place % tall) * BLOCK + tl.arange(0, BLOCK)
    cols = (place // tall) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK, BLOCK], tl.float32)
    for begin in range(0, k, DEPTH):
        at = begin + tl.arange(0, DEPTH)
        left = tl.load(a + rows[:, None] * k + at[None, :], (rows[:, None] < m) & (at[None, :] < k), 0.0)
        right = tl.load(b + at[:, None] * n + cols[None, :], (at[:, None] < k) & (cols[None, :] < n), 0.0)
        sums = tl.dot(left, right, sums)
    tl.store(c + rows[:, None] * n + cols[None, :], sums.to(tl.bfloat16), (rows[:, None] < m) & (cols[None, :] < n))


def gemm(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    tiles = triton.cdiv(m, 128) * triton.cdiv(n, 128)
    grouped_kernel[(tiles,)](a, b, c, m, n, k, BLOCK=128, DEPTH=64, GROUP=8, num_warps=8, num_stages=3)
