import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ridgeline.graph.errors import LedgerCorrupt, SchemaMismatch
from ridgeline.graph.record import Reviewed
from ridgeline.sandbox.store.ledger import JsonlLedger, verify


def review(number: int) -> Reviewed:
    return Reviewed(after_round=number, trigger="two rollbacks", directions=("a", "b"), escalation="")


@pytest.fixture
def written(tmp_path) -> Path:
    path = tmp_path / "ledger.jsonl"
    ledger = JsonlLedger(path)
    for number in range(1, 5):
        ledger.append(review(number))
    return path


def test_the_file_is_canonical_and_chained(written):
    rows = [json.loads(row) for row in written.read_text().splitlines()]
    assert [row["prev"] for row in rows] == ["0" * 64, *(row["sha256"] for row in rows[:-1])]
    assert all(list(row) == sorted(row) for row in rows)
    assert verify(written).model_dump() == {"ok": True, "lines": 4, "problem": None}


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        (2, lambda row: row.replace("two rollbacks", "two rollback5"), "line 2: was changed"),
        (3, lambda row: row.replace('"seq":2', '"seq":7'), "line 3: was changed"),
        (1, lambda row: "not json", "line 1: is not JSON"),
        (1, lambda row: row.replace('"seq":0', '"seq":NaN'), "line 1: holds NaN"),
        (2, lambda row: row.replace('"seq":1', '"seq":1e999'), "line 2: holds 1e999"),
        (3, lambda row: '{"body":"\\ud800"}', "line 3: holds half a character"),
        (3, lambda row: "[" * 100_000, "line 3: is nested too deep"),
        (3, lambda row: "9" * 5000, "line 3: holds a number of too many digits"),
        (4, lambda row: "[1]", "line 4: is not a JSON object"),
        (2, lambda row: "", "line 2: is not JSON"),
    ],
)
def test_a_tampered_line_is_named(written, number, change, words):
    rows = written.read_text().splitlines()
    rows[number - 1] = change(rows[number - 1])
    written.write_text("\n".join(rows) + "\n")
    with pytest.raises(LedgerCorrupt, match=words) as caught:
        JsonlLedger(written).lines()
    assert caught.value.line == number
    assert caught.value.exit_code == 2
    assert str(written) in str(caught.value)
    found = verify(written)
    assert not found.ok
    assert found.lines == number - 1


@pytest.mark.parametrize(("change", "number"), [(lambda rows: rows[:1] + rows[2:], 2), (lambda rows: rows[::-1], 1)])
def test_a_missing_or_moved_line_breaks_the_chain(written, change, number):
    rows = change(written.read_text().splitlines())
    written.write_text("\n".join(rows) + "\n")
    with pytest.raises(LedgerCorrupt, match=f"line {number}: does not follow"):
        JsonlLedger(written).lines()


def test_another_schema_is_refused_not_guessed_at(written):
    written.write_text(written.read_text().replace('"schema_version":1', '"schema_version":2'))
    with pytest.raises(SchemaMismatch, match=r"line 1: schema_version is 2, this Ridgeline reads 1"):
        JsonlLedger(written).lines()
    assert not verify(written).ok


@pytest.mark.feature("F121")
@pytest.mark.parametrize("torn", ['{"body":{"after_ro', '{"a":1}', "\0\0\0"])
def test_a_torn_last_line_is_set_aside_and_the_rest_stands(written, torn, caplog):
    whole = written.read_bytes()
    written.write_bytes(whole + torn.encode())
    reader = JsonlLedger(written)
    assert len(reader.lines()) == 4
    assert written.read_bytes() == whole + torn.encode(), "reading changes nothing: a writer may be at work"
    assert verify(written).ok
    reader.append(review(5))
    assert (written.parent / "ledger.jsonl.torn").read_text() == torn + "\n"
    assert written.read_bytes().startswith(whole)
    assert [line.key for line in JsonlLedger(written).lines()][-1] == "review-after-5"
    assert "torn" in caplog.text


def test_a_second_telling_that_differs_is_logged_and_left_out(written, caplog):
    before = written.read_bytes()
    JsonlLedger(written).append(Reviewed(after_round=2, trigger="other", directions=(), escalation=""))
    assert written.read_bytes() == before
    assert "review-after-2 is already recorded otherwise" in caplog.text


def test_two_handles_on_one_file_see_each_other(tmp_path):
    one, two = JsonlLedger(tmp_path / "l.jsonl"), JsonlLedger(tmp_path / "l.jsonl")
    one.append(review(1))
    two.append(review(2))
    one.append(review(3))
    two.append(review(1))
    assert [line.seq for line in two.lines()] == [0, 1, 2]
    assert one.lines() == two.lines()
    assert verify(tmp_path / "l.jsonl").ok


def test_nothing_is_read_twice(written):
    ledger = JsonlLedger(written)
    assert ledger.lines() is ledger.lines()


@pytest.mark.feature("F121")
def test_kill_nine_while_appending_loses_at_most_the_last_line(tmp_path):
    path = tmp_path / "ledger.jsonl"
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from ridgeline.sandbox.store.ledger import JsonlLedger\nfrom ridgeline.graph.record import Reviewed\n"
        "ledger = JsonlLedger(Path(sys.argv[1]))\n"
        "for n in range(100000):\n"
        "    ledger.append(Reviewed(after_round=n, trigger='x' * 2000, directions=(), escalation=''))\n"
        "    print(n, flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, cwd=Path.cwd())
    assert child.stdout is not None
    for _ in range(20):
        child.stdout.readline()
    time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    told = 19 + len(child.stdout.read().splitlines())
    child.stdout.close()
    child.wait(timeout=10)
    ledger = JsonlLedger(path)
    count = len(ledger.lines())
    assert told < count <= told + 2
    ledger.append(review(999_999))
    assert verify(path).ok


def test_a_missing_ledger_is_not_ok(tmp_path):
    assert "does not exist" in (verify(tmp_path / "none.jsonl").problem or "")
