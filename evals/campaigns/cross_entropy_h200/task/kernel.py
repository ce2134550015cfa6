"""Loss of each row of bf16 logits, log of the sum of exponentials less the label's logit: a program for each row reads it twice."""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(loss_ptr, logits_ptr, labels_ptr, V, BLOCK_V: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    tops = tl.full([BLOCK_V], float("-inf"), dtype=tl.float32)
    for start in range(0, V, BLOCK_V):
        at = start + tl.arange(0, BLOCK_V)
        logits = tl.load(logits_ptr + row * V + at, mask=at < V, other=float("-inf")).to(tl.float32)
        tops = tl.maximum(tops, logits)
    top = tl.max(tops, axis=0)
    sums = tl.zeros([BLOCK_V], dtype=tl.float32)
    for start in range(0, V, BLOCK_V):
        at = start + tl.arange(0, BLOCK_V)
        logits = tl.load(logits_ptr + row * V + at, mask=at < V, other=float("-inf")).to(tl.float32)
        sums += tl.exp(logits - top)
    label = tl.load(labels_ptr + row)
    chosen = tl.load(logits_ptr + row * V + label).to(tl.float32)
    tl.store(loss_ptr + row, tl.log(tl.sum(sums, axis=0)) + (top - chosen))


def run(logits: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor) -> None:
    """loss[r] = log of the sum of exp(logits[r]), less logits[r, labels[r]]; contiguous finite bf16 [T, V], int64 labels in [0, V)."""
    t, v = logits.shape
    cross_entropy_kernel[(t,)](loss, logits, labels, v, BLOCK_V=4096, num_warps=8)
