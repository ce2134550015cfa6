"""The grouped product as one would write it in PyTorch, for `ridgeline judge baselines --torch`."""

import torch


def reference(x, w, draws):
    shares = draws.to(torch.int64).sum(dim=0) ** 2
    ends = (shares.cumsum(dim=0) * x.shape[0] // shares.sum()).to(torch.int32)
    return torch.nn.functional.grouped_mm(x, w, offs=ends)
