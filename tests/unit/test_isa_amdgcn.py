"""AMD assembly: what each instruction is for and how wide, what the compiler's metadata says, damaged files."""

import pytest

from ridgeline.sandbox.profiles.isa import amdgcn
from ridgeline.sandbox.profiles.isa.report import shape_of
from ridgeline.sandbox.profiles.isa.values import NotReadable, Resources
from tests.assembly import AMD


def counted(counts):
    return {found.name: found.count for found in counts}


@pytest.mark.feature("F091")
def test_a_kernel_is_counted():
    shape = shape_of(amdgcn.parse_code(AMD))
    assert counted(shape.kinds) == {
        "scalar_load": 1, "global_load": 2, "wait": 2, "lds_write": 1, "barrier": 1, "lds_read": 2, "global_to_lds": 1,
        "matrix": 1, "accum_move": 1, "salu": 1, "branch": 1, "scratch": 1, "valu": 1, "global_store": 1, "end": 1,
    }  # fmt: skip
    assert shape.instructions == sum(counted(shape.kinds).values())
    assert counted(shape.matrix) == {"v_mfma_f32_32x32x8_f16": 1}
    assert counted(shape.waits) == {"lgkmcnt(0)": 2, "vmcnt(0)": 1}
    assert {(width.kind, width.lane_bytes): width.count for width in shape.widths} == {
        ("global_load", 16): 1, ("global_load", 4): 1, ("global_to_lds", 4): 1, ("lds_write", 16): 1,
        ("lds_read", 16): 1, ("lds_read", 8): 1, ("scratch", 4): 1, ("global_store", 2): 1,
    }  # fmt: skip


def test_the_loop_and_where_it_comes_from():
    (loop,) = shape_of(amdgcn.parse_code(AMD)).loops
    assert (loop.label, loop.first, loop.last, loop.depth, loop.hot) == (".LBB0_1", 5, 13, 1, True)
    assert loop.source == ("kernel.py:20",)  # line 0 is the compiler's own


@pytest.mark.feature("F091")
def test_resources_are_those_of_the_metadata():
    assert amdgcn.resources(AMD, "tile") == Resources(
        arch_vgpr=100,
        accum_vgpr=16,
        vgpr_total=116,
        sgpr=24,
        vgpr_spills=3,
        sgpr_spills=0,
        scratch_bytes=8,
        lds_bytes=16384,
        threads=256,
        code_bytes=160,
    )


def test_without_comments_the_two_files_are_told_apart_by_subtraction():
    bare = "\n".join(line for line in AMD.splitlines() if not line.startswith("; "))
    held = amdgcn.resources(bare, "tile")
    assert (held.arch_vgpr, held.accum_vgpr, held.vgpr_total) == (100, 16, 116)


@pytest.mark.parametrize(
    ("text", "kind", "size"),
    [
        ("buffer_load_dword v0, v1, s[0:3], 0 offen", "global_load", 4),
        ("buffer_load_dwordx2 v[0:1], v1, s[0:3], 0", "global_load", 8),
        ("buffer_load_dwordx3 v[0:2], v1, s[0:3], 0", "global_load", 12),
        ("buffer_load_ushort v0, v1, s[0:3], 0", "global_load", 2),
        ("buffer_load_ubyte v0, v1, s[0:3], 0", "global_load", 1),
        ("buffer_load_short_d16_hi v0, v1, s[0:3], 0", "global_load", 2),
        ("buffer_load_dwordx4 v1, s[0:3], 0 offen lds", "global_to_lds", 16),
        ("global_load_lds_dwordx4 v[0:1], off", "global_to_lds", 16),
        ("flat_load_dwordx4 v[0:3], v[4:5]", "global_load", 16),
        ("global_load_b128 v[0:3], v[4:5], off", "global_load", 16),
        ("global_load_d16_hi_b16 v0, v[4:5], off", "global_load", 2),
        ("global_load_u16 v0, v[4:5], off", "global_load", 2),
        ("buffer_store_b64 v[0:1], v4, s[0:3], 0 offen", "global_store", 8),
        ("s_delay_alu instid0(VALU_DEP_1)", "nop", None),
        ("v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", "matrix", None),
        ("s_wait_loadcnt 0x0", "wait", None),
        ("global_store_dwordx4 v[0:1], v[2:5], off", "global_store", 16),
        ("global_store_byte v[0:1], v2, off", "global_store", 1),
        ("global_atomic_add_f32 v0, v1, s[0:1]", "atomic", None),
        ("buffer_wbl2 sc1", "other", None),
        ("ds_read_b32 v0, v1", "lds_read", 4),
        ("ds_read_b128 v[0:3], v4", "lds_read", 16),
        ("ds_read_u16 v0, v1", "lds_read", 2),
        ("ds_read_u16_d16_hi v0, v1", "lds_read", 2),
        ("ds_read_u8 v0, v1", "lds_read", 1),
        ("ds_read2_b32 v[0:1], v2", "lds_read", 8),
        ("ds_read2st64_b64 v[0:3], v4", "lds_read", 16),
        ("ds_read_b64_tr_b16 v[0:1], v2", "lds_read", 8),
        ("ds_write2_b32 v0, v1, v2", "lds_write", 8),
        ("ds_write_b8 v0, v1", "lds_write", 1),
        ("ds_bpermute_b32 v0, v1, v2", "lds_other", None),
        ("ds_swizzle_b32 v0, v1", "lds_other", None),
        ("scratch_load_dwordx4 v[0:3], off, s32", "scratch", 16),
        ("v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v10", "matrix", None),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3]", "matrix", None),
        ("v_accvgpr_write_b32 a0, v1", "accum_move", None),
        ("s_waitcnt vmcnt(3)", "wait", None),
        ("s_nop 7", "nop", None),
        ("s_setprio 1", "salu", None),
        ("s_buffer_load_dwordx8 s[0:7], s[8:11], 0x0", "scalar_load", None),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1]", "valu", None),
    ],
)
def test_each_spelling(text, kind, size):
    mnemonic = text.split()[0]
    assert (amdgcn.kind_of(mnemonic, text), amdgcn.lane_bytes(mnemonic)) == (kind, size)


def test_several_kernels_need_a_name():
    two = AMD + AMD.replace("tile", "edge")
    assert amdgcn.kernels(two) == ("tile", "edge")
    assert amdgcn.parse_code(two, "edge").kernel == "edge"
    assert amdgcn.resources(two, "edge").arch_vgpr == 100  # comments name no kernel: metadata alone
    with pytest.raises(NotReadable, match="not exactly one kernel; those in it: tile, edge"):
        amdgcn.parse_code(two)
    with pytest.raises(NotReadable, match="no kernel 'other'"):
        amdgcn.parse_code(two, "other")


@pytest.mark.parametrize("cut", [0, 40, 400, 900])
def test_a_cut_file_is_refused_or_unknown_never_zero(cut):
    text = AMD[:cut]
    with pytest.raises(NotReadable):
        amdgcn.parse_code(text)
    assert amdgcn.resources(text, "tile") == Resources()


@pytest.mark.parametrize(
    "body",
    ["amdhsa.kernels: [", "amdhsa.kernels: 7", "- 1", "amdhsa.kernels:\n  - .name: tile\n    .vgpr_count: many", "\t@"],
)
def test_metadata_that_nobody_can_read_says_nothing(body):
    text = AMD[: AMD.index("---")] + body + "\n\t.end_amdgpu_metadata\n"
    assert amdgcn.resources(text, "tile").vgpr_spills is None


def test_loops_inside_loops():
    body = """
	.amdhsa_kernel k
k:
.Lout:
	v_mov_b32 v0, v1
.Lin:
	v_mfma_f32_4x4x4f16 v0, v1, v2, v3
	s_cbranch_scc1 .Lin
	v_mov_b32 v2, v1
	v_mov_b32 v3, v1
	s_cbranch_vccnz .Lout
.Lother:
	v_mov_b32 v4, v1
	v_mov_b32 v5, v1
	v_mov_b32 v6, v1
	s_branch .Lother2
.Lother2:
	s_cbranch_execz .Lother
	s_endpgm
.Lslow:
	s_nop 0
	s_branch .Lin
.Lfunc_end0:
"""
    loops = shape_of(amdgcn.parse_code(body)).loops
    assert [(loop.label, loop.depth, loop.hot) for loop in loops] == [
        (".Lout", 1, False),
        (".Lother", 1, False),
        (".Lin", 2, True),  # matrix work counts more than length; the way back from behind the end is no loop
    ]
