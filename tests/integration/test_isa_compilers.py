"""`ridgeline isa` beside compilers: where their tools are, what they say, and targets that they refuse. No GPU code."""

import os
import sys

import pytest

from ridgeline.sandbox.profiles.isa.tools import Place, disassemble, name_kernel
from ridgeline.sandbox.profiles.isa.values import Assembly, NotCompiled, target_of
from tests.assembly import AMD, SASS

NVCC = """#!/bin/sh
case "$*" in
*--version*) echo "release 13.0"; exit 0;;
*sm_80*) echo "k.cu(1): error: no such type"; echo "k.cu(2): error: no such name"
    echo '2 errors detected in the compilation of "k.cu".'; exit 2;;
esac
while [ "$1" != -o ]; do shift; done
echo code > "$2"
"""


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def interpreter(tmp_path):
    """Another interpreter, with a Triton whose nvdisasm prints SASS."""
    packages = tmp_path / "packages"
    script(packages / "triton" / "__init__.py", "")
    script(packages / "triton" / "backends" / "nvidia" / "bin" / "nvdisasm", f"#!/bin/sh\ncat <<'END'\n{SASS}END\n")
    return script(
        tmp_path / "venv" / "bin" / "python", f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} "$@"\n'
    )


def test_the_disassembler_is_the_interpreter_s_own(tmp_path, interpreter, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    compiled = Assembly(target=target_of("sm_90"), compiler="triton", binary=b"code", kernel="tile")
    place = Place(python=str(interpreter), folder=tmp_path, timeout_s=60)
    told = disassemble(compiled, place)
    assert (told.form, told.notes) == ("sass", ())
    assert "HGMMA" in told.assembly


def test_a_relative_interpreter_is_found(cli, tmp_path, interpreter, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kernel = tmp_path / "kernel.py"
    kernel.write_text("import triton\n")
    launch = ("--signature", "i32", "--target", "sm_90")
    said = cli("isa", kernel, *launch, "--python", os.path.relpath(interpreter))
    assert "No such file" not in said.complaint
    assert "triton" in said.complaint, "it was started, and its Triton is an empty folder"
    said = cli("isa", kernel, *launch, "--python", "nowhere/python")
    assert (said.code, "--python: nowhere/python: no such program" in said.complaint) == (2, True)


def test_nvcc_s_errors_are_told_and_the_other_target_is_not_lost(cli, tmp_path, interpreter, monkeypatch):
    script(tmp_path / "bin" / "nvcc", NVCC)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    kernel = tmp_path / "k.cu"
    kernel.write_text("__global__ void tile() {}\n")
    options = ("--kernel", "tile", "--python", interpreter)
    said = cli("isa", kernel, *options, "--target", "sm_80,sm_90", "--json")
    assert said.code == 2
    assert said.json["targets"]["sm_90"]["shape"]["matrix"] == [{"name": "HGMMA.64x32x16.F32", "count": 1}]
    (refused,) = said.json["refused"]
    assert refused["target"] == "sm_80"
    assert refused["why"].endswith("exit code 2: k.cu(1): error: no such type; k.cu(2): error: no such name")
    said = cli("isa", kernel, *options, "--target", "sm_80")
    assert (said.code, "error: no such type" in said.complaint) == (2, True)


def test_what_a_kernel_is_compiled_with_reaches_the_compiler(cli, tmp_path, interpreter, monkeypatch):
    said = tmp_path / "said"
    script(tmp_path / "bin" / "nvcc", NVCC.replace('case "$*"', f'echo "$@" >> {said}\ncase "$*"', 1))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    kernel = tmp_path / "k.cu"
    kernel.write_text("__global__ void tile() {}\n")
    options = ("-I", tmp_path / "inc", "-D", "N=3", "--std", "c++17", "--python", interpreter, "--kernel", "tile")
    assert cli("isa", kernel, *options, "--target", "sm_120").code == 0
    argv = said.read_text()
    assert f"-I{tmp_path}/inc -DN=3 -std=c++17 -arch=sm_120a" in argv


CLANG = """#!/bin/sh
case "$*" in
*--version*) echo "clang version 21.0"; exit 0;;
*"-x hip"*--offload-arch=gfx942*) ;;
*) echo "error: $*"; exit 1;;
esac
while [ "$1" != -o ]; do shift; done
cat > "$2" <<'END'
CODE
END
"""


def test_hip_is_compiled_by_clang_where_hipcc_is_not(cli, tmp_path, monkeypatch):
    script(tmp_path / "bin" / "clang++", CLANG.replace("CODE", AMD))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    kernel = tmp_path / "k.hip"
    kernel.write_text("__global__ void tile() {}\n")
    report = cli("isa", kernel, "--target", "gfx942", "--json").json["targets"]["gfx942"]
    assert report["compiler"] == "clang++: clang version 21.0"
    assert report["shape"]["matrix"] == [{"name": "v_mfma_f32_32x32x8_f16", "count": 1}]


CUTE = """
import os, pathlib, sys
import cutlass.cute as cute
folder = pathlib.Path(os.environ["CUTE_DSL_DUMP_DIR"])
for name in ("first", "second"):
    text = f".version 8.8\\n.target {os.environ['CUTE_DSL_ARCH']}\\n.visible .entry {name}() {{\\nbar.sync 0;\\nret;\\n}}\\n"
    (folder / f"{name}.ptx").write_text(text)
sys.exit("no CUDA-capable device is detected")
"""


def test_cute_dsl_s_kernels_are_found_though_no_gpu_runs_them(cli, tmp_path, interpreter):
    packages = tmp_path / "packages"
    script(packages / "cutlass" / "cute.py", "")
    script(packages / "nvidia_cutlass_dsl-4.8.1.dist-info" / "METADATA", "Name: nvidia-cutlass-dsl\nVersion: 4.8.1\n")
    kernel = tmp_path / "k.py"
    kernel.write_text(CUTE)
    options = ("--target", "sm_90", "--python", interpreter, "--json")
    one = cli("isa", kernel, *options, "--kernel", "second").json
    report = one["targets"]["sm_90"]
    assert (report["kernel"], report["form"], report["compiler"]) == ("second", "ptx", "nvidia-cutlass-dsl 4.8.1")
    every = cli("isa", kernel, *options).json["kernels"]
    assert [entry["kernel"] for entry in every] == ["first", "second"]
    said = cli("isa", kernel, "--target", "sm_90", "--python", sys.executable)
    assert (said.code, "nvidia-cutlass-dsl" in said.complaint) == (5, True)


def test_a_kernel_is_named_as_in_the_source(tmp_path):
    names = ("_Z4tileILi32EfEvPKT0_PS0_", "_Z4tileILi33EfEvPKT0_PS0_")
    place = Place(python=sys.executable, folder=tmp_path, timeout_s=60)
    asked = Assembly(target=target_of("sm_90"), compiler="nvcc", kernel="tile<33,float>")
    found = name_kernel(asked, names, place)
    assert (found.kernel, found.plain) == (names[1], "void tile<33, float>(float const*, float*)")
    with pytest.raises(NotCompiled, match=r"'tile' is in 2 names; those: tile<32, float>, tile<33, float>"):
        name_kernel(asked.model_copy(update={"kernel": "tile"}), names, place)
