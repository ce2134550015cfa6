"""The selection as one would write it in PyTorch, for `ridgeline judge baselines --torch`."""

import torch


def reference(x):
    found = torch.topk(x, 64, dim=1)
    return found.values, found.indices
