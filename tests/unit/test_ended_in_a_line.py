"""How a command ended, on the one line that a mistake gets."""

import subprocess

import pytest

from ridgeline.graph.evidence import Exit
from ridgeline.sandbox.workspace.commands import BUILD_LINES, in_a_line


def _exit(output, code=1):
    return Exit(argv=("make", "kernel"), returncode=code, seconds=0.1, output=output)


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("", "make kernel: exit code 1"),
        ("\n one \n\n two \n", "make kernel: exit code 1 | two"),
    ],
)
def test_the_last_line_is_told(output, told):
    assert in_a_line(_exit(output)) == told


def test_a_failed_build_tells_the_compilers_error(tmp_path):
    (tmp_path / "kernel.c").write_text("int f(void) { return nowhere; }\n")
    (tmp_path / "Makefile").write_text("kernel:\n\tgcc -c kernel.c\n")
    ran = subprocess.run(
        ["make", "kernel"], cwd=tmp_path, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}
    )
    line = in_a_line(_exit(ran.stdout + ran.stderr, ran.returncode), last_lines=BUILD_LINES)
    assert "nowhere" in line
    assert "Error 1" in line
    assert "\n" not in line
