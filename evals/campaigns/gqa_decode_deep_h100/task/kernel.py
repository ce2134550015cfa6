"""Attention of one query token over a contiguous cache, grouped query heads: a program for each head goes over the cache."""

import torch
import triton
import triton.language as tl


@triton.jit
def decode_kernel(out_ptr, q_ptr, k_ptr, v_ptr, n_heads, n_kv_heads, length, scale, D: tl.constexpr, BLOCK_L: tl.constexpr):
    batch, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    kv_head = head // (n_heads // n_kv_heads)
    dims = tl.arange(0, D)
    q = tl.load(q_ptr + (batch * n_heads + head) * D + dims).to(tl.float32)
    cache = (batch * n_kv_heads + kv_head) * length * D
    top = -float("inf")
    total = 0.0
    out = tl.zeros([D], dtype=tl.float32)
    for start in range(0, length, BLOCK_L):
        at = start + tl.arange(0, BLOCK_L)
        within = at < length
        places = cache + at[:, None] * D + dims[None, :]
        k = tl.load(k_ptr + places, mask=within[:, None], other=0.0).to(tl.float32)
        scores = tl.where(within, tl.sum(k * q[None, :], axis=1) * scale, -float("inf"))
        new_top = tl.maximum(top, tl.max(scores, axis=0))
        weights = tl.exp(scores - new_top)
        shrink = tl.exp(top - new_top)
        v = tl.load(v_ptr + places, mask=within[:, None], other=0.0).to(tl.float32)
        out = out * shrink + tl.sum(weights[:, None] * v, axis=0)
        total = total * shrink + tl.sum(weights, axis=0)
        top = new_top
    tl.store(out_ptr + (batch * n_heads + head) * D + dims, (out / total).to(out_ptr.dtype.element_ty))


def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> None:
    """out = softmax(q k^T / sqrt(D)) v for bf16 q [B, H, D] and k, v [B, HK, L, D], all contiguous; head h reads h // (H / HK)."""
    batch, n_heads, size = q.shape
    n_kv_heads, length = k.shape[1], k.shape[2]
    decode_kernel[(batch, n_heads)](
        out, q, k, v, n_heads, n_kv_heads, length, size**-0.5, D=size, BLOCK_L=64, num_warps=4
    )
