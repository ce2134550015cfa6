"""The transposed convolution as one would write it in PyTorch, for `ridgeline judge baselines --torch`."""

import torch


def reference(x, weight):
    return torch.nn.functional.conv_transpose3d(x, weight, stride=2, padding=1, dilation=2)
