import torch


def sum_library(x, out):
    torch.sum(x, dim=0, keepdim=True, out=out)


def sum_matrix(x, out):
    whole = x.numel() // 256 * 256
    out.copy_((x[:whole].view(-1, 256).double().sum(0).sum() + x[whole:].double().sum()).reshape(1))
