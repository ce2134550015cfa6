"""Numbers in a campaign's files: registered where they stand, or named; and a kernel's own results are left alone."""

import pytest

from ridgeline.knowledge.claims import check_files
from ridgeline.knowledge.quantities import quantities, quantity
from ridgeline.knowledge.registered import MeasuredNumber
from tests.knowledge_base import PRODUCT, write_base

LINE = PRODUCT.splitlines().index("- bf16_dense: 1000 TFLOPS [src: acme-sheet, table 2]") + 1
PEAK = f"- bf16_dense: 1000 TFLOPS <- knowledge/hardware/roadrunner-80.md:L{LINE}"
RATE = f"- hbm_bandwidth: 4.0 TB/s <- knowledge/hardware/roadrunner-80.md:L{LINE + 2}"
HERE = "- copy bandwidth: 23.545 GB/s <- measured here: cpu_ceiling.c, gcc -O3, copy of 128 MiB"
LEDGER = (MeasuredNumber(metric="copy bandwidth", value=23.5451, unit="GB/s"),)


@pytest.fixture
def told(tmp_path):
    """`told("a line", ...)` -> what is wrong with a README of these lines below the registered ones."""
    library = write_base(tmp_path)

    def ask(*lines, name="README.md", measured=LEDGER):
        text = "\n".join((PEAK, RATE, HERE)) + "\n"
        extra = {name: "\n".join(lines) + "\n"} if name != "README.md" else {}
        text += "" if extra else "\n".join(lines) + "\n"
        return [problem.what for problem in check_files({"README.md": text, **extra}, library, measured).problems]

    return ask


@pytest.mark.feature("F068")
def test_registered_numbers_are_believed(told):
    assert told() == []


@pytest.mark.feature("F068")
@pytest.mark.parametrize(
    "line",
    [
        "The peak of 1000 TFLOPS bounds it.",
        "HBM bandwidth: 4000 GB/s",
        "- compute-bound target >= 900 TFLOPS",
        "- memory-bound target >= 3.6 TB/s",
        "- Ridge point: 250 FLOP/byte",
        "The kernel reaches 400 TFLOPS, 40 % of peak.",
        "It achieved a bandwidth of 2.1 TB/s.",
        "Each block uses 32 KiB of LDS.",
        "memory of a command: 1024 MiB",
        "- fp8_dense: UNKNOWN (gpu-wiki not found)",
        "fp4 peak: UNKNOWN (gpu-wiki not found)",
        "T1 performance target: >500 TFLOPS",
        "| 2026-11-21 | keep | 4096 | 512.3 us | 268.2 TFLOPS |",
        "Usually the loop is bound by memory.",
        "copy of 128 MiB, best of 12",
    ],
)
def test_what_is_no_claim_or_is_registered(told, line):
    assert told(line) == []


@pytest.mark.feature("F068", "F070")
@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("The peak of 1300 TFLOPS bounds it.", "1300 TFLOPS has no source"),
        ("peak bandwidth is 5.3 TB/s", "5.3 TB/s has no source"),
        ("50 MB of L2", "50 MB has no source"),
        ("| L2 | 64 MiB L2 cache |", "64 MiB has no source"),
        ("LDS capacity 160 KiB", "160 KiB has no source"),
        ("304 CUs are there", "304 CUs has no source"),
        ("with 132 SMs the grid is small", "132 SMs has no source"),
        ("a theoretical 2000 TFLOPS", "2000 TFLOPS has no source"),
        ("peak 1979 TFLOPS (sparse)", "1979 TFLOPS has no source"),
        ("- compute-bound target >= 700 TFLOPS of the peak", "700 TFLOPS has no source"),
        ("- Ridge point: 300 FLOP/byte", "ridge 300 is no registered peak"),
        ("The peak is approximately 1000 TFLOPS.", "1000 TFLOPS is hedged"),
        ("HBM bandwidth should be 4.0 TB/s", "4.0 TB/s is hedged"),
        ("peak taken from a similar product", "hedges a hardware number"),
        ("- lds_capacity: roughly 64 KiB <- knowledge/hardware/gfx942/overview.md:L12", "64 KiB is hedged"),
        ("- fp8_dense: 2000 TFLOPS", "2000 TFLOPS has no source"),
        ("- l2_latency: 300 MHz <- somewhere", "is no place"),
        (PEAK.replace("1000", "1100"), "says 1000 TFLOPS, not 1100 TFLOPS"),
        (PEAK.replace("bf16_dense", "fp16_dense"), "is about bf16_dense, not fp16_dense"),
        (PEAK.replace("1000", "2000").replace(f"L{LINE}", f"L{LINE + 1}"), "is about bf16_sparse"),
        (PEAK.replace(f"L{LINE}", "L999"), "has no line 999"),
        (PEAK.replace("roadrunner-80", "coyote"), "has no line"),
        ("- bf16_dense: 1000 TFLOPS <- what the user said", "is no place"),
        (HERE.replace("23.545", "31.0"), "the ledger does not hold it"),
    ],
)
def test_a_planted_number_is_found(told, line, what):
    found = told(line)
    assert any(what in problem for problem in found), found


@pytest.mark.feature("F068")
def test_a_number_in_another_file_is_held_against_the_registered_ones(told):
    assert told("peak 1000 TFLOPS", name="plans/v1_plan.md") == []
    assert told("peak 1200 TFLOPS", name="plans/v1_plan.md") == ["1200 TFLOPS has no source"]


@pytest.mark.feature("F068")
@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ('  "peak_tflops": 1000.0,', False),
        ('  "peak_tflops": 1200.0,', True),
        ('  "hbm_tbps": 5.3,', True),
        ('  "bandwidth_gbps": 900.0,', False),
        ('  "tflops_peak_utilization_pct": 41.5,', False),
        ('  "root_cause": "HBM bandwidth of 5.3 TB/s is reached"', False),
        ('  "evidence": "the L2 is 32 MiB"', True),
    ],
)
def test_fields_of_the_memory(told, line, bad):
    assert bool(told(line, name="memory/v1.json")) is bad


@pytest.mark.feature("F068")
def test_a_measured_number_needs_the_ledger(told):
    (found,) = told(measured=())
    assert "the ledger does not hold it" in found


@pytest.mark.feature("F068")
def test_problems_name_file_line_and_mend(tmp_path):
    (problem,) = check_files({"README.md": "ok\npeak 5 TFLOPS\n"}, write_base(tmp_path)).problems
    assert (problem.path, problem.line) == ("README.md", 2)
    assert "register it" in problem.mend


def test_counts(tmp_path):
    text = f"{PEAK}\n- fp8_dense: UNKNOWN (gpu-wiki not found)\n"
    found = check_files({"README.md": text, "plans/v1.md": ""}, write_base(tmp_path))
    assert (found.files, found.registered, found.unknown, found.valid) == (2, 1, 1, True)


@pytest.mark.parametrize(
    ("text", "dimension", "values"),
    [
        ("3.35 TB/s", "B/s", (3.35e12,)),
        ("3350 GB/s", "B/s", (3.35e12,)),
        ("989.4 TFLOPS", "FLOPS", (989.4e12,)),
        ("103 GFLOP/s", "FLOPS", (103e9,)),
        ("1 979 TOPS", "OPS", (1979e12,)),
        ("64 KiB", "B", (65536.0,)),
        ("50 MB", "B", (50e6, 50 * 2.0**20)),
        ("2100 MHz", "Hz", (2.1e9,)),
        ("304 compute units", "CUs", (304.0,)),
    ],
)
def test_quantities_are_brought_to_one_scale(text, dimension, values):
    (found,) = quantities(f"It is {text}.")
    assert (found.dimension, found.written) == (dimension, text)
    assert found.values == pytest.approx(values)


@pytest.mark.parametrize("text", ["gfx942 TFLOPS", "fp16 GB/s", "v1.5TB/sec", "12 rounds", "H100 SMs", "#5 GB"])
def test_names_are_no_quantities(text):
    assert [*quantities(text)] == []


def test_rounded_prints_are_the_same_number():
    assert quantity("989", "TFLOPS").equals(quantity("989.4", "TFLOPS"))
    assert not quantity("990", "TFLOPS").equals(quantity("1000", "TFLOPS"))
    assert not quantity("5", "TB/s").equals(quantity("5", "TFLOPS"))
    assert quantity("5", "parsecs") is None
