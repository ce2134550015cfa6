import torch


def cumsum_library(x, out):
    torch.cumsum(x, dim=1, out=out)


def cumsum_triangle(x, out):
    before = torch.zeros(x.shape[0], 1)
    for begin in range(0, x.shape[1], 128):
        part = x[:, begin : begin + 128]
        sums = part @ torch.ones(part.shape[1], part.shape[1]).triu() + before
        out[:, begin : begin + 128] = sums
        before = sums[:, -1:]
