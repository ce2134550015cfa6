"""Largest of each 2 x 2 block."""


def reference(x):
    h, w = x.shape
    return x.reshape(h // 2, 2, w // 2, 2).max(axis=(1, 3))
