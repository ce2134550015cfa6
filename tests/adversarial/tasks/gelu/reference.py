"""GELU, the form with tanh."""

import numpy as np


def reference(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
