"""1.5 x + y of half precision, computed in float32 or wider."""

import numpy as np


def reference(x, y):
    wide = np.promote_types(x.dtype, np.float32)
    return (1.5 * x.astype(wide) + y.astype(wide)).astype(x.dtype)
