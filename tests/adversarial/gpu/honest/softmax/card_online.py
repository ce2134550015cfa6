import triton
import triton.language as tl


@triton.jit
def online_kernel(x, out, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    top, total = tl.full([BLOCK], -1e30, tl.float32), tl.zeros([BLOCK], tl.float32)
    for begin in range(0, cols, BLOCK):
        values = tl.load(x + row * cols + begin + at, begin + at < cols, -float("inf"))
        above = tl.maximum(top, values)
        total = total * tl.exp(top - above) + tl.exp(values - above)
        top = above
    largest = tl.max(top, 0)
    scale = tl.sum(total * tl.exp(top - largest), 0)
    for begin in range(0, cols, BLOCK):
        values = tl.load(x + row * cols + begin + at, begin + at < cols, -float("inf"))
        tl.store(out + row * cols + begin + at, tl.exp(values - largest) / scale, begin + at < cols)


def softmax(x, out):
    online_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=2048, num_warps=8)
