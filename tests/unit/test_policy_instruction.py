"""What a one-line instruction says, and the tables of backends and products."""

import pytest

from ridgeline.graph.rules.define import (
    ARCHS,
    KNOWN_ARCHS,
    LANGUAGES,
    VENDORS,
    arch_of,
    parse_instruction,
    read_slug,
    vendor,
)


@pytest.mark.feature("F003")
@pytest.mark.parametrize(
    ("product", "arch"),
    [
        ("MI300X", "gfx942"),
        ("mi325x", "gfx942"),
        ("MI308X", "gfx942"),
        ("MI350X", "gfx950"),
        ("MI355X", "gfx950"),
        ("MI250X", "gfx90a"),
        ("MI210", "gfx90a"),
        ("H100", "sm_90"),
        ("h20", "sm_90"),
        ("A100", "sm_80"),
        ("B200", "sm_100"),
        ("gfx942", "gfx942"),
        ("SM_90", "sm_90"),
        ("MI999X", None),
        ("gfx1", None),
        ("", None),
    ],
)
def test_product_to_architecture(product, arch):
    assert arch_of(product) == arch


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("c = a * b", "backends", ()),
        ("write it in C", "backends", ("C",)),
        ("CuTe DSL kernel", "backends", ("CUTEDSL",)),
        ("use ds_read_b128", "products", ()),
        ("the H800 and an L40S", "products", ("H800", "L40S")),
        ("on RTX 4090", "products", ("RTX4090",)),
        ("flash attention in half", "operators", ("attention",)),
        ("grouped GEMM", "operators", ("grouped_gemm",)),
        ("softmax then rope", "operators", ("softmax", "rope")),
        ("fuse the all-reduce with RMSNorm", "operators", ("allreduce", "rmsnorm")),
        ("top-k sampling of tokens", "operators", ("topk", "sampling")),
        ("conv2d, depthwise", "operators", ("conv",)),
        ("Mamba2's chunk scan", "operators", ("ssd",)),
        ("gated DeltaNet, then linear attention", "operators", ("gated_delta_rule", "linear_attention")),
        ("cross-entropy with its gradient", "operators", ("cross_entropy",)),
        ("GEMM in NVFP4", "precisions", ("nvfp4",)),
        ("bfloat16 in, fp8 out", "precisions", ("bf16", "fp8")),
        ("", "operators", ()),
        ("reach >500 TFLOPS", "goal", ">500 TFLOPS"),
        ("over 2x faster", "goal", "over 2x"),
        ("500 TFLOPS was seen", "goal", ""),
    ],
)
def test_reading_an_instruction(text, field, value):
    assert getattr(parse_instruction(text), field) == value


@pytest.mark.parametrize(
    "slug",
    [
        "topk_f32",
        "sampling_bf16",
        "conv2d_fp16",
        "ssd_bf16",
        "gated_delta_rule",
        "linear_attention",
        "cross_entropy_bf16",
        "allreduce_rmsnorm",
        "rope_kv_write",
        "gemm_nvfp4",
    ],
)
def test_the_operator_of_a_slug_is_known_and_its_parts_agree_with_the_whole(slug):
    whole = read_slug(slug).operators
    assert whole
    assert set(read_slug(" ".join(whole)).operators) == set(whole)


def test_tables_agree():
    assert set(VENDORS) <= set(LANGUAGES)
    assert {vendor(arch) for arch in KNOWN_ARCHS} == {"amd", "nvidia"}
    assert vendor("x86_64") == "cpu"
    assert set(ARCHS.values()) == KNOWN_ARCHS
