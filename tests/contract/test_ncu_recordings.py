"""Output of Nsight Compute as it was recorded: pages, locales, units, refusals, and damage of every kind."""

import random
from pathlib import Path

import pytest

from ridgeline.graph.kernel_profile import Recording
from ridgeline.sandbox.profiles.readers import hopper, ncu
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.profiles.readers.ncu import base, locale_of, number

DATA = Path(__file__).resolve().parents[1] / "data" / "ncu"
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "ncu"
COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value",
)  # fmt: skip
HEADER = ",".join(f'"{name}"' for name in COLUMNS)


def sample(name: str) -> Path:
    if not (SAMPLES / name).is_file():
        pytest.skip("the samples are not beside this checkout")
    return SAMPLES / name


def metric(name: str, unit: str, value: str, *, launch: int = 0, kernel: str = "k", section: str = "S") -> str:
    cells = (launch, 1, "p", "h", kernel, 1, 7, "(64, 2, 1)", "(9, 1, 1)", 0, "9.0", section, name, unit, value)
    return ",".join(f'"{cell}"' for cell in cells)


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "out.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def told(recording: Recording, kernel: int = 0) -> dict[str, float]:
    return {said.name: said.value for said in hopper.numbers(recording.kernels[kernel].metrics, tool="ncu")}


def test_the_raw_page():
    found = ncu.read_recording(DATA / "h100_raw.csv")
    assert (found.format, found.tool, found.vendor, found.arch) == ("ncu_raw", "ncu", "nvidia", "sm_90")
    assert found.device == "NVIDIA H100 80GB HBM3"
    assert found.grade == "replay"
    facts = {fact.name: fact.value for fact in found.facts}
    assert facts == {
        "units": 132, "simds_per_unit": 4, "wave_size": 32, "max_waves_per_simd": 16,
        "lds_bytes_per_unit": 233472, "clock_mhz": 1980,
    }  # fmt: skip
    softmax, generator = found.kernels
    assert (softmax.name, softmax.calls, softmax.category) == ("softmax_kernel", 3, "compute")
    assert (softmax.median_ns, softmax.total_ns) == (85_376, 86_048 + 85_376 + 85_056)
    assert softmax.share == pytest.approx(256_480 / 338_432)
    assert (softmax.last.blocks, softmax.last.workgroup) == ((8192, 1, 1), (256, 1, 1))
    assert (softmax.last.arch_vgpr, softmax.last.lds_bytes) == (38, 32)
    assert generator.category == "rng"
    numbers = told(found)
    assert numbers["mem.pct_of_peak"] == pytest.approx((0.8558 + 0.8619 + 0.8652) / 3)
    assert numbers["occ.theoretical"] == 0.75
    assert numbers["occ.fill_waves"] == 10.34
    assert numbers["comp.matrix_busy"] == 0
    assert hopper.limiter(softmax.metrics) == "registers"
    assert any("unmodified GPU clocks" in warning for warning in found.warnings)


def test_the_details_page_keeps_two_metrics_of_one_name_apart():
    found = ncu.read_recording(DATA / "h100_details.csv")
    assert (found.format, found.rows, len(found.kernels)) == ("ncu_details", 4, 1)
    metrics = {item.name: item.value for item in found.kernels[0].metrics}
    assert metrics["GPU Speed Of Light Throughput/Memory Throughput [%]"] == pytest.approx(86.05)
    assert metrics["Memory Workload Analysis/Memory Throughput [byte/s]"] > 2e12
    numbers = told(found)
    assert numbers["mem.gbps"] == pytest.approx(2883.288, rel=1e-5)
    assert numbers["regs.spill_ops"] == 0
    assert numbers["regs.total_per_thread"] == 38


def test_the_source_page():
    found = ncu.read_recording(DATA / "h100_source.csv")
    assert (found.format, found.rows, found.kernels[0].calls) == ("ncu_source", 296, 2)
    assert sum(item.share for item in found.stalls) == pytest.approx(1)
    assert [item.stall for item in found.stalls[:3]] == ["mem_wait", "lds_wait", "barrier"]
    assert {item.basis for item in found.stalls} == {"samples"}
    hottest = found.hotspots[0]
    assert (hottest.isa, hottest.stall, hottest.hits) == ("FMNMX R29, R5, R4, !PT", "mem_wait", 2 * 65_536)
    assert hottest.pc == 0x7F9D817AECF0
    assert len(found.hotspots) == 20
    assert found.grade is None


def test_a_details_page_of_another_generation():
    found = ncu.read_recording(sample("t4_copy_blocked_details_page.csv"))
    assert (found.arch, found.kernels[0].median_ns) == ("sm_75", 21_058_944)
    assert told(found)["mem.gbps"] == pytest.approx(196.45617786)
    assert hopper.limiter(found.kernels[0].metrics) == "waves"


def test_a_decimal_comma():
    found = ncu.read_recording(sample("ada_european_locale_metrics.csv"))
    assert (found.format, found.arch) == ("ncu_metrics", "sm_89")
    gemm, reduction = found.kernels
    assert (gemm.median_ns, reduction.total_ns) == ((117_344 + 120_416) / 2, 14_912)
    assert told(found)["mem.bytes"] == (27_595_520 + 30_818_944) / 2
    assert told(found)["sol.compute"] == pytest.approx(0.657)
    assert any("LC_ALL=C" in warning for warning in found.warnings)


def test_what_a_chip_cannot_tell_is_unknown_and_units_are_undone():
    found = ncu.read_recording(sample("gb10_saxpy_metrics_na.csv"))
    assert found.arch == "sm_121"
    assert found.kernels[0].max_ns == 1_205_000
    assert "mem.pct_of_peak" not in told(found)
    assert any("dram__throughput" in warning for warning in found.warnings)


def test_a_list_of_values():
    found = ncu.read_recording(sample("h100_wgmma_attention_metric_values.csv"))
    kernel = found.kernels[0]
    assert (kernel.last.blocks, kernel.last.workgroup) == ((32, 128, 1), (256, 1, 1))
    assert (kernel.last.arch_vgpr, kernel.last.lds_bytes) == (244, 229_376)
    assert kernel.median_ns == 1_311_744
    assert told(found)["shm.conflict_rate"] == pytest.approx(0.0132, abs=1e-4)
    stalls = {item.stall: item.share for item in hopper.stalls(kernel.metrics)}
    assert stalls["dependency"] == pytest.approx((1.35 + 0.30) / 5.62)
    assert stalls["mem_wait"] == pytest.approx(0.33 / 5.62)


@pytest.mark.parametrize(
    ("text", "mark", "value"),
    [
        ("4,963,609,951.19", "point", 4_963_609_951.19),
        ("117.344", "point", 117.344),
        ("117.344", "comma", 117_344),
        ("65,77", "comma", 65.77),
        ("27.595.520", "comma", 27_595_520),
        ("1'234.5", "point", 1234.5),
        ("1\u202f234,5", "comma", 1234.5),
        ("4.67e-04", "point", 4.67e-4),
        ("-1", "point", -1),
        ("0", "comma", 0),
        ("n/a", "point", None),
        ("(!) n/a", "point", None),
        ("", "point", None),
        ("nan", "point", None),
        ("inf", "point", None),
        ("PolicySpread", "point", None),
        ("1.2.3", "point", None),
        ("0,1,2", "point", None),
        ("12,34", "point", None),
    ],
)
def test_numbers(text, mark, value):
    assert number(text, mark) == value


@pytest.mark.parametrize(
    ("cells", "mark", "warned"),
    [
        ([("1,205.00", "us"), ("12", "")], "point", False),
        ([("65,77", "%"), ("117.344", "ns")], "comma", True),
        ([("117.344", "ns")], "comma", True),  # nanoseconds are whole: three digits are a group
        ([("117.344", "us")], "point", True),
        ([("8,192", "")], "point", False),
        ([("0.123", "")], "point", False),
        ([("n/a", "")], "point", False),
    ],
)
def test_one_locale_for_a_whole_file(cells, mark, warned, tmp_path):
    found, warning = locale_of(cells, tmp_path)
    assert (found, bool(warning)) == (mark, warned)


def test_two_locales_in_one_file_are_refused(tmp_path):
    path = written(tmp_path, HEADER, metric("a__b.sum", "%", "65,77"), metric("c__d.sum", "%", "65.78"))
    with pytest.raises(RecordingError, match="two locales"):
        ncu.read_recording(path)


@pytest.mark.parametrize(
    ("unit", "factor", "name"),
    [
        ("us", 1e3, "ns"), ("msecond", 1e6, "ns"), ("second", 1e9, "ns"), ("Kbyte", 1e3, "byte"),
        ("Gbyte/s", 1e9, "byte/s"), ("byte/second", 1, "byte/s"), ("Ghz", 1e9, "hz"), ("Hz", 1, "hz"),
        ("cycle/nsecond", 1e9, "cycle/s"), ("Kbyte/block", 1e3, "byte/block"), ("Minst", 1e6, "inst"),
        ("%", 1, "%"), ("", 1, ""), ("register/thread", 1, "register/thread"), ("warp", 1, "warp"),
    ],
)  # fmt: skip
def test_units(unit, factor, name):
    assert base(unit) == (factor, name)


def test_other_output_around_and_inside_the_table(tmp_path):
    path = written(
        tmp_path,
        "epoch 1, loss 0.5",
        "==PROF== Connected to process 1",
        HEADER,
        metric("gpu__time_duration.sum", "us", "2.50"),
        "epoch 2, loss 0.4",
        "==WARNING== clocks are free",
        metric("gpu__time_duration.sum", "us", "3.50", launch=1),
        "==PROF== Disconnected",
    )
    found = ncu.read_recording(path)
    assert (found.kernels[0].calls, found.kernels[0].total_ns) == (2, 6000)
    assert "ncu: clocks are free" in found.warnings
    assert any("1 lines of other output" in warning for warning in found.warnings)


def test_line_breaks_in_a_cell_windows_lines_and_utf_16(tmp_path):
    path = tmp_path / "out.csv"
    rule = metric("", "", "", section="Rules")[:-1] + '","R","OPT","first\r\nsecond","",""'
    text = "\r\n".join(
        (HEADER + ',"Rule Name","Rule Type","Rule Description","T","S"', metric("a__b.sum", "", "1.5"), rule)
    )
    path.write_bytes(text.replace('""",', '"",').encode("utf-16"))
    assert ncu.sniff(path)
    assert ncu.read_recording(path).kernels[0].metrics[0].value == 1.5


def test_two_processes_one_after_the_other(tmp_path):
    path = written(
        tmp_path,
        *(HEADER, metric("gpu__time_duration.sum", "ns", "1,000")),
        *(HEADER, metric("gpu__time_duration.sum", "ns", "3,000", kernel="other").replace('"1","p"', '"2","p"')),
    )
    assert [(kernel.name, kernel.total_ns) for kernel in ncu.read_recording(path).kernels] == [
        ("other", 3000),
        ("k", 1000),
    ]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", RecordingError, "empty"),
        ("hello\nworld\n", RecordingError, "no table"),
        ("==ERROR== ERR_NVGPUCTRPERM - no permission\n", ncu.CountersForbidden, "administrator"),
        ("==ERROR== Failed: LibraryNotLoaded\n", ncu.CountersForbidden, "not to be had"),
        ("==WARNING== No kernels were profiled.\n", ncu.NothingProfiled, "--kernel-name"),
        ("==PROF== Connected\n==PROF== Disconnected\n", ncu.NothingProfiled, "--page raw"),
        (HEADER + "\n", RecordingError, "no table"),
        (HEADER + "\n" + metric("a__b.sum", "", "1")[:-9] + "\n", RecordingError, "cut"),
        (HEADER + "\n" + metric("a__b.sum", "", "1")[:-2], RecordingError, "cut"),
        ('"ID","Process ID","a__b.sum"\n"","","ns"\n', RecordingError, "without a kernel"),
        ('"ID","Process ID","a__b.sum"\n"0","1","5"\n', RecordingError, "units"),
        ('"ID","Process ID","a__b.sum"\n"","","ns"\n"0","1"\n', RecordingError, "cut"),
        ('"Kernel Name","k",\n"Address","Source","# Samples"\n', RecordingError, "without an instruction"),
        ('"Kernel Name","k",\n"Address","Source","# Samples"\n"0x1","MOV"\n', RecordingError, "cut"),
        ("metric,value,unit\na__b.sum,1\n", RecordingError, "expected"),
        (HEADER + "\n\0\n", RecordingError, "NUL"),
    ],
)
def test_refusals_and_damage(text, error, words, tmp_path):
    path = tmp_path / "out.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(error, match=words) as raised:
        ncu.read_recording(path)
    assert str(path) in str(raised.value)


def test_a_binary_report_and_a_missing_file(tmp_path):
    report = tmp_path / "x.ncu-rep"
    report.write_bytes(b"NVR\0\1\2\3")
    assert ncu.sniff(report)
    with pytest.raises(RecordingError, match="--page raw"):
        ncu.read_recording(report)
    assert not ncu.sniff(tmp_path)
    assert not ncu.sniff(tmp_path / "none")
    with pytest.raises(RecordingError, match="cannot be read"):
        ncu.read_recording(tmp_path / "none")


def _read_or_refused(path: Path) -> Recording | None:
    try:
        return ncu.read_recording(path)
    except RecordingError:
        return None


@pytest.mark.parametrize("name", ["h100_raw.csv", "h100_details.csv", "h100_source.csv"])
def test_cut_and_flipped_files_are_refused_or_right(name, tmp_path):
    whole = (DATA / name).read_bytes()
    draw = random.Random(7)
    path = tmp_path / name
    for _ in range(12):
        path.write_bytes(whole[: draw.randrange(len(whole))])
        found = _read_or_refused(path)
        assert found is None or all(kernel.median_ns is None or kernel.median_ns > 0 for kernel in found.kernels)
    for _ in range(8):
        damaged = bytearray(whole)
        for _ in range(4):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(bytes(damaged))
        _read_or_refused(path)
