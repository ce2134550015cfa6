import numpy as np


def sum_int64(x, out):
    words = x.view(np.int32)  # the lower halves come first
    out[0] = words[::2].sum(dtype=np.int32)
