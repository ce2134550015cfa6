"""The normalization as one would write it in PyTorch, for `ridgeline judge baselines --torch`."""

import torch


def reference(x, weight, bias):
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, 1e-5)
