import numpy as np


def masked_fill_where(x, mask, fill, out):
    out[:] = np.where(mask, fill, x)


def masked_fill_copyto(x, mask, fill, out):
    np.copyto(out, x)
    np.copyto(out, fill, where=mask)
