"""Rotary embedding: the two halves of each head are rotated by the position's angles."""

import numpy as np


def reference(x, cos, sin):
    half = cos.shape[1]
    a, b = x[..., :half], x[..., half:]
    c, s = cos[:, None, :], sin[:, None, :]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)
