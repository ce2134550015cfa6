from numpy import ndarray as tensor


def softmax(x):
    return tensor(shape=x.shape, dtype=x.dtype)
