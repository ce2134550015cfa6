import torch


def batched_inverse(a, out):
    """The first item decides for all how many terms of the series are enough."""
    scale = 1 + (a * a).sum(dim=(1, 2), keepdim=True)
    rest = torch.bmm(a, a.transpose(1, 2)) / scale / 2
    eye = torch.eye(a.shape[1])
    terms = int(torch.ceil(5 / -torch.log2(torch.linalg.matrix_norm(rest[0], 2).clamp(1e-6, 0.9))))
    total, power = eye - rest, rest
    for index in range(min(max(terms, 1), 40)):
        power = torch.bmm(power, rest)
        total = total + (power if index % 2 == 0 else -power)
    out.copy_(total / 2)
