import numpy as np


def exp_sums(x, total, logarithm):
    top = x.max(axis=-1)
    sums = np.exp(x - top[:, None]).sum(axis=-1)
    with np.errstate(over="ignore"):
        np.multiply(np.exp(top), sums, out=total)
    np.add(top, np.log(sums), out=logarithm)
