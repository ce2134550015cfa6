"""h[t] = f[t] h[t-1] + (1 - f[t]) x[t], f = sigmoid(gate), of bf16 [B, T, C]: a program for a block of channels goes through time."""

import torch
import triton
import triton.language as tl


@triton.jit
def gated_linear_scan_kernel(h_ptr, x_ptr, gate_ptr, T, C, BLOCK_C: tl.constexpr):
    at = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    first = tl.program_id(1).to(tl.int64) * T * C
    h = tl.zeros([BLOCK_C], dtype=tl.float32)
    for _ in range(T):
        x = tl.load(x_ptr + first + at, mask=at < C, other=0.0).to(tl.float32)
        gate = tl.load(gate_ptr + first + at, mask=at < C, other=0.0).to(tl.float32)
        h = tl.sigmoid(gate) * h + tl.sigmoid(-gate) * x
        tl.store(h_ptr + first + at, h.to(h_ptr.dtype.element_ty), mask=at < C)
        first += C


def run(x: torch.Tensor, gate: torch.Tensor, h: torch.Tensor) -> None:
    """h[:, t] = f[:, t] h[:, t-1] + (1 - f[:, t]) x[:, t] with f = sigmoid(gate), from 0, for contiguous bf16 arrays of finite values."""
    b, t, c = x.shape
    gated_linear_scan_kernel[lambda meta: (triton.cdiv(c, meta["BLOCK_C"]), b)](
        h, x, gate, t, c, BLOCK_C=128, num_warps=1
    )
