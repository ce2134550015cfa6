"""residual += x in place; the result is its root-mean-square norm times weight, epsilon 1e-6."""

import numpy as np


def reference(residual, x, weight):
    residual += x
    return residual / np.sqrt((residual * residual).mean(axis=-1, keepdims=True) + 1e-6) * weight
