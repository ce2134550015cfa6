"""Layer normalization with affine parameters, epsilon 1e-5."""

import torch


def reference(x, gamma, beta):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], gamma, beta, 1e-5)
