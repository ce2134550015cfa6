"""Operator families by name: what their sizes are called, and which units of a device can do the arithmetic."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Literal

from ridgeline.graph.policy.operations import attention, matrix, moe, rows
from ridgeline.graph.policy.operations.amount import BITS, Amount, Sizes, Types, canonical
from ridgeline.graph.values import Value

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
    first = (formula.__doc__ or "").strip().splitlines()[0].rstrip(".")
    name = formula.__name__
    return Family(name=name, sizes=sizes, defaults=defaults, units=units, out=out, formula=first), formula


_ALL: tuple[tuple[Family, Formula], ...] = (
    _family(matrix.gemm, ("M", "N", "K"), units="matrix"),
    _family(matrix.batched_gemm, ("B", "M", "N", "K"), units="matrix"),
    _family(matrix.grouped_gemm, ("G", "M", "N", "K"), units="matrix"),
    _family(matrix.gemm_blockscaled, ("M", "N", "K", "BLOCK"), defaults=(("BLOCK", 128),), units="matrix"),
    _family(matrix.gemm_w4a16, ("M", "N", "K", "GROUP"), defaults=_GROUPS, units="matrix"),
    _family(matrix.gemm_backward, ("M", "N", "K"), units="matrix"),
    _family(matrix.matvec, ("M", "K"), units="matrix"),
    _family(attention.attention, _HEADS, defaults=_HEADS_DEFAULTS, units="matrix"),
    _family(attention.attention_backward, _HEADS, defaults=_HEADS_DEFAULTS, units="matrix"),
    _family(attention.attention_decode, _DECODE, defaults=(("HKV", "H"),), units="matrix"),
    _family(attention.attention_paged, (*_DECODE, "PAGE"), defaults=(("HKV", "H"), ("PAGE", 16)), units="matrix"),
    _family(moe.moe, ("T", "D", "F", "E", "TOPK", "ACTIVE"), defaults=(("ACTIVE", 0),), units="matrix"),
    _family(rows.layernorm, _ROWS, units="vector"),
    _family(rows.layernorm_backward, _ROWS, units="vector"),
    _family(rows.rmsnorm, _ROWS, units="vector"),
    _family(rows.rmsnorm_backward, _ROWS, units="vector"),
    _family(rows.softmax, _ROWS, units="vector"),
    _family(rows.softmax_backward, _ROWS, units="vector"),
    _family(rows.reduction, _ROWS, units="vector"),
    _family(rows.scan, _ROWS, units="vector"),
    _family(rows.elementwise, ("N", "INPUTS", "OPS"), defaults=(("INPUTS", 1), ("OPS", 1)), units="vector"),
    _family(rows.quantization, ("R", "C", "GROUP"), defaults=_GROUPS, units="vector", out="fp8"),
    _family(rows.dequantization, ("R", "C", "GROUP"), defaults=_GROUPS, units="vector", out="bf16"),
    _family(rows.copy, ("N",), units="vector"),
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
    found = FAMILIES.get(SAME_NAME.get(plain, plain))
    if found is None:
        close = get_close_matches(plain, [*FAMILIES, *SAME_NAME], n=1)
        raise SizeError(f"unknown operator {name!r}; {_meant(close)}")
    return found


def types(found: Family, dtype: str, out: str | None = None) -> Types:
    """Element types of a call. Raises SizeError for a type that has no known width."""
    try:
        main = canonical(dtype)
        if out is not None:
            return Types(main=main, out=canonical(out))
    except ValueError as error:
        raise SizeError(str(error)) from error
    if found.out != "same":
        return Types(main=main, out=found.out)
    narrow = found.units == "matrix" and BITS[main] < 16
    return Types(main=main, out="bf16" if narrow else main)


def sizes(found: Family, given: Sequence[str]) -> dict[str, int]:
    """Words such as `4096` in the family's order, or `K=4096` by name; defaults are filled in. Raises SizeError."""
    named: dict[str, int] = {}
    for position, word in enumerate(given):
        name, equals, value = word.partition("=")
        key = name.strip().upper() if equals else _at(found, position)
        if key not in found.sizes or key in named:
            wrong = "given twice" if key in named else "no size of this operator"
            raise SizeError(f"{word!r} is {wrong}; {usage(found)}")
        named[key] = _whole(key, value if equals else word)
    for key, default in found.defaults:
        source = named.get(default) if isinstance(default, str) else default
        if key not in named and source is not None:
            named[key] = source
    if missing := [key for key in found.sizes if key not in named]:
        raise SizeError(f"{', '.join(missing)} missing; {usage(found)}")
    return {key: named[key] for key in found.sizes}


def amount(found: Family, given: Sizes, of: Types) -> Amount:
    """Least operations and bytes of one call. Raises SizeError for sizes that contradict each other."""
    try:
        return _FORMULAS[found.name](given, of)
    except ValueError as error:
        raise SizeError(f"{found.name}: {error}") from error


def usage(found: Family) -> str:
    """How its sizes are written, for example `gemm takes M,N,K`."""
    optional = dict(found.defaults)
    words = [f"[{name}={optional[name]}]" if name in optional else name for name in found.sizes]
    return f"{found.name} takes {','.join(words)}"


def _meant(close: Sequence[str]) -> str:
    return f"did you mean {close[0]!r}?" if close else f"one of {', '.join(FAMILIES)}"


def _at(found: Family, position: int) -> str:
    if position >= len(found.sizes):
        raise SizeError(f"{position + 1} or more sizes; {usage(found)}")
    return found.sizes[position]


def _whole(key: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise SizeError(f"{key} is {text.strip()!r}; give a whole number") from None
    if number < (0 if key in ZERO_ALLOWED else 1):
        raise SizeError(f"{key} is {number}; it must be {'0 or' if key in ZERO_ALLOWED else '1 or'} more")
    return number
