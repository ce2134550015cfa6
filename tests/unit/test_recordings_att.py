"""Thread traces made up here: every share by hand, every way in which a trace misleads, every layout."""

import pytest

from ridgeline.agent.analysis.profile_document import trace_row
from ridgeline.sandbox.profiles.readers import att
from ridgeline.sandbox.profiles.readers.files import RecordingError
from tests.att_folders import CYCLES, KERNEL, ROWS, WAITED, change, make_trace, write

CSV = "CodeObj,Vaddr,Instruction,Hitcount,Latency,Stall,Idle,Source\n"


def shares(recording):
    return {one.stall: round(one.share, 6) for one in recording.stalls}


def validators(recording):
    return dict(recording.att.validators)


def with_row(number, row):
    return (*ROWS[:number], row, *ROWS[number + 1 :])


@pytest.mark.feature("F114")
def test_every_cycle_of_the_waves_has_a_class(tmp_path):
    recording = att.read_recording(make_trace(tmp_path / "ui_output_agent_1_dispatch_2"))
    assert shares(recording) == {
        "mem_wait": 0.48,  # 900 of vmcnt, and 3 of 4 producers of the mixed wait
        "tail": 0.136,
        "smem_wait": 0.1,
        "lds_wait": 0.06,  # 100, and 1 of 4 producers of the mixed wait
        "barrier": 0.06,
        "matrix": 0.052,  # the MFMA's own stall, and the nop directly after it
        "mem_issue": 0.026,
        "issue": 0.024,
        "idle": 0.02,
        "store": 0.016,
        "lds_issue": 0.01,
        "valu": 0.008,
        "nop": 0.008,
    }
    assert sum(shares(recording).values()) == pytest.approx(1)
    trace = recording.att
    assert (trace.kernel, trace.instructions, trace.waves, trace.wave_cycles) == (KERNEL, 14, 2, CYCLES)
    assert (trace.hits, trace.latency, trace.stall, trace.idle) == (28, 1960, 1640, 40)
    assert (trace.checksum, trace.checksum_ok, trace.clock_mhz) == (1.0, True, 2100.0)
    assert trace.waves_per_unit == 1.5
    told = trace_row(trace)
    assert sum(told.by_class.values()) == pytest.approx(1), "waits, and not the kinds of instructions beside them"
    assert set(told.by_kind) & {"wait_vm", "mfma", "smem"}
    assert not set(told.by_kind) & set(told.by_class) - {"barrier", "valu", "nop"}
    assert all(validators(recording).values())
    assert set(validators(recording)) == set(att.MEANING)
    assert recording.warnings == ()
    assert recording.kernels[0].name == KERNEL
    assert recording.kernels[0].total_ns is None


@pytest.mark.feature("F114")
def test_hotspots_are_ranked_by_time_and_name_source_and_class(tmp_path):
    first, second = att.read_recording(make_trace(tmp_path / "trace")).hotspots[:2]
    assert (first.isa, first.share, first.stall, first.source, first.pc, first.hits) == (
        "s_waitcnt vmcnt(0)", 0.45, "mem_wait", "axpy.hip:4", 4128, 2,
    )  # fmt: skip
    assert (second.isa, second.stall) == ("s_endpgm", "tail")


def test_kinds_keep_the_sums_that_classes_split(tmp_path):
    kinds = {one.kind: one for one in att.read_recording(make_trace(tmp_path / "trace")).att.kinds}
    lgkm = kinds["wait_lgkm"]
    assert (lgkm.instructions, lgkm.hits, lgkm.latency, lgkm.stall, lgkm.idle) == (2, 4, 300, 300, 0)
    assert kinds["nop"].stall == 80


def test_without_wave_files_what_was_waited_for_is_unknown(tmp_path):
    recording = att.read_recording(make_trace(tmp_path / "trace", waited=None))
    assert shares(recording)["lgkm_wait"] == 0.15
    assert shares(recording)["mixed_wait"] == 0.04
    assert "lds_wait" not in shares(recording)
    assert any("no wave file" in warning for warning in recording.warnings)


def test_a_wait_for_nothing_listed_is_unknown(tmp_path):
    recording = att.read_recording(make_trace(tmp_path / "trace", waited={2: (), 6: (5,)}))
    assert shares(recording)["unknown_wait"] == 0.1
    assert shares(recording)["mixed_wait"] == 0.04


def test_of_thousands_of_wave_files_a_few_are_opened(tmp_path):
    rows = tuple((isa, hits * 500, *(cycles * 500 for cycles in rest)) for isa, hits, *rest in ROWS)
    folder = make_trace(tmp_path / "trace", rows=rows, waves=1000, lifetime=CYCLES * 500)
    for number in range(1000):
        if number % 125:
            (folder / f"se0_sm{number}_sl0_wv0.json").write_text("{ damaged", encoding="utf-8")
    recording = att.read_recording(folder)
    assert shares(recording)["smem_wait"] == 0.1
    assert any("8 of 1000 waves" in warning for warning in recording.warnings)


@pytest.mark.feature("F114")
def test_a_header_may_be_a_list_and_have_more_columns(tmp_path):
    folder = make_trace(tmp_path / "trace")
    plain = att.read_recording(folder)

    def widen(code):
        code["header"] = [name.strip() for name in code["header"].split(",")] + ["Extra"]
        code["code"] = [[*row, 0] for row in code["code"]]

    change(folder / "code.json", widen)
    assert att.read_recording(folder).att == plain.att


@pytest.mark.parametrize(
    ("rows", "failed"),
    [
        (
            with_row(7, ("v_mfma_f32_32x32x8_f16 v[8:23], v[0:1], v[2:3], v[8:23]", 0, 0, 0, 0)),
            {"mfma_hits", "att_sum"},
        ),
        (with_row(7, ("v_mov_b32_e32 v1, v0", 2, 48, 40, 0)), set()),
        (with_row(13, ("s_endpgm", 1, 272, 0, 0)), {"no_loss"}),
        (with_row(13, ("v_nop", 2, 272, 0, 0)), {"no_loss"}),
        (with_row(0, ("s_load_dwordx2 s[0:1], s[4:5], 0x0", 1, 8, 0, 40)), {"no_loss"}),
        (with_row(3, ("s_waitcnt vmcnt(0)", 2, 879, 879, 0)), {"att_sum"}),  # 1.05 per cent less
        (with_row(3, ("s_waitcnt vmcnt(0)", 2, 880, 880, 0)), set()),
        (with_row(3, ("s_waitcnt vmcnt(0)", 2, 920, 920, 0)), set()),
        (with_row(3, ("s_waitcnt vmcnt(0)", 2, 921, 921, 0)), {"att_sum"}),
        (with_row(3, ("s_waitcnt vmcnt(0)", 2, 900, 901, 0)), {"rows"}),
        (tuple((isa, 0, 0, 0, 0) for isa, *_ in ROWS), {"hits", "att_sum", "mfma_hits", "no_loss"}),
    ],
)
def test_each_way_to_mislead_fails_its_own_test(tmp_path, rows, failed):
    recording = att.read_recording(make_trace(tmp_path / "trace", rows=rows))
    assert {name for name, passed in validators(recording).items() if not passed} == failed
    assert len([warning for warning in recording.warnings if warning.split(":")[0] in failed]) == len(failed)
    assert recording.att.checksum_ok == ("att_sum" not in failed)


def test_a_label_of_another_kernel_and_missing_sources_are_seen(tmp_path):
    folder = make_trace(tmp_path / "trace")
    change(folder / "occupancy.json", lambda top: top["dispatches"].update({"1": "gemm"}))
    change(folder / "code.json", lambda top: [row.__setitem__(3, "") for row in top["code"]])
    recording = att.read_recording(folder)
    assert {name for name, passed in validators(recording).items() if not passed} == {"label"}
    assert any("no instruction has a source line" in warning for warning in recording.warnings)


def test_a_label_may_be_mangled_where_the_dispatch_is_not(tmp_path):
    folder = make_trace(tmp_path / "trace")

    def mangle(top):
        top["code"][0][0], top["code"][0][3] = "; _Z4axpyPfPKf", KERNEL

    change(folder / "code.json", mangle)
    for name in (KERNEL, "_Z4axpyPfPKf.kd", "axpy", "void space::axpy<float>(float*)"):
        change(folder / "occupancy.json", lambda top, name=name: top["dispatches"].update({"1": name}))
        assert validators(att.read_recording(folder))["label"]
        assert att.read_recording(folder).att.kernel == KERNEL


def test_of_several_traces_the_hottest_is_read_and_the_others_named(tmp_path):
    make_trace(tmp_path / "ui_output_agent_1_dispatch_1")
    rows = tuple((isa, hits, *(cycles * 2 for cycles in rest)) for isa, hits, *rest in ROWS)
    hottest = make_trace(tmp_path / "ui_output_agent_1_dispatch_2", rows=rows, lifetime=2 * CYCLES)
    assert att.sniff(tmp_path)
    recording = att.read_recording(tmp_path)
    assert recording.att == att.read_recording(hottest).att
    assert "1 other traces" in recording.warnings[-1]
    assert [one.att.wave_cycles for one in att.read_each(tmp_path)] == [4000, 2000]


def stats(rows=ROWS, end="\n"):
    lines = [f'1,4096,"; {KERNEL}",0,0,0,0,""']
    lines += [
        f'1,{4096 + 8 * at},"{row[0]}",{",".join(map(str, row[1:]))},"axpy.hip:{at}"' for at, row in enumerate(rows, 1)
    ]
    return CSV + end.join(lines) + end


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_stats_file_alone_has_no_checksum(tmp_path, end):
    path = tmp_path / "stats_ui_output_agent_1_dispatch_2.csv"
    path.write_bytes(("\ufeff" + stats().replace("\n", end)).encode())
    assert att.sniff(path)
    recording = att.read_recording(path)
    assert (recording.att.checksum, recording.att.checksum_ok, recording.att.matrix_busy) == (None, None, None)
    assert (recording.att.waves, recording.att.wave_cycles, recording.att.kernel) == (2, CYCLES, KERNEL)
    assert shares(recording)["lgkm_wait"] == 0.15
    assert "att_sum" not in validators(recording)
    assert any("no checksum" in warning for warning in recording.warnings)


def test_a_stats_file_beside_its_folder_is_read_with_it(tmp_path):
    folder = make_trace(tmp_path / "ui_output_agent_1_dispatch_2")
    path = tmp_path / "stats_ui_output_agent_1_dispatch_2.csv"
    path.write_text(stats(), encoding="utf-8")
    assert att.read_recording(path).att == att.read_recording(folder).att
    path.write_text(stats(with_row(0, ("s_load_dwordx2 s[0:1], s[4:5], 0x0", 3, 8, 0, 40))), encoding="utf-8")
    with pytest.raises(RecordingError, match="does not agree"):
        att.read_recording(path)


def test_quotes_in_names_are_not_escaped_by_the_tool(tmp_path):
    path = tmp_path / "stats_ui_output_x.csv"
    path.write_text(stats().replace(KERNEL, 'f<"a, b", 3, 4, 5>(int)'), encoding="utf-8")
    assert att.read_recording(path).att.kernel == 'f<"a, b", 3, 4, 5>(int)'


@pytest.mark.parametrize(
    ("isa", "kind", "stall"),
    [
        ("s_waitcnt vmcnt(3)", "wait_vm", "mem_wait"),
        ("s_waitcnt lgkmcnt(0)", "wait_lgkm", "lgkm_wait"),
        ("s_waitcnt vmcnt(0) lgkmcnt(0)", "wait_vm+lgkm", "mixed_wait"),
        ("s_waitcnt expcnt(0)", "wait_exp", "other"),
        ("s_waitcnt_vscnt null, 0x0", "wait_vm", "mem_wait"),
        ("s_wait_loadcnt 0x0", "wait_vm", "mem_wait"),
        ("s_wait_storecnt 0x0", "wait_vm", "mem_wait"),
        ("s_wait_dscnt 0x0", "wait_ds", "lds_wait"),
        ("s_wait_kmcnt 0x0", "wait_km", "smem_wait"),
        ("s_wait_loadcnt_dscnt 0x0", "wait_vm+lgkm", "mixed_wait"),
        ("s_wait_alu 0xfffd", "wait_alu", "dependency"),
        ("s_barrier", "barrier", "barrier"),
        ("s_barrier_wait 0xffff", "barrier", "barrier"),
        ("s_barrier_signal -1", "barrier", "barrier"),
        ("s_endpgm", "endpgm", "tail"),
        ("s_nop 7", "nop", "nop"),
        ("s_sleep 1", "sleep", "sleep"),
        ("s_cbranch_scc1 65530", "branch", "branch"),
        ("s_buffer_load_b128 s[0:3], s[4:7], 0x0", "smem", "smem_issue"),
        ("s_add_u32 s0, s1, s2", "salu", "salu"),
        ("buffer_load_dwordx4 v2, s[8:11], 0 offen sc0 lds", "vmem_lds_dma", "mem_issue"),
        ("buffer_load_dwordx4 v[2:5], v0, s[8:11], 0 offen", "vmem_load", "mem_issue"),
        ("global_load_lds_dwordx4 v[0:1], off", "vmem_lds_dma", "mem_issue"),
        ("global_store_b128 v0, v[1:4], s[0:1]", "vmem_store", "store"),
        ("flat_atomic_add v[0:1], v2", "vmem_atomic", "mem_issue"),
        ("buffer_inv sc1", "vmem_other", "mem_issue"),
        ("ds_read_b64_tr_b16 v[0:1], v2", "lds_read", "lds_issue"),
        ("ds_store_b128 v0, v[1:4]", "lds_write", "lds_issue"),
        ("ds_bpermute_b32 v0, v1, v2", "lds_other", "lds_issue"),
        ("v_mfma_f32_16x16x32_fp8_fp8 v[0:3], v[4:5], v[6:7], v[0:3]", "mfma", "matrix"),
        ("v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", "mfma", "matrix"),
        ("v_add_f32_e32 v0, v1, v2", "valu", "valu"),
        ("exp mrt0 v0, v0, v0, v0", "other", "other"),
        ("", "other", "other"),
    ],
)
def test_instructions_have_kinds_in_every_generation(isa, kind, stall):
    assert att.kind(isa) == kind
    assert att.stall(kind) == stall


@pytest.mark.parametrize(
    ("isa", "chip", "cycles"),
    [
        ("v_mfma_f32_32x32x8_f16 v[0:15], v[0:1], v[2:3], v[0:15]", "gfx942", 32),
        ("v_mfma_f32_32x32x8_f16 v[0:15], v[0:1], v[2:3], v[0:15]", "gfx90a", 64),
        ("v_mfma_f32_32x32x16_bf16 v[0:15], v[0:3], v[4:7], v[0:15]", "gfx950", 32),
        ("v_mfma_f32_32x32x8_bf16_1k v[0:15], v[0:1], v[2:3], v[0:15]", None, 16),
        ("v_mfma_f32_4x4x4_16b_f16 v[0:3], v[0:1], v[2:3], v[0:3]", "gfx942", 4),
        ("v_mfma_f64_16x16x4_f64 v[0:7], v[0:1], v[2:3], v[0:7]", "gfx942", 32),
        ("v_mfma_i32_16x16x32_i8 v[0:3], v[0:1], v[2:3], v[0:3]", "gfx942", 16),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[0:7], v[8:15], v[0:3], v1, v2", "gfx950", 16),
        ("v_smfmac_f32_16x16x32_f16 v[0:3], v[0:1], v[2:5], v6", "gfx942", 16),
        ("v_mfma_f32_16x16x32_fp8_fp8 v[0:3], v[0:1], v[2:3], v[0:3]", "gfx90a", None),
        ("v_add_f32_e32 v0, v1, v2", "gfx942", None),
    ],
)
def test_cycles_of_the_matrix_pipe(isa, chip, cycles):
    assert att.cycles(isa, chip) == cycles


def test_use_of_the_matrix_pipe_is_over_the_busy_time_of_the_traced_simds(tmp_path):
    # two waves on two SIMDs, 1000 cycles each; two MFMA of 16 cycles, the chip not known
    assert att.read_recording(make_trace(tmp_path / "trace")).att.matrix_busy == 2 * 16 / 2000
    two = make_trace(tmp_path / "two")
    named = {"0": {"0": {"0": {"0": ["a.json", 0, 1000]}, "1": {"0": ["b.json", 0, 1000]}}}}
    change(two / "filenames.json", lambda top: top.update({"wave_filenames": named}))
    assert att.read_recording(two).att.matrix_busy == 2 * 16 / 1000


def test_the_chip_is_named_only_where_an_instruction_proves_it(tmp_path):
    assert att.read_recording(make_trace(tmp_path / "either")).arch is None
    rows = with_row(7, ("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[0:7], v[8:15], v[0:3], v1, v2", 2, 48, 40, 0))
    assert att.read_recording(make_trace(tmp_path / "only", rows=rows)).arch == "gfx950"
    assert att.read_recording(make_trace(tmp_path / "later", rows=rows, gfxip=12)).arch is None


@pytest.mark.feature("F114")
@pytest.mark.parametrize(
    ("file", "edit", "match"),
    [
        ("code.json", lambda top: top.update(code=None), "holds no code"),
        ("code.json", lambda top: top.update(code=[]), "holds no instruction"),
        ("code.json", lambda top: top.update(code=top["code"][:1]), "labels and no instruction"),
        ("code.json", lambda top: top.update(version="9.0"), "has version '9.0'"),
        ("code.json", lambda top: top.pop("version"), "has version ''"),
        ("code.json", lambda top: top.update(header="ISA, Hit"), "cells, the header 2"),
        ("code.json", lambda top: top.update(header=None), "header is null"),
        ("code.json", lambda top: top.update(header=top["header"].replace("Idle", "Rest")), "lacks idle"),
        ("code.json", lambda top: top["code"][3].pop(), "row 3 of code has 9 cells"),
        ("code.json", lambda top: top["code"][3].__setitem__(7, -1), "Idle of row 3 is '-1'"),
        ("code.json", lambda top: top["code"][3].__setitem__(7, 2**63), "Idle of row 3"),
        ("code.json", lambda top: top["code"][3].__setitem__(7, 1.5), "Idle of row 3 is '1.5'"),
        ("code.json", lambda top: top["code"][3].__setitem__(0, 7), "ISA of row 3 is int"),
        ("filenames.json", lambda top: top.pop("wave_filenames"), "lists no waves"),
        ("filenames.json", lambda top: top.update(wave_filenames=[]), "wave_filenames is list"),
        ("filenames.json", lambda top: top["wave_filenames"]["0"]["0"]["0"].update({"0": ["x", 5]}), "has 2 entries"),
        (
            "filenames.json",
            lambda top: top["wave_filenames"]["0"]["0"]["0"].update({"0": ["x", 5, 4]}),
            "before its begin",
        ),
        ("occupancy.json", lambda top: top["0"].append([1, 2]), "not 6"),
        ("realtime.json", lambda top: top["SE0"].append([1]), "not a pair"),
        ("se0_sm0_sl0_wv0.json", lambda top: top["wave"]["waitcnt"].append([1]), "a wait has 1 entries"),
        ("se0_sm0_sl0_wv0.json", lambda top: top.pop("wave"), "wave is null"),
    ],
)
def test_damage_names_the_file_and_the_thing(tmp_path, file, edit, match):
    folder = make_trace(tmp_path / "trace")
    change(folder / file, edit)
    with pytest.raises(RecordingError, match=match) as raised:
        att.read_recording(folder)
    assert raised.value.path == folder / file


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b'{\n"code": [\n', ":3: is cut or damaged"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"{}\0", "NUL"),
        (b"[" * 100_000, "is (cut or )?damaged"),
        (b'{"version": "3", "code": NaN}', "NaN is not a number"),
        (b'{"version": ' + b"9" * 5000 + b"}", "is damaged"),
        (b"[]", "the file is list"),
    ],
)
def test_files_that_are_no_json_object_name_the_line(tmp_path, data, match):
    folder = make_trace(tmp_path / "trace")
    (folder / "code.json").write_bytes(data)
    with pytest.raises(RecordingError, match=match):
        att.read_recording(folder)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "its header is not"),
        ("a,b,c\n", "its header is not"),
        (CSV, "no row"),
        (stats()[:-10], ":16: is cut"),
        (stats().replace(",4104,", ",4104x,"), ":3: is cut"),
        (stats().replace(",4104,", f",{10**25},"), ":3: holds a number of more than 64 bits"),
    ],
)
def test_a_damaged_stats_file_names_the_line(tmp_path, text, match):
    path = tmp_path / "stats_ui_output_x.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RecordingError, match=match):
        att.read_recording(path)


def test_what_is_no_trace_is_not_taken_for_one(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert not att.sniff(empty)
    with pytest.raises(RecordingError, match=r"code\.json and filenames\.json missing"):
        att.read_recording(empty)
    for name, data in (("a.csv", b"x\ry,\n"), ("b.db", b"SQLite format 3\0\xff\n"), ("c.csv", b"")):
        (tmp_path / name).write_bytes(data)
        assert not att.sniff(tmp_path / name)
    assert not att.sniff(tmp_path / "absent")
    samples = make_trace(tmp_path / "samples")
    write(samples / "filenames.json", {"pc_sampling": True, "thread_trace": False, "wave_filenames": None})
    assert not att.sniff(samples)


def test_producers_that_the_code_does_not_have_are_unknown(tmp_path):
    recording = att.read_recording(make_trace(tmp_path / "trace", waited=WAITED | {2: (99,)}))
    assert shares(recording)["unknown_wait"] == 0.1
