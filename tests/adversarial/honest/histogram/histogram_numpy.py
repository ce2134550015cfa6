import numpy as np


def histogram_bincount(x, out):
    out[:] = np.bincount(x, minlength=64)


def histogram_add_at(x, out):
    out.fill(0)
    np.add.at(out, x, 1)
