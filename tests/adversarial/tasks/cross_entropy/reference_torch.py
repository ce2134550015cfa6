"""Loss of each row: log of the sum of exponentials, less the target's logit."""

import torch


def reference(x, target):
    return torch.nn.functional.cross_entropy(x, target, reduction="none")
