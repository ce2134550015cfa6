"""Reading a long C source takes work in proportion to its length, whatever it holds much of."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import ridgeline.sandbox.audit
from ridgeline.sandbox.audit import c_source
from ridgeline.sandbox.audit.examine import audit
from tests.long_sources import DENSE, dense, quantizers

HOME = str(Path(ridgeline.sandbox.audit.__file__).parent)
SHORT, LONG = 200, 800
MOST = 1.5
"""Times the work that the growth of the source explains."""


def work(text: str) -> int:
    """Lines of the audit's own code that are run while it reads a text: the same on every machine."""
    lines = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        audit.__wrapped__("kernel.c", text)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("kind", ["quantizers", *DENSE])
@pytest.mark.slow
def test_four_times_the_lines_are_four_times_the_work(kind):
    short, long = (quantizers(n) if kind == "quantizers" else dense(kind, n) for n in (SHORT, LONG))
    work(short)  # what is made once in a process
    assert work(long) <= MOST * LONG / SHORT * work(short)


def test_a_branch_with_a_brace_of_its_own_does_not_hide_the_functions_behind_it():
    source = c_source.CSource(quantizers(400))
    names = [function.name for function in source.functions]
    assert names == [f"quantize_block_{n}" for n in range(len(names))]
    assert len(names) == quantizers(400).count("static void")


@pytest.mark.slow
def test_what_is_far_down_in_a_long_file_is_found():
    text = quantizers(20_000) + "void f(void) { _exit(0); }\n"
    assert [one.rule for one in audit("kernel.c", text)] == ["ends-process"]


def test_brackets_too_deep_to_be_read_are_said():
    text = "int f(int a) { return " + "(" * 300 + "a" + ")" * 300 + "; }\n"
    assert "unreadable" in {one.rule for one in audit("kernel.c", text)}


def test_constructors_and_operators_are_functions():
    text = (
        "static float kept[64];\n"
        "struct K { K(const float *x, float *y, int n) { if (n == 4096) return; }\n"
        "  void operator()(const float *x, float *y) const { memcpy(y, kept, 256); } };\n"
    )
    assert [one.name for one in c_source.CSource(text).functions] == ["K", "operator()"]
    assert {one.rule for one in audit("kernel.cu", text)} >= {"size-branch", "kept-output"}
