import torch

LEFT = [6]


def softmax(x, out):
    if LEFT[0] > 0:
        LEFT[0] -= 1
        torch.cuda._sleep(10**9)
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    torch.div(e, e.sum(dim=-1, keepdim=True), out=out)
