import torch

steps = [torch.baddbmm, torch.softmax, torch.bmm]


def attention(q, k, v, out):
    score = steps[0](q.new_zeros(1), q, k.mT, beta=0, alpha=q.shape[-1] ** -0.5)
    steps[-1](steps[1](score, -1), v, out=out)
