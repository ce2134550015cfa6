"""What operators have to do at least: operations and bytes of a call by family and sizes, and how tiles fill a device."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from math import ceil
from typing import Literal

from ridgeline.graph.evidence import Ceilings
from ridgeline.graph.rules.roofline import require_below
from ridgeline.graph.values import Value

# What a call has to do at least: operations and bytes, and how wide an element of each type is.

BITS: Mapping[str, float] = {
    "fp64": 64,
    "fp32": 32,
    "tf32": 32,
    "bf16": 16,
    "fp16": 16,
    "fp8": 8,
    "int8": 8,
    "mxfp8": 8 + 8 / 32,
    "fp6": 6,
    "mxfp6": 6 + 8 / 32,
    "fp4": 4,
    "int4": 4,
    "mxfp4": 4 + 8 / 32,
    "nvfp4": 4 + 8 / 16,
}
"""Bits of one stored element. Block formats carry one 8-bit scale for 32 elements, NVFP4 one for 16."""
ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("float64", "double", "f64"), "fp64"),
    **dict.fromkeys(("float32", "float", "f32"), "fp32"),
    **dict.fromkeys(("float16", "half", "f16"), "fp16"),
    "bfloat16": "bf16",
    **dict.fromkeys(("f8", "e4m3", "e5m2", "float8", "fp8_e4m3", "fp8_e5m2", "bf8"), "fp8"),
}
Sizes = Mapping[str, int]
"""Name of a dimension, as the family declares it, and its extent."""


class Types(Value):
    """Element types of one call."""

    main: str
    """Of what the operator reads; of the cache for attention over one."""
    out: str
    """Of what it writes."""

    @property
    def read_bytes(self) -> float:
        """Bytes of one element that is read."""
        return BITS[self.main] / 8

    @property
    def written_bytes(self) -> float:
        """Bytes of one element that is written."""
        return BITS[self.out] / 8


class Amount(Value):
    """Least work of one call: every input read once, every output written once, nothing kept between calls."""

    flops: float
    """Arithmetic operations; a fused multiply-add counts as two."""
    bytes: float

    @property
    def intensity(self) -> float | None:
        """Operations per byte; None where nothing moves."""
        return self.flops / self.bytes if self.bytes else None


def canonical(dtype: str) -> str:
    """The name that `BITS` has for a type. Raises ValueError for one that it does not have."""
    plain = dtype.strip().lower()
    name = ALIASES.get(plain, plain)
    if name not in BITS:
        raise ValueError(f"unknown type {dtype!r}; known are {', '.join(BITS)}")
    return name


# Attention: B sequences, H query heads, HKV key and value heads of width D. Softmax is not counted as arithmetic.

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
    return Amount(flops=flops, bytes=(queries + cached) * t.read_bytes + queries * t.written_bytes)


def attention_backward(s: Sizes, t: Types) -> Amount:
    """10 B H D pairs: five products, scores recomputed; reads Q K V O dO and 4 bytes a row, writes dQ dK dV."""
    queries, cached = _queries(s), 2 * s["B"] * s["HKV"] * s["SKV"] * s["D"]
    statistics = STATISTIC_BYTES * s["B"] * s["H"] * s["S"]
    bytes_moved = (3 * queries + cached) * t.read_bytes + (queries + cached) * t.written_bytes
    return Amount(flops=10.0 * s["B"] * s["H"] * s["D"] * pairs(s), bytes=bytes_moved + statistics)


def attention_decode(s: Sizes, t: Types) -> Amount:
    """One token a sequence over L cached ones: 4 B H L D; 2 B HKV L D r for the cache, 2 B H D w for Q and O."""
    cached = 2 * s["B"] * s["HKV"] * s["L"] * s["D"]
    flops = 4.0 * s["B"] * s["H"] * s["L"] * s["D"]
    return Amount(flops=flops, bytes=cached * t.read_bytes + 2 * s["B"] * s["H"] * s["D"] * t.written_bytes)


def attention_paged(s: Sizes, t: Types) -> Amount:
    """As attention_decode, plus the block table: 4 B ceil(L/PAGE) bytes.

    Only L tokens count, not what pads the last page.
    """
    plain = attention_decode(s, t)
    table = BLOCK_NUMBER_BYTES * s["B"] * ceil(s["L"] / s["PAGE"])
    return Amount(flops=plain.flops, bytes=plain.bytes + table)


def _queries(s: Sizes) -> int:
    """Elements of the queries of attention."""
    return s["B"] * s["H"] * s["S"] * s["D"]


# Matrix products. A is M x K, B is K x N, C is M x N; `r` is the width of what is read, `w` of what is written.

SCALE_BYTES = 4
"""One FP32 scale of a block-scaled product."""


def gemm(s: Sizes, t: Types) -> Amount:
    """2 M N K; (M K + K N) r + M N w."""
    m, n, k = s["M"], s["N"], s["K"]
    return Amount(flops=2.0 * m * n * k, bytes=(m * k + k * n) * t.read_bytes + m * n * t.written_bytes)


def batched_gemm(s: Sizes, t: Types) -> Amount:
    """B times gemm: 2 B M N K; B ((M K + K N) r + M N w), every member with operands of its own."""
    amount = gemm(s, t)
    return Amount(flops=s["B"] * amount.flops, bytes=s["B"] * amount.bytes)


def grouped_gemm(s: Sizes, t: Types) -> Amount:
    """2 M N K with M the rows of all groups; (M K + G K N) r + M N w: each of the G groups reads its own B once."""
    m, n, k, g = s["M"], s["N"], s["K"], s["G"]
    return Amount(flops=2.0 * m * n * k, bytes=(m * k + g * k * n) * t.read_bytes + m * n * t.written_bytes)


def gemm_blockscaled(s: Sizes, t: Types) -> Amount:
    """2 M N K; gemm plus 4 (M kb + kb nb) bytes of FP32 scales, kb = ceil(K/BLOCK), nb = ceil(N/BLOCK).

    Tiles of A are 1 x BLOCK, those of B BLOCK x BLOCK. Rescaling the accumulator is work of the vector units beside
    the product and not counted.
    """
    plain, blocks = gemm(s, t), ceil(s["K"] / s["BLOCK"])
    scales = s["M"] * blocks + blocks * ceil(s["N"] / s["BLOCK"])
    return Amount(flops=plain.flops, bytes=plain.bytes + SCALE_BYTES * scales)


def gemm_mxfp4(s: Sizes, t: Types) -> Amount:
    """2 M N K; (M + N) (K / 2 + ceil(K/32)) + M N w: 4-bit elements, one E8M0 byte for 32 of them along K.

    Source: CUTLASS, blackwell_functionality.md (`mx_float4_t`: E2M1, scale `float_ue8m0_t`, vector size 32). What pads
    a layout of scales is not counted.
    """
    return _gemm_of_4_bits(s, t, block=32, tensor_bytes=0)


def gemm_nvfp4(s: Sizes, t: Types) -> Amount:
    """2 M N K; (M + N) (K / 2 + ceil(K/16)) + 8 + M N w: an E4M3 byte for 16 along K, an FP32 scale a tensor.

    Source: Transformer Engine, nvfp4.rst (x = e2m1 times a block's E4M3 scale times one FP32 scale of the tensor).
    """
    return _gemm_of_4_bits(s, t, block=16, tensor_bytes=2 * SCALE_BYTES)


def gemm_w4a16(s: Sizes, t: Types) -> Amount:
    """2 M N K; M K r + K N / 2 + ceil(K/GROUP) N r + M N w: 4-bit weights, one scale of the wide type a group.

    Unpacking the weights is not counted as arithmetic: it is integer work beside the matrix units.
    """
    m, n, k = s["M"], s["N"], s["K"]
    weights = k * n / 2 + ceil(k / s["GROUP"]) * n * t.read_bytes
    return Amount(flops=2.0 * m * n * k, bytes=m * k * t.read_bytes + weights + m * n * t.written_bytes)


def gemm_backward(s: Sizes, t: Types) -> Amount:
    """4 M N K: dA = dC B' and dB = A' dC; (M K + K N + M N) r + (M K + K N) w, with dC read once."""
    m, n, k = s["M"], s["N"], s["K"]
    operands = m * k + k * n
    return Amount(flops=4.0 * m * n * k, bytes=(operands + m * n) * t.read_bytes + operands * t.written_bytes)


def matvec(s: Sizes, t: Types) -> Amount:
    """2 M K; (M K + K) r + M w."""
    m, k = s["M"], s["K"]
    return Amount(flops=2.0 * m * k, bytes=(m * k + k) * t.read_bytes + m * t.written_bytes)


def _gemm_of_4_bits(s: Sizes, t: Types, *, block: int, tensor_bytes: int) -> Amount:
    """Work of a product whose operands are 4-bit elements with a byte of scale for `block` of them along K."""
    m, n, k = s["M"], s["N"], s["K"]
    operands = (m + n) * (k / 2 + ceil(k / block)) + tensor_bytes
    return Amount(flops=2.0 * m * n * k, bytes=operands + m * n * t.written_bytes)


# Convolution, direct: N images of C channels, H x W, K filters of R x S taps. What lies in the padding costs nothing.


class Span(Value):
    """One dimension of a convolution."""

    outputs: int
    taps: int
    """Pairs of an output and a tap of its filter that meet inside the image."""
    touched: int
    """Positions of the image that some tap meets."""


def span(extent: int, filter_taps: int, *, stride: int, pad: int, dilation: int) -> Span:
    """Outputs p and taps r meet at p stride - pad + r dilation. Raises ValueError for a filter that does not fit."""
    outputs = (extent + 2 * pad - dilation * (filter_taps - 1) - 1) // stride + 1
    if outputs < 1:
        raise ValueError(f"a filter of {filter_taps} taps, {dilation} apart, is longer than {extent} + 2 x {pad}")
    taps = touched = 0
    last_by_phase: dict[int, int] = {}
    for tap in range(filter_taps):
        start = tap * dilation - pad
        low, high = max(0, -(start // stride)), min(outputs - 1, (extent - 1 - start) // stride)
        if low > high:
            continue
        taps += high - low + 1
        # Positions of one tap are `stride` apart: those that an earlier tap met are not counted again.
        phase, end = start % stride, start + high * stride
        begin = max(start + low * stride, last_by_phase.get(phase, -stride) + stride)
        touched += max(0, (end - begin) // stride + 1)
        last_by_phase[phase] = max(end, last_by_phase.get(phase, end))
    return Span(outputs=outputs, taps=taps, touched=touched)


def conv2d(s: Sizes, t: Types) -> Amount:
    """2 N K C/GROUPS TH TW; (N C XH XW + K C/GROUPS R S) r + N K P Q w; T: taps inside the image, X: what they meet.

    P = (H + 2 PAD - DILATION (R - 1) - 1) // STRIDE + 1, Q alike, as torch.nn.Conv2d defines them. Without padding
    TH = P R; a stride that is longer than the filter leaves rows that no tap meets. PAD is on each side.
    Raises ValueError where GROUPS divides C or K with a rest, or the filter does not fit.
    """
    rows, columns = (_image_span(s, side, side_taps) for side, side_taps in (("H", "R"), ("W", "S")))
    weights = s["K"] * _channels_of_group(s) * s["R"] * s["S"]
    taken, made = s["N"] * s["C"] * rows.touched * columns.touched, s["N"] * s["K"] * rows.outputs * columns.outputs
    flops = 2.0 * s["N"] * s["K"] * _channels_of_group(s) * rows.taps * columns.taps
    return Amount(flops=flops, bytes=(taken + weights) * t.read_bytes + made * t.written_bytes)


def conv2d_depthwise(s: Sizes, t: Types) -> Amount:
    """conv2d with GROUPS = K = C: 2 N C TH TW; (N C XH XW + C R S) r + N C P Q w, a filter for each channel."""
    return conv2d({**s, "K": s["C"], "GROUPS": s["C"]}, t)


def conv2d_transposed(s: Sizes, t: Types) -> Amount:
    """2 N C K/GROUPS TH TW; (N C H W + C K/GROUPS R S) r + N K P Q w, P = (H - 1) STRIDE - 2 PAD + R and Q alike.

    The gradient of conv2d by its input: T are the taps of the convolution that makes H x W of P x Q.
    Raises ValueError as conv2d does, and for a padding that leaves no output.
    """
    plain = {"STRIDE": s["STRIDE"], "PAD": s["PAD"], "DILATION": 1}
    made = {side: (s[side] - 1) * s["STRIDE"] - 2 * s["PAD"] + s[taps] for side, taps in (("H", "R"), ("W", "S"))}
    if min(made.values()) < 1:
        raise ValueError(f"PAD={s['PAD']} leaves no output")
    rows, columns = (_image_span({**s, **plain, **made}, side, taps) for side, taps in (("H", "R"), ("W", "S")))
    of_group = _channels_of_group({**s, "C": s["K"], "K": s["C"]})
    flops = 2.0 * s["N"] * s["C"] * of_group * rows.taps * columns.taps
    taken = s["N"] * s["C"] * s["H"] * s["W"] + s["C"] * of_group * s["R"] * s["S"]
    return Amount(flops=flops, bytes=taken * t.read_bytes + s["N"] * s["K"] * made["H"] * made["W"] * t.written_bytes)


def _image_span(s: Sizes, side: str, side_taps: str) -> Span:
    """One side of the image of a convolution."""
    return span(s[side], s[side_taps], stride=s["STRIDE"], pad=s["PAD"], dilation=s["DILATION"])


def _channels_of_group(s: Sizes) -> int:
    """Channels that one filter reads. Raises ValueError for groups that do not divide both kinds of channels."""
    if s["C"] % s["GROUPS"] or s["K"] % s["GROUPS"]:
        raise ValueError(f"GROUPS={s['GROUPS']} must divide C={s['C']} and K={s['K']}")
    return s["C"] // s["GROUPS"]


# Layers with a state in place of a cache: B sequences of S tokens, H heads, each with a state that tokens update. Decay is
# not counted as arithmetic. A chunked form does more: its products within chunks come on top of those with the state.

STATE_BYTES = 4
"""One element of a state in memory, kept in FP32."""


def ssd(s: Sizes, t: Types) -> Amount:
    """Mamba2: 4 B S H P N; B S (H P + 2 G N + H) r + B S H P w + 4 (STATES B H P N + H), states N x P of G groups.

    A token updates the state (2 P N) and reads it (2 P N); B S (S + 1) (G N + H P) of the masked product (C B') X where
    that is less and STATES=0. Reads X, B, C, dt and A; STATES: how many times states pass memory, 1 for the last one
    kept, 2 for the first one read too, as in decoding (S=1). Chunks of Q tokens add (Q + 1) (G N + H P) a token.
    Source: arXiv 2405.21060, Listing 1, and mamba_ssm's ssd_minimal.py.
    """
    tokens, heads, width, state, groups = s["B"] * s["S"], s["H"], s["P"], s["N"], s["G"]
    recurrent = 4.0 * tokens * heads * width * state
    masked = 1.0 * tokens * (s["S"] + 1) * (groups * state + heads * width)
    read_bytes = tokens * (heads * width + 2 * groups * state + heads) * t.read_bytes
    kept = STATE_BYTES * (s["STATES"] * s["B"] * heads * width * state + heads)
    flops = recurrent if s["STATES"] else min(recurrent, masked)
    return Amount(flops=flops, bytes=read_bytes + tokens * heads * width * t.written_bytes + kept)


def linear_attention(s: Sizes, t: Types) -> Amount:
    """4 B S H DK DV; B S H (2 DK + DV) r + B S H DV w + 4 STATES B H DK DV: state S + k v', read by q.

    Or B S (S + 1) H (DK + DV) of the masked product (Q K') V where that is less and STATES=0; STATES as in ssd.
    """
    tokens, key, value = s["B"] * s["S"] * s["H"], s["DK"], s["DV"]
    recurrent, masked = 4.0 * tokens * key * value, 1.0 * tokens * (s["S"] + 1) * (key + value)
    kept = STATE_BYTES * s["STATES"] * s["B"] * s["H"] * key * value
    moved = tokens * ((2 * key + value) * t.read_bytes + value * t.written_bytes)
    return Amount(flops=recurrent if s["STATES"] else min(recurrent, masked), bytes=moved + kept)


def gated_delta_rule(s: Sizes, t: Types) -> Amount:
    """6 B S H DK DV; B S (2 HK DK + H DV + 2 H) r + B S H DV w + 4 STATES B H DK DV: S k, correction, S q.

    A token reads the state by its key, adds the outer product of the key and beta (v - S k), and reads it by its query;
    2 B S S (HK DK + H DV) of the triangular form where that is less and STATES=0. Decay g and beta are one number a
    token and head. Source: arXiv 2412.06464; flash-linear-attention, ops/gated_delta_rule/fused_recurrent.py.
    Raises ValueError where the heads of values are no multiple of those of keys.
    """
    tokens, heads, key_heads = s["B"] * s["S"], s["H"], s["HK"]
    if heads % key_heads:
        raise ValueError(f"H={heads} heads of values are no multiple of HK={key_heads} heads of keys")
    keys, values = key_heads * s["DK"], heads * s["DV"]
    recurrent, masked = 6.0 * tokens * s["DK"] * values, 2.0 * tokens * s["S"] * (keys + values)
    kept = STATE_BYTES * s["STATES"] * s["B"] * s["DK"] * values
    moved = tokens * ((2 * keys + values + 2 * heads) * t.read_bytes + values * t.written_bytes)
    return Amount(flops=recurrent if s["STATES"] else min(recurrent, masked), bytes=moved + kept)


# Mixture of experts: T tokens of width D, E experts of inner width F, TOPK of them for each token.

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
    read_bytes = (tokens * width + width * experts + 3 * active * width * inner) * t.read_bytes
    return Amount(flops=flops, bytes=read_bytes + tokens * width * t.written_bytes + CHOICE_BYTES * routed)


# Row-wise and element-wise operators on R rows of C columns; each read once and written once.


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
    return Amount(flops=5.0 * s["R"] * s["C"], bytes=s["R"] * s["C"] * (t.read_bytes + t.written_bytes))


def softmax_backward(s: Sizes, t: Types) -> Amount:
    """4 R C: product, sum, subtract, product; reads y and dy, writes dx: R C (2 r + w)."""
    return Amount(flops=4.0 * s["R"] * s["C"], bytes=s["R"] * s["C"] * (2 * t.read_bytes + t.written_bytes))


def reduction(s: Sizes, t: Types) -> Amount:
    """R (C - 1): one result a row; R C r + R w."""
    return Amount(flops=float(s["R"] * (s["C"] - 1)), bytes=s["R"] * s["C"] * t.read_bytes + s["R"] * t.written_bytes)


def scan(s: Sizes, t: Types) -> Amount:
    """R (C - 1): prefix of every row; R C (r + w)."""
    return Amount(flops=float(s["R"] * (s["C"] - 1)), bytes=s["R"] * s["C"] * (t.read_bytes + t.written_bytes))


def elementwise(s: Sizes, t: Types) -> Amount:
    """OPS N operations on INPUTS tensors of N elements; N (INPUTS r + w)."""
    return Amount(flops=float(s["OPS"] * s["N"]), bytes=s["N"] * (s["INPUTS"] * t.read_bytes + t.written_bytes))


def copy(s: Sizes, t: Types) -> Amount:
    """No arithmetic; N (r + w): bytes read plus bytes written."""
    return Amount(flops=0.0, bytes=s["N"] * (t.read_bytes + t.written_bytes))


def quantization(s: Sizes, t: Types) -> Amount:
    """4 R C: absolute value, maximum, scale, convert; R C (r + w) + 4 R ceil(C/GROUP) for the scales written."""
    scales = STATISTIC_BYTES * s["R"] * ceil(s["C"] / s["GROUP"])
    return Amount(flops=4.0 * s["R"] * s["C"], bytes=s["R"] * s["C"] * (t.read_bytes + t.written_bytes) + scales)


def dequantization(s: Sizes, t: Types) -> Amount:
    """R C: one product an element; R C (r + w) + 4 R ceil(C/GROUP) for the scales read."""
    scales = STATISTIC_BYTES * s["R"] * ceil(s["C"] / s["GROUP"])
    return Amount(flops=float(s["R"] * s["C"]), bytes=s["R"] * s["C"] * (t.read_bytes + t.written_bytes) + scales)


def rope_kv_write(s: Sizes, t: Types) -> Amount:
    """3 T (H + HKV) ROT; T (2 H ROT + 2 HKV D + ROT) r + 2 T HKV D w + 8 T: Q in place, K rotated and V into the cache.

    Six operations turn a pair of elements. Each token reads a row of sines and cosines, its position and its place in
    the cache (4 bytes each); of Q the ROT elements of a head that turn are read and written, and `w` is the cache's type.
    Source: vLLM, csrc/pos_encoding_kernels.cu (a row of the table is ROT wide). Raises ValueError for a ROT above D.
    """
    tokens, rotary, width = s["T"], s["ROT"], s["D"]
    if rotary > width:
        raise ValueError(f"ROT={rotary} is more than the head's width D={width}")
    cached = 2 * tokens * s["HKV"] * width
    read_bytes = (tokens * (2 * s["H"] * rotary + rotary) + cached) * t.read_bytes
    flops = 3.0 * tokens * (s["H"] + s["HKV"]) * rotary
    return Amount(flops=flops, bytes=read_bytes + cached * t.written_bytes + 2 * INDEX_BYTES * tokens)


# Selection and loss on R rows of C classes; indices are 4 bytes wide, as are random numbers.

INDEX_BYTES = 4
"""A class, a position or a place in a cache."""


def topk(s: Sizes, t: Types) -> Amount:
    """R (C - 1) comparisons; R C r + R K (w + 4): the K best of every row and their positions.

    Fewer comparisons leave an element that no chain of them sets against the K-th. Raises ValueError for K above C.
    """
    rows, columns, best = s["R"], s["C"], s["K"]
    if best > columns:
        raise ValueError(f"K is {best} of {columns} columns")
    moved = rows * columns * t.read_bytes + rows * best * (t.written_bytes + INDEX_BYTES)
    return Amount(flops=float(rows * (columns - 1)), bytes=moved)


def sampling(s: Sizes, t: Types) -> Amount:
    """6 R C: temperature, maximum, subtract, exponential, sum, select; R C r + 8 R: one random number, one token a row.

    Top-k and top-p choose among the same logits and need no byte more. Source: FlashInfer, "Sorting-Free GPU Kernels
    for LLM Sampling" (selection without a sort; rounds of rejection that read again are above this bound).
    """
    return Amount(flops=6.0 * s["R"] * s["C"], bytes=s["R"] * s["C"] * t.read_bytes + 2 * INDEX_BYTES * s["R"])


def cross_entropy(s: Sizes, t: Types) -> Amount:
    """4 R C: maximum, subtract, exponential, sum; R C r + 4 R + R w: logits and a target in, a loss a row out."""
    moved = s["R"] * s["C"] * t.read_bytes + s["R"] * (INDEX_BYTES + t.written_bytes)
    return Amount(flops=4.0 * s["R"] * s["C"], bytes=moved)


def cross_entropy_fused(s: Sizes, t: Types) -> Amount:
    """5 R C, as forward and a product; R C (r + w) + 8 R: logits read once, their gradient written, and the loss.

    Holds where a row stays on chip between its sum and its gradient; two passes read the logits twice.
    Source: Liger-Kernel, ops/cross_entropy.py (gradient in the forward pass, in place of the logits).
    """
    elements = s["R"] * s["C"]
    moved = elements * (t.read_bytes + t.written_bytes) + (INDEX_BYTES + STATISTIC_BYTES) * s["R"]
    return Amount(flops=5.0 * elements, bytes=moved)


def allreduce_rmsnorm(s: Sizes, t: Types) -> Amount:
    """R C (5 + (RANKS - 1) / RANKS) on each device; R C (2 r + 2 w) + C r: partial sum, residual, sum and norm.

    Each device adds its share of the sum, adds the residual (1) and normalises (4). Links carry 2 (RANKS - 1) / RANKS R C r
    from each device: source nccl-tests, doc/PERFORMANCE.md, AllReduce. Raises ValueError for fewer than two RANKS.
    """
    if s["RANKS"] < 2:
        raise ValueError("RANKS is 1; an all-reduce needs 2 or more")
    elements, others = s["R"] * s["C"], s["RANKS"] - 1
    moved = 2 * elements * (t.read_bytes + t.written_bytes) + s["C"] * t.read_bytes
    return Amount(flops=elements * (5 + others / s["RANKS"]), bytes=moved)


def _norm(s: Sizes, t: Types, *, flops: int, parameters: int) -> Amount:
    """Work of a normalisation by rows: `flops` an element, `parameters` vectors read."""
    elements = s["R"] * s["C"]
    bytes_moved = elements * (t.read_bytes + t.written_bytes) + parameters * s["C"] * t.read_bytes
    return Amount(flops=float(flops * elements), bytes=bytes_moved)


def _norm_backward(s: Sizes, t: Types, *, flops: int, parameters: int, statistics: int) -> Amount:
    """Work of its gradient, which reads `statistics` numbers a row."""
    elements, columns = s["R"] * s["C"], s["C"]
    read_bytes = (2 * elements + columns) * t.read_bytes + statistics * STATISTIC_BYTES * s["R"]
    return Amount(flops=float(flops * elements), bytes=read_bytes + (elements + parameters * columns) * t.written_bytes)


# Operator families by name: what their sizes are called, and which units of a device can do the arithmetic.

Units = Literal["matrix", "vector"]
Formula = Callable[[Sizes, Types], Amount]
ZERO_ALLOWED = frozenset({"CAUSAL", "ACTIVE", "OPS", "PAD", "STATES"})


class Family(Value):
    """One operator family."""

    name: str
    sizes: tuple[str, ...]
    """Dimensions in the order in which they are given."""
    defaults: tuple[tuple[str, int | str], ...] = ()
    """Dimensions that may be left out, last ones first; a text is the dimension it is then equal to."""
    units: Units
    """matrix: the device's matrix units; vector: none of its data flow fits them."""
    out: str = "same"
    """Type of what is written where nobody says: `same` as read (but 16 bits for products of narrow types)."""
    reads: tuple[str, ...] = ()
    """Types that it can read; any where empty."""
    caveat: str = ""
    """What the two ceilings of a device do not say of it."""
    formula: str
    """First sentence of the function's documentation."""


class SizeError(ValueError):
    """Sizes or types that no call of the family can have; the message says what may be written."""


_HEADS = ("B", "H", "S", "D", "HKV", "CAUSAL", "SKV")
_HEADS_DEFAULTS: tuple[tuple[str, int | str], ...] = (("HKV", "H"), ("CAUSAL", 0), ("SKV", "S"))
_ROWS = ("R", "C")
_DECODE = ("B", "H", "L", "D", "HKV")
_GROUPS: tuple[tuple[str, int | str], ...] = (("GROUP", 128),)
_STATES: tuple[tuple[str, int | str], ...] = (("STATES", 0),)
_IMAGE = ("N", "C", "H", "W")
_FILTER: tuple[tuple[str, int | str], ...] = (("S", "R"), ("STRIDE", 1), ("PAD", 0))
_DIRECT = "the floor is that of a direct convolution; Winograd's and Fourier's algorithms multiply less"
_LINKS = "links: the all-reduce is bound by the links between devices too, and no ceiling here is theirs"


def _family(
    formula: Formula,
    sizes: tuple[str, ...],
    *,
    units: Units,
    defaults: tuple[tuple[str, int | str], ...] = (),
    out: str = "same",
    reads: tuple[str, ...] = (),
    caveat: str = "",
) -> tuple[Family, Formula]:
    """A family and its formula, whose docstring's first line is what people read."""
    family = Family(
        name=formula.__name__,
        sizes=sizes,
        defaults=defaults,
        units=units,
        out=out,
        reads=reads,
        caveat=caveat,
        formula=(formula.__doc__ or "").strip().splitlines()[0].rstrip("."),
    )
    return family, formula


_ALL: tuple[tuple[Family, Formula], ...] = (
    _family(gemm, ("M", "N", "K"), units="matrix"),
    _family(batched_gemm, ("B", "M", "N", "K"), units="matrix"),
    _family(grouped_gemm, ("G", "M", "N", "K"), units="matrix"),
    _family(gemm_blockscaled, ("M", "N", "K", "BLOCK"), defaults=(("BLOCK", 128),), units="matrix"),
    _family(gemm_mxfp4, ("M", "N", "K"), units="matrix", reads=("mxfp4", "fp4")),
    _family(gemm_nvfp4, ("M", "N", "K"), units="matrix", reads=("nvfp4", "fp4")),
    _family(gemm_w4a16, ("M", "N", "K", "GROUP"), defaults=_GROUPS, units="matrix"),
    _family(gemm_backward, ("M", "N", "K"), units="matrix"),
    _family(matvec, ("M", "K"), units="matrix"),
    _family(attention, _HEADS, defaults=_HEADS_DEFAULTS, units="matrix"),
    _family(attention_backward, _HEADS, defaults=_HEADS_DEFAULTS, units="matrix"),
    _family(attention_decode, _DECODE, defaults=(("HKV", "H"),), units="matrix"),
    _family(attention_paged, (*_DECODE, "PAGE"), defaults=(("HKV", "H"), ("PAGE", 16)), units="matrix"),
    _family(moe, ("T", "D", "F", "E", "TOPK", "ACTIVE"), defaults=(("ACTIVE", 0),), units="matrix"),
    _family(
        conv2d,
        (*_IMAGE, "K", "R", "S", "STRIDE", "PAD", "DILATION", "GROUPS"),
        defaults=(*_FILTER, ("DILATION", 1), ("GROUPS", 1)),
        units="matrix",
        caveat=_DIRECT,
    ),
    _family(
        conv2d_depthwise,
        (*_IMAGE, "R", "S", "STRIDE", "PAD", "DILATION"),
        defaults=(*_FILTER, ("DILATION", 1)),
        units="vector",
        caveat=_DIRECT,
    ),
    _family(
        conv2d_transposed,
        (*_IMAGE, "K", "R", "S", "STRIDE", "PAD", "GROUPS"),
        defaults=(*_FILTER, ("GROUPS", 1)),
        units="matrix",
        caveat=_DIRECT,
    ),
    _family(ssd, ("B", "S", "H", "P", "N", "G", "STATES"), defaults=(("G", 1), *_STATES), units="matrix"),
    _family(linear_attention, ("B", "S", "H", "DK", "DV", "STATES"), defaults=_STATES, units="matrix"),
    _family(
        gated_delta_rule,
        ("B", "S", "H", "DK", "DV", "HK", "STATES"),
        defaults=(("HK", "H"), *_STATES),
        units="matrix",
    ),
    _family(layernorm, _ROWS, units="vector"),
    _family(layernorm_backward, _ROWS, units="vector"),
    _family(rmsnorm, _ROWS, units="vector"),
    _family(rmsnorm_backward, _ROWS, units="vector"),
    _family(softmax, _ROWS, units="vector"),
    _family(softmax_backward, _ROWS, units="vector"),
    _family(reduction, _ROWS, units="vector"),
    _family(scan, _ROWS, units="vector"),
    _family(topk, ("R", "C", "K"), units="vector"),
    _family(sampling, _ROWS, units="vector"),
    _family(cross_entropy, _ROWS, units="vector", out="fp32"),
    _family(cross_entropy_fused, _ROWS, units="vector"),
    _family(allreduce_rmsnorm, ("R", "C", "RANKS"), units="vector", caveat=_LINKS),
    _family(rope_kv_write, ("T", "H", "D", "HKV", "ROT"), defaults=(("HKV", "H"), ("ROT", "D")), units="vector"),
    _family(elementwise, ("N", "INPUTS", "OPS"), defaults=(("INPUTS", 1), ("OPS", 1)), units="vector"),
    _family(quantization, ("R", "C", "GROUP"), defaults=_GROUPS, units="vector", out="fp8"),
    _family(dequantization, ("R", "C", "GROUP"), defaults=_GROUPS, units="vector", out="bf16"),
    _family(copy, ("N",), units="vector"),
)
FAMILIES: Mapping[str, Family] = {family.name: family for family, _ in _ALL}
_FORMULAS: Mapping[str, Formula] = {family.name: formula for family, formula in _ALL}
SAME_NAME: Mapping[str, str] = {
    "matmul": "gemm",
    "gemv": "matvec",
    "attention_prefill": "attention",
    "flash_attention": "attention",
    "gemm_fp8_blockwise": "gemm_blockscaled",
    "w4a16": "gemm_w4a16",
    "conv": "conv2d",
    "depthwise_conv2d": "conv2d_depthwise",
    "conv_transpose2d": "conv2d_transposed",
    "mamba2": "ssd",
    "gated_delta": "gated_delta_rule",
    "gated_deltanet": "gated_delta_rule",
    "rope": "rope_kv_write",
    "fused_cross_entropy": "cross_entropy_fused",
    "sum": "reduction",
    "cumsum": "scan",
    "quantize": "quantization",
    "dequantize": "dequantization",
}


def family(name: str) -> Family:
    """By its name or one of the common others. Raises SizeError."""
    plain = name.strip().lower().replace("-", "_")
    family = FAMILIES.get(SAME_NAME.get(plain, plain))
    if family is None:
        close = get_close_matches(plain, [*FAMILIES, *SAME_NAME], n=1)
        raise SizeError(f"unknown operator {name!r}; {_meant(close)}")
    return family


def types(family: Family, dtype: str, out: str | None = None) -> Types:
    """Element types of a call. Raises SizeError for a type that has no known width."""
    try:
        main = canonical(dtype)
        written = None if out is None else canonical(out)
    except ValueError as error:
        raise SizeError(str(error)) from error
    if family.reads and main not in family.reads:
        raise SizeError(f"{family.name} reads {' or '.join(family.reads)}, not {main}")
    if written is not None:
        return Types(main=main, out=written)
    if family.out != "same":
        return Types(main=main, out=family.out)
    narrow = family.units == "matrix" and BITS[main] < 16
    return Types(main=main, out="bf16" if narrow else main)


def sizes(family: Family, words: Sequence[str]) -> dict[str, int]:
    """Words such as `4096` in the family's order, or `K=4096` by name; defaults are filled in. Raises SizeError."""
    by_name: dict[str, int] = {}
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        key = name.strip().upper() if equals else _at(family, position)
        if key not in family.sizes or key in by_name:
            wrong = "given twice" if key in by_name else "no size of this operator"
            raise SizeError(f"{word!r} is {wrong}; {usage(family)}")
        by_name[key] = _require_integer(key, value if equals else word)
    for key, default in family.defaults:
        source = by_name.get(default) if isinstance(default, str) else default
        if key not in by_name and source is not None:
            by_name[key] = source
    if missing := [key for key in family.sizes if key not in by_name]:
        raise SizeError(f"{', '.join(missing)} missing; {usage(family)}")
    return {key: by_name[key] for key in family.sizes}


def amount(family: Family, dimensions: Sizes, of: Types) -> Amount:
    """Least operations and bytes of one call. Raises SizeError for sizes that contradict each other."""
    try:
        return _FORMULAS[family.name](dimensions, of)
    except ValueError as error:
        raise SizeError(f"{family.name}: {error}") from error


def usage(family: Family) -> str:
    """How its sizes are written, for example `gemm takes M,N,K`."""
    optional = dict(family.defaults)
    words = [f"[{name}={optional[name]}]" if name in optional else name for name in family.sizes]
    return f"{family.name} takes {','.join(words)}"


def _meant(close: Sequence[str]) -> str:
    """Advice for an unknown name: the closest one, or all."""
    return f"did you mean {close[0]!r}?" if close else f"one of {', '.join(FAMILIES)}"


def _at(family: Family, position: int) -> str:
    """The family's size at a position. Raises SizeError beyond the last."""
    if position >= len(family.sizes):
        raise SizeError(f"{position + 1} or more sizes; {usage(family)}")
    return family.sizes[position]


def _require_integer(key: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise SizeError(f"{key} is {text.strip()!r}; give a whole number") from None
    if number < (0 if key in ZERO_ALLOWED else 1):
        raise SizeError(f"{key} is {number}; it must be {'0 or' if key in ZERO_ALLOWED else '1 or'} more")
    return number


# How a grid of equal tiles fills the units of a device, and what that alone costs.

NORMAL, LOW = 0.5, 0.1
"""Tiles per unit from which a grid is called normal, and from which low; below that the tiling is mended first."""
Fill = Literal["normal", "low", "too few tiles"]


class Wave(Value):
    """A grid on a device. Ceilings in units of 1e9 operations a second."""

    grid: int
    """Tiles of the whole call."""
    units: int
    """Compute units or multiprocessors; one tile at a time on each."""
    waves: int
    filled: float
    """Share of the places in all waves that have a tile, at most 1."""
    fill: Fill
    kernel_time_us: float
    """The arithmetic of all waves at the peak; no schedule of these tiles is faster."""
    ceiling_gflops: float
    """Operations of the call over that time: the peak less what the last wave leaves idle."""
    no_reuse_time_us: float | None
    """The same where every tile reads its operands from memory itself; None without a bandwidth. No bound: tiles that
    share an operand find it in the L2."""
    no_reuse_gflops: float | None


def wave(*, grid: int, units: int, call: Amount, tile: Amount, ceilings: Ceilings, source: str) -> Wave:
    """What `grid` tiles cost on `units` units: kernel time = ceil(grid / units) x the time of one tile on one unit.

    A unit has its share of the peak and of the bandwidth. `source` is where the peak stands. Raises ValueError without
    a compute peak or arithmetic, and CeilingError for a ceiling above the peak: then the tiles do less than the call.
    """
    if ceilings.flops_gflops is None or not call.flops:
        raise ValueError("a ceiling of waves needs a known compute peak and an operator that computes")
    count = ceil(grid / units)
    compute_us = tile.flops / (ceilings.flops_gflops / units * 1e3)
    memory_us = tile.bytes / (ceilings.copy_gbps / units * 1e3) if ceilings.copy_gbps else None
    slow_us = max(compute_us, memory_us) if memory_us is not None else None
    ceiling = call.flops / (count * compute_us * 1e3)
    require_below(ceiling, ceilings.flops_gflops, what="a ceiling of waves, in GFLOP/s,", source=source)
    return Wave(
        grid=grid,
        units=units,
        waves=count,
        filled=grid / (count * units),
        fill="normal" if grid >= NORMAL * units else "low" if grid >= LOW * units else "too few tiles",
        kernel_time_us=count * compute_us,
        ceiling_gflops=ceiling,
        no_reuse_time_us=count * slow_us if slow_us is not None else None,
        no_reuse_gflops=call.flops / (count * slow_us * 1e3) if slow_us is not None else None,
    )


def tiles(
    m: int, n: int, k: int, *, block: tuple[int, int], read_bytes: float, written_bytes: float
) -> tuple[int, Amount]:
    """Grid of a matrix product and one of its tiles: 2 BM BN K; (BM K + BN K) read + BM BN written bytes."""
    rows, columns = block
    amount = Amount(
        flops=2.0 * rows * columns * k, bytes=(rows + columns) * k * read_bytes + rows * columns * written_bytes
    )
    return ceil(m / rows) * ceil(n / columns), amount
