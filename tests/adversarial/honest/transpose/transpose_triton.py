import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + r[:, None] * cols + c[None, :], (r[:, None] < rows) & (c[None, :] < cols), 0.0)
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(tile), (c[:, None] < cols) & (r[None, :] < rows))


def transpose_blocks(x, out):
    grid = (triton.cdiv(x.shape[0], 128), triton.cdiv(x.shape[1], 128))
    transpose_kernel[grid](x, out, x.shape[0], x.shape[1], BLOCK=128)
