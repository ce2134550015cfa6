"""PC samples: what a wave waited for, of which share of samples, in both CSVs and the viewer's folder."""

import pytest

from ridgeline.sandbox.profiles.readers import att, pc_sampling
from ridgeline.sandbox.profiles.readers.files import RecordingError
from tests.att_folders import sample, write
from tests.compute_folders import REASON, make_samples

HEADER = ["ISA", "_", "LineNumber", "Source", "Codeobj", "Vaddr", "Hit", "Latency", "Stall", "Idle"]
COUNTED = ["PC_Issued", "PC_Stalled", "Stall_Reasons"]


def shares(recording):
    return {one.stall: round(one.share, 6) for one in recording.stalls}


def counters(recording):
    return {one.name.removeprefix("pc_sampling."): one.value for one in recording.counters}


def test_a_stochastic_sample_is_classed_by_its_reason_and_instruction(tmp_path):
    path = make_samples(tmp_path / "1_pc_sampling_stochastic.csv", stochastic=True)
    assert pc_sampling.sniff(path)
    recording = pc_sampling.read_recording(path)
    assert shares(recording) == {
        "mem_wait": 0.4, "issue": 0.2, "lgkm_wait": 0.1, "barrier": 0.1, "mem_issue": 0.1, "dependency": 0.1,
    }  # fmt: skip
    assert {one.basis for one in recording.stalls} == {"samples"}
    assert (recording.rows, recording.rejected, recording.warnings) == (10, 0, ())
    # 7 masks of 8 lanes, 3 of 64; 8 samples saw 4 waves and 2 saw 8
    assert counters(recording) == {
        "samples": 10, "dispatches": 2, "mean_active_lanes": 24.8, "mean_waves": 4.8,
    }  # fmt: skip
    hottest = recording.hotspots[0]
    assert (hottest.isa, hottest.share, hottest.stall, hottest.source) == (
        "s_waitcnt vmcnt(0)",
        0.4,
        "mem_wait",
        "a.hip:3",
    )
    assert recording.grade is None
    assert recording.kernels == ()


def test_a_host_trap_tells_only_waits_apart(tmp_path):
    recording = pc_sampling.read_recording(make_samples(tmp_path / "host_trap.csv", stochastic=False))
    assert shares(recording) == {"mem_wait": 0.4, "other": 0.4, "lgkm_wait": 0.1, "barrier": 0.1}
    assert "lean towards waits" in recording.warnings[0]
    assert "mean_waves" not in counters(recording)


def test_samples_in_code_that_was_not_decoded_are_counted_and_left_out(tmp_path):
    rows = (("", "WAITCNT", 3, 4), ("s_barrier", "BARRIER_WAIT", 2, 4))
    recording = pc_sampling.read_recording(make_samples(tmp_path / "a.csv", stochastic=True, rows=rows))
    assert (recording.rows, recording.rejected, shares(recording)) == (2, 3, {"barrier": 1.0})
    assert "3 samples left out" in recording.warnings[0]


def test_columns_are_found_by_name_in_any_case_and_order(tmp_path):
    path = make_samples(tmp_path / "a.csv", stochastic=True)
    plain = pc_sampling.read_recording(path)
    lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    at = lines[0].index('"Dispatch_Id"')
    # commas stand in operands, but only behind the third column
    moved = [",".join([line[at], *line[:at], *line[at + 1 :]]) for line in lines]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([moved[0].upper(), *moved[1:], ""]).encode())
    assert pc_sampling.sniff(path)
    assert pc_sampling.read_recording(path) == plain


def test_a_last_line_without_an_end_may_be_cut(tmp_path):
    path = make_samples(tmp_path / "a.csv", stochastic=True)
    path.write_bytes(path.read_bytes().rstrip())
    assert "last line has no end" in pc_sampling.read_recording(path).warnings[0]


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda text: "", "its header lacks"),
        (lambda text: text.splitlines()[0], "no usable sample"),
        (lambda text: text.replace("Exec_Mask", "Mask"), ":1: its header lacks exec_mask"),
        (lambda text: text.replace("Stall_Reason", "Reason"), ":1: .* no stall_reason"),
        (lambda text: text.replace("1010,", "1e3,"), ":2: .* whole numbers"),
        (lambda text: text.replace(",255,", f",{2**64},", 1), ":2: exec_mask"),
        (lambda text: text.replace(",255,", ",0xff,", 1), ":2: exec_mask"),
        (lambda text: text.replace(",4\n", ",four\n", 1).replace(",4\r\n", ",four\r\n", 1), ":2: wave_count"),
        (lambda text: text.replace(REASON + "WAITCNT", REASON + "LUNCH", 1), ":2: neither issued nor a known reason"),
        (lambda text: text[:-40], "cells, the header 10|is cut"),
        (lambda text: text.replace("a.hip", "a\0hip", 1), ":2: holds a NUL"),
    ],
)
def test_damage_names_the_line(tmp_path, edit, match):
    path = make_samples(tmp_path / "a.csv", stochastic=True)
    path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(RecordingError, match=match):
        pc_sampling.read_recording(path)


def viewer(folder, rows, header=HEADER + COUNTED, **named):
    folder.mkdir()
    listed = [["; f", 0, 0, "f(int)", 1, 0, 0, 0, 0, 0, 0, 0, [0] * 10]]
    listed += [[isa, 0, at, "f.hip:1", 1, 8 * at, 0, 0, 0, 0, *told] for at, (isa, *told) in enumerate(rows, 1)]
    write(folder / "code.json", {"code": listed, "header": header, "version": "3.0.0"})
    write(folder / "filenames.json", {"pc_sampling": True, "thread_trace": False, "wave_filenames": None, **named})
    return folder


def reasons(**told):
    order = ("none", "fetch", "alu", "waitcnt", "internal", "barrier", "not_win", "win_stall", "other", "sleep")
    return [told.get(name, 0) for name in order]


def test_the_viewers_folder_holds_reasons_per_instruction(tmp_path):
    rows = (
        ("s_waitcnt vmcnt(0)", 0, 5, reasons(waitcnt=4, not_win=1)),
        ("ds_read_b128 v[0:3], v4", 2, 1, reasons(win_stall=1)),
        ("s_nop 6", 0, 2, reasons(internal=2)),
    )
    folder = viewer(tmp_path / "viewer", rows)
    assert pc_sampling.sniff(folder)
    assert pc_sampling.sniff(folder / "code.json")
    assert not att.sniff(folder)
    recording = pc_sampling.read_recording(folder)
    assert shares(recording) == {"mem_wait": 0.4, "issue": 0.2, "nop": 0.2, "not_selected": 0.1, "lds_issue": 0.1}
    assert recording.rows == 10
    assert recording.kernels[0].name == recording.hotspots[0].kernel == "f(int)"
    assert (recording.hotspots[0].pc, recording.hotspots[0].share, recording.hotspots[0].stall) == (8, 0.5, "mem_wait")


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ((("s_nop 6", 0, 1, reasons(internal=2)),), "2 reasons for 1 stalled"),
        ((("s_nop 6", 0, 0, reasons()),), "holds no sample"),
        ((("s_nop 6", 0, 1, [0] * 11),), "reasons for 1"),
        ((("s_nop 6", 0, -1, reasons()),), "counts of row 1"),
        ((("s_nop 6", 0, 1, 3),), "Stall_Reasons of row 1 is int"),
    ],
)
def test_a_damaged_folder_of_samples_is_an_error(tmp_path, rows, match):
    with pytest.raises(RecordingError, match=match):
        pc_sampling.read_recording(viewer(tmp_path / "viewer", rows))


def test_a_thread_trace_is_no_folder_of_samples(tmp_path):
    folder = viewer(tmp_path / "viewer", (), pc_sampling=False)
    assert not pc_sampling.sniff(folder)
    with pytest.raises(RecordingError, match=r"cells|lacks"):
        pc_sampling.read_recording(viewer(tmp_path / "other", (), header=HEADER))


@pytest.mark.parametrize(
    ("name", "rows", "top"),
    [
        ("rocm7.0_docs_pc_sampling_host_trap.csv", 79, ("tail", 36 / 79)),
        ("rocm7.0_docs_pc_sampling_host_trap_debug.csv", 21, ("mem_wait", 11 / 21)),
        ("rocm7.0_docs_pc_sampling_stochastic_debug.csv", 97, ("mem_wait", 62 / 97)),
        ("rocm7.1.1_gfx9_viewer", 4690, ("issue", 1306 / 4690)),
    ],
)
def test_recorded_samples(name, rows, top):
    path = sample("pc_sampling", name)
    assert pc_sampling.sniff(path)
    recording = pc_sampling.read_recording(path)
    assert recording.rows == rows
    assert (recording.stalls[0].stall, recording.stalls[0].share) == (top[0], pytest.approx(top[1]))
    assert sum(shares(recording).values()) == pytest.approx(1, abs=1e-5)
