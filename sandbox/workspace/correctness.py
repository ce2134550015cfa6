"""Reads the number by which a test says how right it is: from the CSV it wrote, or from its output."""

import csv
import io
import math
import operator
import re
from collections.abc import Callable

from ridgeline.graph.contract import Correctness

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}
CUSTOMARY: dict[str, tuple[str, float]] = {"snr": (">", 25.0), "rel_err": ("<", 0.01), "allclose": ("==", 1.0)}
"""Bounds where the contract gives none: SNR in dB above 25 (rules 8.3), relative error under 1 % (rules 7.8)."""
TRUTH = {"true": 1.0, "pass": 1.0, "false": 0.0, "fail": 0.0}


class Unreadable(Exception):
    """The test ended well but did not say what it had to say; never a pass."""


def wrong(rule: Correctness, *, csv_data: bytes | None, output: str) -> str | None:
    """What breaks the rule, in a sentence; None when every number obeys it.

    `csv_data` is the file the test was given as `{csv}`, None when it has no such placeholder or wrote nothing; without
    it, `<column>=<number>` or `<column>: <number>` is looked for in the output. Raises `Unreadable` when there is no
    number to judge.
    """
    op, threshold = _bound(rule)
    column = rule.column or rule.kind
    cells = _in_csv(csv_data, column) if csv_data is not None else _in_output(output, column)
    for place, cell in cells:
        value = _value(cell)
        if math.isnan(value) or not COMPARE[op](value, threshold):
            return f"{place}: {column} = {cell}, needed {op} {threshold:g}"
    return None


def _bound(rule: Correctness) -> tuple[str, float]:
    given = rule.model_fields_set & {"op", "threshold"}
    if not given and rule.kind in CUSTOMARY:
        return CUSTOMARY[rule.kind]
    return rule.op, rule.threshold


def _in_csv(data: bytes, column: str) -> list[tuple[str, str]]:
    try:
        rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))
    except UnicodeDecodeError as error:
        raise Unreadable(f"the test's CSV is not UTF-8: byte {error.start}") from error
    if not rows:
        raise Unreadable("the test's CSV has no rows")
    if column not in rows[0]:
        raise Unreadable(f"the test's CSV has no column {column!r}")
    return [(f"row {number}", row[column] or "") for number, row in enumerate(rows, start=1)]


def _in_output(output: str, column: str) -> list[tuple[str, str]]:
    pattern = rf"(?<!\w){re.escape(column)}\s*[=:]\s*([^\s,;]+)"
    found = re.findall(pattern, output)
    if not found:
        raise Unreadable(f"the test printed no {column}=<number> and wrote no CSV")
    return [(f"occurrence {number}", cell) for number, cell in enumerate(found, start=1)]


def _value(cell: str) -> float:
    """NaN for what is no number: it obeys no rule."""
    try:
        return TRUTH[cell.lower()] if cell.lower() in TRUTH else float(cell)
    except ValueError:
        return math.nan
