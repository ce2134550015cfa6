"""Which documents speak for a contract's device: exactly that product, dense peaks, UNKNOWN for the rest."""

import pytest

from ridgeline.agent.analysis.roofline import documented_specs, of_machine, peaks, products
from ridgeline.agent.planner.tools import of_other_dtype
from ridgeline.graph.rules.roofline import peak_of
from tests.builders import make_contract, make_machine

KNOWN = products()


def on(name, arch="sm_90", kind="nvidia", **fields):
    contract = make_contract(**{"target_backend": "TRITON", "target_gpu": None, "dtype": "bf16", **fields})
    return {spec.metric: spec for spec in of_machine(make_machine(kind=kind, name=name, arch=arch), contract)}


@pytest.mark.feature("F068")
@pytest.mark.parametrize(
    ("name", "arch", "kind", "peak", "bandwidth"),
    [
        ("NVIDIA H100 80GB HBM3", "sm_90", "nvidia", 989.4, 3.35),
        ("NVIDIA H200", "sm_90", "nvidia", 989.4, 4.8),
        ("AMD Instinct MI300X", "gfx942", "amd", 1307.4, 5.3),
        ("AMD Instinct MI355X", "gfx950", "amd", 2500, 8.0),
    ],
)
def test_the_names_that_the_systems_give(name, arch, kind, peak, bandwidth):
    found = on(name, arch, kind)
    assert (found["bf16_dense"].value, found["hbm_bandwidth"].value) == (peak, bandwidth)
    assert all(spec.source.startswith("knowledge/hardware/") for spec in found.values())


@pytest.mark.feature("F069")
def test_a_product_without_a_document_is_unknown_and_no_sibling_stands_in():
    found = on("NVIDIA GeForce RTX 4070", "sm_89")
    assert [spec.text for spec in found.values()] == [
        "bf16_dense: UNKNOWN (gpu-wiki not found)",
        "hbm_bandwidth: UNKNOWN (gpu-wiki not found)",
    ]


def test_a_masked_name_is_taken_from_the_contract_where_the_architecture_agrees():
    assert on("AMD Radeon Graphics", "gfx942", "amd", target_gpu="MI300X")["bf16_dense"].value == 1307.4
    assert on("AMD Radeon Graphics", "gfx90a", "amd", target_gpu="MI300X")["bf16_dense"].value is None


def test_the_integer_rate_is_registered_where_a_document_gives_it_and_is_no_peak():
    found = on("NVIDIA H100 80GB HBM3", dtype="fp32")
    assert (found["int32_vector"].value, found["int32_vector"].unit) == (33.5, "TOPS")
    assert peak_of(tuple(found.values())).metric == "fp32_vector"
    assert "int32_vector" not in on("AMD Instinct MI300X", "gfx942", "amd")
    assert not of_other_dtype("int32_vector", "fp32"), "a page of a top-k in fp32 shows it"
    assert (found["l1_bandwidth"].value, found["shuffle_rate"].value) == (128, 32)


def test_a_processor_is_measured_not_looked_up():
    assert of_machine(make_machine(), make_contract()) == ()


@pytest.mark.parametrize(
    ("dtype", "units", "metric"),
    [
        ("bfloat16", "matrix", "bf16_dense"),
        ("fp32", "matrix", "fp32_vector"),
        ("fp64", "matrix", "fp64_matrix"),
        ("bf16", "vector", "bf16_vector"),
        ("fp8", "vector", "fp32_vector"),
        ("int8", "matrix", "int8_dense"),
    ],
)
def test_the_peak_of_a_type(dtype, units, metric):
    assert documented_specs(KNOWN, "H100", dtype, units=units)[0].metric == metric


def test_sparse_peaks_are_never_taken():
    names = [
        name
        for dtype in ("bf16", "fp8", "fp32", "odd type")
        for units in ("matrix", "vector")
        for name in peaks(dtype, units)
    ]
    assert not [name for name in names if "sparse" in name]
    assert "odd_type_dense" in names
