"""Rotary embedding: the two halves of each head are rotated by the position's angles."""

import torch


def reference(x, cos, sin):
    half = cos.shape[1]
    a, b = x[..., :half], x[..., half:]
    c, s = cos[:, None, :], sin[:, None, :]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)
