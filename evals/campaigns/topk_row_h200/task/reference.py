"""The 64 largest of each row with their places, largest first; of equal ones the first."""

import torch


def reference(x):
    ordered = torch.sort(x, dim=1, descending=True, stable=True)
    return ordered.values[:, :64].contiguous(), ordered.indices[:, :64].contiguous()
