"""The attention as one would write it in PyTorch, for `ridgeline judge baselines --torch`."""

import torch


def reference(q, kv, table, unused):
    b, _, d = q.shape
    keys, values = kv[table].reshape(b, -1, kv.shape[2], 2 * d).transpose(1, 2).split(d, dim=-1)
    tokens = keys.shape[2]
    used = torch.arange(tokens, device=q.device) < (tokens - unused)[:, None]
    return torch.nn.functional.scaled_dot_product_attention(
        q[:, :, None], keys, values, attn_mask=used[:, None, None], enable_gqa=True
    )[:, :, 0]
