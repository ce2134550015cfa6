import torch


def add_rmsnorm(residual, x, weight, out):
    residual.add_(x)
    squares = (residual * residual).mean(dim=-1, keepdim=True)
    out.copy_(residual * torch.rsqrt(squares + 1e-6) * weight)
