"""Numbers that commands report: one place, one column, or a line that says what is wrong."""

import re

import pytest

from ridgeline.sandbox.timing.comparator import ByCsv, ByRegex, Unreadable


def by_regex(pattern: str = r"time: ([0-9.e-]+)") -> ByRegex:
    return ByRegex(pattern=re.compile(pattern, re.MULTILINE))


def test_the_one_number_of_a_pattern():
    assert by_regex().parse("warm up\ntime: 1.25e-3 s\n", None).numbers == (("all", 0.00125),)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("nothing here", "matches nothing"),
        ("time: 1\ntime: 2\n", "matches 2 places"),
        ("time: 0\n", "0 is not above 0"),
        ("time: -e-\n", "'-e-' is not a number"),
        ("time: 1e999\n", "1e999 is not above 0"),
    ],
)
def test_what_a_pattern_cannot_read(output, said):
    with pytest.raises(Unreadable, match=re.escape(said)):
        by_regex().parse(output, None)


@pytest.mark.parametrize(
    ("output", "file", "label", "numbers"),
    [
        ("label,ms\nsmall,1\nlarge,2\n", None, None, (("small", 1.0), ("large", 2.0))),
        ("starting\nms,shape\n3,x\n\ndone, in all, 3 ms\n", None, "shape", (("x", 3.0),)),
        ("ms\n3\n4\n", None, None, (("row 1", 3.0), ("row 2", 4.0))),
        ("ms\n3\n", None, None, (("all", 3.0),)),
        ("ignored", b"label,ms,Check\na,1,PASS\n", None, (("a", 1.0),)),
        ("ignored", b'label,ms\r\n"a, b",1\r\n', None, (("a, b", 1.0),)),
    ],
)
def test_a_column_by_rows(output, file, label, numbers):
    assert ByCsv(column="ms", label=label).parse(output, file).numbers == numbers


@pytest.mark.parametrize(
    ("output", "file", "label", "said"),
    [
        ("no table", None, None, "neither wrote {csv} nor printed"),
        ("", b"label,us\na,1\n", None, "no such column; the header is label, us"),
        ("", b"", None, "the file is empty"),
        ("", b"\xff", None, "not UTF-8"),
        ("label,ms\n", None, None, "no row below"),
        ("label,ms\na,1\nlog line\n", None, None, "line 3 of the CSV has 1 cells, its header has 2"),
        ("label,ms\na,1\na,2\n", None, None, "'a' is given twice"),
        ("label,ms\na,1\n", None, "shape", "--label shape: no such column"),
        ("label,ms\na,fast\n", None, None, "'fast' is not a number"),
        ("label,ms,Check\na,1,FAIL\n", None, None, "Check is not PASS for a"),
        ("label,ms,engine\na,1,event\nb,1,graph\n", None, None, "the column engine says event, graph"),
        ("label,ms,engine\na,1,stopwatch\n", None, None, "one of wall, cpu, event, graph, profiler"),
    ],
)
def test_what_a_csv_cannot_be(output, file, label, said):
    with pytest.raises(Unreadable, match=re.escape(said)):
        ByCsv(column="ms", label=label).parse(output, file)


def test_the_engine_that_the_rows_name():
    assert ByCsv(column="ms").parse("label,ms,engine\na,1,graph\nb,2,graph\n", None).engine == "graph"
    assert ByCsv(column="ms").parse("label,ms\na,1\n", None).engine is None
