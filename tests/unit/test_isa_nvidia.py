"""SASS and PTX: what each instruction is for and how wide, loops, damaged text."""

import pytest

from ridgeline.sandbox.profiles.isa import nvidia
from ridgeline.sandbox.profiles.isa.report import shape_of
from ridgeline.sandbox.profiles.isa.values import NotReadable, choose_kernel
from tests.assembly import PTX, SASS


def counted(counts):
    return {found.name: found.count for found in counts}


def test_sass_is_counted():
    shape = shape_of(nvidia.sass(SASS))
    assert counted(shape.kinds) == {
        "scalar_load": 2, "global_load": 1, "lds_write": 1, "global_to_lds": 1, "wait": 3, "barrier": 1, "lds_read": 2,
        "matrix": 1, "salu": 1, "branch": 2, "scratch": 3, "end": 2, "global_store": 1, "nop": 1,
    }  # fmt: skip
    assert counted(shape.matrix) == {"HGMMA.64x32x16.F32": 1}
    assert {(width.kind, width.lane_bytes): width.count for width in shape.widths} == {
        ("global_load", 16): 1, ("global_to_lds", 8): 1, ("global_store", 4): 1, ("lds_read", 16): 1,
        ("lds_read", 2): 1, ("lds_write", 16): 1, ("scratch", 8): 1, ("scratch", 4): 2,
    }  # fmt: skip


def test_the_trap_behind_the_end_is_no_loop():
    (loop,) = shape_of(nvidia.sass(SASS)).loops
    assert (loop.label, loop.first, loop.last, loop.source, loop.hot) == (".L_x_1", 6, 13, ("kernel.py:20",), True)


def test_branches_to_addresses():
    text = """
		Function : tile
	.headerflags	@"EF_CUDA_SM90 EF_CUDA_PTX_SM(EF_CUDA_SM90)"
        /*0000*/                   MOV R1, c[0x0][0x28] ;                        /* 0x00000a0000017a02 */
                                                                                 /* 0x000fe20000000f00 */
        /*0010*/                   HMMA.16816.F32 R4, R4, R8, R12 ;              /* 0x0000000a04047211 */
        /*0020*/               @P0 BRA 0x10 ;                                    /* 0xfffffff000007947 */
        /*0030*/                   EXIT ;                                        /* 0x000000000000794d */
"""
    code = nvidia.sass(text)
    assert (code.kernel, len(code.instructions)) == ("tile", 4)
    assert nvidia.architecture(text) == "sm_90"
    assert [(loop.label, loop.first, loop.last) for loop in shape_of(code).loops] == [("0x10", 1, 2)]


def test_spills_are_registers_as_ptxas_counts_them():
    """nvcc 13.0: 2500, 2492 and 2052 bytes of spill stores were 625, 623 and 513 of these for sm_80, sm_90, sm_100."""
    assert nvidia.spilled_registers(nvidia.sass(SASS)) == 3, "STL.64 stores two registers, STL one"


def product(loop):
    """SASS of two nested loops: `loop` is the body of the inner one."""
    lines = ["FFMA R4, R5, R6, R4", "IADD3 R1, R1, 0x1, RZ", *loop, "FADD R1, R1, R2", "@P1 BRA `(.L_x_1)", "EXIT"]
    text, at = '\t.section\t.text.tile,"ax"\n.text.tile:\n.L_x_1:\n', 0
    for line in lines:
        if line.startswith("."):
            text += f"{line}\n"
        else:
            text += f"        /*{at:04x}*/                   {line} ;\n"
            at += 16
    return shape_of(nvidia.sass(text)).loops


def test_the_hot_loop_multiplies():
    loops = product(
        [".L_x_2:", *["FFMA R8, R9, R10, R8"] * 4, "@P0 BRA `(.L_x_2)", ".L_x_3:", *["IADD3 R2, R2, 0x1, RZ"] * 30]
        + ["@P2 BRA `(.L_x_3)"]
    )
    assert [loop.label for loop in loops if loop.hot] == [".L_x_2"], "not the longer one, which counts"
    loops = product(["FFMA R8, R9, R10, R8"] * 64 + [".L_x_2:", "SYNCS.PHASECHK R2, [R3]", "@!P0 BRA `(.L_x_2)"])
    assert [loop.label for loop in loops if loop.hot] == [".L_x_1"], "not the wait inside it"


def test_columns_of_tensor_memory_in_ptx():
    text = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;\n"
    assert (nvidia.tensor_columns(text), nvidia.tensor_columns(PTX)) == (512, None)


def test_ptx_is_counted():
    shape = shape_of(nvidia.ptx(PTX))
    assert counted(shape.kinds) == {
        "scalar_load": 1, "global_load": 1, "global_to_lds": 1, "other": 1, "wait": 1, "barrier": 1, "lds_read": 1,
        "matrix": 1, "valu": 1, "branch": 1, "global_store": 1, "end": 1,
    }  # fmt: skip
    assert {(width.kind, width.lane_bytes) for width in shape.widths} == {
        ("global_load", 16), ("global_to_lds", 16), ("lds_read", 16), ("global_store", 2),
    }  # fmt: skip
    assert [(loop.label, loop.source) for loop in shape.loops] == [("$L__BB0_1", ("line 20",))]
    assert nvidia.architecture(PTX) == "sm_90"


@pytest.mark.parametrize(
    ("mnemonic", "kind"),
    [
        ("UTCHMMA", "matrix"),
        ("IMMA.16832.S8.S8", "matrix"),
        ("UTMALDG.2D", "global_to_lds"),
        ("UTMASTG.2D", "global_store"),
        ("SYNCS.ARRIVE.TRANS64", "barrier"),
        ("SHFL.BFLY", "lds_other"),
        ("RED.E.ADD.F32", "atomic"),
        ("REDUX.SUM", "valu"),
        ("LDC.64", "scalar_load"),
        ("UMOV", "salu"),
        ("BARE", "valu"),
        ("STSM.16.M88.2", "lds_write"),
        ("MUFU.EX2", "valu"),
    ],
)
def test_each_spelling(mnemonic, kind):
    text = f"\t.section\t.text.k\n        /*0000*/   {mnemonic} R0, R1 ;\n        /*0010*/   EXIT ;\n"
    assert nvidia.sass(text).instructions[0].kind == kind


@pytest.mark.parametrize("reader", [nvidia.sass, nvidia.ptx])
@pytest.mark.parametrize("text", ["", "nothing here", ".visible .entry k(", "\t.section\t.text.k\n"])
def test_text_without_instructions_is_refused(reader, text):
    with pytest.raises(NotReadable):
        reader(text)


@pytest.mark.parametrize(
    ("found", "kernel", "meant"),
    [
        (("tile",), None, "tile"),
        (("tile", "tile_2"), "tile", "tile"),
        (("_Z4tilePf", "_Z5otherPf"), "tile", "_Z4tilePf"),
        (("tile_0", "other_0"), "tile", "tile_0"),
        (("_ZN2ns4tileILi8EEEvPf",), "tile", "_ZN2ns4tileILi8EEEvPf"),
        (("_Z4tilePf", "_Z4tilePd"), "tile", None),
        (("tile_0", "tile_1"), "tile", None),
        (("tile_wide",), "tile", None),
        (("a", "b"), None, None),
        ((), None, None),
    ],
)
def test_which_kernel_is_meant(found, kernel, meant):
    if meant is None:
        with pytest.raises(NotReadable, match="those in it"):
            choose_kernel(found, kernel)
    else:
        assert choose_kernel(found, kernel) == meant


def test_the_lines_with_most_live_registers():
    code = nvidia.sass(SASS, None, dict.fromkeys(range(0, 0x1000, 16), 7) | {0x20: 31})
    assert code.instructions[2].live == 31
    first, *others = shape_of(code).pressure
    assert (first.live, first.source) == (31, code.instructions[2].source or code.instructions[2].text)
    assert {line.live for line in others} <= {7}
    assert shape_of(nvidia.sass(SASS)).pressure == ()
