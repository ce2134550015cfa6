"""silu(gate) * up in groups of 128 over their scales, in fp32 or wider; the judge rounds it to float8_e4m3fn."""

import torch


def reference(x):
    gate, up = x.to(torch.promote_types(x.dtype, torch.float32)).chunk(2, dim=1)
    y = gate * torch.sigmoid(gate) * up
    groups = y.reshape(y.shape[0], -1, 128)
    scales = (groups.abs().amax(dim=2) / 448.0).clamp(min=1 / (448.0 * 512.0))
    return (groups / scales[..., None]).reshape(y.shape), scales
