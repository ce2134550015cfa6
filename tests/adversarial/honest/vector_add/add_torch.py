import torch


def vector_add_out(x, y, out):
    torch.add(x, y, out=out)


def vector_add_lerp(x, y, out):
    torch.addcmul(x, y, torch.ones(1), out=out)


def vector_add_stacked(x, y, out):
    out.copy_(torch.stack((x, y)).sum(dim=0))
