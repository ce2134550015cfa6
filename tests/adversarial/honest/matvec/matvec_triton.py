import triton
import triton.language as tl


@triton.jit
def matvec_kernel(a, x, y, m, k, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows, at = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    for begin in range(0, k, BLOCK):
        p = begin + at
        block = tl.load(a + rows[:, None] * k + p[None, :], (rows[:, None] < m) & (p[None, :] < k), 0.0)
        sums += block * tl.load(x + p, p < k, 0.0)[None, :]
    tl.store(y + rows, tl.sum(sums, 1), rows < m)


def matvec_rows(a, x, y):
    matvec_kernel[(triton.cdiv(a.shape[0], 64),)](a, x, y, a.shape[0], a.shape[1], ROWS=64, BLOCK=128)
