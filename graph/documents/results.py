"""Tables of measured rows: one shape a line, in the columns that the contract declares."""

from collections.abc import Iterable, Sequence
from typing import Literal

from ridgeline.graph.contract import Contract
from ridgeline.graph.documents import figures
from ridgeline.graph.documents.text import cell, interval, number, percent, quantity, row, table, unit
from ridgeline.graph.evidence import Benchmark, Row
from ridgeline.graph.verdict import ShapeChange, Verdict


def size_columns(contract: Contract) -> tuple[str, ...]:
    """Columns that give a shape's sizes: those between the label and the check."""
    output = contract.benchmark_output
    columns = output.columns
    first, last = columns.index(output.label) + 1, columns.index(output.check)
    return tuple(name for name in columns[first:last] if name != "B")


def metric_columns(contract: Contract) -> tuple[str, ...]:
    """Columns worth a reader's eye: forward, backward, other deciding ones, time."""
    scoring = contract.scoring
    named = (figures.forward_column(scoring), scoring.backward, *scoring.primary_metric, scoring.time_ms)
    known = set(contract.benchmark_output.columns)
    return tuple(dict.fromkeys(name for name in named if name and name in known))


def shape_table(rows: Sequence[Row], contract: Contract, verdict: Verdict | None = None) -> str:
    """Shape, sizes, result, metrics, and the change against the best version with its bounds where they exist."""
    sizes, metrics = size_columns(contract), metric_columns(contract)
    changes = {change.label: change for change in verdict.shapes} if verdict else {}
    header = ("Shape/label", *(cell(name) for name in (*sizes, "Result", *metrics)), "Delta vs current best")
    return table(header, (_cells(item, sizes, metrics, changes.get(item.label)) for item in rows))


def _cells(item: Row, sizes: Iterable[str], metrics: Iterable[str], change: ShapeChange | None) -> tuple[str, ...]:
    values = {named.name: named.value for named in item.metrics}
    config = dict(item.config)
    return (
        cell(item.label),
        *(quantity(values[name]) if name in values else cell(config.get(name, "-")) for name in sizes),
        item.check,
        *(number(values.get(name), 4) for name in metrics),
        interval(change.gain, change.lower, change.upper) if change else "-",
    )


def aggregate_table(rows: Sequence[Row], contract: Contract, *, baseline: Sequence[Row], best: Sequence[Row]) -> str:
    """Geometric means over the PASS rows against round 1 and against the best version, same shapes on both sides."""
    found = figures.of(rows, contract.scoring)
    if found is None:
        return "No shape passed: there is no aggregate."
    first = figures.against(rows, baseline, contract.scoring)
    last = figures.against(rows, best, contract.scoring)
    name = figures.metric_unit(contract)
    lines = [("Forward", found.forward, *_both(first, last, "forward"))]
    if found.backward is not None:
        lines.append(("Backward", found.backward, *_both(first, last, "backward")))
        lines.append(("Combined step", found.step, *_both(first, last, "step")))
    return table(
        ("Aggregate (geomean)", cell(name), "vs baseline", "vs current best"),
        ((label, number(value), percent(a, 3), percent(b, 3)) for label, value, a, b in lines),
    )


def _both(
    first: figures.Gains | None, last: figures.Gains | None, what: Literal["forward", "backward", "step"]
) -> tuple[float | None, float | None]:
    """One kind of gain against the baseline and against the best version."""
    kinds = [
        {"forward": gains.forward, "backward": gains.backward, "step": gains.step} if gains else {}
        for gains in (first, last)
    ]
    return kinds[0].get(what), kinds[1].get(what)


def versus(baseline: Benchmark, best: Benchmark, contract: Contract) -> str:
    """Baseline against the best version: one row a shape in every metric, with the aggregate last."""
    scoring, metrics = contract.scoring, metric_columns(contract)
    first = {item.label: item for item in figures.passed(baseline.rows)}
    last = {item.label: item for item in figures.passed(best.rows)}
    header = ["Shape"]
    for name in metrics:
        header += [f"{cell(name)}, baseline", f"{cell(name)}, best"]
    body = [
        (cell(label), *_pairs(item, last[label], metrics), percent(_row_gain(item, last[label], contract)))
        for label, item in first.items()
        if label in last
    ]
    gains = figures.against(best.rows, baseline.rows, scoring)
    old = figures.of((first[x] for x in first if x in last), scoring)
    new = figures.of((last[x] for x in first if x in last), scoring)
    text = table((*header, "Improvement"), body)
    if gains and old and new:
        word = f"{number(old.step)} -> {number(new.step)} {cell(unit(figures.forward_column(scoring)))}"
        closing = ["**geomean**", word, *["" for _ in range(2 * len(metrics) - 1)], f"**{percent(gains.step)}**"]
        text += "\n" + row(closing)
    return text


def _pairs(old: Row, new: Row, metrics: Iterable[str]) -> tuple[str, ...]:
    before = {named.name: named.value for named in old.metrics}
    after = {named.name: named.value for named in new.metrics}
    return tuple(number(side.get(name), 4) for name in metrics for side in (before, after))


def _row_gain(old: Row, new: Row, contract: Contract) -> float | None:
    gains = figures.against((new,), (old,), contract.scoring)
    return gains.step if gains else None
