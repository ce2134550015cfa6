"""Lines from all over a long file: whole ones, and of no consequence for what a trace says."""

import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from ridgeline.sandbox.profiles.readers import dispatches, rocpd
from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.engine import Engine
from ridgeline.sandbox.profiles.readers.files import RecordingError
from tests.rocprof_samples import row, sample, trace


@pytest.fixture
def narrow(monkeypatch):
    """Files of some kilobytes are long, and the first rows are few."""
    monkeypatch.setattr(dispatches, "BLOCK", 1 << 10)
    monkeypatch.setattr(dispatches, "PLACES", 7)
    monkeypatch.setattr(dispatches, "FIRST", 3)


@pytest.fixture
def asked(monkeypatch):
    """The queries that were asked."""
    told = []
    rows = Engine.rows
    monkeypatch.setattr(Engine, "rows", lambda self, sql: told.append(sql) or rows(self, sql))
    return told


def test_whole_lines_from_all_over(tmp_path, narrow):
    path = tmp_path / "t.csv"
    lines = [f"{at},{'x' * (at % 90)}\n" for at in range(2000)]
    path.write_text("head\n" + "".join(lines))
    assert dispatches.spread(path, tmp_path / "some.csv")
    head, *some = (tmp_path / "some.csv").read_text().splitlines(keepends=True)
    assert head == "head\n"
    assert set(some) <= set(lines)
    numbers = [int(line.split(",")[0]) for line in some]
    assert numbers == sorted(numbers)
    assert max(b - a for a, b in zip(numbers, numbers[1:], strict=False)) < 2000 / 6
    assert numbers[-1] == 1999


@pytest.mark.parametrize(("size", "long"), [(4 * 7 * 1024 - 1, False), (4 * 7 * 1024, True)])
def test_short_files_are_left_alone(tmp_path, narrow, size, long):
    path = tmp_path / "t.csv"
    path.write_text("x" * 99 + "\n")
    with path.open("ab") as stream:
        stream.truncate(size)
    assert dispatches.spread(path, tmp_path / "some.csv") is long
    assert (tmp_path / "some.csv").exists() is long


def test_kernels_that_begin_late_need_no_second_pass(tmp_path, narrow, asked):
    rows = [row(f"k{at // 150}", 100 * at, 100 * at + at + 1) for at in range(900)]
    (recording,) = read_recordings(trace(tmp_path / "t.csv", rows))
    assert {kernel.name: kernel.calls for kernel in recording.kernels} == {f"k{at}": 150 for at in range(6)}
    assert sum("create temp table d" in sql for sql in asked) == 1
    assert not [sql for sql in asked if "where h not in" in sql]


def test_kernels_that_no_block_shows_are_found_by_a_second_pass(tmp_path, narrow, asked):
    rows = [row("k", 100 * at, 100 * at + at + 1) for at in range(900)]
    hidden = [row(f"rare{at}", 100 * at, 100 * at + 7) for at in range(900, 960)]
    (recording,) = read_recordings(trace(tmp_path / "t.csv", [*rows[:5], *hidden, *rows[5:]]))
    assert {kernel.name: kernel.calls for kernel in recording.kernels} == {
        "k": 900,
        **{f"rare{at}": 1 for at in range(900, 960)},
    }
    assert [sql for sql in asked if "where h not in" in sql]


def test_blocks_that_begin_inside_a_name_change_nothing(tmp_path, narrow, monkeypatch):
    name = "a\n" + ",".join('""' for _ in range(40)) + "\nb\n" * 200
    rows = [row(name if at % 2 else "k", 100 * at, 100 * at + 9) for at in range(300)]
    path = trace(tmp_path / "t.csv", [line.replace('""""', '""') for line in rows])
    blocks = read_recordings(path)
    monkeypatch.setattr(dispatches, "PLACES", 1 << 30)
    assert read_recordings(path) == blocks
    assert [kernel.calls for kernel in blocks[0].kernels] == [150, 150]


@pytest.mark.parametrize(
    ("change", "rejected"),
    [("1", 0), ("start = 'x'", None), ('start = "end"', 7), ("queue_id = id % 5", 0), ("agent_id = -3", 0)],
)
def test_numbers_and_text_tell_the_same_of_a_database(tmp_path, monkeypatch, change, rejected):
    path = _changed(tmp_path / "run_results.db", change)
    if rejected is None:
        with pytest.raises(RecordingError, match="'x'"):
            read_recordings(path)
        return
    numbers = read_recordings(path)
    monkeypatch.setattr(rocpd, "KINDS", 0)
    assert read_recordings(path) == numbers
    assert sum(one.rows for one in numbers) == 1500 - rejected


def _changed(path, change):
    shutil.copyfile(sample("rocpd", "DERIVED_mi350x_pytorch_1500_dispatches.db"), path)
    with sqlite3.connect(path) as base:
        ((name,),) = base.execute(
            "select name from sqlite_master where type = 'table' and name like 'rocpd_kernel_dispatch%'"
        )
        if change != "1":
            base.execute(f'update "{name}" set {change} where id % 200 = 3 and id < 1400')
    base.close()
    return path


def test_a_reader_without_duckdb_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(RecordingError, match="needs duckdb to be read"):
        read_recordings(trace(tmp_path / "t.csv", [row("k", 10, 30)]))


def test_reading_imports_no_pandas_that_lies_beside(tmp_path):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "pandas.py").touch()
    path = trace(tmp_path / "t.csv", [row("k", 10, 30), row("k", 50, 80)])
    code = (
        "import sys; from pathlib import Path; from ridgeline.sandbox.profiles.readers.detect import read_recordings; "
        "assert read_recordings(Path(sys.argv[1]))[0].rows == 2; sys.exit('pandas' in sys.modules)"
    )
    beside = {**os.environ, "PYTHONPATH": str(tmp_path / "beside")}
    assert subprocess.run([sys.executable, "-c", code, str(path)], env=beside).returncode == 0
