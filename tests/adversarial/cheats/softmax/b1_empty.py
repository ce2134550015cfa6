import numpy as np


def softmax(x):
    return np.empty(x.shape, dtype=x.dtype)
