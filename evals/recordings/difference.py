"""The first place where two ledgers part, as a field's path and its two values."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ridgeline.graph.values import Value

CHAIN = frozenset({"prev", "sha256"})
"""Follow from what else a line says, so they are told only where nothing else differs."""
LONGEST = 300


class Difference(Value):
    """One field of one line."""

    line: int
    """Counted from 1; as in the recorded ledger."""
    key: str
    """Event of that line, for example `round-4`."""
    field: str
    """Path inside the line, for example `body.judged.verdict.gain`; empty when a whole line is missing."""
    recorded: str | None
    """Value as JSON, shortened; None when the recording has none."""
    replayed: str | None

    @property
    def text(self) -> str:
        """Three lines for people."""
        place = f"line {self.line} ({self.key})" + (f", {self.field}" if self.field else "")
        return f"{place}\n  recorded: {_shown(self.recorded)}\n  replayed: {_shown(self.replayed)}"


def first(recorded: Sequence[bytes], replayed: Sequence[bytes]) -> Difference | None:
    """None when the ledgers are equal byte for byte."""
    for number in range(max(len(recorded), len(replayed))):
        ours = recorded[number] if number < len(recorded) else None
        theirs = replayed[number] if number < len(replayed) else None
        if ours != theirs:
            return _of_line(number + 1, ours, theirs)
    return None


def _of_line(number: int, recorded: bytes | None, replayed: bytes | None) -> Difference:
    ours: dict[str, Any] = json.loads(recorded) if recorded is not None else {}
    theirs: dict[str, Any] = json.loads(replayed) if replayed is not None else {}
    key = (ours or theirs)["key"]
    if not ours or not theirs:
        told = [f"the event {line['key']}" if line else None for line in (ours, theirs)]
        return Difference(line=number, key=key, field="", recorded=told[0], replayed=told[1])
    found = list(_fields(ours, theirs, "")) or [("", ours, theirs)]  # the same values, spelled otherwise
    field, before, after = next((one for one in found if one[0] not in CHAIN), found[0])
    return Difference(line=number, key=key, field=field, recorded=_json(before), replayed=_json(after))


class _Absent:
    """A field that one side does not have."""


ABSENT = _Absent()


def _fields(ours: Any, theirs: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Every leaf that differs, in the order of the recorded line."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in dict.fromkeys((*ours, *theirs)):
            yield from _fields(ours.get(name, ABSENT), theirs.get(name, ABSENT), f"{path}.{name}".lstrip("."))
    elif isinstance(ours, list) and isinstance(theirs, list):
        for index in range(max(len(ours), len(theirs))):
            before, after = (side[index] if index < len(side) else ABSENT for side in (ours, theirs))
            yield from _fields(before, after, f"{path}[{index}]")
    elif ours is not theirs and (type(ours) is not type(theirs) or ours != theirs):
        yield path, ours, theirs


def _json(value: Any) -> str | None:
    if value is ABSENT:
        return None
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"


def _shown(value: str | None) -> str:
    return "nothing" if value is None else value
