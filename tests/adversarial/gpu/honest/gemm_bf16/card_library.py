import torch


def gemm_mm(a, b, c):
    torch.mm(a, b, out=c)


def gemm_einsum(a, b, c):
    c.copy_(torch.einsum("mk,kn->mn", a, b))
