"""`ridgeline isa` beside compilers: where their tools are, what they say, and targets that they refuse. No GPU code."""

import os
import sys

import pytest

from ridgeline.sandbox.profiles.isa.tools import Place, disassemble
from ridgeline.sandbox.profiles.isa.values import Assembly, target_of
from tests.assembly import SASS

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
