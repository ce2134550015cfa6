"""What a build says of how a kernel is compiled: flags on the command line, in a text, in compile_commands.json."""

import json

import pytest

from ridgeline.agent.analysis.isa_request import InspectionRequest, compiler_flags
from ridgeline.agent.errors import UserError


@pytest.fixture
def flags(tmp_path):
    """`flags(**options)` -> the flags that k.cu is compiled with."""
    kernel = tmp_path / "k.cu"
    kernel.write_text("")

    def read(**options):
        return compiler_flags(InspectionRequest(file=kernel, timeout=1, **options), kernel)

    return read


def test_the_command_line_says_folders_macros_and_version(flags, tmp_path):
    told = flags(include=(tmp_path / "include",), define=("N=3", "FAST"), std="c++17")
    assert told == (f"-I{tmp_path}/include", "-DN=3", "-DFAST", "-std=c++17")


def test_a_text_s_folders_are_beside_it_and_the_command_line_wins(flags, tmp_path):
    (tmp_path / "build").mkdir()
    text = tmp_path / "build" / "flags.txt"
    text.write_text("# of the build\n-Iinclude -isystem deep/include\n--expt-relaxed-constexpr -std=c++14\n")
    build = tmp_path / "build"
    assert flags(flags_from=text, std="c++17") == (
        f"-I{build}/include", "-isystem", f"{build}/deep/include", "--expt-relaxed-constexpr", "-std=c++14",
        "-std=c++17",
    )  # fmt: skip


def test_an_included_header_that_lies_nowhere_beside_is_left_to_the_compiler_s_folders(flags, tmp_path):
    """`-include __clang_hip_runtime_wrapper.h` became a file of the build's folder, which is not there."""
    (tmp_path / "own.h").touch()
    text = tmp_path / "flags.txt"
    text.write_text("-include own.h -include wrapper.h\n")
    assert flags(flags_from=text) == ("-include", f"{tmp_path}/own.h", "-include", "wrapper.h")


@pytest.mark.parametrize("arguments", [False, True])
def test_a_build_s_command_without_what_names_target_and_output(flags, tmp_path, arguments):
    words = [
        "nvcc",
        "-Iinc",
        "-DX=1",
        "-gencode",
        "arch=compute_80,code=sm_80",
        "-arch=sm_80",
        "-c",
        "k.cu",
        "-o",
        "k.o",
    ]
    command = {"arguments": words} if arguments else {"command": " ".join(words)}
    path = tmp_path / "compile_commands.json"
    other = {"directory": str(tmp_path), "file": "other.cu", "command": "nvcc other.cu"}
    path.write_text(json.dumps([other, {"directory": str(tmp_path), "file": "k.cu", **command}]))
    assert flags(flags_from=path) == (f"-I{tmp_path}/inc", "-DX=1")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("compile_commands.json", "[]", "no command builds"),
        ("compile_commands.json", "{", "is no compile_commands.json"),
        ("flags.txt", None, "No such file"),
    ],
)
def test_what_cannot_be_read_is_named(flags, tmp_path, name, text, why):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=f"--flags-from: .*{name}: .*{why}"):
        flags(flags_from=tmp_path / name)
