"""How often each of 64 values occurs."""

import numpy as np


def reference(x):
    return np.bincount(x, minlength=64).astype(np.int32)
