"""A ledger that one process writes alone: what others make of it is put aside, also between two processes of ours."""

import json
from pathlib import Path

import pytest

from ridgeline.graph.errors import LedgerCorrupt
from ridgeline.graph.record import Restarted
from ridgeline.graph.values import Cost
from ridgeline.sandbox.store.campaign_folder import RecordFiles
from ridgeline.sandbox.store.durable import UnsyncedFiles
from ridgeline.sandbox.store.ledger import JsonlLedger, LedgerHead, verify


def body(number: int) -> Restarted:
    return Restarted(after_round=number, masked=(), note=f"note {number}", cost=Cost())


def forge(path: Path, number: int) -> None:
    """Append a line as a stranger would who knows the format: its chain is whole."""
    JsonlLedger(path).append(body(number))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.mark.parametrize(
    "deed",
    [
        lambda path: forge(path, 50),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:300]),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes().replace(b"note 1", b"note 7")),
        lambda path: path.write_text("nonsense\n"),
    ],
    ids=["forged", "emptied", "cut", "deleted", "changed", "overwritten"],
)
def test_what_another_program_makes_of_it_is_put_aside(path, deed):
    ledger = JsonlLedger(path, rests_on=UnsyncedFiles(), alone=True)
    for number in (1, 2):
        ledger.append(body(number))
    deed(path)
    assert [line.body for line in ledger.lines()] == [body(1), body(2)]
    ledger.append(body(3))
    assert verify(path).ok
    assert [line.body for line in JsonlLedger(path).lines()] == [body(1), body(2), body(3)]
    assert len(list(path.parent.glob("ledger.jsonl.foreign-*"))) == 1


def test_a_line_that_is_cut_short_is_no_other_programs(path):
    ledger = JsonlLedger(path, alone=True)
    ledger.append(body(1))
    with path.open("ab") as file:
        file.write(b'{"torn')
    assert [line.body for line in ledger.lines()] == [body(1)]
    ledger.append(body(2))
    assert [line.body for line in JsonlLedger(path).lines()] == [body(1), body(2)]
    assert path.with_name("ledger.jsonl.torn").read_bytes() == b'{"torn\n'


def opened(path: Path) -> JsonlLedger:
    """As a process opens it where commands can reach it."""
    return JsonlLedger(path, rests_on=UnsyncedFiles(), alone=True, head=LedgerHead.of(path))


def test_lines_that_were_forged_while_nobody_ran_are_named_when_it_is_opened(path):
    first = opened(path)
    first.append(body(1), body(2))
    first.append(body(3))
    assert len(opened(path).lines()) == 3
    forge(path, 50)
    with pytest.raises(LedgerCorrupt) as refused:
        opened(path).lines()
    assert refused.value.line == 4
    assert "a candidate may have; if you did, remove" in str(refused.value)
    head = LedgerHead.of(path)
    assert head is not None
    head.path.unlink()
    assert len(opened(path).lines()) == 4


def test_a_line_that_was_announced_and_never_written_is_asked_for_again(path):
    ledger = opened(path)
    ledger.append(body(1))
    before = path.read_bytes()
    ledger.append(body(2))
    path.write_bytes(before)  # killed between the two
    again = opened(path)
    assert len(again.lines()) == 1
    again.append(body(2))
    assert len(opened(path).lines()) == 2


def test_a_rewritten_ledger_of_the_same_length_is_refused(path):
    opened(path).append(body(1), body(2))
    path.unlink()
    JsonlLedger(path).append(body(1), body(9))
    with pytest.raises(LedgerCorrupt, match="not what this machine wrote"):
        opened(path).lines()


def test_a_command_that_changes_the_record_is_named_and_undone(tmp_path):
    record = RecordFiles(tmp_path)
    (tmp_path / "ledger.jsonl").write_text("lines\n")
    (tmp_path / "tape.jsonl").write_text("answers\n")
    record.remember()
    assert record.restore() == ()
    (tmp_path / "ledger.jsonl").write_text("forged\n")
    (tmp_path / "tape.jsonl").unlink()
    (tmp_path / "request.json").write_text(json.dumps({}))
    assert record.restore() == ("ledger.jsonl", "tape.jsonl", "request.json")
    assert (tmp_path / "ledger.jsonl").read_text() == "lines\n"
    assert (tmp_path / "tape.jsonl").read_text() == "answers\n"
    assert not (tmp_path / "request.json").exists()
    record.remember()
    assert record.restore() == ()
