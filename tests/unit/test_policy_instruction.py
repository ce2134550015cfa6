"""What a one-line instruction says, and the tables of backends and products."""

import pytest

from ridgeline.graph.rules.define import ARCHS, KNOWN_ARCHS, LANGUAGES, VENDORS, arch_of, parse_instruction, vendor


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
        ("bfloat16 in, fp8 out", "precisions", ("bf16", "fp8")),
        ("", "operators", ()),
        ("reach >500 TFLOPS", "goal", ">500 TFLOPS"),
        ("over 2x faster", "goal", "over 2x"),
        ("500 TFLOPS was seen", "goal", ""),
    ],
)
def test_reading_an_instruction(text, field, value):
    assert getattr(parse_instruction(text), field) == value


def test_tables_agree():
    assert set(VENDORS) <= set(LANGUAGES)
    assert {vendor(arch) for arch in KNOWN_ARCHS} == {"amd", "nvidia"}
    assert vendor("x86_64") == "cpu"
    assert set(ARCHS.values()) == KNOWN_ARCHS
