import numpy as np


def argmax_ufunc(x, out):
    np.argmax(x, axis=1, out=out)


def argmax_compare(x, out):
    out[:] = (x == x.max(axis=1, keepdims=True)).argmax(axis=1)
