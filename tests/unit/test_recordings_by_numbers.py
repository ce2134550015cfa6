"""What a database tells by numbers and by text, and what reading a trace imports."""

import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from ridgeline.sandbox.profiles.readers import rocpd
from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.files import RecordingError
from tests.rocprof_samples import row, sample, trace


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


def test_a_reader_without_numpy_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    with pytest.raises(RecordingError, match="needs numpy to be read"):
        read_recordings(trace(tmp_path / "t.csv", [row("k", 10, 30)]))


def test_reading_imports_no_pandas_that_lies_beside(tmp_path):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "pandas.py").touch()
    path = trace(tmp_path / "t.csv", [row("k", 10, 30), row("k", 50, 80)])
    code = (
        "import sys; from pathlib import Path; from ridgeline.sandbox.profiles.readers.detect import read_recordings; "
        "assert read_recordings(Path(sys.argv[1]))[0].rows == 2; sys.exit(bool({'pandas', 'duckdb'} & set(sys.modules)))"
    )
    beside = {**os.environ, "PYTHONPATH": str(tmp_path / "beside")}
    assert subprocess.run([sys.executable, "-c", code, str(path)], env=beside).returncode == 0
