"""Activations times weights that stay the same for the life of a process."""

import torch


def reference(x, w):
    return torch.matmul(x, w)
