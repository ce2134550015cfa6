"""The instructions of a thread trace: rows of `code.json` or of `stats_ui_output_*.csv`, in the order of the code."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeline.sandbox.profiles.readers import csv_head, json_text
from ridgeline.sandbox.profiles.readers.amd_instructions import kind
from ridgeline.sandbox.profiles.readers.fault import RecordingError

VERSIONS = ("2", "3")
"""Major versions of the viewer's files that are known: 3.0.0 is what was seen; 2 has the same columns."""
COLUMNS = ("isa", "linenumber", "source", "codeobj", "vaddr", "hit", "latency", "stall", "idle")
STATS = ("codeobj", "vaddr", "instruction", "hitcount", "latency", "stall", "idle", "source")
_STATS_LINE = re.compile(r'(\d+),(\d+),"?(.*?)"?,(\d+),(\d+),(\d+),(\d+),(".*"|[^"]*)$')
"""Names are written between quotes and quotes inside them are not escaped, so no CSV reader can take every line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """One instruction of the code; cycles are summed over all traced waves."""

    line: int
    """Its number in the viewer's listing, which wave files refer to."""
    isa: str
    kind: str
    source: str
    address: int
    hits: int
    latency: int
    stall: int
    idle: int
    kernel: str
    """The function it stands in, demangled where the listing does so; empty where it has no labels."""
    label: str
    """The same as the label spells it, which may be mangled."""


def from_viewer(path: Path) -> tuple[Instruction, ...]:
    """Instructions of a `code.json` with ATT columns; labels give `kernel` and are left out.

    Raises RecordingError where there is no code, a column is missing, a version unknown or a row damaged.
    """
    columns, rows = viewer_rows(path)
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise RecordingError(path, f"its header lacks {', '.join(missing)}")
    places = [columns.index(name) for name in COLUMNS]
    return tuple(_instructions(path, [[row[place] for place in places] for row in rows]))


def viewer_rows(path: Path) -> tuple[list[str], list[list[object]]]:
    """The header in lower case, and the rows of a `code.json`, each as long as the header."""
    top = json_text.mapping(json_text.load(path), path, "the file")
    version = str(top.get("version", ""))
    if version.split(".")[0] not in VERSIONS:
        raise RecordingError(path, f"has version {version!r}; known are {', '.join(VERSIONS)}.x")
    if top.get("code") is None:
        raise RecordingError(path, "holds no code: nothing was decoded (no traced wave, or the decoder was missing)")
    named = top.get("header")
    names = named.split(",") if isinstance(named, str) else json_text.sequence(named, path, "header")
    columns = [str(name).strip().lower() for name in names]
    rows = []
    for number, row in enumerate(json_text.sequence(top["code"], path, "code")):
        cells = json_text.sequence(row, path, f"row {number} of code")
        if len(cells) != len(columns):
            raise RecordingError(path, f"row {number} of code has {len(cells)} cells, the header {len(columns)}")
        rows.append(cells)
    if not rows:
        raise RecordingError(path, "holds no instruction: nothing was traced")
    return columns, rows


def from_stats(path: Path) -> tuple[Instruction, ...]:
    """Instructions of a `stats_ui_output_*.csv`. Lines are numbered by row, as in the viewer's listing."""
    lines = json_text.read_text(path).replace("\r\n", "\n").split("\n")
    if csv_head.titles(lines[0]) != STATS:
        raise RecordingError(path, f"its header is not {','.join(STATS)}", line=1)
    cells: list[Sequence[object]] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        match = _STATS_LINE.match(line)
        if match is None:
            raise RecordingError(path, "is cut or damaged: not eight columns", line=number)
        codeobj, address, isa, hits, latency, stall, idle, source = match.groups()
        counts = [int(digits) for digits in (codeobj, address, hits, latency, stall, idle) if len(digits) < 20]
        if len(counts) < 6:
            raise RecordingError(path, "holds a number of more than 64 bits", line=number)
        cells.append((isa, number - 2, source.strip('"'), *counts))
    if not cells:
        raise RecordingError(path, "has a header and no row: nothing was traced", line=1)
    return tuple(_instructions(path, cells))


def _instructions(path: Path, cells: Sequence[Sequence[object]]) -> Iterator[Instruction]:
    kernel, label, seen = "", "", False
    for number, (isa, line, source, codeobj, address, *counts) in enumerate(cells):
        text = json_text.text_of(isa, path, f"ISA of row {number}")
        origin = json_text.text_of(source, path, f"Source of row {number}")
        if text.startswith("; "):
            label = text[2:].strip()
            kernel = origin or label
            continue
        place = json_text.wholes((line, codeobj, address), path, f"LineNumber, Codeobj or Vaddr of row {number}")
        hits, latency, stall, idle = json_text.wholes(counts, path, f"Hit, Latency, Stall or Idle of row {number}")
        seen = True
        yield Instruction(
            line=place[0], isa=text, kind=kind(text), source=origin, address=place[2], hits=hits, latency=latency,
            stall=stall, idle=idle, kernel=kernel, label=label,
        )  # fmt: skip
    if not seen:
        raise RecordingError(path, "holds labels and no instruction: nothing was traced")
