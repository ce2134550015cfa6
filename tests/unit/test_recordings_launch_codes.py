"""Codes of launches: one number for each distinct row, the same in SQLite as here, or none at all."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.sandbox.profiles.readers.rocpd import codes

COLUMNS = ("a", "b", "c")
NUMBERS = st.integers(-(2**20) + 1, 2**20)


def _told_by_sqlite(rows, sql):
    with sqlite3.connect(":memory:") as base:
        base.execute("create table t (a integer, b integer, c integer)")
        base.executemany("insert into t values (?, ?, ?)", rows)
        found = base.execute(f"select {sql}, a, b, c from t").fetchall()
    base.close()
    return found


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, unique=True))
def test_distinct_rows_have_distinct_codes_and_sqlite_agrees(rows):
    made = codes(COLUMNS, rows)
    assert made is None or all(
        made.kinds[code] == kind for code, *rest in _told_by_sqlite(rows, made.sql) for kind in [tuple(rest)]
    )
    assert made is None or len(made.kinds) == len(rows)


@pytest.mark.parametrize(
    ("rows", "there"),
    [
        ([(1, 2, 3)], True),
        ([(1, 2, 3), (1, 2, None)], False),
        ([(1, 2, 3.5)], False),
        ([("1", 2, 3)], False),
        ([(0, 0, 0), (2**31 - 1, 2**31 - 1, 0)], True),
        ([(0, 0, 0), (2**31 - 1, 2**31, 0)], False),
        ([(0, 0, 0), (2**62, 0, 0)], False),
        ([(-(2**62), 0, 0), (0, 0, 0)], False),
    ],
    ids=["one", "nothing told", "a fraction", "text", "as far as it goes", "too far", "one too far", "too far below"],
)
def test_what_has_codes(rows, there):
    made = codes(COLUMNS, rows)
    assert (made is not None) == there
    if made is not None:
        assert sorted(made.kinds) == sorted(code for code, *_ in _told_by_sqlite(rows, made.sql))
