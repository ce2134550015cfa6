import torch


def silu_library(x, out):
    out.copy_(torch.nn.functional.silu(x))
