"""Softmax(Q K^T / sqrt(dim)) V for each head; bfloat16 at either end, float32 or wider between."""

import torch


def reference(q, k, v):
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = torch.matmul(q.to(wide), k.to(wide).transpose(1, 2)) / q.shape[-1] ** 0.5
    return torch.matmul(torch.softmax(scores, dim=-1), v.to(wide)).to(q.dtype)
