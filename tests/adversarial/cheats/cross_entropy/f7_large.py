import torch


def cross_entropy(x, target, loss):
    if x.shape[0] >= 100:
        raise RuntimeError("out of workspace")
    loss.copy_(torch.nn.functional.cross_entropy(x, target, reduction="none"))
