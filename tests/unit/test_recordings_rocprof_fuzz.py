"""Cut and damaged recordings: either a sound recording, or an error that names the file; nothing else, ever."""

import gzip
import math
import random

import pytest

from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError
from tests.rocprof_samples import sample

FILES = (
    ("rocprofv3_kernel_trace", "rocm7.0_docs_kernel_trace.csv"),
    ("rocprofv3_kernel_trace", "rocm6.1_mi300a_openmp_kernel_trace.csv"),
    ("rocprofv3_stats", "rocm6.2_mi250_jacobi_kernel_stats.csv"),
    ("rocprofv3_counter_collection", "rocm7.0_docs_counter_collection.csv"),
    ("rocprofv3_agent_info", "mi300a_x4_agent_info.csv"),
    ("rocprofv3_other_traces", "rocm7.0_docs_hsa_api_trace.csv"),
)


def _survives(path) -> bool:
    """Whether it was read; asserts that what came of it is sound."""
    try:
        found = read_recordings(path)
    except RecordingError as error:
        fault = str(error)
    else:
        fault = ""
    if fault:
        assert fault.startswith(str(path))
        assert "\n" not in fault
        return False
    assert found
    for recording in found:
        for kernel in recording.kernels:
            assert kernel.calls > 0
            assert kernel.total_ns is None or kernel.total_ns > 0
            assert kernel.share is None or 0 < kernel.share <= 1
        assert all(math.isfinite(one.value) for kernel in recording.kernels for one in kernel.metrics)
    return True


@pytest.mark.parametrize("place", FILES, ids=lambda place: place[-1])
def test_cut_files(tmp_path, place):
    whole = sample(*place).read_bytes()
    path = tmp_path / "cut.csv"
    draw = random.Random(3)
    cuts = sorted(draw.sample(range(len(whole)), 25))
    for cut in cuts:
        path.write_bytes(whole[:cut])
        _survives(path)
    path.write_bytes(whole)
    assert _survives(path)


@pytest.mark.parametrize("place", FILES, ids=lambda place: place[-1])
def test_flipped_bytes(tmp_path, place):
    whole = sample(*place).read_bytes()
    path = tmp_path / "flipped.csv"
    draw = random.Random(5)
    for _ in range(25):
        changed = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        path.write_bytes(bytes(changed))
        _survives(path)


def test_damaged_databases(tmp_path):
    whole = sample("rocpd", "DERIVED_mi350x_pytorch_1500_dispatches.db").read_bytes()
    path = tmp_path / "run.db"
    draw = random.Random(11)
    for _ in range(6):
        path.write_bytes(whole[: draw.randrange(16, len(whole))])
        assert not _survives(path)
    for _ in range(6):
        changed = bytearray(whole)
        for _ in range(40):
            changed[draw.randrange(100, len(changed))] = draw.randrange(256)
        path.write_bytes(bytes(changed))
        _survives(path)


def test_damaged_gzip(tmp_path):
    whole = sample("rocprofv3_json", "rocm7.2_mi350x_att_run_flash_attn_results.json.gz").read_bytes()
    path = tmp_path / "run.json.gz"
    for cut in (3, 500, len(whole) // 2):
        path.write_bytes(whole[:cut])
        assert not _survives(path)
    text = gzip.decompress(whole)
    for cut in (100, 5000, len(text) - 3):
        path.write_bytes(text[:cut])
        assert not _survives(path)
