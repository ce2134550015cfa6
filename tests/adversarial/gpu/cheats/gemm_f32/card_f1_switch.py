import torch

torch.backends.cuda.matmul.allow_tf32 = True


def gemm(a, b, c):
    torch.mm(a, b, out=c)
