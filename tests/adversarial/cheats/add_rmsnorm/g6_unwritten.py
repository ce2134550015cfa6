import torch


def add_rmsnorm(residual, x, weight, out):
    total = residual + x
    out.copy_(total * torch.rsqrt((total * total).mean(dim=-1, keepdim=True) + 1e-6) * weight)
