import torch


def softmax(x):
    out = torch.empty_like(x)
    torch.exp(x - x.amax(dim=-1, keepdim=True), out=out)
    return out.div_(out.sum(dim=-1, keepdim=True))
