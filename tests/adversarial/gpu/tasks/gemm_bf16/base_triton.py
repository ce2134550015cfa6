import triton
import triton.language as tl


@triton.jit
def gemm_kernel(a, b, c, m, n, k, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK, BLOCK], tl.float32)
    for begin in range(0, k, DEPTH):
        at = begin + tl.arange(0, DEPTH)
        left = tl.load(a + rows[:, None] * k + at[None, :], (rows[:, None] < m) & (at[None, :] < k), 0.0)
        right = tl.load(b + at[:, None] * n + cols[None, :], (at[:, None] < k) & (cols[None, :] < n), 0.0)
        sums += tl.dot(left, right, input_precision="ieee")
    tl.store(
        c + rows[:, None] * n + cols[None, :], sums.to(c.dtype.element_ty), (rows[:, None] < m) & (cols[None, :] < n)
    )


def gemm(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    gemm_kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64))](a, b, c, m, n, k, BLOCK=64, DEPTH=32)
