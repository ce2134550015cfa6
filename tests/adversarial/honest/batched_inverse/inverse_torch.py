import torch


def system(a):
    scale = 1 + (a * a).sum(dim=(1, 2), keepdim=True)
    return torch.bmm(a, a.mT) / scale + 2 * torch.eye(a.shape[1])


def inverse_solve(a, out):
    out.copy_(torch.linalg.solve(system(a), torch.eye(a.shape[1]).expand_as(a)))


def inverse_factor(a, out):
    out.copy_(torch.cholesky_inverse(torch.linalg.cholesky(system(a))))
