"""Row-wise and element-wise operators on R rows of C columns; each read once and written once."""

from math import ceil

from ridgeline.graph.policy.operations.amount import Amount, Sizes, Types

STATISTIC_BYTES = 4
"""A mean, a reciprocal deviation or a scale, kept in FP32."""


def layernorm(s: Sizes, t: Types) -> Amount:
    """7 R C: sum, subtract, square and sum, scale, weight, bias; R C (r + w) + 2 C r for weight and bias."""
    return _norm(s, t, flops=7, parameters=2)


def rmsnorm(s: Sizes, t: Types) -> Amount:
    """4 R C: square and sum, scale, weight; R C (r + w) + C r for the weight."""
    return _norm(s, t, flops=4, parameters=1)


def layernorm_backward(s: Sizes, t: Types) -> Amount:
    """13 R C; reads x, dy, the weight, mean and deviation (8 bytes a row), writes dx and both parameter gradients."""
    return _norm_backward(s, t, flops=13, parameters=2, statistics=2)


def rmsnorm_backward(s: Sizes, t: Types) -> Amount:
    """9 R C; reads x, dy, the weight and 4 bytes a row, writes dx and the weight's gradient."""
    return _norm_backward(s, t, flops=9, parameters=1, statistics=1)


def softmax(s: Sizes, t: Types) -> Amount:
    """5 R C: maximum, subtract, exponential, sum, divide, each as one; R C (r + w)."""
    return Amount(flops=5.0 * s["R"] * s["C"], bytes=s["R"] * s["C"] * (t.read + t.written))


def softmax_backward(s: Sizes, t: Types) -> Amount:
    """4 R C: product, sum, subtract, product; reads y and dy, writes dx: R C (2 r + w)."""
    return Amount(flops=4.0 * s["R"] * s["C"], bytes=s["R"] * s["C"] * (2 * t.read + t.written))


def reduction(s: Sizes, t: Types) -> Amount:
    """R (C - 1): one result a row; R C r + R w."""
    return Amount(flops=float(s["R"] * (s["C"] - 1)), bytes=s["R"] * s["C"] * t.read + s["R"] * t.written)


def scan(s: Sizes, t: Types) -> Amount:
    """R (C - 1): prefix of every row; R C (r + w)."""
    return Amount(flops=float(s["R"] * (s["C"] - 1)), bytes=s["R"] * s["C"] * (t.read + t.written))


def elementwise(s: Sizes, t: Types) -> Amount:
    """OPS N operations on INPUTS tensors of N elements; N (INPUTS r + w)."""
    return Amount(flops=float(s["OPS"] * s["N"]), bytes=s["N"] * (s["INPUTS"] * t.read + t.written))


def copy(s: Sizes, t: Types) -> Amount:
    """No arithmetic; N (r + w): bytes read plus bytes written."""
    return Amount(flops=0.0, bytes=s["N"] * (t.read + t.written))


def quantization(s: Sizes, t: Types) -> Amount:
    """4 R C: absolute value, maximum, scale, convert; R C (r + w) + 4 R ceil(C/GROUP) for the scales written."""
    scales = STATISTIC_BYTES * s["R"] * ceil(s["C"] / s["GROUP"])
    return Amount(flops=4.0 * s["R"] * s["C"], bytes=s["R"] * s["C"] * (t.read + t.written) + scales)


def dequantization(s: Sizes, t: Types) -> Amount:
    """R C: one product an element; R C (r + w) + 4 R ceil(C/GROUP) for the scales read."""
    scales = STATISTIC_BYTES * s["R"] * ceil(s["C"] / s["GROUP"])
    return Amount(flops=float(s["R"] * s["C"]), bytes=s["R"] * s["C"] * (t.read + t.written) + scales)


def _norm(s: Sizes, t: Types, *, flops: int, parameters: int) -> Amount:
    elements = s["R"] * s["C"]
    moved = elements * (t.read + t.written) + parameters * s["C"] * t.read
    return Amount(flops=float(flops * elements), bytes=moved)


def _norm_backward(s: Sizes, t: Types, *, flops: int, parameters: int, statistics: int) -> Amount:
    elements, columns = s["R"] * s["C"], s["C"]
    read = (2 * elements + columns) * t.read + statistics * STATISTIC_BYTES * s["R"]
    return Amount(flops=float(flops * elements), bytes=read + (elements + parameters * columns) * t.written)
