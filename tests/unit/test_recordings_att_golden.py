"""Real thread traces of ten kernels' collection, read in place: every number that was computed from them by others."""

import json
import time

import pytest

from ridgeline.sandbox.profiles.readers import att
from tests.att_folders import sample

NAMES = ("blockscale_gemm_big_COMPLETE", "flash_attn_big", "fused_rope_big_COMPLETE", "softmax_big")


def golden(name):
    return json.loads(sample("GOLDEN.json").read_text(encoding="utf-8"))["att"][name]


def shares(recording):
    return {one.stall: one.share for one in recording.stalls}


def split(recording, *stalls):
    """Share of the first class among these."""
    found = shares(recording)
    return found[stalls[0]] / sum(found.get(stall, 0) for stall in stalls)


@pytest.mark.parametrize("name", NAMES)
def test_sums_of_a_trace(name):
    wanted, trace = golden(name), att.read_recording(sample("att", name)).att
    assert trace.instructions == wanted["instructions"]
    assert trace.waves == wanted["waves"]
    assert trace.wave_cycles == wanted["sum_wave_cycles"]
    assert (trace.latency, trace.stall, trace.idle) == (
        wanted["sum_latency"], wanted["sum_stall"], wanted["sum_idle"],
    )  # fmt: skip
    assert trace.checksum == pytest.approx(wanted["latency_plus_idle_over_wave_cycles"], abs=5e-6)
    assert trace.clock_mhz == pytest.approx(wanted["shader_clock_mhz_from_realtime"], abs=0.05)
    assert trace.checksum_ok
    assert all(passed for _, passed in trace.validators)


@pytest.mark.parametrize("name", NAMES)
def test_kinds_of_a_trace(name):
    trace = att.read_recording(sample("att", name)).att
    found = {
        one.kind: {
            "static": one.instructions, "hits": one.hits, "latency": one.latency, "stall": one.stall, "idle": one.idle,
            "stall_share_of_wave_time": round(one.stall / trace.wave_cycles, 4),
        }
        for one in trace.kinds
    }  # fmt: skip
    assert found == golden(name)["by_class"]


@pytest.mark.parametrize("name", NAMES)
def test_classes_are_all_of_the_waves_time(name):
    recording = att.read_recording(sample("att", name))
    assert sum(shares(recording).values()) == pytest.approx(recording.att.checksum, abs=1e-9)


def test_what_the_waves_of_real_kernels_waited_for():
    gemm, flash, rope, softmax = (att.read_recording(sample("att", name)) for name in NAMES)
    assert (gemm.arch, flash.arch, softmax.arch) == ("gfx950", "gfx950", "gfx950")
    assert shares(gemm)["mem_wait"] == pytest.approx(0.69, abs=0.01)
    # most waits on lgkmcnt are for scalar loads, not for LDS
    assert split(rope, "smem_wait", "lds_wait", "lgkm_wait", "unknown_wait") == pytest.approx(0.97, abs=0.01)
    assert split(flash, "lds_wait", "smem_wait", "lgkm_wait") == pytest.approx(0.85, abs=0.01)
    assert shares(rope)["tail"] == pytest.approx(0.13, abs=0.005)
    assert shares(softmax)["mem_issue"] == pytest.approx(0.34, abs=0.005)
    assert shares(softmax)["store"] == pytest.approx(0.11, abs=0.005)
    assert flash.att.matrix_busy == pytest.approx(0.24, abs=0.005)
    assert rope.att.matrix_busy is None


def test_the_collection_is_read_hottest_first():
    recording = att.read_recording(sample("att"))
    assert recording.att.kernel == "softmax_kernel_0"
    assert "3 other traces" in recording.warnings[-1]


def test_the_stats_file_agrees_with_its_trace():
    alone = att.read_recording(sample("att", "DERIVED_stats_ui_output_blockscale_gemm_big_COMPLETE.csv")).att
    whole = att.read_recording(sample("att", NAMES[0])).att
    assert (alone.kinds, alone.kernel, alone.waves) == (whole.kinds, whole.kernel, whole.waves)
    assert alone.checksum is None


def test_the_largest_trace_takes_less_than_a_second_of_processor_time():
    begin = time.process_time()
    att.read_recording(sample("att", "flash_attn_big"))
    att.read_recording(sample("att", "softmax_big"))
    assert time.process_time() - begin < 2
