"""`ridgeline isa` on code that is compiled already, and what it says where it cannot work. No compiler needed."""

import json
import shutil
from importlib.util import find_spec

import pytest

from tests.assembly import AMD, PTX, SASS

TRITON = "import triton\n"


@pytest.fixture
def given(tmp_path):
    """`given("tile.amdgcn", AMD)` -> the file's path."""

    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text) if isinstance(text, bytes) else path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("name", "text", "arch", "registers"),
    [
        ("tile.amdgcn", AMD, "gfx942", 100),
        ("tile.s", AMD, "gfx942", 100),
        ("tile.sass", SASS, "sm_90", None),
        ("tile.ptx", PTX, "sm_90", None),
    ],
)
def test_compiled_code_is_read(cli, given, name, text, arch, registers):
    said = cli("isa", given(name, text), "--json")
    assert said.code == 0
    assert said.json["kernel"] == "tile"
    report = said.json["targets"][arch]
    assert report["resources"]["arch_vgpr"] == registers
    assert any(count["name"] == "matrix" for count in report["shape"]["kinds"])
    assert report["compiler"] == f"as given in {name}"


def test_the_table_shows_what_matters(cli, given):
    said = cli("isa", given("tile.amdgcn", AMD), "--listing")
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    for line in (
        "registers per lane 116", "of them accumulators 16", "spills 3", "scratch per lane, B 8",
        "LDS per block, B 16384", "waves per SIMD 4 of 8", "limited by registers", "registers for one more block 96",
        "matrix 1 v_mfma_f32_32x32x8_f16", "global loads 1 x 16 B, 1 x 4 B", "global to LDS 1 x 4 B",
        "gfx942: 9 instructions at kernel.py:20: 2 lds reads, 1 global loads, 1 waits, 1 matrix".replace("lds", "LDS"),
        "|* 25 kernel.py:20 v_mfma_f32_32x32x8_f16 a[0:15], v[6:7], v[8:9], a[0:15]", "most live registers 26 at kernel.py:20",
    ):  # fmt: skip
        assert line in lines
    assert "LDS that the launch asks for is not in the code" in said.err


def test_nvidia_is_told_in_its_own_words(cli, given):
    said = cli("isa", given("tile.sass", SASS), "--listing")
    assert "shared reads" in said.out
    assert "LDS reads" not in said.out
    assert "HGMMA.64x32x16.F32 R24, gdesc[UR8].tnspB, R24, gsb0" in said.out


def test_an_earlier_version_is_compared(cli, given):
    before = given("before.amdgcn", AMD.replace(".vgpr_spill_count: 3", ".vgpr_spill_count: 0"))
    after = given("after.amdgcn", AMD)
    findings = cli("isa", after, "--diff", before, "--json").json["findings"]
    assert [(one["name"], one["weight"], one["after"]) for one in findings] == [("spills", "against", 3)]
    assert "only a measurement decides" in cli("isa", after, "--diff", before).err
    other = cli("isa", after, "--diff", given("other.sass", SASS))
    assert "no target in common" in other.err


def test_the_page_escapes_what_the_file_says(cli, given, tmp_path):
    hostile = AMD.replace("kernel.py:20", "<script>alert(1)</script>.py:20")
    page = tmp_path / "page.html"
    assert cli("isa", given("tile.amdgcn", hostile), "--html", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "v_mfma_f32_32x32x8_f16" in text
    assert "<script" not in text
    assert "http" not in text
    said = cli("isa", given("tile.amdgcn", AMD), "--html", tmp_path / "nowhere" / "page.html")
    assert (said.code, "--html" in said.complaint) == (2, True)


def test_a_trace_marks_the_hot_lines(cli, given, tmp_path):
    rows = (
        ("s_waitcnt vmcnt(0) lgkmcnt(0)", 100, 900, 800, "/x/kernel.py:10"),
        ("v_mfma_f32_32x32x8_f16 a[0:15], v[6:7], v[8:9], a[0:15]", 1000, 4000, 2000, "/x/kernel.py:20"),
        ("v_exp_f32_e32 v1, v2", 10, 100, 50, "/x/kernel.py:30"),
    )
    lines = ["CodeObj,Vaddr,Instruction,Hitcount,Latency,Stall,Idle,Source"]
    lines += [
        f'1,{4096 + 8 * n},"{isa}",{hits},{lat},{stall},0,"{src}"'
        for n, (isa, hits, lat, stall, src) in enumerate(rows)
    ]
    trace = tmp_path / "stats_ui_output_agent_1_dispatch_1.csv"
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    said = cli("isa", given("tile.amdgcn", AMD), "--trace", trace, "--json")
    assert said.code == 0, said.err
    hot = {one["isa"].split()[0]: one["share"] for one in said.json["hot"]["gfx942"]}
    assert set(hot) == {"s_waitcnt", "v_mfma_f32_32x32x8_f16"}
    assert hot["v_mfma_f32_32x32x8_f16"] > hot["s_waitcnt"]
    plain = cli("isa", given("tile.amdgcn", AMD), "--trace", trace)
    assert "v_exp_f32_e32 v1, v2 (not in it)" in plain.err


@pytest.mark.parametrize(
    ("name", "text", "arguments", "code", "words"),
    [
        ("kernel.py", TRITON, ("--target", "gfx942"), 2, "--signature: missing"),
        ("kernel.py", TRITON, ("--signature", "*fp16", "--call", "run()", "--target", "sm_90"), 2, "not together with"),
        ("kernel.py", TRITON, ("--call", "run", "--target", "sm_90"), 2, "is no call"),
        ("kernel.py", TRITON, ("--signature", "i32", "--constants", "4", "--target", "sm_90"), 2, "NAME=VALUE"),
        ("kernel.py", TRITON, ("--call", "run()"), 2, "--target: missing"),
        ("kernel.py", TRITON, ("--call", "run()", "--target", "h100"), 2, "unknown target 'h100'"),
        ("kernel.rs", "fn main() {}", ("--target", "sm_90"), 2, "is neither Triton"),
        ("b64.c", "int main(void) { return 0; }", (), 2, "b64.c: is neither Triton"),
        ("tile.amdgcn", "", (), 2, "does not say what it is for"),
        ("tile.amdgcn", "", ("--target", "gfx942"), 2, "those in it: none"),
        ("tile.amdgcn", AMD, ("--kernel", "other"), 2, "no kernel 'other'; those in it: tile"),
        ("tile.amdgcn", AMD, ("--target", "gfx950"), 2, "was compiled for gfx942, not for gfx950"),
        ("tile.hsaco", b"\x7fELF" + b"\0" * 10, (), 2, "is no code object"),
        ("tile.amdgcn", AMD, ("--trace", "nowhere"), 2, "--trace: nowhere: no such file"),
    ],
)
def test_mistakes_take_one_line(cli, given, name, text, arguments, code, words):
    said = cli("isa", given(name, text), *arguments)
    assert (said.code, words in said.complaint) == (code, True), said.err


@pytest.mark.parametrize(("name", "tool", "target"), [("k.cu", "nvcc", "sm_90"), ("k.hip", "hipcc", "gfx942")])
def test_a_missing_compiler_is_the_machine_s_fault(cli, given, name, tool, target):
    if shutil.which(tool):
        pytest.skip(f"{tool} is here")
    said = cli("isa", given(name, "__global__ void k() {}"), "--target", target)
    assert (said.code, f"needs {tool}" in said.complaint) == (5, True)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_cuda_is_compiled_where_its_compiler_is(cli, given):
    text = """
    __global__ void copy(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
    __global__ void other(float* x) { x[threadIdx.x] = 0; }
    """
    path = given("k.cu", text)
    said = cli("isa", path, "--target", "sm_80,sm_90", "--kernel", "copy", "--num-warps", "8", "--json")
    assert said.code == 0, said.err
    report = said.json["targets"]["sm_90"]
    assert "copy" in report["kernel"]
    assert report["compiler"].startswith("nvcc:")
    assert report["resources"]["threads"] == 256
    if report["shape"] is None:
        pytest.skip("the compiler is here, its disassembler is not")
    assert {"kind": "global_load", "lane_bytes": 16, "count": 1} in report["shape"]["widths"]
    every = cli("isa", path, "--target", "sm_90", "--json").json["kernels"]
    assert sorted(one["kernel"] for one in every) == ["_Z4copyPK6float4PS_", "_Z5otherPf"]
    broken = cli("isa", given("bad.cu", "int f( {"), "--target", "sm_90")
    assert (broken.code, "nvcc for sm_90 ended with exit code" in broken.complaint) == (2, True)


def test_a_missing_flydsl_is_the_machine_s_fault(cli, given):
    if find_spec("flydsl"):
        pytest.skip("FlyDSL is here")
    said = cli("isa", given("k.py", "import flydsl\n"), "--target", "gfx942")
    assert (said.code, "FlyDSL" in said.complaint) == (5, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tile\n", "correct the file"),
        ("[tile]\nwarps = 4\n", "tile.warps"),
        ("", "knows none"),
    ],
)
def test_notes_beside_the_kernel_are_checked(cli, given, text, words):
    given("isa.toml", text)
    said = cli("isa", given("kernel.py", TRITON), "--target", "sm_90")
    assert (said.code, words in said.complaint) == (2, True), said.err


def test_json_is_one_object_and_unknown_is_null(cli, given):
    document = json.loads(cli("isa", given("tile.ptx", PTX), "--json").out)
    report = document["targets"]["sm_90"]
    assert report["occupancy"] is None
    assert set(report["resources"].values()) == {None}
    assert document["findings"] == []


def test_a_page_of_two_versions_shows_each_number_and_each_opcode_that_changed(cli, given, tmp_path):
    before = given("before.amdgcn", AMD)
    now = given("now.amdgcn", AMD.replace("ds_read_b64 v[6:7], v5", "ds_read_b128 v[6:9], v5"))
    page = tmp_path / "page.html"
    assert cli("isa", now, "--diff", before, "--html", page).code == 0
    text = page.read_text()
    assert "<h2>gfx942: before and after</h2>" in text
    assert "<tr class='hot'><td>LDS reads</td><td>1 x 16 B, 1 x 8 B</td><td>2 x 16 B</td></tr>" in text
    assert "<tr class='against'><td>-ds_read_b64</td></tr><tr class='hot'><td>+ds_read_b128</td></tr>" in text
    assert cli("isa", before, "--diff", before, "--html", page).code == 0
    assert "The same opcodes in the same order." in page.read_text()
