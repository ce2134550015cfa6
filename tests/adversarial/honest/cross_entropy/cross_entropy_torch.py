import torch


def cross_entropy_gathered(x, target, loss):
    torch.sub(torch.logsumexp(x, dim=1), x.gather(1, target[:, None]).squeeze(1), out=loss)


def cross_entropy_nll(x, target, loss):
    loss.copy_(torch.nn.functional.nll_loss(torch.log_softmax(x, dim=1), target, reduction="none"))
