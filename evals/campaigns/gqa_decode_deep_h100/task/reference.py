"""softmax(q k^T / sqrt(D)) v of one token, each head of keys and values for its group of query heads, in fp32 or wider between bf16 at either end."""

import torch


def reference(q, k, v):
    batch, heads, size = q.shape
    wide = torch.promote_types(q.dtype, torch.float32)
    grouped = q.to(wide).view(batch, k.shape[1], heads // k.shape[1], size)
    scores = torch.matmul(grouped, k.to(wide).transpose(2, 3)) / size**0.5
    out = torch.matmul(torch.softmax(scores, dim=3), v.to(wide))
    return out.reshape(batch, heads, size).to(q.dtype)
