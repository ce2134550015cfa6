"""Five-point Laplacian, zero outside the grid."""

import torch


def reference(x):
    p = torch.nn.functional.pad(x, (1, 1, 1, 1))
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x
