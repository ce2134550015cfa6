import numpy as np


def stencil_slices(x, out):
    np.multiply(x, -4, out=out)
    out[1:] += x[:-1]
    out[:-1] += x[1:]
    out[:, 1:] += x[:, :-1]
    out[:, :-1] += x[:, 1:]
