import numpy as np


def transpose(x):
    return np.ascontiguousarray(x.T)
