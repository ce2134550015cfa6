"""Reads the CSV of a benchmark against the header that was frozen at the baseline; whatever is off is named."""

import csv
import io
import math
from collections.abc import Sequence
from typing import Literal

from ridgeline.graph.contract import BenchmarkOutput, Contract
from ridgeline.graph.evidence import Check, Row
from ridgeline.graph.values import Named, Value

ABSENT = "-"
"""A cell that was left out on purpose, for example a backward time where there is no backward pass (rules 8.5)."""

Reason = Literal["crash", "no_csv", "schema_drift", "zero_rows", "not_a_number"]


class Problem(Value):
    """Why a CSV holds no usable numbers."""

    reason: Reason
    detail: str


Cells = dict[str, str]


def read(data: bytes | None, contract: Contract, *, requested: Sequence[str], exact: bool) -> tuple[Row, ...] | Problem:
    """Rows in the file's order; `data` is None when the command wrote no file.

    `requested` are the labels that must be there (empty: any). With `exact`, no others may be there; without it, others
    are left out, because the command had no way to know which were wanted.
    """
    cells = table(data, contract.benchmark_output.columns)
    if isinstance(cells, Problem):
        return cells
    label = contract.benchmark_output.label
    if problem := _wrong_labels([row[label] for row in cells], requested, exact):
        return problem
    rows: list[Row] = []
    for row in cells:
        if requested and row[label] not in requested:
            continue
        parsed = _row(row, contract)
        if isinstance(parsed, Problem):
            return parsed
        rows.append(parsed)
    return tuple(rows)


def table(data: bytes | None, columns: Sequence[str]) -> list[Cells] | Problem:
    """The cells under a header that must equal `columns` byte for byte; every row complete, at least one row."""
    if data is None:
        return Problem(reason="no_csv", detail="the command ended without writing the CSV it was given as {csv}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Problem(reason="schema_drift", detail=f"the CSV is not UTF-8: byte {error.start}")
    found = text.split("\n", 1)[0].removesuffix("\r")
    if found != (expected := header(columns)):
        return Problem(reason="schema_drift", detail=difference(expected, found))
    rows: list[Cells] = []
    names, *lines = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    for line, row in enumerate(lines, start=2):
        if len(row) != len(names):
            detail = f"row {line} has {len(row)} cells, the header has {len(columns)}: a partial or malformed row"
            return Problem(reason="schema_drift", detail=detail)
        rows.append(dict(zip(names, row, strict=True)))
    if not rows:
        return Problem(reason="zero_rows", detail="the CSV has a header and no rows")
    return rows


def header(columns: Sequence[str]) -> str:
    """The first line of a CSV with these columns, without its line end."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(columns)
    return out.getvalue()


def difference(expected: str, found: str) -> str:
    """Where two headers part, with the column on both sides."""
    at = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), None)
    if at is None:
        at = min(len(expected), len(found))
    column = expected[:at].count(",") + 1
    return f"header differs at character {at + 1} (column {column}): expected {expected!r}, found {found!r}"


def _wrong_labels(labels: list[str], requested: Sequence[str], exact: bool) -> Problem | None:
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        return Problem(reason="schema_drift", detail=f"duplicate labels: {', '.join(twice)}")
    if missing := [label for label in requested if label not in labels]:
        return Problem(reason="crash", detail=f"requested shapes have no row (rule R2): {', '.join(missing)}")
    extra = [label for label in labels if label not in requested]
    if exact and requested and extra:
        return Problem(reason="crash", detail=f"rows that were not asked for (rule R2): {', '.join(extra)}")
    return None


def _row(cells: Cells, contract: Contract) -> Row | Problem:
    output = contract.benchmark_output
    passed = cells[output.check] == "PASS"
    metrics: list[Named] = []
    for column in output.columns:
        if column in (output.label, output.check) or cells[column] == ABSENT:
            continue
        number = _number(cells[column])
        if number is not None and math.isfinite(number):
            metrics.append(Named(name=column, value=number))
    if passed and (problem := _unusable(cells, contract)):
        return problem
    return Row(
        label=cells[output.label],
        check=check_of(cells, output),
        metrics=tuple(metrics),
        config=tuple((column, cells[column]) for column in output.config_columns),
    )


def check_of(cells: Cells, output: BenchmarkOutput) -> Check:
    """A word that is neither PASS nor FAIL says nothing good, so it is an ERROR."""
    match cells[output.check]:
        case "PASS":
            return "PASS"
        case "FAIL":
            return "FAIL"
        case _:
            return "ERROR"


def _unusable(cells: Cells, contract: Contract) -> Problem | None:
    """The first scoring cell of a passing row that is no positive finite number; spreads may be zero."""
    scoring = contract.scoring
    needed = {*scoring.primary_metric, scoring.forward} - {None}
    for column in dict.fromkeys((*scoring.primary_metric, scoring.forward, scoring.backward, scoring.time_ms)):
        if column is None or column not in cells:
            continue
        if cells[column] == ABSENT:
            if column in needed:
                return _bad(cells, column, contract)
            continue
        number = _number(cells[column])
        if number is None or not math.isfinite(number) or number <= 0:
            return _bad(cells, column, contract)
        spread = cells.get(f"{column}_stddev", ABSENT)
        deviation = 0.0 if spread == ABSENT else _number(spread)
        if deviation is None or not math.isfinite(deviation) or deviation < 0:
            return _bad(cells, f"{column}_stddev", contract)
    return None


def _bad(cells: Cells, column: str, contract: Contract) -> Problem:
    label = cells[contract.benchmark_output.label]
    detail = f"row {label!r}, column {column!r}: {cells[column]!r} is not a usable number, though the row says PASS"
    return Problem(reason="not_a_number", detail=detail)


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)  # Python alone reads 1_000 as a number
    except ValueError:
        return None
