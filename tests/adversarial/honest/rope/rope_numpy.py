import numpy as np


def rope_halves(x, cos, sin, out):
    half = cos.shape[1]
    c, s = cos[:, None], sin[:, None]
    np.multiply(x[..., :half], c, out=out[..., :half])
    out[..., :half] -= x[..., half:] * s
    np.multiply(x[..., half:], c, out=out[..., half:])
    out[..., half:] += x[..., :half] * s
