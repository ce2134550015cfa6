"""Transposed convolution, 3x3x3, stride 2, padding 1, dilation 2, in fp32 or wider between bf16 at either end."""

import torch


def reference(x, weight):
    wide = torch.promote_types(x.dtype, torch.float32)
    out = torch.nn.functional.conv_transpose3d(x.to(wide), weight.to(wide), stride=2, padding=1, dilation=2)
    return out.to(x.dtype)
