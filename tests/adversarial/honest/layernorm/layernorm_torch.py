import torch


def layernorm_library(x, gamma, beta, out):
    out.copy_(torch.nn.functional.layer_norm(x, (x.shape[1],), gamma, beta, 1e-5))


def layernorm_addcmul(x, gamma, beta, out):
    variance, mean = torch.var_mean(x, dim=1, unbiased=False, keepdim=True)
    torch.addcmul(beta, (x - mean) * torch.rsqrt(variance + 1e-5), gamma, out=out)
