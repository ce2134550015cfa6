"""Hardware numbers: exact product, exact metric, the line they stand at, UNKNOWN for everything else."""

import re

import pytest

from ridgeline.knowledge.library import Library
from ridgeline.knowledge.registered import find_misplacement, list_registered
from ridgeline.knowledge.specs import MISSING, Products, normal, specs, wrong
from tests.knowledge_base import PRODUCT, write_base

SHIPPED = Library()
FORM = re.compile(r"[a-z0-9_]+: [\w.+-]+( [^<]+)? <- knowledge/hardware/[\w/-]+\.md:L\d+( \(unverified\))?")


@pytest.fixture
def products(tmp_path):
    return Products(write_base(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "roadrunner-80",
        "Roadrunner 80",
        "AMD Roadrunner_80",
        "acme rr80",
        "NVIDIA Roadrunner SXM",
        "Roadrunner",
        "ROADRUNNER",
    ],
)
def test_names_that_mean_the_same_product(products, name):
    found = products.spec(name, "bf16_dense")
    assert (found.product, found.value, found.unit) == ("roadrunner-80", 1000.0, "TFLOPS")
    assert found.text == f"bf16_dense: 1000 TFLOPS <- knowledge/hardware/roadrunner-80.md:L{found.source_line}"
    assert PRODUCT.splitlines()[found.source_line - 1] == "- bf16_dense: 1000 TFLOPS [src: acme-sheet, table 2]"


@pytest.mark.feature("F069")
@pytest.mark.parametrize(
    ("product", "metric"),
    [
        ("Roadrunner 70", "bf16_dense"),
        ("Road", "bf16_dense"),
        ("", "bf16_dense"),
        ("roadrunner-80", "fp8_dense"),
        ("roadrunner-80", "bf16"),
        ("roadrunner-80", "fp4_dense"),
    ],
)
def test_what_no_line_gives_is_unknown_and_never_inferred(products, product, metric):
    found = products.spec(product, metric)
    assert found.value is None
    assert found.text == f"{metric}: UNKNOWN (gpu-wiki not found)" == f"{metric}: UNKNOWN ({MISSING})"
    assert found.note


def test_a_family_without_a_default_is_ambiguous(tmp_path):
    base = write_base(tmp_path, **{"hardware/roadrunner-80.md": PRODUCT.replace("default_for: [Roadrunner]\n", "")})
    found = Products(base).spec("Roadrunner", "bf16_dense")
    assert found.value is None
    assert "roadrunner-80 or roadrunner-90" in found.note


def test_dense_and_sparse_are_apart(products):
    assert products.spec("Roadrunner", "bf16_sparse").value == 2 * products.spec("Roadrunner", "bf16_dense").value


def test_what_holds_for_the_architecture_holds_for_its_products(products):
    found = products.spec("Roadrunner", "lds_capacity")
    assert found.text.startswith("lds_capacity: 64 KiB <- knowledge/hardware/gfx942/overview.md:L")
    assert found.product == "roadrunner-80"
    assert products.spec("gfx942", "lds_capacity").value == 64
    assert products.spec("gfx942", "bf16_dense").value is None, "never from a product to its architecture"


def test_a_word_is_no_number(products):
    found = products.spec("Roadrunner", "arch")
    assert (found.value, found.text.split(" <- ")[0]) == (None, "arch: gfx942")


def test_all_numbers_of_a_product(products):
    assert [spec.metric for spec in products.all("Roadrunner")][-1] == "lds_capacity"
    assert len(products.all("Roadrunner")) == 7
    assert products.all("nothing") == ()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("- bf16_dense: 1000 TFLOPS", "no source"),
        ("- bf16_dense: 1000 GFLOPS [src: a]", "is in GFLOPS"),
        ("- bf16_dense: 1000 [src: a]", "is in no unit"),
        ("- bf16_dense: fast [src: a]", "no number"),
        ("- link_bandwidth: 0.9 TB/s [src: a]", "is in TB/s"),
        ("- hbm_bandwidth: up to 4.0 TB/s [src: a]", "no number"),
        ("- int8_dense: 1000 TFLOPS [src: a]", "is in TFLOPS"),
        ("- Bf16: 1000 TFLOPS [src: a]", "no spec"),
        ("- just words [src: a]", "no spec"),
        ("- bf16_dense: 1 TFLOPS [src: a]\n- bf16_dense: 2 TFLOPS [src: a]", "stands in line"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, line, what):
    text = PRODUCT[: PRODUCT.index("- arch")] + line + "\n"
    (document,) = [
        found
        for found in write_base(tmp_path, **{"hardware/roadrunner-80.md": text}).documents
        if found.path.endswith("roadrunner-80.md")
    ]
    (problem,) = wrong(document)
    assert what in problem.what
    assert text.splitlines()[problem.line - 1] == line.splitlines()[-1]


@pytest.mark.feature("F071")
def test_the_ridge_of_h100_has_its_lines():
    products = Products(SHIPPED)
    peak, rate = products.spec("H100", "bf16_dense"), products.spec("NVIDIA H100 80GB HBM3", "hbm_bandwidth")
    assert (peak.value, rate.value) == (989.4, 3.35)
    assert round(peak.value / rate.value) == 295
    assert round(0.9 * peak.value, 1) == 890.5


@pytest.mark.feature("F068")
def test_every_shipped_number_stands_at_its_line():
    products = Products(SHIPPED)
    assert len(products.names) >= 12
    for name in products.names:
        for spec in products.all(name):
            if not spec.written:
                continue
            assert FORM.fullmatch(spec.text), spec.text
            line = SHIPPED.line(spec.source_path, spec.source_line)
            assert line.startswith(f"- {spec.metric}: ")
            assert spec.written in re.sub(r"(?<=\d)[ ,](?=\d{3})", "", line)
            assert spec.citations


def test_no_name_means_two_products():
    named: dict[str, set[str]] = {}
    for document in SHIPPED.documents:
        if document.kind == "product":
            for name in (*document.default_for, *document.aliases):
                named.setdefault(normal(name), set()).add(document.path)
    assert {name: paths for name, paths in named.items() if len(paths) > 1} == {}


def test_specs_stand_only_in_products_and_hardware():
    assert all(not [*specs(document)] for document in SHIPPED.documents if document.kind in ("op", "backend"))


def test_a_number_is_told_with_the_word_of_its_source():
    products = Products(SHIPPED)
    rate, size = (products.spec("MI308X", metric) for metric in ("hbm_bandwidth", "hbm_capacity"))
    assert rate.text.endswith(" (unverified)")
    assert (size.text.partition(" <-")[0], size.standing) == ("hbm_capacity: 192 GB", "")
    (line,) = list_registered(rate.text, "here")
    assert find_misplacement(line, SHIPPED, ()) is None, "it stands where it says, with the word"
    assert products.spec("A100-SXM-80GB", "hbm_bandwidth").standing == "one source"


def test_a_wrong_name_is_met_with_the_nearest_right_one():
    products = Products(SHIPPED)
    assert "did you mean mi308x?" in products.spec("MI3080X", "hbm_bandwidth").note
    assert products.nearest_metric("MI308X", "hbm_bandwith") == "hbm_bandwidth"
    assert products.nearest_metric("MI308X", "hbm_size") in ("hbm_bandwidth", "hbm_capacity")
    assert products.nearest_metric("MI308X", "fp4_dense") is None, "a metric that exists and is not known here"


def test_hazards_and_waves_are_those_of_their_own_architecture():
    texts = {file.path: file.text for file in SHIPPED.files}
    assert "waits 5, 7, 11 or 19 states" in texts["knowledge/hardware/gfx942/notes.md"]
    assert "waits 5, 8, 12 or 20 states" in texts["knowledge/hardware/gfx950/notes.md"]
    assert "170 registers give two waves" in texts["knowledge/hardware/gfx942/overview.md"]


@pytest.mark.parametrize(
    ("product", "arch", "bandwidth"),
    [
        ("B200", "sm_100", 8.0), ("NVIDIA GB200", "sm_100", 8.0), ("B300", "sm_103", 8.0), ("L40S", "sm_89", 0.864),
        ("RTX 4090", "sm_89", 1.008), ("NVIDIA GeForce RTX 5090", "sm_120", 1.792), ("MI300A", "gfx942", 5.3),
        ("Radeon RX 9070 XT", "gfx1201", 0.64),
    ],
)  # fmt: skip
def test_products_of_other_generations_are_known(product, arch, bandwidth):
    products = Products(SHIPPED)
    assert products.spec(product, "arch").written == arch
    assert products.spec(product, "hbm_bandwidth").value == bandwidth


def test_what_was_measured_stands_beside_the_peak_and_below_it():
    products = Products(SHIPPED)
    measured = [
        (name, dtype, spec.value / peak.value)
        for name in products.names
        for dtype in ("bf16", "fp8")
        if (spec := products.spec(name, f"{dtype}_achieved")).value
        and (peak := products.spec(name, f"{dtype}_dense")).value
    ]
    assert len(measured) >= 12
    # a GeForce boosts above the clock that its peak is printed for; its page says so
    assert [name for name, _, share in measured if not 0.5 < share < 0.95] == ["rtx-5090"]
    assert products.spec("H100", "bf16_achieved").value < 0.9 * products.spec("H100", "bf16_dense").value


def test_an_h100_has_one_source_only_where_a_measurement_or_a_rate_stands_alone():
    h100 = {spec.metric: spec for spec in Products(SHIPPED).all("H100 SXM")}
    assert {metric for metric, spec in h100.items() if spec.standing == "one source"} == {
        "bf16_achieved", "fp8_achieved", "int32_vector", "l1_bandwidth", "shuffle_rate",
    }  # fmt: skip
    assert (h100["l1_bandwidth"].value, h100["l1_bandwidth"].unit) == (128, "bytes/clk/SM")
    assert (h100["shuffle_rate"].value, h100["shuffle_rate"].unit) == (32, "lanes/clk/SM")
    assert (h100["link_bandwidth"].value, h100["host_bandwidth"].value) == (900, 128)


def test_a_kernel_on_a_module_of_two_dies_has_the_numbers_of_one():
    products = Products(SHIPPED)
    whole, half = products.spec("MI250X", "hbm_bandwidth"), products.device_spec("MI250X", "hbm_bandwidth")
    assert (whole.value, half.value, half.text) == (3.2, 1.6, f"hbm_bandwidth: 1.6 TB/s <- {whole.place} / 2 dies")
    for metric in ("boost_clock", "lds_capacity"):  # of each die, and of the architecture
        assert products.device_spec("MI250X", metric) == products.spec("MI250X", metric)
    assert products.device_spec("MI300X", "hbm_bandwidth") == products.spec("MI300X", "hbm_bandwidth")
    right, wrong = (list_registered(text, "campaign") for text in (half.text, whole.text + " / 2 dies"))
    assert find_misplacement(next(right), SHIPPED, ()) is None
    assert "says 3.2 TB/s" in find_misplacement(next(wrong), SHIPPED, ()).what
