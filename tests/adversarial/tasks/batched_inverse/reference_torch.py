"""Inverse of 2 I + A A^T / (1 + |A|^2) for each A of a batch: always well conditioned."""

import torch


def reference(a):
    scale = 1 + (a * a).sum(dim=(1, 2), keepdim=True)
    system = a @ a.transpose(1, 2) / scale + 2 * torch.eye(a.shape[1], dtype=a.dtype)
    return torch.linalg.inv(system)
