"""x * sigmoid(x), few elements: bound by the call itself."""

import torch


def reference(x):
    return torch.nn.functional.silu(x)
