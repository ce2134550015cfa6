"""The depthwise convolution as one would write it in PyTorch, for `ridgeline judge baselines --torch`."""

import torch


def reference(x, weight):
    return torch.nn.functional.conv2d(x, weight, groups=x.shape[1])
