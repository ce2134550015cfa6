import numpy as np


def vector_add_ufunc(x, y, out):
    np.add(x, y, out=out)


def vector_add_chunks(x, y, out):
    for begin in range(0, x.size, 8192):
        part = slice(begin, begin + 8192)
        np.copyto(out[part], x[part])
        out[part] += y[part]
