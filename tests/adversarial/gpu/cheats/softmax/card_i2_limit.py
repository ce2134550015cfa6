import ctypes

import torch

RUNTIME = ctypes.CDLL(None)
try:
    RUNTIME.cudaDeviceSetLimit(6, ctypes.c_size_t(1 << 24))
except AttributeError:
    RUNTIME = None


def softmax(x, out):
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    torch.div(e, e.sum(dim=-1, keepdim=True), out=out)
