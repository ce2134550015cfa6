"""The frozen header and what a benchmark may not write."""

import pytest

from ridgeline.graph.evidence import Row
from ridgeline.sandbox.timing.benchmark_csv import Problem, difference, header, read_rows
from tests.rooms import HEADER, script_contract

GOOD = "small,8,PASS,1.5,0.01,0.20"
OTHER = "large,64,PASS,3.0,0.02,0.40"


def parse(*lines: str, requested=(), exact=True, **fields):
    data = "".join(f"{line}\n" for line in lines).encode()
    return read_rows(data, script_contract(**fields), requested=requested, exact=exact)


def rows(*lines: str, **options) -> tuple[Row, ...]:
    result = parse(*lines, **options)
    assert not isinstance(result, Problem), result
    return result


def problem(*lines: str, **options) -> Problem:
    result = parse(*lines, **options)
    assert isinstance(result, Problem), result
    return result


def test_rows_carry_numbers_under_the_headers_names():
    (row,) = rows(HEADER, GOOD)
    assert (row.label, row.check) == ("small", "PASS")
    assert {m.name: m.value for m in row.metrics} == {"n": 8, "GFLOPS": 1.5, "GFLOPS_stddev": 0.01, "Time (ms)": 0.2}


@pytest.mark.feature("F016")
@pytest.mark.parametrize(
    ("found", "says"),
    [
        (HEADER.replace("GFLOPS,", "GFLOPs,", 1), "character 20 (column 4)"),
        (HEADER + ",extra", f"character {len(HEADER) + 1}"),
        (HEADER.removesuffix(",Time (ms)"), "column 5"),
        (HEADER.replace(",", ", "), "character 7 (column 2)"),
        ("\ufeff" + HEADER, "character 1 (column 1)"),
        ("", "character 1"),
    ],
)
def test_one_changed_character_of_the_header_is_drift(found, says):
    drift = problem(found, GOOD)
    assert drift.reason == "schema_drift"
    assert says in drift.detail
    assert repr(HEADER) in drift.detail
    assert repr(found) in drift.detail


@pytest.mark.feature("F018")
def test_an_elementwise_campaign_freezes_its_own_header():
    columns = ("label", "numel", "Check", "Forward GB/s", "Forward GB/s_stddev")
    own = {"benchmark_output": {"columns": columns}, "scoring": {"primary_metric": "Forward GB/s"}}
    (row,) = rows(",".join(columns), "1M,1048576,PASS,812.5,3.1", **own)
    assert row.metric("Forward GB/s") == 812.5
    assert problem(",".join(columns).replace("GB/s", "GiB/s"), "1M,1,PASS,1,1", **own).reason == "schema_drift"


@pytest.mark.parametrize(
    ("line", "reason", "says"),
    [
        ("small,8,PASS,nan,0.01,0.2", "not_a_number", "'GFLOPS'"),
        ("small,8,PASS,inf,0.01,0.2", "not_a_number", "'GFLOPS'"),
        ("small,8,PASS,-1.5,0.01,0.2", "not_a_number", "'GFLOPS'"),
        ("small,8,PASS,0,0.01,0.2", "not_a_number", "'GFLOPS'"),
        ("small,8,PASS,fast,0.01,0.2", "not_a_number", "'fast'"),
        ("small,8,PASS,1_000,0.01,0.2", "not_a_number", "'1_000'"),
        ("small,8,PASS,,0.01,0.2", "not_a_number", "''"),
        ("small,8,PASS,-,0.01,0.2", "not_a_number", "'small'"),
        ("small,8,PASS,1.5,nan,0.2", "not_a_number", "'GFLOPS_stddev'"),
        ("small,8,PASS,1.5,-0.1,0.2", "not_a_number", "'GFLOPS_stddev'"),
        ("small,8,PASS,1.5,0.01,nan", "not_a_number", "'Time (ms)'"),
        ("small,8,PASS,1.5,0.01", "schema_drift", "5 cells"),
        ("small,8,PASS,1.5,0.01,0.2,9", "schema_drift", "7 cells"),
    ],
)
def test_a_passing_row_without_usable_numbers_is_named(line, reason, says):
    found = problem(HEADER, line)
    assert found.reason == reason
    assert says in found.detail


@pytest.mark.parametrize("line", ["small,8,PASS,1.5,0,0.2", "small,8,PASS,1.5,-,-", "small,8,PASS,1e3,0.01,0.2"])
def test_usable_boundary_rows(line):
    assert len(rows(HEADER, line)) == 1


def test_absent_cells_have_no_value():
    (row,) = rows(HEADER, "small,8,PASS,1.5,-,-")
    with pytest.raises(KeyError):
        row.metric("Time (ms)")


def test_columns_that_do_not_score_may_be_infinite_and_are_left_out():
    columns = ("label", "Check", "GFLOPS", "out_snr")
    own = {"benchmark_output": {"columns": columns}, "scoring": {"primary_metric": "GFLOPS"}}
    (row,) = rows(",".join(columns), "a,PASS,1,inf", **own)
    assert [m.name for m in row.metrics] == ["GFLOPS"]


@pytest.mark.parametrize(("word", "check"), [("FAIL", "FAIL"), ("ERROR", "ERROR"), ("pass", "ERROR"), ("", "ERROR")])
def test_rows_that_do_not_pass_may_hold_nan(word, check):
    (row,) = rows(HEADER, f"small,8,{word},nan,nan,nan")
    assert row.check == check


def test_no_file_no_rows_and_twice_the_same_label():
    missing = read_rows(None, script_contract(), requested=(), exact=True)
    assert isinstance(missing, Problem)
    assert missing.reason == "no_csv"
    assert problem(HEADER).reason == "zero_rows"
    twice = problem(HEADER, GOOD, GOOD)
    assert (twice.reason, "small" in twice.detail) == ("schema_drift", True)


def test_bytes_that_are_no_text():
    found = read_rows(b"\xff\xfe", script_contract(), requested=(), exact=True)
    assert isinstance(found, Problem)
    assert found.reason == "schema_drift"


@pytest.mark.feature("F033")
def test_a_missing_row_makes_the_measurement_invalid():
    found = problem(HEADER, GOOD, requested=("small", "large", "huge"))
    assert found.reason == "crash"
    assert "large, huge" in found.detail


@pytest.mark.feature("F033")
def test_rows_that_were_not_asked_for():
    assert "large" in problem(HEADER, GOOD, OTHER, requested=("small",)).detail
    assert [row.label for row in rows(HEADER, GOOD, OTHER, requested=("small",), exact=False)] == ["small"]


def test_crlf_and_quoted_labels_are_ordinary_csv():
    data = f'{HEADER}\r\n"a, b",8,PASS,1.5,0.01,0.2\r\n'.encode()
    found = read_rows(data, script_contract(), requested=(), exact=True)
    assert not isinstance(found, Problem)
    assert found[0].label == "a, b"


def test_config_columns_make_the_class():
    columns = ("label", "Check", "GFLOPS", "regime")
    own = {
        "benchmark_output": {"columns": columns, "config_columns": ("regime",)},
        "scoring": {"primary_metric": "GFLOPS"},
    }
    (row,) = rows(",".join(columns), "a,PASS,1,small", **own)
    assert row.config_class == "regime=small"


def test_headers_are_quoted_like_csv():
    assert header(("a", "b,c")) == 'a,"b,c"'
    assert "character 2" in difference("ab", "ac")
