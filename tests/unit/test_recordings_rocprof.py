"""rocprofv3's other files: statistics, counters, agents, API traces, JSON and databases, and what a folder becomes."""

import json
import shutil
import sqlite3

import pytest

from ridgeline.sandbox.profiles.readers import json_stream
from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError
from tests.rocprof_samples import SAMPLES, row, sample, trace

STATS = "Name,Calls,TotalDurationNs,AverageNs,Percentage,MinNs,MaxNs,StdDev\n"
COUNTERS = (
    "Correlation_Id,Dispatch_Id,Agent_Id,Kernel_Name,Grid_Size,"
    "Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp\n"
)


def _copy(tmp_path, source, name):
    target = tmp_path / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o644)
    return target


def _metrics(kernel):
    return {metric.name: metric.value for metric in kernel.metrics}


def test_statistics_are_those_of_the_trace():
    (stats,) = read_recordings(sample("rocprofv3_stats", "rocm7.2_mi350x_flash_attn_func_kernel_stats.csv"))
    (traced,) = read_recordings(sample("rocprofv3_kernel_trace", "rocm7.2_mi350x_flash_attn_func_kernel_trace.csv"))
    told = {kernel.name: kernel for kernel in traced.kernels}
    assert len(stats.kernels) == len(told) == 19
    for kernel in stats.kernels:
        other = told[kernel.name]
        assert (kernel.calls, kernel.total_ns, kernel.min_ns, kernel.max_ns, kernel.share) == (
            other.calls,
            other.total_ns,
            other.min_ns,
            other.max_ns,
            other.share,
        )
        assert kernel.stdev_ns == pytest.approx(other.stdev_ns, abs=1e-5)
        assert kernel.median_ns is None


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (STATS, 1, "0 kernels"),
        (STATS + "k,2,30\n", 2, "3 columns"),
        (STATS + "k,2,30,15,100,10,20,0\nm,2,nan,1,1,1,1,1\n", 3, "'nan'"),
        (STATS + 'k,2,30,"15,5",100,"10,5",20,0\n', 2, "'10,5'"),
        (STATS + "k,0,30,15,100,10,20,0\n", 2, "whole number of calls"),
        (STATS + "k,2,0,0,0,0,0,0\n", 2, "every duration is 0"),
        (STATS + 'k,2,30,15,100,10,20,0\n"m,2', 3, "damaged"),
    ],
)
def test_damaged_statistics_are_named(tmp_path, text, line, says):
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(RecordingError) as caught:
        read_recordings(tmp_path / "s.csv")
    assert caught.value.line == line
    assert says in str(caught.value)


def test_small_numbers_and_wrong_percentages(tmp_path):
    text = STATS + "k,2,3.0e+01,15,4.671e-04,10,20,0.00000000e+00\nm,1,30,30,50,30,30,0\n"
    (tmp_path / "s.csv").write_text(text)
    (recording,) = read_recordings(tmp_path / "s.csv")
    assert [(kernel.name, kernel.share) for kernel in recording.kernels] == [("k", 0.5), ("m", 0.5)]
    assert "Percentage" in recording.warnings[0]


def test_api_statistics_and_domains_are_no_kernels():
    (api,) = read_recordings(sample("rocprofv3_stats", "rocm6.2_mi250_jacobi_hip_api_stats.csv"))
    told = {one.name: one.value for one in api.counters}
    assert (api.kernels, told["hipMemcpy.calls"], told["hipMemcpy.total_ns"]) == ((), 1005, 1248355080)
    (domains,) = read_recordings(sample("rocprofv3_stats", "rocm7.2_mi350x_flash_attn_func_domain_stats.csv"))
    assert {one.name: one.value for one in domains.counters}["KERNEL_DISPATCH.total_ns"] == 1995814


def test_every_other_trace_is_summed():
    for path in sorted(sample("rocprofv3_other_traces").iterdir()):
        (recording,) = read_recordings(path)
        assert recording.rows == sum(one.value for one in recording.counters if one.name.endswith(".calls"))


def test_counters_are_means_per_call():
    (recording,) = read_recordings(
        sample("rocprofv3_counter_collection", "mi300a_shallow_0_baseline_OccupancyPercent_counter_collection.csv")
    )
    kernels = {kernel.name: kernel for kernel in recording.kernels}
    assert _metrics(kernels["init_gaussian"]) == {"OccupancyPercent": 13.271172}
    assert kernels["init_gaussian"].last.grid_items == 262144
    assert recording.grade == "serialised"
    (old,) = read_recordings(sample("rocprofv3_counter_collection", "rocm6.3_docs_counter_collection.csv"))
    assert all(_metrics(kernel) == {"SQ_WAVES": 16384} for kernel in old.kernels)


def test_a_pass_of_zeros_is_no_result():
    (recording,) = read_recordings(
        sample("rocprofv3_counter_collection", "rocm6.4.0_gfx1100_all_zero_counter_collection.csv")
    )
    assert all(kernel.metrics == () for kernel in recording.kernels)
    assert recording.rejected == recording.rows == 2
    assert "failed pass" in recording.warnings[0]
    assert recording.kernels[0].total_ns == 101359039


def _counted(path, *rows):
    path.write_text(COUNTERS + "".join(rows))
    return path


def test_counters_that_cannot_be_zero_reject_their_kernel(tmp_path):
    rows = ["1,1,1,a,64,SQ_WAVES,0,10,20\n", "1,1,1,a,64,X,5,10,20\n", "2,2,1,b,64,SQ_WAVES,4,30,50\n"]
    rows += ["2,2,1,b,64,SQ_LEVEL_WAVES,0,30,50\n", "2,2,1,b,64,Z,0,30,50\n"]
    (recording,) = read_recordings(_counted(tmp_path / "c.csv", *rows))
    assert {kernel.name: _metrics(kernel) for kernel in recording.kernels} == {"a": {}, "b": {"SQ_WAVES": 4, "Z": 0}}
    assert recording.rejected == 2
    assert {kernel.name: kernel.total_ns for kernel in recording.kernels} == {"a": 10, "b": 20}


@pytest.mark.parametrize(
    ("rows", "line", "says"),
    [
        ([], 1, "0 kernels"),
        (["1,1,1,a,64,X,\n"], 2, "7 columns"),
        (["1,1,1,a,64,X,,1,2\n"], None, "1 rows without"),
        (["1,1,1,a,64,X,nan,1,2\n"], None, "1 rows without"),
        (["1,1,1,a,64,X,many,1,2\n"], 2, "many"),
        (['1,1,1,a,64,X,"4,5",1,2\n'], 2, "4,5"),
    ],
)
def test_damaged_counters_are_named(tmp_path, rows, line, says):
    with pytest.raises(RecordingError) as caught:
        read_recordings(_counted(tmp_path / "c.csv", *rows))
    assert caught.value.line == line
    assert says in str(caught.value)


def test_agents_give_constants():
    (recording,) = read_recordings(sample("rocprofv3_agent_info", "rocm7.2_mi350x_8gpu_agent_info.csv"))
    assert (recording.arch, recording.rows) == ("gfx950", 8)
    assert {fact.name: fact.value for fact in recording.facts} == {
        "units": 256,
        "simds_per_unit": 4,
        "wave_size": 64,
        "max_waves_per_simd": 8,
        "l2_domains": 8,
        "lds_bytes_per_unit": 160 * 1024,
        "clock_mhz": 2200,
    }
    (apu,) = read_recordings(sample("rocprofv3_agent_info", "mi300a_x4_agent_info.csv"))
    assert (apu.arch, {fact.name: fact.value for fact in apu.facts}["l2_domains"]) == ("gfx942", 6)


def test_a_folder_gives_the_trace_its_device_and_drops_doubles(tmp_path):
    trace_file = sample("rocprofv3_kernel_trace", "rocm7.2_mi350x_flash_attn_func_kernel_trace.csv")
    _copy(tmp_path, trace_file, "host/17_kernel_trace.csv")
    _copy(
        tmp_path,
        SAMPLES / "rocprofv3_stats" / "rocm7.2_mi350x_flash_attn_func_kernel_stats.csv",
        "host/17_kernel_stats.csv",
    )
    _copy(tmp_path, SAMPLES / "rocprofv3_agent_info" / "rocm7.2_mi350x_8gpu_agent_info.csv", "host/17_agent_info.csv")
    (tmp_path / "host" / "log.txt").write_text("done\n")
    (recording,) = read_recordings(tmp_path)
    assert (recording.format, recording.arch, recording.device) == (
        "kernel_trace",
        "gfx950",
        "AMD Instinct MI350X (Agent 2)",
    )
    flash = next(kernel for kernel in recording.kernels if kernel.name == "flash_attn_func_kernel_0")
    assert (flash.last.arch_vgpr, flash.last.accum_vgpr, flash.vgpr_total) == (124, 0, 248)
    assert "twice" in flash.corrected


def test_registers_of_other_devices_are_not_doubled(tmp_path):
    _copy(
        tmp_path, sample("rocprofv3_kernel_trace", "rocm7.1.1_mi300a_rocpd2csv_kernel_trace.csv"), "a_kernel_trace.csv"
    )
    _copy(tmp_path, SAMPLES / "rocprofv3_agent_info" / "mi300a_x4_agent_info.csv", "a_agent_info.csv")
    (recording,) = read_recordings(tmp_path)
    assert recording.arch == "gfx942"
    for kernel in recording.kernels:
        told = kernel.last.arch_vgpr + kernel.last.accum_vgpr
        assert kernel.vgpr_total == -(-told // 8) * 8
        assert not kernel.last.lds_static_only


def test_processes_stay_apart_hottest_compute_first(tmp_path):
    trace(tmp_path / "1_kernel_trace.csv", [row("__amd_rocclr_copyBuffer", 0, 900), row("k", 1000, 1010)])
    trace(tmp_path / "2_kernel_trace.csv", [row("k", 0, 500)])
    (tmp_path / "3_kernel_trace.csv").write_text("")
    first, second = read_recordings(tmp_path)
    assert [one.kernels[0].category for one in (first, second)] == ["compute", "copy"]
    assert any("3_kernel_trace.csv: is empty" in warning for warning in first.warnings)


def test_passes_of_counters_become_one(tmp_path):
    for at, counter in enumerate(("X", "Y"), 1):
        (tmp_path / f"pmc_{at}").mkdir()
        _counted(tmp_path / f"pmc_{at}" / f"{at}_counter_collection.csv", f"1,1,1,a,64,{counter},{at},10,20\n")
    (recording,) = read_recordings(tmp_path)
    assert _metrics(recording.kernels[0]) == {"X": 1, "Y": 2}
    assert len(recording.files) == 2
    _counted(tmp_path / "pmc_2" / "2_counter_collection.csv", "1,1,1,a,64,Y,2,10,20\n", "2,2,1,a,64,Y,2,10,20\n")
    assert len(read_recordings(tmp_path)) == 2


@pytest.mark.parametrize("kind", ["nothing", "text", "none"])
def test_a_folder_without_recordings_says_so(tmp_path, kind):
    folder = tmp_path / "run"
    if kind != "none":
        folder.mkdir()
    if kind == "text":
        (folder / "log.txt").write_text("hello\n")
    with pytest.raises(RecordingError, match="no such" if kind == "none" else "holds no recording"):
        read_recordings(folder)


@pytest.mark.slow
def test_json_of_a_training_run():
    (recording,) = read_recordings(sample("rocprofv3_json", "mi350x_pytorch_training_results.json.gz"))
    assert (recording.rows, recording.arch, len(recording.kernels)) == (43915, "gfx950", 80)
    assert recording.sum_ns == pytest.approx(4.44e9, rel=2e-3)
    assert recording.busy_ns == pytest.approx(4.23e9, rel=2e-3)
    assert recording.span_ns == pytest.approx(15.1e9, rel=2e-3)
    top = recording.kernels[0]
    assert (top.category, top.share, top.vgpr_total) == ("comm", pytest.approx(0.936, abs=1e-3), 184)
    assert not top.last.lds_static_only
    assert {fact.name: fact.value for fact in recording.facts}["resolution_ns"] == 40


def test_json_of_a_thread_trace_run_tells_the_device():
    (recording,) = read_recordings(sample("rocprofv3_json", "rocm7.2_mi350x_att_run_flash_attn_results.json.gz"))
    assert (recording.kernels, recording.arch, recording.device) == ((), "gfx950", "AMD Instinct MI350X")
    assert "8 trace files" in recording.warnings[-1]


def _document():
    xyz = {"x": 64, "y": 1, "z": 1}
    info = {"agent_id": {"handle": 5}, "queue_id": {"handle": 1}, "kernel_id": 3, "private_segment_size": 0}
    info |= {"group_segment_size": 8456, "workgroup_size": xyz, "grid_size": {**xyz, "x": 128}}
    symbol = {
        "kernel_id": 3,
        "formatted_kernel_name": "k(int)",
        "arch_vgpr_count": 20,
        "accum_vgpr_count": 4,
        "sgpr_count": 16,
    }
    agent = {
        "id": {"handle": 5},
        "type": 2,
        "name": "gfx942",
        "cu_count": 304,
        "num_xcc": 8,
        "node_id": 4,
        "logical_node_id": 1,
    }
    records = [{"counter_id": {"handle": 9}, "value": value} for value in (1.5, 2.5)]
    return {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 1},
                "agents": [{"type": 1, "id": {"handle": 1}}, agent],
                "counters": [{"id": {"handle": 9}, "name": "SQ_WAVES"}],
                "kernel_symbols": [symbol],
                "callback_records": {
                    "counter_collection": [{"dispatch_data": {"dispatch_info": info}, "records": records}]
                },
                "buffer_records": {
                    "kernel_dispatch": [{"start_timestamp": 10, "end_timestamp": 30, "dispatch_info": info}]
                },
            }
        ]
    }


@pytest.mark.parametrize("chunk", [7, 1 << 20])
@pytest.mark.parametrize("indent", [None, 1])
def test_json_is_read_in_pieces_of_any_size(tmp_path, monkeypatch, chunk, indent):
    monkeypatch.setattr(json_stream, "CHUNK", chunk)
    path = tmp_path / "results.json"
    path.write_text(json.dumps(_document(), indent=indent))
    timed, counted = read_recordings(path)
    (kernel,) = timed.kernels
    assert (kernel.name, kernel.total_ns, kernel.last.lds_bytes, kernel.last.blocks) == ("k(int)", 20, 8456, (2, 1, 1))
    assert (kernel.vgpr_total, timed.arch, timed.device) == (24, "gfx942", "Agent 1")
    assert _metrics(counted.kernels[0]) == {"SQ_WAVES": 4}


@pytest.mark.slow
def test_damaged_json_is_named(tmp_path):
    text = json.dumps(_document(), indent=1)
    path = tmp_path / "results.json"
    for cut in range(30, len(text) - 1, 37):
        path.write_text(text[:cut])
        with pytest.raises(RecordingError):
            read_recordings(path)
    path.write_text(text.replace('"end_timestamp"', '"end"'))
    with pytest.raises(RecordingError, match="kernel_dispatch"):
        read_recordings(path)
    path.write_text('{"rocprofiler-sdk-tool":' + "[" * 100_000)
    with pytest.raises(RecordingError):
        read_recordings(path)
    path.write_text('{"rocprofiler-sdk-tool":[{"agents":[]}]}')
    with pytest.raises(RecordingError, match="nothing was recorded"):
        read_recordings(path)


def test_database_of_dispatches():
    (recording,) = read_recordings(sample("rocpd", "DERIVED_mi350x_pytorch_1500_dispatches.db"))
    with sqlite3.connect(
        f"file:{sample('rocpd', 'DERIVED_mi350x_pytorch_1500_dispatches.db')}?mode=ro&immutable=1", uri=True
    ) as told:
        ((count, total, first, last),) = told.execute(
            'select count(*), sum("end" - start), min(start), max("end") from rocpd_kernel_dispatch'
        )
    assert (recording.rows, recording.sum_ns, recording.span_ns) == (count, total, last - first)
    assert (recording.arch, recording.grade, len(recording.kernels)) == ("gfx950", "trace", 80)
    assert recording.busy_ns < recording.sum_ns
    told.close()


def test_database_of_counters():
    (recording,) = read_recordings(sample("rocpd", "DERIVED_mi300x_vcopy_counters.db"))
    (kernel,) = recording.kernels
    metrics = _metrics(kernel)
    assert (recording.grade, kernel.calls, kernel.vgpr_total) == ("serialised", 3, 8)
    assert metrics["SQ_WAVES"] == 16384
    assert metrics["TCC_EA0_WRREQ_64B_sum"] == 131072


def _database(tmp_path, *changes):
    path = _copy(tmp_path, sample("rocpd", "DERIVED_mi350x_pytorch_1500_dispatches.db"), "run_results.db")
    with sqlite3.connect(path) as told:
        names = {
            name.split("_0000")[0]: name
            for (name,) in told.execute("select name from sqlite_master where type='table'")
        }
        for change in changes:
            for short, name in names.items():
                change = change.replace(f"<{short}>", f'"{name}"')
            told.execute(change)
    told.close()
    return path


def test_dispatches_that_the_view_loses_are_counted(tmp_path):
    path = _database(tmp_path, "delete from <rocpd_event> where id <= 10")
    (recording,) = read_recordings(path)
    assert recording.rows == 1500
    assert any("1490 of 1500" in warning for warning in recording.warnings)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("update <rocpd_metadata> set value = '4.0.0' where tag = 'schema_version'", "schema version 4.0.0"),
        ("delete from <rocpd_metadata>", "no schema_version"),
        ("delete from <rocpd_kernel_dispatch>", "holds no dispatch"),
    ],
)
def test_databases_that_cannot_be_read_say_why(tmp_path, change, says):
    with pytest.raises(RecordingError, match=says):
        read_recordings(_database(tmp_path, change))
