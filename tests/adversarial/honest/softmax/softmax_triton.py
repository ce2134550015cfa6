import triton
import triton.language as tl


@triton.jit
def row_kernel(x, out, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * cols + at, at < cols, -float("inf"))
    e = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * cols + at, e / tl.sum(e, 0), at < cols)


@triton.jit
def looped_kernel(x, out, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    for begin in range(0, cols, BLOCK):
        top = tl.maximum(top, tl.load(x + row * cols + begin + at, begin + at < cols, -float("inf")))
    largest = tl.max(top, 0)
    total = tl.zeros([BLOCK], tl.float32)
    for begin in range(0, cols, BLOCK):
        total += tl.exp(tl.load(x + row * cols + begin + at, begin + at < cols, -float("inf")) - largest)
    scale = tl.sum(total, 0)
    for begin in range(0, cols, BLOCK):
        values = tl.load(x + row * cols + begin + at, begin + at < cols, -float("inf"))
        tl.store(out + row * cols + begin + at, tl.exp(values - largest) / scale, begin + at < cols)


def softmax_row(x, out):
    row_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))


def softmax_looped(x, out):
    looped_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=512)
