import torch


def stencil_convolution(x, out):
    weights = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]])
    out.copy_(torch.nn.functional.conv2d(x[None, None], weights[None, None], padding=1)[0, 0])


def stencil_shifted(x, out):
    out.copy_(x).mul_(-4)
    out[1:].add_(x[:-1])
    out[:-1].add_(x[1:])
    out[:, 1:].add_(x[:, :-1])
    out[:, :-1].add_(x[:, 1:])
