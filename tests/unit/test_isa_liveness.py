"""Live registers of AMD code: reads keep a value, writes end it, branches carry it, half registers and odd operands."""

import pytest

from ridgeline.sandbox.profiles.isa import amdgcn
from ridgeline.sandbox.profiles.isa.report import shape_of
from tests.assembly import AMD

FRAME = ".amdhsa_kernel k\n.end_amdhsa_kernel\nk:\n{}\n.Lfunc_end0:\n"


def live(*lines):
    return [instruction.live for instruction in amdgcn.parse_code(FRAME.format("\n".join(lines))).instructions]


def test_a_value_holds_its_register_from_its_write_to_its_last_read():
    counts = live(
        "v_mov_b32_e32 v1, 0",
        "v_add_u32_e32 v2, v0, v1",  # v0 comes with the launch; v1 ends here
        "v_mov_b32_e32 v3, v2",
        "global_store_dwordx2 v[4:5], v[2:3], off",
        "s_endpgm",
    )
    assert counts == [4, 5, 4, 4, 0]  # v0, v1, v4, v5; then v2 beside them; v2 to v5


def test_a_loop_carries_what_its_next_round_reads():
    counts = live(
        "v_mov_b32_e32 v9, 0",
        ".L1:",
        "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]",
        "s_cbranch_scc1 .L1",
        "v_accvgpr_read_b32 v1, a0",
        "ds_write_b32 v9, v1",
        "s_endpgm",
    )
    assert counts == [21, 21, 21, 3, 2, 0]  # both files together: 16 accumulators, four operands, v9


def test_what_one_way_reads_is_held_before_the_branch():
    counts = live("s_cbranch_execz .L1", "v_mov_b32_e32 v1, v2", "s_branch .L2", ".L1:", "v_mov_b32_e32 v1, v3", ".L2:",
                  "ds_write_b32 v1, v1", "s_endpgm")  # fmt: skip
    assert counts == [2, 2, 1, 2, 1, 0]


@pytest.mark.parametrize(
    ("line", "before", "during"),
    [
        ("v_fmac_f32_e32 v1, v2, v3", 3, 3),  # reads what it adds to
        ("v_fma_f32 v1, v2, v3, v4", 3, 4),
        ("v_dual_fmac_f32 v1, v2, v3 :: v_dual_mov_b32 v5, v6", 4, 5),
        ("v_swap_b32 v1, v2", 2, 2),
        ("v_cmp_gt_i32_e32 vcc, v2, v3", 3, 3),  # no vector register is written: v1 stays
        ("v_readfirstlane_b32 s0, v2", 2, 2),
        ("ds_write_b128 v2, v[4:7]", 6, 6),
        ("ds_read_b128 v[1:4], v5", 1, 5),
        ("ds_add_u32 v2, v3", 3, 3),
        ("ds_add_rtn_u32 v1, v2, v3", 2, 3),
        ("buffer_load_dword v1, v2, s[0:3], 0 offen", 1, 2),
        ("buffer_load_dword v2, s[0:3], 0 offen lds", 2, 2),  # v2 is an address
        ("global_atomic_add_f32 v2, v3, s[0:1]", 3, 3),
        ("global_atomic_add_u32 v1, v2, v3, s[0:1] sc0", 2, 3),
        ("global_load_short_d16_hi v1, v[2:3], off", 3, 3),  # v1's low half stays
        ("v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf", 2, 2),
        ("v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1", 1, 2),
        ("v_cvt_pk_fp8_f32 v1, v2, v3 op_sel:[0,0,1]", 3, 3),
        ("v_cvt_pk_fp8_f32 v1, v2, v3", 2, 3),
        ("v_pk_fma_f16 v1, v2, v3, v4 op_sel:[0,0,1]", 3, 4),
        ("v_mov_b16_e32 v1.l, v2.h", 2, 2),
        ("s_add_i32 s6, s6, 1", 1, 1),
    ],
)
def test_operands_that_are_not_one_result_and_its_sources(line, before, during):
    counts = live("s_nop 0", line, "ds_write_b8 v1, v1", "s_endpgm")
    assert counts == [before, during, 1, 0]


@pytest.mark.parametrize(
    "line",
    ["s_swappc_b64 s[30:31], s[16:17]", "v_movrels_b32_e32 v1, v2", "s_branch .Lelsewhere", "v_mov_b32 v[vgprA+0], v1"],
)
def test_what_cannot_be_followed_is_not_counted(line):
    assert live("v_mov_b32_e32 v1, 0", line, "s_endpgm") == [None] * 3


def test_the_lines_that_hold_most_are_told():
    pressure = shape_of(amdgcn.parse_code(AMD)).pressure
    assert (pressure[0].source, pressure[0].live) == ("kernel.py:20", 26)  # 16 accumulators, v0, v1, v4 to v11
