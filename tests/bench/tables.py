"""Rows of suite `simulation` as the Markdown tables of docs/measurement.md: give it the JSON of `--out`."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench.simulation import OURS, SIDE_BY_SIDE
from tests.bench.simulation_shapes import WORLDS

Cells = Mapping[str, float]
FALSE = ("null kept", "margin kept")
COLUMNS: Mapping[str, Sequence[tuple[str, str]]] = {
    "grid": (
        ("kept at 0", "null kept"),
        ("kept at the margin", "margin kept"),
        ("power +1 %", "power 1%"),
        ("+2 %", "power 2%"),
        ("+3 %", "power 3%"),
        ("pairs at 0", "null pairs"),
        ("pairs of a kept +2 %", "kept pairs"),
    ),
    "robust": (
        ("kept at 0", "null kept"),
        ("kept at the margin", "margin kept"),
        ("power +2 %", "power 2%"),
        ("pairs at 0", "null pairs"),
    ),
    "shapes": (("kept", "kept"), ("rejected for a shape", "lost to a shape")),
    "field": (
        ("kept at 0", "null kept"),
        ("power +2 %", "power 2%"),
        ("runs at 0", "null runs"),
        ("runs at +2 %", "+2 % runs"),
    ),
    "search": (
        ("kept without a gain", "wrong"),
        ("of the true gain found", "found"),
        ("claimed", "claimed"),
        ("real", "real"),
        ("searches that claim too much", "overclaimed"),
        ("runs", "runs"),
    ),
}
"""Heading and column of the rows."""
FIRST = {"grid": "machine", "robust": "what is broken", "shapes": "true gains", "field": "rule", "search": "rule"}


def tables(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """One Markdown table for each kind of case, and one for each machine where rules stand side by side."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        cells = found.setdefault(str(row["table"]), {}).setdefault(str(row["case"]), {})
        cells[str(row["column"])] = float(str(row["value"]))
    for table, lines in found.items():
        if table not in ("field", "search"):
            yield f"### {table}\n\n{_table(table, lines)}"
            continue
        for machine in SIDE_BY_SIDE:
            ending = f", {machine.name}"
            rules = {name.removesuffix(ending): cells for name, cells in lines.items() if _is(name, ending)}
            yield f"### {table}: {machine.name}\n\n{_table(table, rules)}"


def _is(name: str, ending: str) -> bool:
    """Whether that machine ends the name, and no machine with a longer name does."""
    longer = [f", {machine.name}" for machine in SIDE_BY_SIDE if f", {machine.name}".endswith(ending)]
    return name.endswith(ending) and not any(name.endswith(other) for other in longer if other != ending)


def _table(table: str, lines: Mapping[str, Cells]) -> str:
    columns = COLUMNS[table]
    head = [FIRST[table], *(heading for heading, _ in columns)]
    body = [[_named(name), *(_cell(cells, column) for _, column in columns)] for name, cells in lines.items()]
    text = [head, ["---", *("--:" for _ in columns)], *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in text) + "\n"


def _named(name: str) -> str:
    if name == OURS:
        return "**Ridgeline**"
    return next((world for world in WORLDS if name.startswith(world)), name)


def _cell(cells: Cells, column: str) -> str:
    value = cells[column]
    if column in FALSE and f"{column}, at most" in cells:
        return f"{value:.2%} (at most {cells[f'{column}, at most']:.2%})"
    if column == "claimed" and "at_least" in cells:
        return f"at least {cells['at_least']:.1%} (estimate {value:.1%})"
    if column in ("null pairs", "kept pairs", "wrong") or column.endswith("runs"):
        return f"{value:.0f}" if value >= 100 else f"{value:.1f}"
    return f"{value:.1%}"


def main() -> int:
    rows = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.stdout.write("\n".join(tables([row for row in rows if row["suite"] == "simulation"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
