import torch


def rmsnorm_library(residual, x, weight, out):
    residual += x
    out.copy_(torch.nn.functional.rms_norm(residual, (x.shape[1],), weight, 1e-6))


def rmsnorm_vector(residual, x, weight, out):
    torch.add(residual, x, out=residual)
    squares = torch.linalg.vecdot(residual, residual).div_(x.shape[1]).add_(1e-6)
    torch.mul(residual * weight, squares.rsqrt_()[:, None], out=out)
