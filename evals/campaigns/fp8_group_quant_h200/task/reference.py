"""Each group of 128 over its scale, in fp32 or wider; the judge rounds it to float8_e4m3fn, and looks at what is near a tie."""

import torch


def reference(x):
    groups = x.to(torch.promote_types(x.dtype, torch.float32)).reshape(x.shape[0], -1, 128)
    scales = groups.abs().amax(dim=2).clamp(min=1e-10) / 448.0
    return (groups / scales[..., None]).reshape(x.shape), scales
