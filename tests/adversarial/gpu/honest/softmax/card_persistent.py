"""As many programs as the card has multiprocessors, times some: each walks over rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        values = tl.load(x + row.to(tl.int64) * cols + at, at < cols, -float("inf"))
        raised = tl.exp(values - tl.max(values, 0))
        tl.store(out + row.to(tl.int64) * cols + at, raised / tl.sum(raised, 0), at < cols)


def softmax(x, out):
    rows, cols = x.shape
    programs = min(rows, 4 * torch.cuda.get_device_properties(x.device).multi_processor_count)
    softmax_kernel[(programs,)](x, out, rows, cols, BLOCK=triton.next_power_of_2(cols), num_warps=8)
