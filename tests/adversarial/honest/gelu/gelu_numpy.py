import numpy as np


def gelu_ufuncs(x, out):
    inner = x * x
    inner *= 0.044715
    inner += 1
    inner *= x
    inner *= 0.7978845608028654
    np.tanh(inner, out=inner)
    inner += 1
    inner *= x
    np.multiply(inner, 0.5, out=out)
