import torch


def tiny_silu(x, out):
    torch.mul(x, torch.sigmoid(x), out=out)
