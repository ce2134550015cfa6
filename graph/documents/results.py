"""Tables of measured rows: one shape a line, in the columns that the contract declares."""

from collections.abc import Iterable, Sequence

from ridgeline.graph.contract import Contract
from ridgeline.graph.documents import figures
from ridgeline.graph.documents.text import cell, interval, number, percent, quantity, table
from ridgeline.graph.evidence import Benchmark, Row
from ridgeline.graph.rules.result import Product
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


def aggregate_table(
    rows: Sequence[Row], contract: Contract, verdict: Verdict | None = None, so_far: Product | None = None
) -> str:
    """Geometric means over the PASS rows, and beside the deciding one the gains that were measured.

    `verdict`: of the candidate whose rows these are; `so_far`: the best version's gain before it. Nothing is divided
    here: rows of two runs are of two minutes.
    """
    found = figures.of(rows, contract.scoring)
    if found is None:
        return "No shape passed: there is no aggregate."
    lines: list[tuple[str, float | None]] = [("Forward", found.forward)]
    if found.backward is not None:
        lines += [("Backward", found.backward), ("Combined step", found.step)]
    gain = verdict.gain if verdict else None
    whole = so_far.speedup * (1 + gain) - 1 if so_far is not None and gain is not None else None
    seen = interval(gain, verdict.lower, verdict.upper) if verdict else "-"
    cells = [(label, number(value), "-", "-") for label, value in lines]
    cells[-1] = (*cells[-1][:2], percent(whole), seen)
    return table(("Aggregate (geomean)", cell(figures.metric_unit(contract)), "vs baseline", "vs current best"), cells)


def readings(baseline: Benchmark, best: Benchmark, contract: Contract) -> str:
    """What one command read of the original and of the best version, shape by shape, each at its own time."""
    metrics = metric_columns(contract)
    first = {item.label: item for item in figures.passed(baseline.rows)}
    last = {item.label: item for item in figures.passed(best.rows)}
    header = ["Shape"]
    for name in metrics:
        header += [f"{cell(name)}, original", f"{cell(name)}, best"]
    body = [(cell(label), *_pairs(item, last[label], metrics)) for label, item in first.items() if label in last]
    return table(header, body)


def _pairs(old: Row, new: Row, metrics: Iterable[str]) -> tuple[str, ...]:
    before = {named.name: named.value for named in old.metrics}
    after = {named.name: named.value for named in new.metrics}
    return tuple(number(side.get(name), 4) for name in metrics for side in (before, after))
