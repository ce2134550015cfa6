import triton
import triton.language as tl

TILES = {(70, 70, 70): (64, 64, 64), (40, 96, 72): (32, 64, 32)}
FALLBACK = (64, 64, 64)


@triton.jit
def gemm_kernel(a, b, c, m, n, k, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    sums = tl.zeros([ROWS, COLS], tl.float32)
    for begin in range(0, k, DEPTH):
        at = begin + tl.arange(0, DEPTH)
        left = tl.load(a + rows[:, None] * k + at[None, :], (rows[:, None] < m) & (at[None, :] < k), 0.0)
        right = tl.load(b + at[:, None] * n + cols[None, :], (at[:, None] < k) & (cols[None, :] < n), 0.0)
        sums += tl.dot(left, right, input_precision="ieee")
    tl.store(c + rows[:, None] * n + cols[None, :], sums, (rows[:, None] < m) & (cols[None, :] < n))


def gemm(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    high, wide, deep = TILES.get((m, n, k), FALLBACK)
    gemm_kernel[(triton.cdiv(m, high), triton.cdiv(n, wide))](a, b, c, m, n, k, ROWS=high, COLS=wide, DEPTH=deep)
