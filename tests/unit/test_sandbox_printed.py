"""What is kept of a test's output: the lines that the next run prints as well, whatever its numbers are."""

import time

import pytest

from ridgeline.graph.evidence import TestOutput
from ridgeline.sandbox.workspace.checker import MOST, read_printed

PATTERNS = ("mismatch", "AssertionError", "not close", "FAIL")


def kept(output: str, csv: str = "") -> TestOutput:
    return read_printed(output, csv=csv, is_editable=lambda path: path.startswith("src/"), patterns=PATTERNS)


def lines(output: str) -> list[tuple[str, int]]:
    return [(one.line, one.times) for one in kept(output).lines]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 passed in 0.12s", "3 passed in 12.5s"),
        ("===== 3 passed in 0.12s =====", "=== 3 passed in 100.12s ==="),
        ("3 passed in 59.10s", "3 passed in 61.02s (0:01:01)"),
        ("3 passed, 1 warning in 0.12s", "3 passed in 0.12s"),
        ("max_err=1.2e-07 at 0x7ffe01", "max_err=-0.5 at 0x55aa"),
        ("max_err=nan", "max_err=0"),
        ("took 950us", "took 1.2 ms"),
        ("PASS label=r256x250", "PASS label=r1x1"),
        ("tree /a/trees/a/build/test done", "tree /a/trees/b/build/test done"),
        ("seed 1843218937", "seed 7"),
        ("commit 3f9ac01b2", "commit 99aa0b1cd"),
        ("file tmpab12cd_x", "file tmpzz9_q0"),
        ("\x1b[32mPASSED\x1b[0m", "PASSED"),
        ("10%\r50%\r100% done", "100% done"),
        ("ok\r\n", "ok\n"),
        ("ok\nsrc/kernel.c:3:5: warning: unused\n    3 |  int x;\n      |  ^~~", "ok"),
        ("ok\n/x/op.py:5: RuntimeWarning: overflow\n  return x * x\nend", "ok\nend"),
        (
            "ok\n=== warnings summary ===\nkern/op.py:3\n  x\n\n-- Docs: https://docs.pytest.org/en\n1 passed",
            "ok\n1 passed",
        ),
        ("gcc -O2 src/a.c src/b.c -o t\nok", "gcc -O2 src/a.c -o t\nok"),
        ("[ 50%] Building C object a.c.o\nmake[1]: Leaving\nok", "ok"),
        ("running src/kernel.c\nok", "ok"),
    ],
)
def test_what_changes_from_run_to_run_is_no_difference(one, other):
    assert lines(one) == lines(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("PASS n=1", "FAIL n=1"),
        ("3 passed in 0.1s", "3 failed in 0.1s"),
        ("......  [100%]", "FF....  [100%]"),
        ("PASS n=1\nPASS n=2", "PASS n=1"),
        ("all done", ""),
        ("tests/test_op.py ok", "tests/test_other.py ok"),
    ],
)
def test_what_was_judged_is_a_difference(one, other):
    assert lines(one) != lines(other)


def test_repeated_lines_are_counted_and_the_csv_counts_too():
    assert lines("PASS n=1\nPASS n=2\n\n-----\ndone") == [("PASS n=#", 2), ("done", 1)]
    assert [one.line for one in kept("", csv="label,err\na,0.1\n").lines] == ["label,err", "a,#"]


@pytest.mark.parametrize(
    ("line", "complains"),
    [
        ("6 failed in 0.5s", True),
        ("2 tests failed", True),
        ("0 failed in 0.5s", False),
        ("FAILED (failures=6)", True),
        ("FAILED: 0", False),
        ("MISMATCH at 3", True),
        ("6 passed", False),
        ("6 failed, 1 warning in 0.1s", True),
    ],
)
def test_a_complaint_is_marked(line, complains):
    assert [one.complains for one in kept(line).lines] == [complains]


def test_a_very_long_output_keeps_its_last_different_lines_and_says_so():
    words = [f"case {chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{'x' * (n // 676)}" for n in range(MOST + 5)]
    found = kept("\n".join([*words, "all done"]))
    assert (len(found.lines), found.cut, found.lines[-1].line) == (MOST, True, "all done")
    assert kept("a\n[... 400 bytes left out ...]\nb").cut
    assert not kept("a\n" * 5000).cut


@pytest.mark.parametrize(
    "text", ["x" * 64_000, "1" * 64_000, "./" * 32_000, "a=1 " * 16_000, "-" * 64_000, "f0" * 32_000]
)
def test_no_output_takes_long(text):
    began = time.process_time()
    kept(text)
    assert time.process_time() - began < 0.5
