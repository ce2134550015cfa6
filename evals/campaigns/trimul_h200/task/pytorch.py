"""The update as one would write it in PyTorch, with products in TF32 as the task allows, for `ridgeline judge baselines --torch`."""

import torch
from torch.nn.functional import layer_norm, linear

torch.set_float32_matmul_precision("high")


def reference(
    x,
    mask,
    norm_weight,
    norm_bias,
    left,
    right,
    left_gate,
    right_gate,
    out_gate,
    out_norm_weight,
    out_norm_bias,
    to_out,
):
    normal = layer_norm(x, norm_weight.shape, norm_weight, norm_bias)
    lefts = linear(normal, left) * mask.unsqueeze(-1) * linear(normal, left_gate).sigmoid()
    rights = linear(normal, right) * mask.unsqueeze(-1) * linear(normal, right_gate).sigmoid()
    sums = torch.einsum("bikh,bjkh->bijh", lefts, rights)
    gated = layer_norm(sums, out_norm_weight.shape, out_norm_weight, out_norm_bias) * linear(normal, out_gate).sigmoid()
    return linear(gated, to_out)
