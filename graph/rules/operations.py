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
ZERO_ALLOWED = frozenset({"CAUSAL", "ACTIVE", "OPS"})


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
    formula: str
    """First sentence of the function's documentation."""


class SizeError(ValueError):
    """Sizes or types that no call of the family can have; the message says what may be written."""


_HEADS = ("B", "H", "S", "D", "HKV", "CAUSAL", "SKV")
_HEADS_DEFAULTS: tuple[tuple[str, int | str], ...] = (("HKV", "H"), ("CAUSAL", 0), ("SKV", "S"))
_ROWS = ("R", "C")
_DECODE = ("B", "H", "L", "D", "HKV")
_GROUPS: tuple[tuple[str, int | str], ...] = (("GROUP", 128),)


def _family(
    formula: Formula,
    sizes: tuple[str, ...],
    *,
    units: Units,
    defaults: tuple[tuple[str, int | str], ...] = (),
    out: str = "same",
) -> tuple[Family, Formula]:
    """A family and its formula, whose docstring's first line is what people read."""
    formula_text = (formula.__doc__ or "").strip().splitlines()[0].rstrip(".")
    name = formula.__name__
    return Family(name=name, sizes=sizes, defaults=defaults, units=units, out=out, formula=formula_text), formula


_ALL: tuple[tuple[Family, Formula], ...] = (
    _family(gemm, ("M", "N", "K"), units="matrix"),
    _family(batched_gemm, ("B", "M", "N", "K"), units="matrix"),
    _family(grouped_gemm, ("G", "M", "N", "K"), units="matrix"),
    _family(gemm_blockscaled, ("M", "N", "K", "BLOCK"), defaults=(("BLOCK", 128),), units="matrix"),
    _family(gemm_w4a16, ("M", "N", "K", "GROUP"), defaults=_GROUPS, units="matrix"),
    _family(gemm_backward, ("M", "N", "K"), units="matrix"),
    _family(matvec, ("M", "K"), units="matrix"),
    _family(attention, _HEADS, defaults=_HEADS_DEFAULTS, units="matrix"),
    _family(attention_backward, _HEADS, defaults=_HEADS_DEFAULTS, units="matrix"),
    _family(attention_decode, _DECODE, defaults=(("HKV", "H"),), units="matrix"),
    _family(attention_paged, (*_DECODE, "PAGE"), defaults=(("HKV", "H"), ("PAGE", 16)), units="matrix"),
    _family(moe, ("T", "D", "F", "E", "TOPK", "ACTIVE"), defaults=(("ACTIVE", 0),), units="matrix"),
    _family(layernorm, _ROWS, units="vector"),
    _family(layernorm_backward, _ROWS, units="vector"),
    _family(rmsnorm, _ROWS, units="vector"),
    _family(rmsnorm_backward, _ROWS, units="vector"),
    _family(softmax, _ROWS, units="vector"),
    _family(softmax_backward, _ROWS, units="vector"),
    _family(reduction, _ROWS, units="vector"),
    _family(scan, _ROWS, units="vector"),
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
        if out is not None:
            return Types(main=main, out=canonical(out))
    except ValueError as error:
        raise SizeError(str(error)) from error
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
