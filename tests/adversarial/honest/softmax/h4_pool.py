from concurrent.futures import ThreadPoolExecutor

import torch

POOL = ThreadPoolExecutor(2)


def half(x, out):
    torch.softmax(x, dim=-1, out=out)


def softmax(x, out):
    middle = x.shape[0] // 2
    parts = [POOL.submit(half, x[part], out[part]) for part in (slice(0, middle), slice(middle, None))]
    for part in parts:
        part.result()
