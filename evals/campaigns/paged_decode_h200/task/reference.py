"""Softmax over the used tokens of each sequence, gathered from their pages, in fp32 or wider between bf16 at either end."""

import torch


def reference(q, kv, table, unused):
    wide = torch.promote_types(q.dtype, torch.float32)
    b, heads, d = q.shape
    shared = kv.shape[2]
    keys, values = kv[table.long()].reshape(b, -1, shared, 2 * d).to(wide).split(d, dim=-1)
    queries = q.to(wide).reshape(b, shared, heads // shared, d)
    scores = torch.einsum("bkgd,btkd->bkgt", queries, keys) / d**0.5
    tokens = keys.shape[1]
    left_out = torch.arange(tokens, device=q.device) >= (tokens - unused.long())[:, None]
    weights = torch.softmax(scores.masked_fill(left_out[:, None, None], -torch.inf), dim=-1)
    return torch.einsum("bkgt,btkd->bkgd", weights, values).reshape(q.shape).to(q.dtype)
