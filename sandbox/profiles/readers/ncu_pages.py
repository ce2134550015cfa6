"""Launches out of ncu's raw page, details page, `--metrics` listing, and plain `metric,value,unit` lists."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.graph.kernel_profile import Axes
from ridgeline.sandbox.profiles.readers.fault import RecordingError
from ridgeline.sandbox.profiles.readers.ncu_text import Locale, Row, base, locale_of, number

IDENTITY = frozenset(
    {
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value",
        "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup",
    }
)  # fmt: skip
LISTS = frozenset({"launch__tpc_enabled", "Enabled TPC IDs"})
"""Values that are lists of numbers, which look like numbers of another locale."""
INSTANCES = re.compile(r"^(\S+) \(.*\)$", re.DOTALL)
"""A total, then its instances in brackets (`--print-metric-instances`)."""
TRIPLE = re.compile(r"\(?\s*(\d+)\s*[,;x]\s*(\d+)\s*[,;x]\s*(\d+)\s*\)?")
UNNAMED = "(kernel name not recorded)"


@dataclass(kw_only=True)
class Launch:
    """One launch that was profiled."""

    name: str
    process: str = ""
    block: Axes | None = None
    grid: Axes | None = None
    """Blocks."""
    capability: str = ""
    device: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    """By ncu's name, or `Section/Name [unit]` on the details page; base units. What ncu could not tell is absent."""
    unknown: set[str] = field(default_factory=set)
    """Metrics that were asked for and came back as `n/a`."""
    rules: list[str] = field(default_factory=list)
    """What ncu's own rules advise: name and text."""


def raw(rows: Sequence[Row], path: Path) -> tuple[list[Launch], str]:
    """One launch per row after the header and its units row, and a warning about the locale or an empty text."""
    cells = (
        (text, unit)
        for header, units, row in _wide(rows, path)
        for name, unit, text in zip(header, units, row[1], strict=True)
        if name not in IDENTITY and name not in LISTS
    )
    mark, warning = locale_of(((_total(text), unit) for text, unit in cells), path)
    launches = []
    for header, units, (_, row) in _wide(rows, path):
        launch = _identified(dict(zip(header, row, strict=True)))
        for name, unit, text in zip(header, units, row, strict=True):
            if name not in IDENTITY:
                _add(launch, name, (text, unit), mark)
        launches.append(launch)
    if not launches:
        raise RecordingError(path, "a raw page without a kernel: only its header and units; profile again")
    return launches, warning


def details(rows: Sequence[Row], path: Path) -> tuple[list[Launch], str]:
    """Launches of a page with one row per kernel and metric, and a warning about the locale or an empty text."""
    table = list(_long(rows, path))
    kept = [line for line in table if line.get("Metric Name")]
    pairs = ((_total(line["Metric Value"]), line["Metric Unit"]) for line in kept if line["Metric Name"] not in LISTS)
    mark, warning = locale_of(pairs, path)
    launches: dict[tuple[str, ...], Launch] = {}
    for line in table:
        key = tuple(line.get(name, "") for name in ("Process ID", "Device", "ID", "Kernel Name"))
        launch = launches.setdefault(key, _identified(line))
        if line.get("Metric Name"):
            name = line["Metric Name"]
            if "__" not in name:
                name = f"{line['Section Name']}/{name} [{base(line['Metric Unit'])[1]}]"
            _add(launch, name, (line["Metric Value"], line["Metric Unit"]), mark)
        elif line.get("Rule Name"):
            launch.rules.append(f"{line['Rule Name']}: {line.get('Rule Description', '')}")
    if not launches:
        raise RecordingError(path, "a details page without a row; profile again")
    return list(launches.values()), warning


def listed(rows: Sequence[Row], path: Path) -> tuple[list[Launch], str]:
    """The one launch of a `metric,value,unit` list."""
    for line, row in rows:
        if len(row) != 3:
            raise RecordingError(path, f"{len(row)} cells where metric, value and unit are expected", line=line)
    mark, warning = locale_of(((text, unit) for _, (_, text, unit) in rows[1:]), path)
    launch = Launch(name=UNNAMED)
    for _, (name, text, unit) in rows[1:]:
        if name.endswith("_size_xyz"):
            axes = triple(text)
            launch.grid, launch.block = (axes, launch.block) if "grid" in name else (launch.grid, axes)
        elif name in ("kernel_name", "Kernel Name"):
            launch.name = text
        else:
            _add(launch, name, (text, unit), mark)
    return [launch], warning


def triple(text: str) -> Axes | None:
    """`(256, 1, 1)` as numbers; None for anything else."""
    found = TRIPLE.fullmatch(text.strip())
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _wide(rows: Sequence[Row], path: Path) -> Iterator[tuple[list[str], list[str], Row]]:
    """(header, units, row) for each launch; several tables may follow each other in one file."""
    header: list[str] = []
    units: list[str] = []
    for line, row in rows:
        if row[:2] == ["ID", "Process ID"]:
            header, units = row, []
            continue
        if len(row) != len(header):
            raise RecordingError(path, f"{len(row)} cells under {len(header)} columns: cut; record it again", line=line)
        if not units:
            if row[0]:
                raise RecordingError(path, "a raw page without its row of units; record it again", line=line)
            units = row
            continue
        if not row[0].isdigit():
            raise RecordingError(path, f"launch ID {row[0][:40]!r} is no number; record it again", line=line)
        yield header, units, (line, row)


def _long(rows: Sequence[Row], path: Path) -> Iterator[dict[str, str]]:
    """Rows by column name. Metric rows end after their value, rows of rules go on: both are whole."""
    header: list[str] = []
    for line, row in rows:
        if row[:2] == ["ID", "Process ID"]:
            header = row
            continue
        value = header.index("Metric Value")
        if len(row) <= value or len(row) > len(header) or not row[0].isdigit():
            raise RecordingError(path, f"{len(row)} cells under {len(header)} columns: cut; record it again", line=line)
        if not row[header.index("Metric Name")] and len(row) < len(header):
            raise RecordingError(path, "a row without a metric and without a rule: cut; record it again", line=line)
        yield dict(zip(header, row, strict=False))


def _identified(cells: dict[str, str]) -> Launch:
    return Launch(
        name=cells.get("Kernel Name") or UNNAMED,
        process=cells.get("Process ID", ""),
        block=triple(cells.get("Block Size", "")),
        grid=triple(cells.get("Grid Size", "")),
        capability=cells.get("CC", ""),
        device=cells.get("device__attribute_display_name", ""),
    )


def _add(launch: Launch, name: str, cell: tuple[str, str], mark: Locale) -> None:
    text, unit = cell
    factor, _ = base(unit)
    value = number(_total(text), mark)
    if value is not None and math.isfinite(value):
        launch.metrics[name] = value * factor
    elif "n/a" in text or text.startswith("(!)"):
        launch.unknown.add(name)


def _total(text: str) -> str:
    found = INSTANCES.match(text)
    return found[1] if found else text


def mean(launches: Iterable[Launch]) -> dict[str, float]:
    """Each metric's mean over the launches that told it."""
    told: dict[str, list[float]] = {}
    for launch in launches:
        for name, value in launch.metrics.items():
            told.setdefault(name, []).append(value)
    return {name: math.fsum(values) / len(values) for name, values in told.items()}
