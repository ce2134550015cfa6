"""The words of DEFINE_TARGET: backends, products, architectures, operators and precisions."""

from collections.abc import Mapping
from types import MappingProxyType

LANGUAGES: Mapping[str, str] = MappingProxyType(
    {
        "TRITON": "TRITON",
        "CK": "HIP",
        "HIPBLASLT": "HIP",
        "TURBO": "HIP",
        "HIP": "HIP",
        "FLYDSL": "FLYDSL",
        "CUDA": "CUDA",
        "CUTEDSL": "CUTEDSL",
        "C": "C",
    }
)
"""Backend -> language of its sources (F002)."""

VENDORS: Mapping[str, str] = MappingProxyType(
    {
        "CK": "amd",
        "HIPBLASLT": "amd",
        "TURBO": "amd",
        "HIP": "amd",
        "FLYDSL": "amd",
        "CUDA": "nvidia",
        "CUTEDSL": "nvidia",
        "C": "cpu",
    }
)
"""Backends that run on devices of one maker only; Triton is in none."""

ARCHS: Mapping[str, str] = MappingProxyType(
    {
        "MI300X": "gfx942",
        "MI325X": "gfx942",
        "MI308X": "gfx942",
        "MI350X": "gfx950",
        "MI355X": "gfx950",
        "MI250X": "gfx90a",
        "MI250": "gfx90a",
        "MI210": "gfx90a",
        "H100": "sm_90",
        "H200": "sm_90",
        "H20": "sm_90",
        "A100": "sm_80",
        "B200": "sm_100",
    }
)
"""Product -> architecture (F003). A product that is not here is asked for, never guessed."""

KNOWN_ARCHS = frozenset(ARCHS.values())

BACKEND_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "triton": "TRITON",
        "ck": "CK",
        "composable kernel": "CK",
        "hipblaslt": "HIPBLASLT",
        "turbo": "TURBO",
        "flydsl": "FLYDSL",
        "hip": "HIP",
        "cuda": "CUDA",
        "cutedsl": "CUTEDSL",
        "cute dsl": "CUTEDSL",
        "in c": "C",
        "c kernel": "C",
        "c code": "C",
    }
)
"""How an instruction names a backend. A single `c` is too common a name of a matrix to count."""

OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "grouped gemm": "grouped_gemm",
        "groupgemm": "grouped_gemm",
        "group gemm": "grouped_gemm",
        "batched gemm": "batched_gemm",
        "flash attention": "attention",
        "paged attention": "paged_attention",
        "layer norm": "layernorm",
        "rms norm": "rmsnorm",
        "matrix multiply": "gemm",
        "matrix multiplication": "gemm",
        "gemm": "gemm",
        "matmul": "gemm",
        "gemv": "gemv",
        "attention": "attention",
        "softmax": "softmax",
        "layernorm": "layernorm",
        "rmsnorm": "rmsnorm",
        "quantize": "quant",
        "quantization": "quant",
        "quant": "quant",
        "dequant": "dequant",
        "transpose": "transpose",
        "row reduction": "reduce",
        "sum reduction": "reduce",
        "reduction kernel": "reduce",
        "reduce kernel": "reduce",
        "convolution": "conv",
        "conv": "conv",
        "moe": "moe",
        "rope": "rope",
        "gelu": "gelu",
        "silu": "silu",
        "swiglu": "swiglu",
        "dropout": "dropout",
        "embedding": "embedding",
        "topk": "topk",
        "prefix scan": "scan",
        "prefix sum": "scan",
    }
)
"""Phrase -> slug of the operator. Longer phrases are looked for first; words that are also plain verbs (reduce, scan)
count only in a phrase."""

PRECISIONS: Mapping[str, str] = MappingProxyType(
    {
        "fp64": "fp64",
        "f64": "fp64",
        "float64": "fp64",
        "double precision": "fp64",
        "fp32": "fp32",
        "f32": "fp32",
        "float32": "fp32",
        "fp16": "fp16",
        "f16": "fp16",
        "float16": "fp16",
        "bf16": "bf16",
        "bfloat16": "bf16",
        "fp8": "fp8",
        "f8": "fp8",
        "fp4": "fp4",
        "mxfp8": "mxfp8",
        "mxfp4": "mxfp4",
        "int8": "int8",
        "int4": "int4",
    }
)
"""Word -> precision of the slug and of the dtype."""

VARIANTS: Mapping[str, str] = MappingProxyType(
    {
        "blockwise": "blockwise",
        "rowwise": "rowwise",
        "tensorwise": "tensorwise",
        "channelwise": "channelwise",
        "block wise": "blockwise",
        "row wise": "rowwise",
        "tensor wise": "tensorwise",
        "channel wise": "channelwise",
    }
)
"""Words after the precision in a slug, for example `gemm_fp8_blockwise`."""


def vendor(arch: str) -> str:
    """Maker of an architecture: amd, nvidia or cpu."""
    if arch.startswith("gfx"):
        return "amd"
    return "nvidia" if arch.startswith("sm_") else "cpu"
