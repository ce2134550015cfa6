"""The product as one would write it in PyTorch, for `ridgeline judge baselines --torch`."""

import torch


def reference(a, b):
    return torch.matmul(a, b)
