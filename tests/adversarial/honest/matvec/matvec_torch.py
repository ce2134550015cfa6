import torch


def matvec_product(a, x, y):
    torch.mv(a, x, out=y)


def matvec_elementwise(a, x, y):
    torch.sum(a * x, dim=1, out=y)
