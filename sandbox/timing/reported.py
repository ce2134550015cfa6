"""Numbers that a command reports about itself: found by a regular expression, or in a CSV it writes; pure."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, get_args

from ridgeline.graph.values import Engine, Value

CHECK = "Check"
"""Column that says whether a row is right; a row that is not PASS has no speed."""
ENGINE = "engine"
"""Column that says what took the time, where the command knows."""
DEFAULT_LABEL = "label"


class Unreadable(ValueError):
    """A command ended well and reported nothing that can be used. One line: what was wrong and the mend."""


class Reported(Value):
    """What one run said of itself, in its own unit."""

    numbers: tuple[tuple[str, float], ...]
    """(shape, positive number), in the order they were reported."""
    engine: Engine | None = None
    """None where the run did not say."""


class Reader(Protocol):
    """One way to find the numbers. Raises Unreadable."""

    def read(self, output: str, file: bytes | None) -> Reported:
        """`output`: standard output and error together; `file`: what the command wrote to `{csv}`."""
        ...


@dataclass(frozen=True, kw_only=True)
class ByRegex:
    """The one group of the one place where a pattern matches the output."""

    pattern: re.Pattern[str]

    def read(self, output: str, file: bytes | None) -> Reported:
        found: list[str] = self.pattern.findall(output)
        if len(found) != 1:
            times = "nothing" if not found else f"{len(found)} places"
            raise Unreadable(f"--metric-regex matches {times} of what the command printed; make it match one")
        return Reported(numbers=(("all", _number(found[0], "--metric-regex")),))


@dataclass(frozen=True, kw_only=True)
class ByCsv:
    """One column of a CSV: every row is a shape, named by the label column."""

    column: str
    label: str | None = None
    """None: `label` where there is such a column, else the row's number."""

    def read(self, output: str, file: bytes | None) -> Reported:
        rows = _of_file(file, self.column) if file is not None else _of_output(output, self.column)
        header, body = rows[0], rows[1:]
        if not body:
            raise Unreadable(f"--csv {self.column}: the header has no row below it")
        names = self._labels(header, body)
        _checked(header, body, names)
        at = header.index(self.column)
        numbers = tuple(
            (name, _number(row[at], f"--csv {self.column}, row {name!r}"))
            for name, row in zip(names, body, strict=True)
        )
        return Reported(numbers=numbers, engine=_engine(header, body))

    def _labels(self, header: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
        name = self.label or DEFAULT_LABEL
        if name not in header:
            if self.label:
                raise Unreadable(f"--label {name}: no such column; the header is {', '.join(header)}")
            return [f"row {number}" for number in range(1, len(body) + 1)] if len(body) > 1 else ["all"]
        names = [row[header.index(name)] for row in body]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise Unreadable(f"--csv: the label {twice[0]!r} is given twice; name a column of labels with --label")
        return names


def _of_file(data: bytes, column: str) -> list[list[str]]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"--csv {column}: the file is not UTF-8: byte {error.start}") from None
    rows = _cells(text)
    if not rows or column not in rows[0]:
        said = f"the header is {', '.join(rows[0])}" if rows else "the file is empty"
        raise Unreadable(f"--csv {column}: no such column; {said}")
    return _complete(rows, column)


def _of_output(output: str, column: str) -> list[list[str]]:
    """From the line that has the column among its cells to the next empty line; what is printed before is ignored."""
    lines = output.splitlines()
    start = next((at for at, line in enumerate(lines) if column in _first(line)), None)
    if start is None:
        raise Unreadable(f"--csv {column}: the command neither wrote {{csv}} nor printed a header with that column")
    end = next((at for at in range(start, len(lines)) if not lines[at].strip()), len(lines))
    return _complete(_cells("\n".join(lines[start:end])), column)


def _complete(rows: list[list[str]], column: str) -> list[list[str]]:
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise Unreadable(
                f"--csv {column}: line {number} of the CSV has {len(row)} cells, its header has {len(rows[0])};"
                " write the CSV to the file {csv}, apart from other output"
            )
    return rows


def _cells(text: str) -> list[list[str]]:
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


def _first(line: str) -> list[str]:
    return next(csv.reader([line]), [])


def _checked(header: Sequence[str], body: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    if CHECK not in header:
        return
    at = header.index(CHECK)
    if wrong := [name for name, row in zip(names, body, strict=True) if row[at] != "PASS"]:
        raise Unreadable(f"--csv: {CHECK} is not PASS for {', '.join(wrong)}; what is wrong has no speed")


def _engine(header: Sequence[str], body: Sequence[Sequence[str]]) -> Engine | None:
    if ENGINE not in header:
        return None
    found = {row[header.index(ENGINE)] for row in body}
    named: list[Engine] = [engine for engine in get_args(Engine) if engine in found]
    if len(found) != 1 or not named:
        known = ", ".join(get_args(Engine))
        raise Unreadable(
            f"--csv: the column {ENGINE} says {', '.join(sorted(found))}; all rows must say one of {known}"
        )
    return named[0]


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise Unreadable(f"{where}: {text!r} is not a number") from None
    if not (math.isfinite(value) and value > 0):
        raise Unreadable(f"{where}: {text} is not above 0; only positive numbers have a ratio")
    return value
