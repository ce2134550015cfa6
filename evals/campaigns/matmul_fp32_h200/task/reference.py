"""Matrix product in fp32 or wider."""

import torch


def reference(a, b):
    return torch.matmul(a, b)
