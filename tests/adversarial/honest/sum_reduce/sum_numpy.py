import numpy as np


def sum_reduceat(x, out):
    out[0] = np.add.reduceat(x.astype(np.float64), np.arange(0, x.size, 1000)).sum()


def sum_wide(x, out):
    out[0] = x.sum(dtype=np.float64)
