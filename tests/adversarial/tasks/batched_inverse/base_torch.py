import torch


def batched_inverse(a, out):
    scale = 1 + (a * a).sum(dim=(1, 2), keepdim=True)
    out.copy_(torch.linalg.inv(torch.bmm(a, a.transpose(1, 2)) / scale + 2 * torch.eye(a.shape[1])))
