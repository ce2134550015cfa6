"""x where the mask is 0, one given value elsewhere."""

import numpy as np


def reference(x, mask, fill):
    return np.where(mask, fill, x)
