import numpy as np


def sum_reduce(x, out):
    out[0] = np.add.reduce(x, dtype=np.float64)
