"""Layer normalization with affine parameters, epsilon 1e-5."""

import numpy as np


def reference(x, gamma, beta):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * gamma + beta
