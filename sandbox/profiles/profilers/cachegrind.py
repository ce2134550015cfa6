"""Parses what valgrind's cachegrind and callgrind write; pure.

Both write `events:`, then cost lines under `fn=`, and a `summary:` (callgrind also `totals:`). Callgrind writes a name
as `(7) name` once and as `(7)` later, and adds `calls=` lines, each followed by the callee's cost, which is not the
caller's own.
Source: the valgrind manual, "Cachegrind output file format" and "Callgrind Format Specification".
"""

import re
from collections import Counter

from ridgeline.graph.values import Named, Value

NAME = re.compile(r"\((\d+)\)(?: (.*))?")
COST = re.compile(r"^(?:\+|-|\*|\d|0x)")
MEANING = {
    "instructions": ("Ir",),
    "data_reads": ("Dr",),
    "data_writes": ("Dw",),
    "d1_misses": ("D1mr", "D1mw"),
    "ll_misses": ("ILmr", "DLmr", "DLmw"),
    "branch_misses": ("Bcm", "Bim"),
}
"""Counter names of `Profiled` and the simulator's events that they are the sum of."""


class Costs(Value):
    """What was counted: totals by event, own instructions by function, and calls by callee."""

    totals: tuple[Named, ...]
    functions: tuple[Named, ...]
    """Own instructions (first event), largest first."""
    calls: tuple[Named, ...]

    def called(self, function: str) -> int:
        """How often a function was called; 0 when the tool did not record calls."""
        return int(next((item.value for item in self.calls if item.name == function), 0))

    def counters(self) -> tuple[Named, ...]:
        """The totals under the names that `Profiled` uses; a counter is left out where none of its events was on."""
        by_event = {item.name: item.value for item in self.totals}
        return tuple(
            Named(name=name, value=sum(by_event.get(event, 0.0) for event in events))
            for name, events in MEANING.items()
            if any(event in by_event for event in events)
        )


class Malformed(ValueError):
    """The text is not a complete file of either tool."""


def parse(text: str) -> Costs:
    """Read one output file. Raises `Malformed` when it has no events or no summary, as after a killed run."""
    reader = _Reader()
    for line in text.splitlines():
        reader.take(line)
    if not reader.events or not reader.totals:
        raise Malformed("no events or no summary: the run was cut off")
    totals = reader.totals + [0] * (len(reader.events) - len(reader.totals))  # trailing zeros are not written
    return Costs(
        totals=tuple(Named(name=e, value=v) for e, v in zip(reader.events, totals, strict=True)),
        functions=tuple(Named(name=name, value=cost) for name, cost in reader.own.most_common()),
        calls=tuple(Named(name=name, value=count) for name, count in reader.calls.most_common()),
    )


class _Reader:
    """The state a line-oriented format needs."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.totals: list[int] = []
        self.own: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._names: dict[str, str] = {}
        self._function = ""
        self._callee = ""
        self._inclusive = False

    def take(self, line: str) -> None:
        key, colon, rest = line.partition(":")
        if colon and key == "events":
            self.events = rest.split()
        elif colon and key in ("summary", "totals"):
            self.totals = [int(word) for word in rest.split()]
        elif COST.match(line):
            self._cost(line.split())
        else:
            self._names_and_calls(*line.partition("=")[::2])

    def _names_and_calls(self, key: str, value: str) -> None:
        if key == "fn":
            self._function = self._name(value)
        elif key == "cfn":
            self._callee = self._name(value)
        elif key == "calls":
            self.calls[self._callee] += int(value.split()[0])
            self._inclusive = True

    def _cost(self, words: list[str]) -> None:
        if self._inclusive:
            self._inclusive = False
        elif len(words) > 1:
            self.own[self._function] += int(words[1])

    def _name(self, value: str) -> str:
        match = NAME.fullmatch(value)
        if match is None:
            return value
        if match[2] is not None:
            self._names[match[1]] = match[2]
        return self._names.get(match[1], value)
