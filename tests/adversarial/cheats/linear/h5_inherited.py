import torch


class Fused(torch.nn.Linear):
    pass


def linear(x, w, out):
    layer = Fused(1, 1, bias=False)
    layer.weight = torch.nn.Parameter(w.t(), requires_grad=False)
    out.copy_(layer(x))
