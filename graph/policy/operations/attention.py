"""Attention: B sequences, H query heads, HKV key and value heads of width D. Softmax is not counted as arithmetic."""

from math import ceil

from ridgeline.graph.policy.operations.amount import Amount, Sizes, Types

BLOCK_NUMBER_BYTES = 4
"""One entry of the block table of a paged cache."""
STATISTIC_BYTES = 4
"""Log-sum-exp of one row, kept in FP32 for the backward pass."""


def pairs(s: Sizes) -> int:
    """Query and key positions that meet: S SKV, and with a causal mask only keys that are not ahead of the query.

    The last query sees every key, as in a prefill that goes on after a cache: S (SKV - S) + S (S + 1) / 2.
    Raises ValueError for a causal mask with fewer keys than queries.
    """
    length, keys = s["S"], s["SKV"]
    if not s["CAUSAL"]:
        return length * keys
    if keys < length:
        raise ValueError(f"CAUSAL=1 needs SKV of at least S, found {keys} and {length}")
    return length * (keys - length) + length * (length + 1) // 2


def attention(s: Sizes, t: Types) -> Amount:
    """Prefill: 4 B H D pairs (Q K' and P V); (B H S D + 2 B HKV SKV D) r + B H S D w, scores never in memory."""
    queries, cached = _queries(s), 2 * s["B"] * s["HKV"] * s["SKV"] * s["D"]
    flops = 4.0 * s["B"] * s["H"] * s["D"] * pairs(s)
    return Amount(flops=flops, bytes=(queries + cached) * t.read + queries * t.written)


def attention_backward(s: Sizes, t: Types) -> Amount:
    """10 B H D pairs: five products, scores recomputed; reads Q K V O dO and 4 bytes a row, writes dQ dK dV."""
    queries, cached = _queries(s), 2 * s["B"] * s["HKV"] * s["SKV"] * s["D"]
    statistics = STATISTIC_BYTES * s["B"] * s["H"] * s["S"]
    moved = (3 * queries + cached) * t.read + (queries + cached) * t.written
    return Amount(flops=10.0 * s["B"] * s["H"] * s["D"] * pairs(s), bytes=moved + statistics)


def attention_decode(s: Sizes, t: Types) -> Amount:
    """One token a sequence over L cached ones: 4 B H L D; 2 B HKV L D r for the cache, 2 B H D w for Q and O."""
    cached = 2 * s["B"] * s["HKV"] * s["L"] * s["D"]
    flops = 4.0 * s["B"] * s["H"] * s["L"] * s["D"]
    return Amount(flops=flops, bytes=cached * t.read + 2 * s["B"] * s["H"] * s["D"] * t.written)


def attention_paged(s: Sizes, t: Types) -> Amount:
    """As attention_decode, plus the block table: 4 B ceil(L/PAGE) bytes.

    Only L tokens count, not what pads the last page.
    """
    plain = attention_decode(s, t)
    table = BLOCK_NUMBER_BYTES * s["B"] * ceil(s["L"] / s["PAGE"])
    return Amount(flops=plain.flops, bytes=plain.bytes + table)


def _queries(s: Sizes) -> int:
    return s["B"] * s["H"] * s["S"] * s["D"]
