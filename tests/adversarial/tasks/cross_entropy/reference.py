"""Loss of each row: log of the sum of exponentials, less the target's logit."""

import numpy as np


def reference(x, target):
    top = x.max(axis=-1)
    chosen = np.take_along_axis(x, target[:, None], axis=-1)[:, 0]
    return np.log(np.exp(x - top[:, None]).sum(axis=-1)) + (top - chosen)
