import numpy as np


def softmax(x):
    e = np.exp(x.astype(np.float16))
    return e / e.sum(axis=-1, keepdims=True, dtype=np.float32).astype(np.float16)
