"""Mixture of experts: T tokens of width D, E experts of inner width F, TOPK of them for each token."""

from ridgeline.graph.policy.operations.amount import Amount, Sizes, Types

CHOICE_BYTES = 8
"""One routed pair: the expert's number and its weight."""


def moe(s: Sizes, t: Types) -> Amount:
    """6 P D F + 2 T D E, P = T TOPK pairs; (T D + D E + 3 X D F) r + T D w + 8 P, X the experts that are hit.

    Gate, up and down projection, and the router; what lies between the products never leaves the chip. X = min(E, P),
    as under a uniform distribution; ACTIVE above 0 gives it for one that hits fewer.
    Raises ValueError for more choices than experts, or an ACTIVE that cannot be.
    """
    tokens, width, inner, experts, top = s["T"], s["D"], s["F"], s["E"], s["TOPK"]
    routed = tokens * top
    most = min(experts, routed)
    if not 1 <= top <= experts:
        raise ValueError(f"TOPK is {top} of {experts} experts")
    if s["ACTIVE"] and not top <= s["ACTIVE"] <= most:
        raise ValueError(f"ACTIVE is {s['ACTIVE']}; {top} to {most} experts can be hit")
    active = s["ACTIVE"] or most
    flops = 6.0 * routed * width * inner + 2.0 * tokens * width * experts
    read = (tokens * width + width * experts + 3 * active * width * inner) * t.read
    return Amount(flops=flops, bytes=read + tokens * width * t.written + CHOICE_BYTES * routed)
