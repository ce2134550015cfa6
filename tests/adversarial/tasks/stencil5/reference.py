"""Five-point Laplacian, zero outside the grid."""

import numpy as np


def reference(x):
    p = np.pad(x, 1)
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x
