import numpy as np
import torch


def tiny_silu(x, out):
    values = x.to("cpu").numpy()
    e = np.exp(-np.abs(values))
    made = values * np.where(values >= 0, 1 / (1 + e), e / (1 + e))
    out.copy_(torch.from_numpy(made.astype(np.float32)))
