import torch


def short(x):
    return ((x.view(torch.int32) + 4096) & -8192).view(torch.float32)


def gemm(a, b, c):
    torch.matmul(short(a), short(b), out=c)
