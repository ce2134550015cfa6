"""rocprof-compute: wide and long tables made up here, analysis databases, and recorded profiles of one copy kernel."""

import json

import pytest

from ridgeline.sandbox.profiles.readers import att, pc_sampling, rocprof_compute
from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.profiles.readers.rocprof_compute import dispatches, duration
from tests.att_folders import sample
from tests.compute_folders import (
    COUNTERS,
    KERNEL,
    LAUNCH,
    MEANS,
    SYSINFO,
    TIMES,
    make_database,
    make_workload,
    write_table,
)


def metrics(kernel):
    return {one.name: one.value for one in kernel.metrics}


@pytest.mark.parametrize("form", ["wide", "long"])
def test_counters_are_means_over_dispatches(tmp_path, form):
    folder = make_workload(tmp_path / "MI300X", form=form)
    assert rocprof_compute.sniff(folder)
    assert rocprof_compute.sniff(folder / "pmc_perf.csv")
    recording = rocprof_compute.read_recording(folder)
    (kernel,) = recording.kernels
    assert metrics(kernel) == MEANS
    assert (kernel.name, kernel.display, kernel.category) == (KERNEL, "copy", "compute")
    assert (kernel.calls, kernel.total_ns, kernel.mean_ns, kernel.median_ns) == (3, 9000, 3000, 3000)
    assert (kernel.min_ns, kernel.max_ns, kernel.stdev_ns, kernel.share) == (2000, 4000, 1000, 1.0)
    assert (kernel.last.calls, kernel.last.grid, kernel.last.grid_items, kernel.last.workgroup_items) == (
        3, None, 65536, 256,
    )  # fmt: skip
    assert kernel.last.blocks == (256, 1, 1)
    assert (kernel.last.lds_bytes, kernel.last.lds_static_only, kernel.last.scratch_bytes) == (512, True, 0)
    assert (kernel.vgpr_total, kernel.corrected) == (16, "")
    assert any("SQ_LEVEL_WAVES" in warning for warning in recording.warnings)
    assert recording.grade == "serialised"


def test_the_device_comes_from_sysinfo(tmp_path):
    recording = rocprof_compute.read_recording(make_workload(tmp_path / "a"))
    assert (recording.arch, recording.device, recording.tool_version) == ("gfx942", "MI300X_A1", "3")
    assert {one.name: one.value for one in recording.facts} == {
        "units": 304, "simds_per_unit": 4, "wave_size": 64, "l2_domains": 8, "clock_mhz": 2100,
        "memory_clock_mhz": 1300, "memory_channels": 128, "max_waves_per_simd": 8,
    }  # fmt: skip


def test_the_bandwidth_of_an_older_sysinfo_is_that_of_the_die_that_ran(tmp_path):
    """rocprof-compute 2 tells GB/s in place of channels: 1638 of a die of an MI250X, whose two have 3277."""
    older = {name: value for name, value in SYSINFO.items() if name != "num_hbm_channels"} | {"hbm_bw": "1638.4"}
    recording = rocprof_compute.read_recording(make_workload(tmp_path / "a", sysinfo=older))
    assert {one.name: one.value for one in recording.facts}["memory_gbps"] == 1638.4
    assert not any("num_hbm_channels" in warning for warning in recording.warnings)


def test_what_sysinfo_does_not_know_stays_unknown(tmp_path):
    wrong = rocprof_compute.read_recording(
        make_workload(tmp_path / "a", sysinfo={**SYSINFO, "max_sclk": "0", "max_mclk": ""})
    )
    assert not {"clock_mhz", "memory_clock_mhz"} & {one.name for one in wrong.facts}
    assert "sysinfo.csv does not know max_sclk, max_mclk" in wrong.warnings
    without = rocprof_compute.read_recording(make_workload(tmp_path / "b", sysinfo=None))
    assert (without.arch, without.facts) == (None, ())
    assert "no sysinfo.csv" in without.warnings[0]


@pytest.mark.parametrize(
    ("arch", "accum", "total"), [("gfx950", 0, 24), ("gfx950", 4, 16), ("gfx942", 0, 16), ("gfx942", 8, 24)]
)
def test_registers_of_gfx950_are_doubled_only_where_no_accumulation_register_is_told(tmp_path, arch, accum, total):
    launch = {**LAUNCH, "Accum_VGPR": accum}
    kernel = rocprof_compute.read_recording(
        make_workload(tmp_path / "a", launch=launch, sysinfo={**SYSINFO, "gpu_arch": arch})
    ).kernels[0]
    assert (kernel.vgpr_total, bool(kernel.corrected)) == (total, total == 24 and accum == 0)


def test_a_dispatch_in_which_no_wave_was_counted_tells_no_zero(tmp_path):
    dead = {**COUNTERS[2], "SQ_WAVES": 0, "TCC_HIT_sum": 0, "TCC_MISS[0]": 7}
    recording = rocprof_compute.read_recording(make_workload(tmp_path / "a", counters=(*COUNTERS[:2], dead)))
    assert metrics(recording.kernels[0]) == {
        "SQ_WAVES": 1024, "TCC_HIT_sum": 15, "TCC_MISS_sum": (7 + 11 + 7) / 3, "SQ_INSTS_LDS": 0,
    }  # fmt: skip
    nothing = dict.fromkeys(COUNTERS[0], 0)
    for form in ("wide", "long"):
        with pytest.raises(RecordingError, match="not collected"):
            rocprof_compute.read_recording(make_workload(tmp_path / form, form=form, counters=(nothing,) * 3))


def test_level_counters_are_taken_from_their_own_files(tmp_path):
    folder = make_workload(tmp_path / "a")
    rows = [
        {"Dispatch_ID": number, **LAUNCH, "SQ_WAVES": 9, "SQ_WAVE_CYCLES": 100, "SQ_LEVEL_WAVES": 0,
         "SQ_ACCUM_PREV_HIRES": 4000 + number}
        for number in (2, 0, 1)
    ]  # fmt: skip
    write_table(folder / "SQ_LEVEL_WAVES.csv", rows)
    assert metrics(rocprof_compute.read_recording(folder).kernels[0]) == MEANS | {
        "SQ_WAVE_CYCLES": 100, "SQ_LEVEL_WAVES_ACCUM": 4001,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("start", "end", "time"),
    [
        ("10", "14", 4), ("10.25", "14.75", 4.5), ("1248226695430472.25", "1248226695447392.0", 16919.75),
        ("1.62068E+14", "1.62068E+14", 0), ("1.62068E+14", "1.62069E+14", 0), ("14", "10", 0), ("14", "14", 0),
        ("", "14", 0), ("-5", "14", 0), ("nan", "14", 0), ("1" * 30, "2" * 30, 0),
    ],
)  # fmt: skip
def test_times_that_a_spreadsheet_rounded_are_no_times(start, end, time):
    assert duration(start, end) == time


@pytest.mark.parametrize("form", ["wide", "long"])
def test_dispatches_without_a_time_leave_the_total_unknown(tmp_path, form):
    times = (*TIMES[:2], ("1.62068E+14", "1.62068E+14")) if form == "wide" else (*TIMES[:2], (30_000, 30_000))
    recording = rocprof_compute.read_recording(make_workload(tmp_path / form, form=form, times=times))
    (kernel,) = recording.kernels
    assert (kernel.calls, kernel.total_ns, kernel.share, kernel.median_ns) == (3, None, None, 3500)
    assert (recording.rejected, recording.sum_ns) == (0, None)
    assert any("1 of 3 dispatches have no usable time" in warning for warning in recording.warnings)


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda text: "", "is empty"),
        (lambda text: text.splitlines()[0] + "\n", ":1: has a header and no dispatch"),
        (lambda text: text[:-1].rstrip(), "no end"),
        (lambda text: text[:-30], r"cells, the header .*: cut|no end"),
        (lambda text: text.replace("Kernel_Name", "Name"), ":1: its header lacks kernel_name"),
        (lambda text: text.replace(",1024,", ",many,", 1), ":2: SQ_WAVES is 'many'"),
        (lambda text: text.replace(",1024,", ",inf,", 1), ":2: SQ_WAVES is 'inf'"),
        (lambda text: text.replace(",1024,", ",-1,", 1), ":2: SQ_WAVES is '-1'"),
        (lambda text: text.replace(",65536,", ",1E+05,", 1), ":2: grid_size is '1E.05'"),
        (lambda text: text.replace(f'"{KERNEL}"', "", 1), ":2: a dispatch names no kernel"),
        (lambda text: text.replace("256", "2\x0056", 1), ":2:"),
    ],
)
def test_a_damaged_table_names_the_line(tmp_path, edit, match):
    path = make_workload(tmp_path / "a") / "pmc_perf.csv"
    path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(RecordingError, match=match):
        rocprof_compute.read_recording(path)


def test_a_folder_whose_passes_were_not_joined_says_so(tmp_path):
    """As a filter that fits no dispatch leaves it."""
    folder = make_workload(tmp_path / "a")
    (folder / "pmc_perf.csv").rename(folder / "pmc_perf_0.csv")
    with pytest.raises(RecordingError, match=r"pmc_perf\.csv: its passes were not joined"):
        read_recordings(folder)


def test_a_cut_sysinfo_and_a_folder_without_counters_are_errors(tmp_path):
    folder = make_workload(tmp_path / "a")
    text = (folder / "sysinfo.csv").read_text(encoding="utf-8")
    for cut in (text[:-1].rstrip()[:-1], text.splitlines()[0] + "\n", text[:-10]):
        (folder / "sysinfo.csv").write_text(cut, encoding="utf-8")
        with pytest.raises(RecordingError, match=r"sysinfo\.csv"):
            rocprof_compute.read_recording(folder)
    (tmp_path / "empty").mkdir()
    assert not rocprof_compute.sniff(tmp_path / "empty")
    with pytest.raises(RecordingError, match=r"holds no pmc_perf\.csv"):
        rocprof_compute.read_recording(tmp_path / "empty")


def test_a_database_tells_times_and_metrics(tmp_path):
    told = (
        ("Wavefront", "Wavefront Launch Stats", "VGPRs", "Registers", "Avg", 16.0),
        ("Wavefront", "Wavefront Launch Stats", "Grid Size", "Work-items", "Avg", 512.5),
        ("L2 Cache", "L2 Cache", "Hit", "Percent", "Avg", 33.5),
        ("L2 Cache", "L2 Cache", "Hit", "Percent", "Max", 40.0),
        ("L2 Cache", "L2 Cache", "Idle", None, "Pct of Peak", float("inf")),
        ("L2 Cache", "L2 Cache", "Gone", None, "Value", None),
    )
    path = make_database(tmp_path / "a.db", metrics=told)
    assert rocprof_compute.sniff(path)
    recording = rocprof_compute.read_recording(path)
    (kernel,) = recording.kernels
    assert (recording.format, recording.tool_version, recording.arch) == ("rocprof_compute_db", "3.5.0", "gfx942")
    assert (kernel.calls, kernel.total_ns, kernel.median_ns, kernel.share) == (2, 4000, 2000, 1.0)
    assert metrics(kernel) == {
        "L2 Cache / Hit [Avg] (Percent)": 33.5,
        "Wavefront / Wavefront Launch Stats / VGPRs [Avg] (Registers)": 16.0,
        "Wavefront / Wavefront Launch Stats / Grid Size [Avg] (Work-items)": 512.5,
    }
    assert (kernel.last.arch_vgpr, kernel.last.grid_items) == (16, None)


def test_another_database_is_not_taken_for_one(tmp_path):
    path = tmp_path / "other.db"
    path.write_bytes(b"SQLite format 3\0" + b"\0" * 84)
    assert not rocprof_compute.sniff(path)
    with pytest.raises(RecordingError):
        rocprof_compute.read_recording(path)


# The recorded profiles: vcopy of 8 MiB each way on five chips.

CHIPS = ("MI100", "MI200", "MI300A_A1", "MI300X_A1", "MI350")


def golden(chip):
    return json.loads(sample("GOLDEN.json").read_text(encoding="utf-8"))["vcopy"][chip]


def read_bytes(told, chip):
    """Section 3.3 of the specification, generic formula and corrected one."""
    part = "TCC_EA_" if chip in ("MI100", "MI200") else "TCC_EA0_"
    reads, small, bubble = told[part + "RDREQ_sum"], told[part + "RDREQ_32B_sum"], told.get("TCC_BUBBLE_sum", 0)
    generic = 128 * bubble + 64 * (reads - bubble - small) + 32 * small
    corrected = 128 * (reads - small) + 32 * small if chip == "MI350" else generic
    writes, whole = told[part + "WRREQ_sum"], told[part + "WRREQ_64B_sum"]
    return generic, corrected, 64 * whole + 32 * (writes - whole)


@pytest.mark.parametrize("chip", CHIPS)
def test_counters_of_every_recorded_dispatch(chip):
    folder = sample("rocprof_compute", f"vcopy_{chip}")
    for wanted, one in zip(golden(chip), dispatches(folder / "pmc_perf.csv"), strict=True):
        generic, corrected, written = read_bytes(one.counters, chip)
        assert one.number == wanted["dispatch"]
        assert generic == wanted["read_bytes_generic_formula"]
        assert corrected == wanted["read_bytes_corrected"]
        assert written == wanted["write_bytes"]
        hit, miss = one.counters["TCC_HIT_sum"], one.counters["TCC_MISS_sum"]
        assert hit / (hit + miss) == pytest.approx(wanted["l2_hit"], abs=5e-5)
        assert one.counters["SQ_WAVES"] == 1048576 / 64
        time = duration(one.cells["start_timestamp"], one.cells["end_timestamp"])
        assert time == (wanted["duration_ns"] or 0)
        if time:
            assert (corrected + written) / time == pytest.approx(wanted["bandwidth_GBps"], abs=0.05)


@pytest.mark.parametrize("chip", CHIPS)
def test_means_of_the_recorded_dispatches(chip):
    wanted, recording = golden(chip), rocprof_compute.read_recording(sample("rocprof_compute", f"vcopy_{chip}"))
    (kernel,) = recording.kernels
    _, corrected, written = read_bytes(metrics(kernel), chip)
    assert corrected == pytest.approx(sum(one["read_bytes_corrected"] for one in wanted) / 3)
    assert written == pytest.approx(sum(one["write_bytes"] for one in wanted) / 3)
    times = [one["duration_ns"] for one in wanted]
    assert kernel.mean_ns == (None if None in times else pytest.approx(sum(times) / 3))
    assert kernel.vgpr_total == 8
    assert not any(name.startswith("SQ_ACCUM") for name in metrics(kernel))


def test_the_long_form_of_the_recorded_profile_agrees_with_the_wide_one():
    wide = rocprof_compute.read_recording(sample("rocprof_compute", "vcopy_MI300X_A1")).kernels[0]
    long = rocprof_compute.read_recording(sample("rocprof_compute", "vcopy_MI300X_A1_rocpd")).kernels[0]
    assert (long.calls, long.last.grid_items, long.vgpr_total) == (3, wide.last.grid_items, wide.vgpr_total)
    assert long.median_ns == pytest.approx(6256.2, abs=0.1)
    for name in ("SQ_WAVES", "TCC_BUBBLE_sum", "TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum"):
        assert metrics(long)[name] == metrics(wide)[name]
    assert "SQ_INST_LEVEL_LDS" not in metrics(long)


def test_the_recorded_database():
    path = sample("rocprof_compute", "analysis_db_mi350_monte_carlo_pi.db")
    assert rocprof_compute.sniff(path)
    recording = rocprof_compute.read_recording(path)
    assert (recording.arch, len(recording.kernels), recording.rows) == ("gfx950", 7, 10)
    assert recording.sum_ns == 1284933
    assert recording.kernels[0].total_ns == 467645 + 334844


def test_formats_do_not_take_each_others_recordings():
    for place in sample("rocprof_compute").iterdir():
        assert rocprof_compute.sniff(place)
        assert not att.sniff(place)
        assert not pc_sampling.sniff(place)
    for place in sample("pc_sampling").iterdir():
        assert not rocprof_compute.sniff(place)
