"""x * sigmoid(x), few elements: bound by the call itself."""

import numpy as np


def reference(x):
    e = np.exp(-np.abs(x))
    return x * np.where(x >= 0, 1 / (1 + e), e / (1 + e))
