"""A part of `make fuzz`: mutated inputs of every kind, and those that once brought a traceback."""

import gzip

import pytest

from tests.soak.inputs import KINDS, ROOT, fuzz, read_once

COUNTS = {
    "wiki": 2,
    "recording": 2,
    "ledger": 4,
    "request": 8,
    "source": 4,
    "memory": 8,
    "profile": 15,
    "contract": 15,
    "device": 15,
}
"""Inputs by kind, about a second of each; 60 of what is read in milliseconds."""


@pytest.mark.parametrize("name", KINDS)
def test_mutated_inputs_are_answered_in_a_line(name, tmp_path):
    tally = fuzz(KINDS[name], range(COUNTS.get(name, 60)), tmp_path)
    assert not tally.failures, "\n".join(f"seed {failure.seed}: {failure.why}" for failure in tally.failures)


PACKED = gzip.compress(b'{"traceEvents": []}' * 50)

SOFTMAX = (ROOT / "evals" / "tasks" / "softmax_c" / "task.yaml").read_bytes()

FOUND = {
    "a profile whose gzip is broken in the middle": (
        "profile",
        "h100_three.json.gz",
        PACKED[:12] + b"\xff" * 20 + PACKED[32:],
    ),
    "a task nested 3000 deep": ("task", "softmax_c/task.yaml", b"task: 1\nshapes: " + b"[" * 3000),
    "a task with a day of month 13": ("task", "softmax_c/task.yaml", b"task: 2026-13-45\n"),
    "a task with a number of 5000 digits": ("task", "softmax_c/task.yaml", b"task: " + b"1" * 5000),
    "a task whose key is a list": ("task", "softmax_c/task.yaml", b"? {a: 1}\n: 2\n? [a]\n: 3\n"),
    "a task whose source has a name too long": (
        "task",
        "softmax_c/task.yaml",
        SOFTMAX.replace(b"kernel.c", b"k" * 5000 + b".c"),
    ),
    "a memory that is no text": ("memory", "memory/v1.json", b'{"version": "\xff"}'),
    "a memory with half a character": ("memory", "memory/v1.json", b'{"version": "\xed\xa0\x80"}'),
    "a memory whose section is a text": ("memory", "memory/v1.json", b'{"correctness": "fine", "performance": [1]}'),
    "a memory with a number of 5000 digits": (
        "memory",
        "memory/v1.json",
        b'{"performance": {"tflops": ' + b"9" * 5000 + b"}}",
    ),
    "a request that is no text": ("request", "campaign/request.json", b"\xff\xfe{"),
    "a request without a request": ("request", "campaign/request.json", b'{"schema": 1}'),
    "a status whose process has a half number": (
        "request",
        "campaign/status.json",
        b'{"status": "running", "pid": 1.5}',
    ),
    "a status of the year 30000": ("request", "campaign/status.json", b'{"status": "stopped", "updated": 1e15}'),
    "a source page of ncu with a count of 400 digits": (
        "profile",
        "h100_source.csv",
        b'"Kernel Name","k"\n"Address","Source","# Samples","Instructions Executed"\n"0x1","NOP","1","'
        + b"9" * 400
        + b'"\n',
    ),
    "a recording whose request is nested 3000 deep": ("recording", "recording/request.json", b"[" * 3000),
    "a card with a number of 5000 digits": (
        "wiki",
        "wiki/cards/tile.md",
        b"---\ntitle: x\nlever: " + b"1" * 5000 + b"\n---\ntext\n",
    ),
    "a source list with a day of month 13": ("wiki", "wiki/sources/x.yaml", b"a: {accessed: 2026-13-45}\n"),
    "a ledger with half a character": (
        "ledger",
        "campaign/ledger.jsonl",
        b'{"schema_version":1,"key":"\xed\xa0\x80"}\n',
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_inputs_that_once_brought_a_traceback_do_not(name, tmp_path):
    kind, file, data = FOUND[name]
    why, _ = read_once(KINDS[kind], tmp_path, file, data)
    assert not why
