"""kernel_trace.csv: every number of the recorded files, all layouts, and what each known damage leads to."""

import gzip
import random
import statistics

import numpy as np
import pytest

from ridgeline.graph.kernel_profile import KernelCalls, Recording
from ridgeline.graph.rules.bound import classify_bound
from ridgeline.sandbox.profiles.readers import csv_blocks, dispatches
from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError
from ridgeline.sandbox.profiles.readers.profiles import profile
from tests.rocprof_samples import HEADER, golden, row, sample, trace

TRACES = (
    "gfx1151_llamacpp_decode", "gfx1151_llamacpp_prefill", "rocm6.1_mi300a_openmp", "rocm6.2_mi250_jacobi",
    "rocm6.3_docs", "rocm7.0_docs", "rocm7.1.1_mi300a_rocpd2csv", "rocm7.2_mi350x_blockscale_preshuffle_gemm",
    "rocm7.2_mi350x_flash_attn_func", "rocm7.2_mi350x_fused_rope_cache", "rocm7.2_mi350x_pa",
    "rocm7.2_mi350x_rmsnorm_flydsl", "rocm7.2_mi350x_rmsnorm_triton", "rocm7.2_mi350x_softmax",
)  # fmt: skip


def _named(recording: Recording, name: str) -> KernelCalls:
    return next(kernel for kernel in recording.kernels if kernel.name == name)


def _check(recording: Recording, told: dict) -> None:
    assert (recording.rows, recording.rejected) == (told["rows"], 0)
    assert len(recording.kernels) == told["distinct_names"]
    assert (recording.sum_ns, recording.busy_ns, recording.span_ns) == (
        told["sum_ns"],
        told["union_ns"],
        told["span_ns"],
    )
    for top in told["top"]:
        kernel = _named(recording, top["name"])
        assert (kernel.calls, kernel.total_ns, kernel.median_ns) == (top["calls"], top["total_ns"], top["median_ns"])
        assert (kernel.min_ns, kernel.max_ns) == (top["min_ns"], top["max_ns"])
        assert kernel.mean_ns == pytest.approx(top["mean_ns"], abs=1e-3)
        assert kernel.share == pytest.approx(top["share_of_sum"], abs=1e-6)
        last = kernel.last
        assert {
            "vgpr": last.arch_vgpr,
            "accum_vgpr": last.accum_vgpr,
            "sgpr": last.sgpr,
            "lds_bytes_reported": last.lds_bytes,
            "scratch": last.scratch_bytes,
            "workgroup": list(last.workgroup),
            "grid_workitems": list(last.grid),
        } == top["last_row"]


@pytest.mark.parametrize("name", sorted(golden_name for golden_name in TRACES))
def test_numbers_of_recorded_traces(name):
    table = golden("kernel_trace")
    for file, told in table.items():
        if file.startswith(f"{name}_kernel_trace"):
            (recording,) = read_recordings(sample("rocprofv3_kernel_trace", file))
            _check(recording, told)
            return
    pytest.fail(f"no golden numbers of {name}")


def test_all_golden_traces_are_read():
    table = golden("kernel_trace")
    left = [file for file in table if not file.startswith(TRACES)]
    assert not left
    for file in [file for file in table if file.removesuffix(".gz").removesuffix(".csv").endswith(("run2", "names"))]:
        (recording,) = read_recordings(sample("rocprofv3_kernel_trace", file))
        _check(recording, table[file])


def test_columns_in_any_order_case_and_alias(tmp_path):
    header = "END_TIMESTAMP,start_timestamp,Kernel_Name,grid_size_x,Grid_Size_Y,Grid_Size_Z\n"
    (recording,) = read_recordings(trace(tmp_path / "a.csv", ["30,10,k,64,1,1\n"], header))
    (kernel,) = recording.kernels
    assert (kernel.total_ns, kernel.last.grid, kernel.last.workgroup, kernel.last.blocks) == (
        20,
        (64, 1, 1),
        None,
        None,
    )
    assert kernel.last.arch_vgpr is None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text + "\n\n",
        lambda text: text.replace(",10,30,", ',"10","30",'),
        lambda text: text.replace(",", ";"),
        lambda text: text.rstrip("\n"),
    ],
    ids=["bom", "crlf", "blank lines", "quoted numbers", "semicolons", "no last line end"],
)
def test_spellings_of_a_sound_file(tmp_path, change):
    path = tmp_path / "t.csv"
    path.write_text(change(HEADER + row("k", 10, 30) + row("k", 40, 80)), encoding="utf-8", newline="")
    (recording,) = read_recordings(path)
    (kernel,) = recording.kernels
    assert (kernel.name, kernel.calls, kernel.total_ns, kernel.median_ns) == ("k", 2, 60, 30)
    assert kernel.last.blocks == (16, 1024, 1)


def test_gzip_is_told_by_content(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(gzip.compress((HEADER + row("k", 10, 30)).encode()))
    assert read_recordings(path)[0].kernels[0].total_ns == 20


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", None, "is empty"),
        (HEADER, 1, "0 kernels"),
        (HEADER + row("k", 10, 30) + row("k", 40, 80)[:60], 3, "cut"),
        (HEADER + row("k", 10, 30) + '"KERNEL_DISPATCH","Agent 1",1,1,7,1,3,"k', 3, "cut"),
        (HEADER + row("k", "1,000", "2,000"), 2, "columns"),
        (HEADER + row("k", "soon", 30), 2, "'soon'"),
        (HEADER + row("k", "162.068", "170.068"), 2, "162.068"),
        (HEADER + row("k", 10, "later"), 2, "later"),
        (HEADER + row("a\nb", 10, 30) * 3 + row("k", 10, "later"), 8, "column 11 holds 'later'"),
        (HEADER + row("k", 10, 30) * 3 + '"KERNEL_DISPATCH","Agent 1"\n' + row("k", 10, 30), 5, "2 columns"),
        (HEADER + row("k", 30, 30) + row("k", 40, 20), 2, "none of its 2 rows"),
        (HEADER + row("k", "1.62068E+14", "1.62069E+14"), 2, "none of its 1 rows"),
        (HEADER + row("k", 10, 30) + "\0\0\0\0", 3, "cut"),
        (HEADER.replace("Grid_Size_Z", "Grid_Size_X") + row("k", 10, 30), 1, "twice"),
        ((HEADER + row("k", 10, 30)).replace("\n", "\r"), 1, "carriage returns"),
        ("hello\nworld\n", 1, "not a recording"),
        ("\0\0\0\0", 1, "not a recording"),
    ],
)
def test_damage_is_named_with_its_line(tmp_path, text, line, says):
    path = tmp_path / "broken.csv"
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(RecordingError) as caught:
        read_recordings(path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert caught.value.line == line


@pytest.mark.parametrize("raw", [b"\xff\xfek\x00", b"\xfe\xff\x00k"])
def test_utf16_is_named(tmp_path, raw):
    (tmp_path / "t.csv").write_bytes(raw)
    with pytest.raises(RecordingError, match="UTF-16"):
        read_recordings(tmp_path / "t.csv")


def test_bytes_that_are_no_text_are_named(tmp_path):
    (tmp_path / "t.csv").write_bytes(HEADER.encode() + row("k", 1, 2).encode().replace(b'"k"', b'"\xff\xfe"'))
    with pytest.raises(RecordingError, match="UTF-8"):
        read_recordings(tmp_path / "t.csv")


def test_rows_without_a_duration_are_left_out_with_a_warning(tmp_path):
    rows = [row("k", 10, 30), row("k", 50, 50), row("k", 90, 70), row("k", "", 70), row("k", 100, 110)]
    (recording,) = read_recordings(trace(tmp_path / "t.csv", rows))
    assert (recording.rows, recording.rejected, recording.kernels[0].total_ns) == (2, 3, 30)
    assert any("3 of 5 rows left out" in warning for warning in recording.warnings)


@pytest.mark.slow
def test_times_that_a_spreadsheet_rounded_do_not_count(tmp_path):
    rows = [row("k", "1.62068E+14", "1.62069E+14"), row("k", 162068000000010, 162068000000030)]
    (recording,) = read_recordings(trace(tmp_path / "t.csv", rows))
    assert (recording.rows, recording.rejected, recording.kernels[0].total_ns) == (1, 1, 20)
    assert any("spreadsheet" in warning for warning in recording.warnings)


def test_names_may_hold_anything(tmp_path):
    names = ["x" * 2000, 'a, "b"', "{lambda(float)#1}", "it's", "line\nbreak", "nul\0byte"]
    rows = [row(name, 10 * at, 10 * at + 5) for at, name in enumerate(names, 1)]
    (recording,) = read_recordings(trace(tmp_path / "it's [1] * ?.csv", rows))
    assert sorted(kernel.name for kernel in recording.kernels) == sorted(names)


def test_one_recording_per_gpu_most_time_first(tmp_path):
    rows = [row("a", 10, 20), row("b", 10, 60, agent="Agent 2"), row("a", 15, 40), row("a", 90, 95, agent="Agent 2")]
    second, first = read_recordings(trace(tmp_path / "t.csv", rows))
    assert (second.device, second.sum_ns, second.busy_ns, second.span_ns) == ("Agent 2", 55, 55, 85)
    assert (first.device, first.sum_ns, first.busy_ns, first.span_ns) == ("Agent 1", 35, 30, 30)


def test_launches_of_one_name_stay_apart(tmp_path):
    wide = "512,0,16,0,16,64,1,1,65,1,1"
    rows = [row("k", 10, 20), row("k", 30, 70, launch=wide), row("k", 80, 85)]
    (kernel,) = read_recordings(trace(tmp_path / "t.csv", rows))[0].kernels
    assert [(one.calls, one.total_ns, one.blocks) for one in kernel.variants] == [
        (1, 40, (2, 1, 1)),
        (2, 15, (16, 1024, 1)),
    ]
    assert kernel.last.calls == 2
    assert kernel.last.lds_static_only


def test_gaps_are_of_the_queue(tmp_path):
    rows = [row("a", 0, 10), row("b", 5, 100, queue=2), row("a", 30, 40), row("b", 110, 120), row("b", 90, 95, queue=2)]
    kernels = {kernel.name: kernel for kernel in read_recordings(trace(tmp_path / "t.csv", rows))[0].kernels}
    assert kernels["a"].gap_before_ns == 20
    assert kernels["b"].gap_before_ns == 35, "70 on one queue; on the other the queue was busy"


def test_calls_back_to_back_count_as_no_gap(tmp_path):
    """46 of 54 calls back to back and 8 behind a synchronisation: the kernel does not wait for its launches."""
    rows, end = [], 0
    for at in range(54):
        start = end + (1_000_000 if at and at % 6 == 0 else 0)
        end = start + 10_000
        rows.append(row("k", start, end))
    (recording,) = read_recordings(trace(tmp_path / "t.csv", rows))
    assert recording.kernels[0].gap_before_ns == 0
    (judged,) = profile((recording,))
    assert classify_bound(judged).bound != "host_bound"


def test_rows_that_numpy_reads_are_those_that_are_read_cell_by_cell(tmp_path, monkeypatch):
    """Blocks shorter than a row, names of all lengths, quoted numbers and line ends of Windows: the same recording."""
    draw = random.Random(3)
    rows = [
        row(
            f"k{'y' * draw.choice([0, 7, 8, 255, 256, 257, 700])}{draw.randrange(3)}",
            at * 90,
            at * 90 + draw.choice([7, 12345, 10**17]),
        )
        for at in range(400)
    ]
    odd = row('a, ""b\n"', 90 * 400, 90 * 401)
    path = trace(tmp_path / "t.csv", [*rows, odd, *rows[:7]])
    monkeypatch.setattr(csv_blocks.Block, "integers", lambda block, column: None)
    cells = read_recordings(path)
    monkeypatch.undo()
    for size in (1 << 20, 64, 1 << 12):
        monkeypatch.setattr(csv_blocks, "BLOCK", size)
        assert read_recordings(path) == cells
    text = path.read_text().replace(odd, row("plain", 90 * 400, 90 * 401))
    path.write_text(text)
    plain = read_recordings(path)
    lines = [line.split(",") for line in text.splitlines()]
    quoted = [",".join(cell if cell.startswith('"') else f'"{cell}"' for cell in line) for line in lines]
    path.write_text("\r\n".join([*quoted, ""]), newline="")
    assert read_recordings(path) == plain


def test_calls_of_hours_are_summed_exactly(tmp_path):
    """Squares of 4 s are more than 64 bits hold, as sums of the squares of many shorter calls are."""
    times = [1, 2**31 + 1, 2**32 + 5, 3 * 10**13, 4_000_000]
    rows = [row("k", 10**14 * at, 10**14 * at + time) for at, time in enumerate(times)]
    (kernel,) = read_recordings(trace(tmp_path / "t.csv", rows))[0].kernels
    assert (kernel.total_ns, kernel.max_ns) == (sum(times), max(times))
    assert kernel.stdev_ns == pytest.approx(statistics.stdev(times))


@pytest.mark.feature("F090")
def test_slices_give_what_one_pass_gives(tmp_path, monkeypatch):
    draw = random.Random(7)
    rows, at = [], 10**15
    for _ in range(3000):
        at += draw.randrange(0, 3000)
        rows.append(row(f"k{draw.randrange(4)}", at, at + draw.randrange(1, 5000), queue=draw.randrange(3)))
    draw.shuffle(rows)
    path = trace(tmp_path / "t.csv", rows)
    (whole,) = read_recordings(path)
    monkeypatch.setattr(dispatches, "SLICE", 250)
    (sliced,) = read_recordings(path)
    assert sliced == whole
    times = sorted(tuple(int(cell) for cell in line.split(",")[9:11]) for line in rows)
    union, until = 0, 0
    for start, end in times:
        union += max(0, end - max(start, until))
        until = max(until, end)
    assert (whole.busy_ns, whole.span_ns) == (union, until - times[0][0])
    for kernel in whole.kernels:
        mine = [
            int(cells[10]) - int(cells[9])
            for cells in (line.split(",") for line in rows)
            if cells[7] == f'"{kernel.name}"'
        ]
        assert kernel.median_ns == statistics.median(mine)
        assert kernel.stdev_ns == pytest.approx(statistics.stdev(mine))
        ordered = sorted(mine)
        assert (kernel.p20_ns, kernel.p80_ns) == tuple(ordered[-(-len(mine) * part // 5) - 1] for part in (1, 4))
        assert kernel.p20_ns <= kernel.median_ns <= kernel.p80_ns
        assert kernel.gap_before_ns == _gap(rows, kernel.name)


def _gap(rows: list[str], name: str) -> float:
    cells = sorted((line.split(",") for line in rows), key=lambda row: int(row[9]))
    until: dict[str, int] = {}
    gaps = []
    for cell in cells:
        start, end, queue = int(cell[9]), int(cell[10]), cell[2]
        if queue in until and cell[7] == f'"{name}"':
            gaps.append(max(0, start - until[queue]))
        until[queue] = max(until.get(queue, 0), end)
    return statistics.median(gaps)


@pytest.mark.parametrize("held_bytes", [0, 10_000, 40_000_000])
def test_ranks_of_runs_are_those_of_all_their_times(tmp_path, monkeypatch, held_bytes):
    """Also where a group is of several numbers, a number is in some runs alone, and times do not fit beside numbers."""
    monkeypatch.setattr(dispatches, "HELD_BYTES", held_bytes)
    draw = np.random.default_rng(7)
    runs = dispatches.SortedRuns(tmp_path / "runs", 5)
    every = {number: [] for number in range(5)}
    for turn in range(6):
        numbers = draw.integers(turn // 2, 4, 500)
        times = np.exp(draw.uniform(0, 43 if turn == 5 else 20, 500)).astype(np.int64)
        runs.add(numbers, times)
        for number, time in zip(numbers.tolist(), times.tolist(), strict=True):
            every[number].append(min(time, (1 << 60) - 1))
    groups = ((0,), (1,), (0, 2, 3), (0, 1, 2, 3, 4))
    found = runs.find_ranks(groups, (lambda calls: calls // calls, lambda calls: (calls + 1) // 2, lambda calls: calls))
    for group, ranks in zip(groups, found.tolist(), strict=True):
        times = sorted(time for number in group for time in every[number])
        assert ranks == [times[0], times[(len(times) + 1) // 2 - 1], times[-1]]
    assert runs.counts.tolist() == [len(times) for times in every.values()]
    assert (tmp_path / "runs").exists() == (held_bytes < 40_000_000)


def test_clock_tick_is_told_where_durations_show_it(tmp_path):
    rows = [row("k", 1000 * at, 1000 * at + 40 * (at % 17 + 1)) for at in range(100)]
    (recording,) = read_recordings(trace(tmp_path / "t.csv", rows))
    assert {fact.name: fact.value for fact in recording.facts} == {"resolution_ns": 40}
    rows = [row("k", 1000 * at, 1000 * at + 37 * at + 1) for at in range(100)]
    assert read_recordings(trace(tmp_path / "u.csv", rows))[0].facts == ()
