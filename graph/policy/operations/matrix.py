"""Matrix products. A is M x K, B is K x N, C is M x N; `r` is the width of what is read, `w` of what is written."""

from math import ceil

from ridgeline.graph.policy.operations.amount import Amount, Sizes, Types

SCALE_BYTES = 4
"""One FP32 scale of a block-scaled product."""


def gemm(s: Sizes, t: Types) -> Amount:
    """2 M N K; (M K + K N) r + M N w."""
    m, n, k = s["M"], s["N"], s["K"]
    return Amount(flops=2.0 * m * n * k, bytes=(m * k + k * n) * t.read + m * n * t.written)


def batched_gemm(s: Sizes, t: Types) -> Amount:
    """B times gemm: 2 B M N K; B ((M K + K N) r + M N w), every member with operands of its own."""
    one = gemm(s, t)
    return Amount(flops=s["B"] * one.flops, bytes=s["B"] * one.bytes)


def grouped_gemm(s: Sizes, t: Types) -> Amount:
    """2 M N K with M the rows of all groups; (M K + G K N) r + M N w: each of the G groups reads its own B once."""
    m, n, k, g = s["M"], s["N"], s["K"], s["G"]
    return Amount(flops=2.0 * m * n * k, bytes=(m * k + g * k * n) * t.read + m * n * t.written)


def gemm_blockscaled(s: Sizes, t: Types) -> Amount:
    """2 M N K; gemm plus 4 (M kb + kb nb) bytes of FP32 scales, kb = ceil(K/BLOCK), nb = ceil(N/BLOCK).

    Tiles of A are 1 x BLOCK, those of B BLOCK x BLOCK. Rescaling the accumulator is work of the vector units beside
    the product and not counted.
    """
    plain, blocks = gemm(s, t), ceil(s["K"] / s["BLOCK"])
    scales = s["M"] * blocks + blocks * ceil(s["N"] / s["BLOCK"])
    return Amount(flops=plain.flops, bytes=plain.bytes + SCALE_BYTES * scales)


def gemm_w4a16(s: Sizes, t: Types) -> Amount:
    """2 M N K; M K r + K N / 2 + ceil(K/GROUP) N r + M N w: 4-bit weights, one scale of the wide type a group.

    Unpacking the weights is not counted as arithmetic: it is integer work beside the matrix units.
    """
    m, n, k = s["M"], s["N"], s["K"]
    weights = k * n / 2 + ceil(k / s["GROUP"]) * n * t.read
    return Amount(flops=2.0 * m * n * k, bytes=m * k * t.read + weights + m * n * t.written)


def gemm_backward(s: Sizes, t: Types) -> Amount:
    """4 M N K: dA = dC B' and dB = A' dC; (M K + K N + M N) r + (M K + K N) w, with dC read once."""
    m, n, k = s["M"], s["N"], s["K"]
    operands = m * k + k * n
    return Amount(flops=4.0 * m * n * k, bytes=(operands + m * n) * t.read + operands * t.written)


def matvec(s: Sizes, t: Types) -> Amount:
    """2 M K; (M K + K) r + M w."""
    m, k = s["M"], s["K"]
    return Amount(flops=2.0 * m * k, bytes=(m * k + k) * t.read + m * t.written)
