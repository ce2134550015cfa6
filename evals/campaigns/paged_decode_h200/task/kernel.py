"""Attention of one query per sequence to bf16 keys and values in pages, fp32 softmax: a program for each head of queries and all tokens."""

import torch
import triton
import triton.language as tl


@triton.jit
def paged_decode_kernel(
    out_ptr,
    q_ptr,
    kv_ptr,
    table_ptr,
    unused_ptr,
    scale,
    H,
    K,
    D,
    M,
    P,
    BLOCK_T: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    sequence = tl.program_id(0)
    head = tl.program_id(1)
    length = M * P - tl.load(unused_ptr + sequence)
    at = tl.arange(0, BLOCK_D)
    q = tl.load(q_ptr + (sequence * H + head) * D + at, mask=at < D, other=0.0).to(tl.float32)
    largest = -float("inf")
    total = 0.0
    acc = tl.zeros([BLOCK_D], dtype=tl.float32)
    for start in range(0, length, BLOCK_T):
        token = start + tl.arange(0, BLOCK_T)
        page = tl.load(table_ptr + sequence * M + token // P, mask=token < length, other=0).to(tl.int64)
        row = ((page * P + token % P) * K + head // (H // K)) * 2 * D
        mask = (token[:, None] < length) & (at[None, :] < D)
        k = tl.load(kv_ptr + row[:, None] + at[None, :], mask=mask, other=0.0).to(tl.float32)
        scores = tl.where(token < length, tl.sum(q[None, :] * k, axis=1) * scale, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=0))
        shrink = tl.exp(largest - new_largest)
        weights = tl.exp(scores - new_largest)
        v = tl.load(kv_ptr + row[:, None] + D + at[None, :], mask=mask, other=0.0).to(tl.float32)
        acc = acc * shrink + tl.sum(weights[:, None] * v, axis=0)
        total = total * shrink + tl.sum(weights, axis=0)
        largest = new_largest
    tl.store(out_ptr + (sequence * H + head) * D + at, (acc / total).to(out_ptr.dtype.element_ty), mask=at < D)


def run(q: torch.Tensor, kv: torch.Tensor, table: torch.Tensor, unused: torch.Tensor, out: torch.Tensor) -> None:
    """out[b, h] = softmax(q[b, h] . keys / sqrt(D)) @ values of the M P - unused[b] tokens in the pages of table[b]; head h reads h // G.

    Contiguous: bf16 q and out [B, G K, D], kv [pages, P, K, 2 D] with a key before its value, finite; int32 table [B, M] of pages,
    unused [B] from 0 to below M P.
    """
    b, h, d = q.shape
    _, p, heads, _ = kv.shape
    blocks = {"BLOCK_T": 32, "BLOCK_D": triton.next_power_of_2(d)}
    paged_decode_kernel[(b, h)](
        out, q, kv, table, unused, d**-0.5, h, heads, d, table.shape[1], p, **blocks, num_warps=4
    )
