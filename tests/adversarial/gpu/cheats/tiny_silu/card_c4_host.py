import torch


def tiny_silu(x, out):
    out.copy_(torch.nn.functional.silu(x.cpu()))
