"""`ridgeline isa` on files with several kernels: all of them where launches are known, else the commands to run."""

import shlex
from importlib.util import find_spec

import pytest

from tests.assembly import AMD, PTX, SASS

TWO = AMD + AMD.replace("tile", "edge")
KERNELS = """
import triton
import triton.language as tl

@triton.jit
def twice(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2.0, mask=at < n)

@triton.autotune([triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def negated(x, n, BLOCK: tl.constexpr, SIGN: tl.constexpr = -1):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * SIGN, mask=at < n)

def run(x):
    twice[(4,)](x, 512, BLOCK=128)
    negated[(4,)](x, 512)
"""
NOTES = """
[twice]
signature = "*fp32,i32"
constants = "BLOCK=128"
[negated]
call = "run(fp32[512])"
[elsewhere]
call = "other()"
"""
needs_triton = pytest.mark.skipif(not (find_spec("triton") and find_spec("torch")), reason="needs triton and torch")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("two.amdgcn", TWO),
        ("two.ptx", PTX + PTX[PTX.index(".visible") :].replace("tile", "edge")),
        ("two.sass", SASS + SASS.replace("tile", "edge")),
    ],
)
def test_every_kernel_of_compiled_code(cli, tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    document = cli("isa", path, "--json").json
    assert [one["kernel"] for one in document["kernels"]] == ["tile", "edge"]
    (one,) = (cli("isa", path, "--kernel", "edge", "--json").json,)
    assert (one["kernel"], one["targets"]) == ("edge", document["kernels"][1]["targets"])
    out = cli("isa", path).out
    assert out.index("tile, as given") < out.index("edge, as given")


def test_an_earlier_version_is_compared_kernel_by_kernel(cli, tmp_path):
    before, after, page = tmp_path / "before.amdgcn", tmp_path / "after.amdgcn", tmp_path / "page.html"
    before.write_text(TWO.replace(".vgpr_spill_count: 3", ".vgpr_spill_count: 0", 1))
    after.write_text(TWO)
    said = cli("isa", after, "--diff", before, "--html", page, "--json")
    assert [[one["name"] for one in kernel["findings"]] for kernel in said.json["kernels"]] == [["spills"], []]
    assert page.read_text().count("<h1>") == 2
    before.write_text(AMD)
    assert "edge: the two have no target in common" in cli("isa", after, "--diff", before).err


def test_more_kernels_than_anybody_reads_are_listed(cli, tmp_path):
    path = tmp_path / "library.amdgcn"
    path.write_text("".join(AMD.replace("tile", f"tile{at}") for at in range(33)))
    said = cli("isa", path)
    assert (said.code, "not exactly one kernel; those in it: tile0, tile1," in said.complaint) == (2, True)


def test_commands_are_given_where_no_launch_is_known(cli, tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    said = cli("isa", path, "--target", "gfx942")
    assert (said.code, said.complaint.count("--kernel")) == (2, 2)
    for kernel in ("twice", "negated"):
        command = f"ridgeline isa {path} --kernel {kernel} --target gfx942 --signature x,n --constants BLOCK=VALUE"
        assert command in said.complaint
    assert cli("isa", path, "--kernel", "twice", "--target", "gfx942").complaint.count("--kernel") == 1


@pytest.mark.slow
@needs_triton
def test_every_kernel_that_the_notes_know(cli, tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    (tmp_path / "isa.toml").write_text(NOTES)
    document = cli("isa", path, "--target", "gfx942,gfx90a", "--json").json
    assert [one["kernel"] for one in document["kernels"]] == ["twice", "negated"]
    assert {arch for one in document["kernels"] for arch in one["targets"]} == {"gfx942", "gfx90a"}


@pytest.mark.slow
@needs_triton
def test_every_kernel_that_a_call_launches(cli, tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    document = cli("isa", path, "--target", "gfx942", "--call", "run(fp32[512])", "--json").json
    assert [one["kernel"] for one in document["kernels"]] == ["twice", "negated"]
    said = cli("isa", path, "--target", "gfx942", "--signature", "*fp32,i32", "--constants", "BLOCK=64")
    assert said.code == 2
    command = f"ridgeline isa {path} --kernel twice --target gfx942 --signature '*fp32,i32' --constants BLOCK=64"
    assert command in said.complaint
    fixed = cli(*shlex.split(command)[1:], "--json")
    assert (fixed.code, fixed.json["kernel"]) == (0, "twice")
