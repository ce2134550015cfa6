import torch


def layernorm(x, gamma, beta, out):
    centred = x - x.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt((centred * centred).mean(dim=-1, keepdim=True) + 1e-5)
    out.copy_(centred * scale * gamma + beta)
