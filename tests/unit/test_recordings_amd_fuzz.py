"""Cut and flipped bytes in every file of thread traces, PC samples and rocprof-compute: a placed error, or sense."""

import math
import random
import shutil
import sqlite3

import pytest

from ridgeline.graph.kernel_profile import Recording
from ridgeline.sandbox.profiles.readers import att, pc_sampling, rocprof_compute
from ridgeline.sandbox.profiles.readers.files import RecordingError
from tests.att_folders import make_trace
from tests.compute_folders import make_database, make_samples, make_workload

SEED = 20261121
FLIPS = 100


def read(reader, path):
    """What a reader gives; anything but these two fails the test."""
    reader.sniff(path)
    try:
        recording = reader.read_recording(path)
    except RecordingError as error:
        named = str(error)
    else:
        return sensible(recording)
    assert str(path) in named
    return None


def sensible(recording):
    """The recording, whose shares and times can be some, and which survives being written and read."""
    assert isinstance(recording, Recording)
    assert Recording.model_validate_json(recording.model_dump_json()) == recording
    for share in (*recording.stalls, *recording.hotspots):
        assert math.isfinite(share.share)
        assert share.share >= 0
    for kernel in recording.kernels:
        assert kernel.total_ns is None or kernel.total_ns > 0
    return recording


def damaged(data, times=FLIPS):
    """The bytes cut at many places, and with bytes changed at random but always the same places."""
    random_ = random.Random(SEED)
    step = max(1, len(data) // times)
    yield from (data[:length] for length in range(0, len(data), step))
    for _ in range(times):
        flipped = bytearray(data)
        for _ in range(random_.choice((1, 1, 4))):
            flipped[random_.randrange(len(flipped))] = random_.randrange(256)
        yield bytes(flipped)


ATT_FILES = ("code.json", "filenames.json", "occupancy.json", "realtime.json", "se0_sm0_sl0_wv0.json")


@pytest.mark.parametrize("name", ATT_FILES)
def test_thread_traces(tmp_path, name):
    folder = make_trace(tmp_path / "ui_output_agent_1_dispatch_2")
    data = (folder / name).read_bytes()
    read_whole = 0
    for broken in damaged(data):
        (folder / name).write_bytes(broken)
        read_whole += read(att, folder) is not None
    assert read_whole > 0


@pytest.mark.parametrize("name", ATT_FILES)
def test_a_cut_file_of_a_trace_is_always_an_error(tmp_path, name):
    folder = make_trace(tmp_path / "trace")
    data = (folder / name).read_bytes()
    for length in range(0, len(data) - 1, max(1, len(data) // 60)):
        (folder / name).write_bytes(data[:length])
        with pytest.raises(RecordingError) as raised:
            att.read_recording(folder)
        assert raised.value.path == folder / name


@pytest.mark.parametrize("stochastic", [False, True])
def test_samples(tmp_path, stochastic):
    path = make_samples(tmp_path / "samples.csv", stochastic=stochastic)
    assert read(pc_sampling, path)
    for broken in damaged(path.read_bytes()):
        path.write_bytes(broken)
        found = read(pc_sampling, path)
        assert found is None or sum(one.share for one in found.stalls) == pytest.approx(1)


@pytest.mark.parametrize(
    ("form", "name", "times"),
    [
        ("wide", "pmc_perf.csv", 150),
        ("wide", "sysinfo.csv", 80),
        pytest.param("long", "pmc_perf.csv", 12, marks=pytest.mark.slow),
    ],
)
def test_workloads(tmp_path, form, name, times):
    folder = make_workload(tmp_path / "MI300X", form=form)
    assert read(rocprof_compute, folder)
    for broken in damaged((folder / name).read_bytes(), times):
        (folder / name).write_bytes(broken)
        read(rocprof_compute, folder)


def test_databases(tmp_path):
    path = make_database(tmp_path / "whole.db")
    assert read(rocprof_compute, path)
    data = path.read_bytes()
    broken_path = tmp_path / "broken.db"
    for broken in damaged(data):
        broken_path.write_bytes(broken)
        read(rocprof_compute, broken_path)
    shutil.copy(path, broken_path)
    with sqlite3.connect(broken_path) as base:
        base.execute("UPDATE compute_metadata SET schema_version = '2.0.0'")
    base.close()
    with pytest.raises(RecordingError, match=r"schema '2\.0\.0'"):
        rocprof_compute.read_recording(broken_path)
