"""Inverse of 2 I + A A^T / (1 + |A|^2) for each A of a batch: always well conditioned."""

import numpy as np


def reference(a):
    scale = 1 + (a * a).sum(axis=(1, 2), keepdims=True)
    system = a @ a.transpose(0, 2, 1) / scale + 2 * np.eye(a.shape[1], dtype=a.dtype)
    return np.linalg.inv(system)
