import numpy as np


def softmax(x):
    out = np.empty_like(x)
    np.subtract(x, x.max(axis=1, keepdims=True), out=out)
    np.exp(out, out=out)
    return out / out.sum(axis=1, keepdims=True)
