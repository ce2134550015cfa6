"""Whole numbers that stand for the rows of some columns of an SQLite table: what a row repeats then travels as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_MOST = 1 << 62
"""Codes stay below it: SQLite counts in signed 64 bits."""


@dataclass(frozen=True)
class Codes:
    """An SQL expression for the code of a row, and what each code stands for."""

    sql: str
    kinds: Mapping[int, tuple[int, ...]]


def codes(columns: Sequence[str], kinds: Sequence[Sequence[object]]) -> Codes | None:
    """Numbers `kinds`, the distinct rows of `columns`; None where a cell is no whole number or they are too far apart.

    Each column counts in steps of the range of those after it, as hours do in minutes: distinct rows, distinct codes.
    """
    rows: list[tuple[int, ...]] = []
    for kind in kinds:
        whole = tuple(cell for cell in kind if isinstance(cell, int))
        if len(whole) != len(columns):
            return None
        rows.append(whole)
    terms, at, step = ["0"], [0] * len(rows), 1
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        least, most = min(cells), max(cells)
        if least == most:
            continue
        terms.append(f"({column} - {least}) * {step}")
        at = [code + (cell - least) * step for code, cell in zip(at, cells, strict=True)]
        step *= most - least + 1
        if step > _MOST or least <= -_MOST:
            return None
    return Codes(" + ".join(terms), dict(zip(at, rows, strict=True)))
