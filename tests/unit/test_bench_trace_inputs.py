"""What `make bench` reads: as many rows as asked for, in the layouts that the readers know."""

import pytest

from ridgeline.sandbox.profiles.readers.detect import read_recordings
from ridgeline.sandbox.profiles.readers.engine import open_engine
from tests.bench.trace_inputs import DISTRIBUTIONS, database, recorded, rows, trace


@pytest.mark.parametrize("count", [1, 9_999, 10_001, 23_000])
def test_a_trace_has_the_rows_that_were_asked_for(tmp_path, count):
    (recording,) = read_recordings(trace(tmp_path / "t.csv", count))
    assert (recording.rows, recording.rejected, recording.warnings) == (count, 0, ())
    assert recording.busy_ns <= recording.span_ns


@pytest.mark.parametrize("lines", [rows(), recorded()], ids=["generated", "recorded"])
def test_turns_of_a_trace_follow_each_other(tmp_path, lines):
    if lines is None:
        pytest.skip("the recorded trace is not at hand")
    turn = len(lines) - 1
    one, two = (read_recordings(trace(tmp_path / f"{count}.csv", count, lines))[0] for count in (turn, 2 * turn))
    assert two.sum_ns == 2 * one.sum_ns
    assert two.busy_ns == 2 * one.busy_ns
    assert two.span_ns == 2 * one.span_ns + 1000


def test_a_database_has_the_dispatches_that_were_asked_for(tmp_path):
    (recording,) = read_recordings(database(tmp_path / "run_results.db", 3000))
    assert (recording.rows, recording.format, len(recording.kernels)) == (3000, "rocpd", 300)


def test_durations_are_spread_as_they_are_called(tmp_path):
    spreads = []
    for durations in DISTRIBUTIONS.values():
        with open_engine(path := trace(tmp_path / "t.csv", 10_000, durations=durations)) as engine:
            sql = f"select count(distinct End_Timestamp - Start_Timestamp) from '{path}'"
            spreads += engine.rows(sql)[0]
    assert spreads[0] == 97
    assert min(spreads[1:]) > 5000
