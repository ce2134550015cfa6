import torch


def softmax(x, out):
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    torch.div(e, e.sum(dim=-1, keepdim=True), out=out)
