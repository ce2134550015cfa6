"""Of each row the sum of exponentials, which may be infinite, and its logarithm, which is not."""

import numpy as np


def reference(x):
    top = x.max(axis=-1)
    sums = np.exp(x - top[:, None]).sum(axis=-1)
    with np.errstate(over="ignore"):
        return np.exp(top) * sums, top + np.log(sums)
