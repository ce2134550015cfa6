"""SQLite exports of Nsight Systems: kernels, copies, launches and devices; and reports that have to be exported."""

import json
import sqlite3
from contextlib import closing

import pytest

from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.profiles.readers.profiles import profile
from tests.nsys_databases import database


def test_an_export_tells_times_launches_and_device(tmp_path):
    (one,) = read_recordings(database(tmp_path / "run.sqlite"))
    assert (one.format, one.tool, one.vendor, one.arch, one.grade) == (
        "nsys_sqlite",
        "nsys",
        "nvidia",
        "sm_90",
        "trace",
    )
    assert one.device == "NVIDIA H100 80GB HBM3"
    tile, copy = one.kernels
    assert (tile.display, tile.calls, tile.median_ns, tile.gap_before_ns) == ("tile<float>", 9, 10_000, 2000)
    assert (tile.last.grid, tile.last.workgroup, tile.last.blocks) == ((264, 1, 1), (256, 1, 1), (264, 1, 1))
    assert (tile.last.arch_vgpr, tile.last.lds_bytes, tile.last.scratch_bytes) == (64, 16_384, 8)
    assert (copy.name, copy.category, copy.last.grid) == ("Memcpy HtoD", "copy", None)
    (judged, *_) = profile((one,))
    assert judged.number("occ.fill_waves") == 0.5
    assert all("nsys run.sqlite" in number.source for number in judged.numbers if number.rung == "trace")


def test_an_export_without_a_gpu_and_another_database_are_refused(tmp_path):
    with pytest.raises(RecordingError, match="nothing ran on a GPU"):
        read_recordings(database(tmp_path / "idle.sqlite", calls=0))
    with closing(sqlite3.connect(tmp_path / "other.db")) as base:
        base.execute("create table StringIds (id integer)")
    with pytest.raises(RecordingError):
        read_recordings(tmp_path / "other.db")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("run.ncu-rep", "ncu --import run.ncu-rep --csv --page raw --print-units base > run.csv"),
        ("my run.nsys-rep", "nsys export --type sqlite --output 'my run'.sqlite 'my run.nsys-rep'"),
    ],
)
def test_a_report_names_the_command_that_exports_it(tmp_path, name, command):
    (tmp_path / name).write_bytes(b"\x00NVR\x00")
    with pytest.raises(RecordingError) as refused:
        read_recordings(tmp_path / name)
    assert str(refused.value).endswith(command)


def test_its_statistics_tell_medians_and_calls(tmp_path):
    path = tmp_path / "run_cuda_gpu_kern_sum.csv"
    path.write_text(
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        '75.0,3000,3,1000.0,900.0,800,1300,264.6,"void tile<float>(float*, int)"\n'
        "25.0,1000,2,500.0,500.0,400,600,141.4,other\n"
    )
    (one,) = read_recordings(path)
    assert (one.format, one.tool, one.vendor, one.sum_ns) == ("nsys_stats", "nsys", "nvidia", 4000)
    tile, other = one.kernels
    assert (tile.display, tile.calls, tile.median_ns, tile.min_ns, tile.max_ns) == ("tile<float>", 3, 900, 800, 1300)
    assert (other.calls, other.share, one.warnings) == (2, 0.25, ())


SUMS = """Processing [run.sqlite] with [/opt/nvidia/reports/cuda_api_sum.py]...
Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
96.9,106912410,3,35637470.0,6584.0,4697,106901129,61716139.1,cudaMalloc

Processing [run.sqlite] with [/opt/nvidia/reports/cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

Time (%),Total Time (us),Instances,Avg (us),Med (us),Min (us),Max (us),StdDev (us),Name
75.0,"3,000",3,1000.0,900.0,800,1300,264.6,"void tile<float>(float*, int)"
25.0,"1,000",2,500.0,500.0,400,600,141.4,other

Processing [run.sqlite] with [/opt/nvidia/reports/cuda_gpu_mem_time_sum.py]...
Time (%),Total Time (us),Count,Avg (us),Med (us),Min (us),Max (us),StdDev (us),Operation
100.0,1000,1,1000.0,1000.0,1000,1000,0.0,[CUDA memcpy Host-to-Device]
"""
TABLE = """[5/8] Executing 'cuda_api_sum' stats report

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Name
 --------  ---------------  ---------  --------  ----------
     96.9      106,912,410          3   6,584.0  cudaMalloc

[6/8] Executing 'cuda_gpu_kern_sum' stats report

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)              Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  -----------------------------
    100.0        1,831,281      1,010   1,813.1   1,823.0     1,791     4,705         93.3  vectorAdd(const float *, int)
```
and what somebody wrote below it
"""


def test_several_reports_with_the_words_of_the_tool_around_them_in_any_unit(tmp_path):
    path = tmp_path / "stats.csv"
    path.write_text(SUMS)
    (one,) = read_recordings(path)
    assert [(kernel.display, kernel.calls, kernel.total_ns, kernel.median_ns) for kernel in one.kernels] == [
        ("tile<float>", 3, 3e6, 9e5),
        ("Memcpy HtoD", 1, 1e6, 1e6),
        ("other", 2, 1e6, 5e5),
    ]
    assert (one.format, one.sum_ns, one.kernels[0].share) == ("nsys_stats", 5e6, 0.6)


def test_the_table_that_a_profile_prints(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(TABLE)
    ((kernel,),) = (one.kernels for one in read_recordings(path))
    assert (kernel.name, kernel.calls, kernel.total_ns) == ("vectorAdd(const float *, int)", 1010, 1_831_281)
    assert (kernel.median_ns, kernel.min_ns, kernel.max_ns, kernel.stdev_ns) == (1823, 1791, 4705, 93.3)


def test_json_of_sums_and_launches_of_several_sizes(tmp_path):
    path = tmp_path / "stats.json"
    rows = [
        {"Time (%)": 60.0, "Total Time (ns)": 600, "Instances": 3, "Med (ns)": 200.0, "Min (ns)": 190, "Max (ns)": 210,
         "StdDev (ns)": 8.1, "GridXYZ": "8 1 1", "BlockXYZ": "256 1 1", "Name": "k(int)"},
        {"Time (%)": 40.0, "Total Time (ns)": "400", "Instances": "1", "Med (ns)": 400.0, "Min (ns)": 400,
         "Max (ns)": 400, "StdDev (ns)": None, "GridXYZ": "16 1 1", "BlockXYZ": "256 1 1", "Name": "k(int)"},
    ]  # fmt: skip
    path.write_text(f"Processing [run.sqlite] with [cuda_gpu_kern_gb_sum.py]...\n{json.dumps(rows)}\n")
    (one,) = read_recordings(path)
    (kernel,) = one.kernels
    assert (kernel.calls, kernel.total_ns, kernel.median_ns, kernel.min_ns, kernel.max_ns) == (4, 1000, None, 190, 400)
    assert [(launch.blocks, launch.calls, launch.median_ns) for launch in kernel.variants] == [
        ((8, 1, 1), 3, 200),
        ((16, 1, 1), 1, 400),
    ]
    assert "different sizes" in one.warnings[0]


def test_a_trace_tells_each_launch_of_each_gpu(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
        "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
        "1000,500,1,,,,,,,,,,4.194,6337.593,Pinned,Device,NVIDIA L40S (0),1,,13,[CUDA memcpy Host-to-Device]\n"
        '2000,700,2,4096,1,1,256,1,1,16,0.000,0.025,,,,,NVIDIA L40S (0),1,,13,"void f<int>(int *, int)"\n'
        '2800,900,3,4096,1,1,256,1,1,16,0.000,0.025,,,,,NVIDIA L40S (0),1,,13,"void f<int>(int *, int)"\n'
    )
    (one,) = read_recordings(path)
    assert (one.format, one.device, one.vendor, one.span_ns) == ("nsys_trace", "NVIDIA L40S", "nvidia", 2700)
    f, copy = one.kernels
    assert (f.display, f.calls, f.median_ns, f.vgpr_total) == ("f<int>", 2, 800, 16)
    assert (f.last.blocks, f.last.workgroup, f.last.lds_bytes) == ((4096, 1, 1), (256, 1, 1), None)
    assert copy.name == "Memcpy HtoD"
    assert "three digits" in one.warnings[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SKIPPED: run.sqlite does not contain CUDA kernel data.\n" + SUMS[: SUMS.index("\n\n")], "does not contain"),
        (SUMS[: SUMS.index(",141.4")], r":11: 7 columns where the report's header has 9"),
        (SUMS.replace("3,000", "three"), r":10: column total time holds 'three'"),
    ],
)
def test_reports_without_kernels_and_damaged_ones_are_refused(tmp_path, text, why):
    path = tmp_path / "stats.csv"
    path.write_text(text)
    with pytest.raises(RecordingError, match=why):
        read_recordings(path)


def test_an_export_of_an_older_version_without_cuda_says_so(tmp_path):
    with closing(sqlite3.connect(tmp_path / "old.sqlite")) as base:
        base.executescript("create table StringIds (id integer); create table EXPORT_META_DATA (name text);")
    with pytest.raises(RecordingError, match="nsys profile --trace cuda"):
        read_recordings(tmp_path / "old.sqlite")
