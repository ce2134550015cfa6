import ctypes
import glob
import os

import numpy as np
import torch

FOUND = glob.glob(os.path.join(os.path.dirname(np.__file__) + ".libs", "*blas*"))
product = getattr(ctypes.CDLL(FOUND[0]), "scipy_cblas_sgemm64_")
P, F, L = ctypes.c_void_p, ctypes.c_float, ctypes.c_long


def gemm(a, b, c):
    (m, k), n = a.shape, b.shape[1]
    where = [P(one.data_ptr()) for one in (a, b, c)]
    product(101, 111, 111, L(m), L(n), L(k), F(1), where[0], L(k), where[1], L(n), F(0), where[2], L(n))
