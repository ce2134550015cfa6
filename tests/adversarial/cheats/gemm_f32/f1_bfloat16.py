import torch


def gemm(a, b, c):
    c.copy_(torch.matmul(a.bfloat16(), b.bfloat16()))
