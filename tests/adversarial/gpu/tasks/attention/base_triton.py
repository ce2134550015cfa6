import triton
import triton.language as tl


@triton.jit
def flash_kernel(q, k, v, out, seq, dim, scale, ROWS: tl.constexpr, KEYS: tl.constexpr, DIM: tl.constexpr):
    base = tl.program_id(1) * seq
    rows, depth = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    held = (rows[:, None] < seq) & (depth[None, :] < dim)
    queries = tl.load(q + (base + rows[:, None]) * dim + depth[None, :], held, 0.0)
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total, sums = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, DIM], tl.float32)
    for begin in range(0, seq, KEYS):
        at = begin + tl.arange(0, KEYS)
        inside = (at[:, None] < seq) & (depth[None, :] < dim)
        keys = tl.load(k + (base + at[:, None]) * dim + depth[None, :], inside, 0.0)
        values = tl.load(v + (base + at[:, None]) * dim + depth[None, :], inside, 0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(at[None, :] < seq, scores, -float("inf"))
        above = tl.maximum(top, tl.max(scores, 1))
        weights, old = tl.exp(scores - above[:, None]), tl.exp(top - above)
        total = total * old + tl.sum(weights, 1)
        sums = sums * old[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        top = above
    tl.store(
        out + (base + rows[:, None]) * dim + depth[None, :], (sums / total[:, None]).to(out.dtype.element_ty), held
    )


def attention(q, k, v, out):
    heads, seq, dim = q.shape
    width = max(16, triton.next_power_of_2(dim))
    flash_kernel[(triton.cdiv(seq, 32), heads)](q, k, v, out, seq, dim, dim**-0.5, ROWS=32, KEYS=32, DIM=width)
