import numpy as np
import torch


def gemm(a, b, c):
    np.matmul(a.numpy(), b.numpy(), out=c.numpy())
