"""Correlation with a 3 x 3 kernel, valid positions only."""

import numpy as np


def reference(x, k):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    return np.einsum("hwij,ij->hw", windows, k)
