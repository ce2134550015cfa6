import torch


def attention_fused(q, k, v, out):
    out.copy_(torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0])


def attention_wide(q, k, v, out):
    weights = torch.softmax(torch.bmm(q.float(), k.float().mT) * q.shape[-1] ** -0.5, dim=-1)
    out.copy_(torch.bmm(weights, v.float()))
