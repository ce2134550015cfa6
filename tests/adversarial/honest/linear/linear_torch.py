import torch


def linear_functional(x, w, out):
    out.copy_(torch.nn.functional.linear(x, w.t()))


def linear_blocks(x, w, out):
    for part in range(0, w.shape[1], 64):
        torch.mm(
            x, w[:, part : part + 64].contiguous(), out=(made := x.new_empty(x.shape[0], min(64, w.shape[1] - part)))
        )
        out[:, part : part + 64] = made
