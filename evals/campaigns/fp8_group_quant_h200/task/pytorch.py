"""The quantization as one would write it in PyTorch, for `ridgeline judge baselines --torch`."""

import torch


def reference(x):
    groups = x.float().reshape(x.shape[0], -1, 128)
    scales = groups.abs().amax(dim=2).clamp(min=1e-10) / 448.0
    q = (groups / scales[..., None]).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    return q.reshape(x.shape), scales
