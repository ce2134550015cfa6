"""The scan as one would write it in PyTorch, which has no operator for it: by doubling; for `ridgeline judge baselines --torch`."""

import torch


def reference(x, gate):
    keep = torch.sigmoid(gate.float())
    h = torch.sigmoid(-gate.float()) * x.float()
    step = 1
    while step < x.shape[1]:
        h = torch.cat((h[:, :step], h[:, step:] + keep[:, step:] * h[:, :-step]), dim=1)
        keep = torch.cat((keep[:, :step], keep[:, step:] * keep[:, :-step]), dim=1)
        step *= 2
    return h.to(x.dtype)
