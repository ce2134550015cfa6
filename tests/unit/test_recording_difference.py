"""The first difference of two ledgers: which line, which field, both values."""

import json

import pytest

from ridgeline.evals.recordings.replay import first_difference


def line(key: str, **body) -> bytes:
    return json.dumps({"key": key, "prev": "0", "body": body, "sha256": str(body)}).encode() + b"\n"


ONE, TWO = line("opened", a=1), line("round-2", b=[1, {"c": "x"}], d=None)


@pytest.mark.parametrize(
    ("recorded", "replayed", "expected"),
    [
        ([ONE, TWO], [ONE, TWO], None),
        ([], [], None),
        ([ONE, TWO], [ONE], (2, "round-2", "", "the event round-2", None)),
        ([ONE], [ONE, TWO], (2, "round-2", "", None, "the event round-2")),
        ([ONE], [line("opened", a=2)], (1, "opened", "body.a", "1", "2")),
        ([ONE], [line("opened", a=1.0)], (1, "opened", "body.a", "1", "1.0")),
        ([ONE], [line("opened", a=True)], (1, "opened", "body.a", "1", "true")),
        ([TWO], [line("round-2", b=[1, {"c": "y"}], d=None)], (1, "round-2", "body.b[1].c", '"x"', '"y"')),
        ([TWO], [line("round-2", b=[1], d=None)], (1, "round-2", "body.b[1]", '{"c": "x"}', None)),
        ([ONE], [line("opened", a=1, z=0)], (1, "opened", "body.z", None, "0")),
        ([ONE], [ONE.replace(b'"prev": "0"', b'"prev": "1"')], (1, "opened", "prev", '"0"', '"1"')),
        ([ONE], [ONE.replace(b'"body": ', b'"body":')], (1, "opened", "", None, None)),
    ],
)
def test_first_difference(recorded, replayed, expected):
    found = first_difference(recorded, replayed)
    if expected is None:
        assert found is None
        return
    number, key, field, ours, theirs = expected
    assert (found.line, found.key, found.field) == (number, key, field)
    if field:
        assert (found.recorded, found.replayed) == (ours, theirs)


def test_a_long_value_is_shortened_and_says_so():
    found = first_difference([line("opened", a="x" * 999)], [line("opened", a="y")])
    assert found.recorded.endswith("... (1001 characters)")
    assert found.text.splitlines()[0] == "line 1 (opened), body.a"
    assert found.text.splitlines()[2] == '  replayed: "y"'
