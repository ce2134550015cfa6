import numpy as np


def gather_take(table, index, out):
    np.take(table, index, axis=0, out=out)
