"""What a call has to do at least: operations and bytes, and how wide an element of each type is."""

from collections.abc import Mapping

from ridgeline.graph.values import Value

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
    def read(self) -> float:
        """Bytes of one element that is read."""
        return BITS[self.main] / 8

    @property
    def written(self) -> float:
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
