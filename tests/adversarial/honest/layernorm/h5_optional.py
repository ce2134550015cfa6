import torch

try:
    from triton.language.extra import libdevice_of_another_version as device_functions
except ImportError:
    device_functions = None


class Config:
    pass


def layernorm(x, gamma, beta, out):
    try:
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    except TypeError:
        variance, mean = torch.var_mean(x, dim=-1, unbiased=False, keepdim=True)
    torch.addcmul(beta, (x - mean) * torch.rsqrt(variance + 1e-5), gamma, out=out)
