"""The normalization as one would write it in PyTorch, for `ridgeline judge baselines --torch`."""

import torch


def reference(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)
