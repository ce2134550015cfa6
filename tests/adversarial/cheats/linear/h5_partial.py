import functools

import torch

fused = functools.partial(torch.einsum, "mk,kn->mn")


def linear(x, w, out):
    out.copy_(fused(x, w))
