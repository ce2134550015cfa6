"""Chrome traces of torch.profiler: kernels, times, launches and devices, and what damage says."""

import gzip
import json
from pathlib import Path

import pytest

from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.profiles.readers.profiles import profile
from tests.torch_traces import H100, MI300X, called, copied, document, kernel, launches, nvidia

DATA = Path(__file__).parents[1] / "data" / "torch"


@pytest.fixture
def recorded(tmp_path):
    """`recorded(text)` -> the recordings of a file with it; bytes are written as they are."""

    def make(text, name="trace.json"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_recordings(path)

    return make


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_of_cuda_tells_times_launches_and_device(recorded, packed):
    text = document(called(), copied(), *launches(), nvidia("other", ts=300.25, dur=1.125, registers=16, shared=0))
    (one,) = recorded(gzip.compress(text.encode()) if packed else text, "t.json.gz" if packed else "t.json")
    assert (one.format, one.tool, one.vendor, one.arch, one.grade) == (
        "torch_trace", "torch profiler", "nvidia", "sm_90", "trace",
    )  # fmt: skip
    assert one.device == H100["name"]
    tile, copy, other = one.kernels
    assert (tile.name, tile.calls, tile.total_ns, tile.median_ns) == ("tile", 9, 90_000, 10_000)
    assert (tile.last.grid, tile.last.blocks, tile.last.workgroup) == ((264, 1, 1), (264, 1, 1), (256, 1, 1))
    assert (tile.last.arch_vgpr, tile.last.lds_bytes, tile.last.lds_static_only) == (64, 16384, False)
    assert (tile.last.sgpr, tile.last.scratch_bytes, tile.last.accum_vgpr) == (None, None, None)
    assert (copy.category, copy.last.grid, copy.last.arch_vgpr) == ("copy", None, None)
    assert other.median_ns == 1125
    assert tile.gap_before_ns == 2000
    assert {fact.name: fact.value for fact in one.facts if fact.name == "units"} == {"units": 132}
    assert one.warnings == ()


def test_every_number_of_it_says_its_rung(recorded):
    (seen,) = profile(recorded(document(*launches())))
    stands = {said.name: said.rung for said in seen.numbers}
    computed = {name for name, rung in stands.items() if rung == "analytic"}
    assert computed == {"occ.theoretical", "occ.fill_waves"}
    assert {rung for name, rung in stands.items() if name not in computed} == {"torch_profiler"}
    assert seen.number("regs.total_per_thread") == 64
    assert seen.number("occ.estimated") == 0.5
    assert seen.number("occ.theoretical") == 0.5
    assert seen.number("occ.achieved") is None, "an estimate is no measurement"
    gap = next(said for said in seen.numbers if said.name == "time.gap_before_ns")
    assert "slows the host" in gap.corrected
    assert all("torch profiler trace.json" in said.source for said in seen.numbers if said.rung == "torch_profiler")


@pytest.mark.parametrize(
    ("cards", "more", "calls", "arch"),
    [
        ((MI300X,), {}, (), "gfx942"),
        ((MI300X | {"computeMinor": 5, "name": "AMD Instinct MI355X"},), {}, (), "gfx950"),
        ((MI300X | {"computeMinor": 0},), {}, (), None),  # gfx908 and gfx90a alike
        ((), {"hip_driver_version": 60342133}, (), None),
        ((), {}, (called("hipExtModuleLaunchKernel"),), None),
    ],
)
def test_a_trace_of_rocm_has_no_registers_and_says_so(recorded, cards, more, calls, arch):
    (one,) = recorded(document(*calls, *launches(make=kernel), cards=cards, **more))
    assert (one.vendor, one.arch) == ("amd", arch)
    (tile,) = one.kernels
    assert (tile.last.arch_vgpr, tile.last.lds_bytes, tile.vgpr_total) == (None, None, None)
    assert (tile.last.grid, tile.last.workgroup) == ((264, 1, 1), (256, 1, 1))
    assert any("neither registers" in text for text in one.warnings)
    (seen,) = profile([one])
    assert {said.rung for said in seen.numbers} == {"torch_profiler"}


def test_each_card_is_a_recording_and_launches_of_another_shape_are_variants(recorded):
    second = H100 | {"id": 1, "name": "Another"}
    events = [*launches(), *launches(device=1, count=3), nvidia(ts=900.0, grid=(8, 2, 1), registers=72)]
    first, other = recorded(document(*events, cards=(H100, second)))
    assert (first.device, other.device) == (H100["name"], "Another")
    assert [kernel.calls for kernel in other.kernels] == [3]
    (tile,) = first.kernels
    assert (tile.last.grid, tile.vgpr_total) == ((8, 2, 1), 72)
    assert {(one.calls, one.grid) for one in tile.variants} == {(9, (264, 1, 1)), (1, (8, 2, 1))}


def test_what_a_launch_does_not_tell_is_unknown_and_never_zero(recorded):
    bare = {"ph": "X", "cat": "Kernel", "name": "old", "pid": 3, "tid": 4, "ts": 5, "dur": 7}
    (one,) = recorded(document(bare, cards=()))
    (old,) = one.kernels
    assert (old.median_ns, one.device) == (7000, "GPU 3")
    assert old.last.model_dump(exclude={"calls", "median_ns", "total_ns", "lds_static_only"}, exclude_none=True) == {}


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (nvidia(dur=-1.0), "dur '-1.0'"),
        (nvidia() | {"dur": None}, "dur 'None'"),
        (nvidia() | {"ts": "12"}, "ts '12'"),
        (nvidia() | {"ts": True}, "ts 'True'"),
        (nvidia(grid=[1, 2]), "grid '[1, 2]'"),
        (nvidia(block=["1", 1, 1]), "block"),
        (nvidia(registers=1.5), "registers per thread '1.5'"),
        (nvidia(shared=-4), "shared memory '-4'"),
        (nvidia() | {"args": [1]}, "damaged args"),
        (nvidia() | {"name": None}, "without a name"),
        (17, "is no object"),
    ],
)
def test_a_damaged_event_is_named_by_its_place(recorded, event, word):
    with pytest.raises(RecordingError) as caught:
        recorded(document(nvidia(), event))
    assert "trace.json: traceEvents[2]" in str(caught.value)
    assert word in str(caught.value)


WHOLE = document(*launches(count=40))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("packed", [False, True])
def test_a_cut_file_names_itself_and_the_line(recorded, share, packed):
    data = gzip.compress(WHOLE.encode()) if packed else WHOLE.encode()
    with pytest.raises(RecordingError) as caught:
        recorded(data[: int(share * len(data))])
    assert "trace.json" in str(caught.value)
    assert packed or caught.value.line


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "is empty"),
        ("{}", "not a recording that is known here"),
        ("[1, 2]", "not a recording that is known here"),
        ('{"traceEvents": []}', "none of its 0 events ran on a GPU"),
        (document(called()), "none of its 2 events ran on a GPU"),
        ('{"traceEvents": 3}', "none of its 0 events ran on a GPU"),
        ('{"traceEvents": [{"ph": NaN}]}', "NaN is no number"),
        (document(nvidia(dur=0)), "none of its 1 rows ends after it starts"),
        (WHOLE + "x", "text after the end"),
        (b'{"traceEvents": [{"name": "\xff"}]}', "not UTF-8"),
    ],
)
def test_what_is_no_trace_is_a_typed_error(recorded, text, word):
    with pytest.raises(RecordingError) as caught:
        recorded(text)
    assert word in str(caught.value)


def test_a_trace_in_a_folder_is_found(tmp_path):
    (tmp_path / "trace-1.json").write_text(document(*launches()))
    (tmp_path / "trace-2.json").write_text(document(called()))
    (one,) = read_recordings(tmp_path)
    assert one.kernels[0].calls == 9
    assert any("trace-2.json" in text for text in one.warnings)


@pytest.mark.slow
def test_a_long_trace_is_read_in_bounded_memory(tmp_path):
    """100 MB of events: less than that is held, all in all."""
    import resource

    event = json.dumps(nvidia("n" * 300, ts=1e6) | {"ts": "TS"})
    path = tmp_path / "long.json"
    with path.open("w") as stream:
        stream.write('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [\n')
        for at in range(150_000):
            stream.write(event.replace('"TS"', f"{1e6 + 12 * at:.3f}") + (",\n" if at < 149_999 else "\n"))
        stream.write("]}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (one,) = read_recordings(path)
    assert one.kernels[0].calls == 150_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 90 * 1024, "kB"


def test_what_an_h100_recorded_through_our_start_up_module():
    """torch 2.11 on an H100: a product, a softmax and a tiny addition, four times each, and drawing their inputs."""
    (one,) = read_recordings(DATA / "h100_three.json.gz")
    assert (one.device, one.arch, one.grade) == ("NVIDIA H100 80GB HBM3", "sm_90", "trace")
    told = {kernel.name.partition("<")[0].rpartition("::")[2]: kernel for kernel in one.kernels}
    product, softmax = told["nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT"], told["cunn_SoftMaxForwardReg"]
    assert (product.calls, product.total_ns, product.median_ns) == (4, 5_591_010, 1_397_768.5)
    assert (product.last.blocks[:2], product.last.arch_vgpr, product.last.lds_bytes) == ((2, 66), 168, 188_636)
    assert (softmax.calls, softmax.median_ns, softmax.last.arch_vgpr) == (4, 576_650, 37)
    assert product.total_ns / sum(kernel.total_ns for kernel in one.kernels) == pytest.approx(0.6556, abs=1e-4)


def counted(name, **metrics):
    """What CUPTI's range profiler counted of one launch, as Kineto writes it."""
    return {
        "ph": "X", "cat": "cuda_profiler_range", "name": name, "pid": 0, "tid": 0, "ts": 5, "dur": 100, "args": metrics
    }  # fmt: skip


def test_ranges_of_cupti_tell_counters_and_no_times(recorded):
    read = "dram__bytes_read.sum"
    events = (counted("tile", **{read: 1000}), counted("tile", **{read: 3000}), counted("__missing__", **{read: 5}))
    (one,) = recorded(document(*events))
    assert (one.format, one.arch, one.device, one.grade) == ("torch_ranges", "sm_90", H100["name"], None)
    tile, unnamed = one.kernels
    assert (tile.calls, tile.total_ns, tile.median_ns) == (2, None, None)
    assert {metric.name: metric.value for metric in tile.metrics} == {read: 2000}
    assert unnamed.name == "(kernel name not recorded)"
    assert "shared out evenly" in one.warnings[0]
    (seen, _) = profile([one])
    (number,) = [number for number in seen.numbers if number.name == "mem.read_bytes"]
    assert (number.value, number.source) == (2000, "torch profiler: dram__bytes_read.sum")


def test_counters_beside_times_belong_to_the_same_kernel(recorded):
    (one,) = recorded(document(*launches(), counted("tile", **{"dram__bytes_read.sum": 7})))
    (tile,) = one.kernels
    assert tile.median_ns == 10_000
    assert "dram__bytes_read.sum" in {metric.name for metric in tile.metrics}


def test_grids_that_rocm_tells_in_work_items_become_blocks(recorded):
    call = called("hipExtModuleLaunchKernel")
    call["args"] = {"kernel": "Cijk", "grid": [350208, 2, 1], "block": [256, 1, 1]}
    gemm = launches("Cijk", make=kernel, grid=(350208, 2, 1))
    (one,) = recorded(document(*gemm, call, *launches("tile", make=kernel, stream=3), cards=(MI300X,)))
    blocks = {seen.name: seen.last.blocks for seen in one.kernels}
    assert blocks == {"Cijk": (1368, 2, 1), "tile": (264, 1, 1)}
    assert not any("work-items" in text for text in one.warnings)
    (bare,) = recorded(document(*gemm, cards=(MI300X,)))
    assert any("may be work-items" in text for text in bare.warnings)


@pytest.mark.parametrize(("other", "arch"), [(MI300X["name"], "gfx942"), ("AMD Instinct MI355X", None)])
def test_a_card_that_is_numbered_otherwise_is_the_one_that_all_are(recorded, other, arch):
    cards = (MI300X, MI300X | {"id": 1, "name": other})
    (one,) = recorded(document(*launches(make=kernel, device=5), cards=cards))
    assert one.arch == arch
    assert one.device == (MI300X["name"] if arch else "GPU 5")


@pytest.mark.parametrize("suffix", [".pftrace", ".otf2"])
def test_a_timeline_for_viewers_names_what_is_read_instead(recorded, suffix):
    with pytest.raises(RecordingError, match=r"rocpd convert -i run.db --output-format csv"):
        recorded(b"\n\x10\x08\x01", f"run{suffix}")
