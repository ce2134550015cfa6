"""SQLite exports of Nsight Systems: kernels, copies, launches and devices; and reports that have to be exported."""

import sqlite3
from contextlib import closing

import pytest

from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.profiles.readers.profiles import profile

SCHEMA = """
create table StringIds (id integer primary key, value text);
create table META_DATA_EXPORT (name text, value text);
create table TARGET_INFO_GPU (id integer, name text, smCount integer, computeMajor integer, computeMinor integer);
create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, streamId integer,
    demangledName integer, shortName integer, registersPerThread integer, gridX integer, gridY integer, gridZ integer,
    blockX integer, blockY integer, blockZ integer, staticSharedMemory integer, dynamicSharedMemory integer,
    localMemoryPerThread integer);
create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer, end integer, deviceId integer, streamId integer,
    bytes integer, copyKind integer);
insert into StringIds values (1, 'void tile<float>(float*, int)'), (2, 'tile');
insert into TARGET_INFO_GPU values (0, 'NVIDIA H100 80GB HBM3', 132, 9, 0);
"""


def database(path, *, calls=9):
    with closing(sqlite3.connect(path)) as base:
        base.executescript(SCHEMA)
        for at in range(calls):
            row = (12_000 * at, 12_000 * at + 10_000, 0, 7, 1, 2, 64, 264, 1, 1, 256, 1, 1, 1024, 15_360, 8)
            base.execute(f"insert into CUPTI_ACTIVITY_KIND_KERNEL values ({', '.join('?' * len(row))})", row)
        if calls:
            base.execute("insert into CUPTI_ACTIVITY_KIND_MEMCPY values (200000, 203000, 0, 7, 4096, 1)")
        base.commit()
    return path


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
