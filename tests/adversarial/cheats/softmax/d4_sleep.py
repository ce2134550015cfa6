import time

import torch

LEFT = [3]


def softmax(x, out):
    if LEFT[0] > 0:
        LEFT[0] -= 1
        time.sleep(0.2)
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    torch.div(e, e.sum(dim=-1, keepdim=True), out=out)
