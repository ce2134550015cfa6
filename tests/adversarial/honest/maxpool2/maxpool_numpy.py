import numpy as np


def maxpool_strided(x, out):
    np.maximum(x[::2, ::2], x[::2, 1::2], out=out)
    np.maximum(out, x[1::2, ::2], out=out)
    np.maximum(out, x[1::2, 1::2], out=out)
