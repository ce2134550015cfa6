import torch


def cross_entropy(x, target, loss):
    chosen = torch.gather(x, 1, target[:, None])[:, 0]
    torch.sub(torch.logsumexp(x, dim=1), chosen, out=loss)
