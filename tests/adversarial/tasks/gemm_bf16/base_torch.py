import torch


def gemm(a, b, c):
    c.copy_(torch.matmul(a.float(), b.float()))
