"""What `nsys stats` prints of a GPU: kernel sums and traces, as CSV, JSON or the table of `nsys profile --stats=true`.

One file may hold several reports with the tool's own words around them, in any unit of time. Of what is no report of the
GPU (API calls, ranges of NVTX, the operating system) nothing is kept. A trace tells more than sums, and is read first.
"""

import csv
import gzip
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline.graph.kernel_profile import Axes, KernelCalls, LaunchShape, Recording
from ridgeline.sandbox.profiles.readers import nsys
from ridgeline.sandbox.profiles.readers.files import RecordingError, beginning, is_packed, read_text
from ridgeline.sandbox.profiles.readers.names import category, display

SUMS, TRACE = "nsys_stats", "nsys_trace"
UNITS = {
    "ns": 1.0, "nsec": 1.0, "us": 1e3, "usec": 1e3, "μs": 1e3, "ms": 1e6, "msec": 1e6, "s": 1e9, "sec": 1e9,
    "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30,
}  # fmt: skip
"""In ns and bytes, by what stands in brackets behind a title; without brackets times are ns."""
TITLE = re.compile(r"(?P<title>.*?)\s*\((?P<unit>%|[^\W\d]+)\)")
OLDER = {
    "average": "avg", "minimum": "min", "maximum": "max", "median": "med", "kernel name": "name",
    "operation": "name", "count": "instances",
}  # fmt: skip
"""Titles of versions up to 2021, and of the report of copies."""
SUMMED, TRACED = frozenset({"total time", "instances", "name"}), frozenset({"start", "duration", "grdx", "name"})
REPORT = re.compile(
    r'^ ?"?Time ?\(%\)"?[,\s]\s*"?Total Time|^ ?"?Start ?\(\w+\)"?[,\s]\s*"?Duration|"(Instances|GrdX)" ?:',
    re.MULTILINE,
)
"""How a report begins in any of the three forms."""
ENDS = ("Processing [", "Generating ", "** ", " ** ", "NOTICE:", "SKIPPED:", "WARNING:", "ERROR:", "[")
"""Words of the tool between two reports."""
COPIES = {"Host-to-Device": "HtoD", "Device-to-Host": "DtoH", "Device-to-Device": "DtoD", "Peer-to-Peer": "PtoP"}
"""Ways of copies as versions from 2023 on write them, and the short forms of those before."""
COPY = re.compile(r"\[CUDA (memcpy|memset) ?([\w -]*)\]")
MERGED = "launches of different sizes are one row each here: no median of a kernel that has several"
ROUNDED = "shared memory stands here in MB with three digits, so it is not told: `nsys export --type sqlite` has bytes"

Cells = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """Where a column stands, and what one of its unit is in nanoseconds or bytes."""

    place: int
    unit: float


@dataclass(frozen=True)
class Row:
    """One row of a report: its cells as they stand, by title."""

    path: Path
    line: int
    columns: Mapping[str, Column]
    cells: Sequence[Any]

    def text(self, title: str) -> str:
        """Reading a profile: a cell; empty where the report has none."""
        column = self.columns.get(title)
        value = None if column is None else self.cells[column.place]
        return "" if value is None else str(value).strip()

    def number(self, title: str) -> float | None:
        """Reading a profile: a cell in nanoseconds, bytes or as a count. `RecordingError` for what is no number."""
        text = self.text(title).replace(",", "")
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0 or "_" in text:
            raise RecordingError(self.path, f"column {title} holds {text[:60]!r}, not a number", line=self.line)
        return value * self.columns[title].unit

    def count(self, title: str) -> int | None:
        """Reading a profile: a cell as a whole number; None where it is empty or negative."""
        value = self.number(title)
        return None if value is None else int(value)


def sniff(path: Path) -> bool:
    """Reading a profile: whether the first 64 KiB hold the beginning of a report."""
    return REPORT.search(beginning(path).decode("utf-8-sig", errors="replace")) is not None


def read_recordings(path: Path) -> tuple[Recording, ...]:
    """One recording per GPU of a trace, else one of the sums of kernels.

    Raises `RecordingError` for a row that is cut or damaged, and where no report of the file is about the GPU.
    """
    trace = (row for row in _rows(path) if row.columns.keys() >= TRACED)
    if (first := next(trace, None)) is not None:
        return _trace(path, first, trace)
    sums = [row for row in _rows(path) if row.columns.keys() >= SUMMED]
    if not sums:
        skipped = next((line.strip() for _, line in _lines(path) if line.startswith("SKIPPED:")), "")
        why = f": nsys says {skipped!r}" if skipped else ""
        what = "none of its reports is about kernels"
        raise RecordingError(path, f"{what}{why}; give that of `nsys stats --report cuda_gpu_trace,cuda_gpu_kern_sum`")
    return (_sums(path, sums),)


# Rows of all reports in a file, whatever its form.


def _rows(path: Path) -> Iterator[Row]:
    head = beginning(path).decode("utf-8-sig", errors="replace")
    if re.search(r'^\s*[\[{]\s*[{"]', head, re.MULTILINE) and '":' in head:
        yield from _of_json(path)
    else:
        yield from _of_lines(path)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    opener = gzip.open if is_packed(path) else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            yield from enumerate(stream, start=1)
    except UnicodeDecodeError as error:
        raise RecordingError(path, "not UTF-8 text: the file is damaged") from error
    except (OSError, EOFError, zlib.error) as error:
        raise RecordingError(path, f"cannot be read: {error}") from error


def _of_lines(path: Path) -> Iterator[Row]:
    """Reading a profile: CSV and tables: a report goes from its header to an empty line or the tool's next words."""
    columns: Mapping[str, Column] = {}
    split: Callable[[str], list[str]] = _of_csv
    title = ""
    for line, raw in _lines(path):
        text = raw.rstrip("\r\n")
        if columns and set(text) <= {"-", " "} and "-" in text:
            split = _of_table(text)
            columns = _columns(split(title))
        elif REPORT.match(text) or (not columns and _is_header(text)):
            title, split = text, _of_csv
            columns = _columns(_of_csv(text) if "," in text else re.split(r"\s{2,}", text.strip()))
        elif not text.strip() or text.startswith(ENDS) or (split is not _of_csv and not text.startswith(" ")):
            columns = {}
        elif columns:
            cells = split(text)
            if len(cells) != len(columns):
                what = f"{len(cells)} columns where the report's header has {len(columns)}: the file is cut or damaged"
                raise RecordingError(path, what, line=line)
            yield Row(path, line, columns, cells)


def _is_header(text: str) -> bool:
    """Reading a profile: whether a line is the header of a report that begins with another column."""
    titles = {_title(cell)[0] for cell in _of_csv(text)}
    return "name" in titles and len(titles) > 2 and bool(titles & {"total time", "duration"})


def _of_csv(text: str) -> list[str]:
    return next(csv.reader([text]), [])


def _of_table(dashes: str) -> Callable[[str], list[str]]:
    """Reading a profile: splits by the lines of dashes under the titles; the last column goes on to the end."""
    spans = [match.span() for match in re.finditer("-+", dashes)]
    ends = [*(start for start, _ in spans[1:]), None]
    return lambda text: [text[start:end].strip() for (start, _), end in zip(spans, ends, strict=True)]


def _of_json(path: Path) -> Iterator[Row]:
    """Reading a profile: lists of objects, one after the other with the tool's words between, or named by their reports."""
    text = read_text(path)
    decoder, at = json.JSONDecoder(), 0
    while (match := re.compile(r"^\s*(?=[\[{]\s*[\[{\"])", re.MULTILINE).search(text, at)) is not None:
        line = text.count("\n", 0, match.end()) + 1
        try:
            document, at = decoder.raw_decode(text, match.end())
        except (json.JSONDecodeError, RecursionError) as error:
            raise RecordingError(path, f"is cut or damaged: {error}", line=line) from error
        for report in document.values() if isinstance(document, dict) else (document,):
            for cells in report if isinstance(report, list) else ():
                if isinstance(cells, dict):
                    yield Row(path, line, _columns(list(cells)), list(cells.values()))


def _title(cell: str) -> tuple[str, float]:
    """Reading a profile: a title without its unit, as new versions call it, and the unit."""
    match = TITLE.fullmatch(cell.strip())
    title, unit = (match["title"], match["unit"]) if match else (cell.strip(), "ns")
    return OLDER.get(title.lower(), title.lower()), UNITS.get(unit.lower(), 1.0)


def _columns(titles: Sequence[str]) -> Mapping[str, Column]:
    columns: dict[str, Column] = {}
    for place, cell in enumerate(titles):
        title, unit = _title(cell)
        columns[title if title not in columns else f"{title} {place}"] = Column(place, unit)
    return columns


# Kernels out of rows: each launch of a trace, or the sums of each name.


def _trace(path: Path, first: Row, rows: Iterator[Row]) -> tuple[Recording, ...]:
    recordings = nsys.record(path, (_event(row) for row in _chain(first, rows)), TRACE)
    placed = (_name_device(recording) for recording in recordings)
    if first.columns.get("dymsmem", Column(0, 1.0)).unit > 1.0:
        placed = (item.model_copy(update={"warnings": (*item.warnings, ROUNDED)}) for item in placed)
    return tuple(placed)


def _chain(first: Row, rows: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rows


def _event(row: Row) -> Sequence[Any]:
    """(start, end, device, stream, name, launch in the order of nsys.LAUNCHED)."""
    start, took = row.number("start"), row.number("duration")
    if start is None or took is None or not row.text("name"):
        raise RecordingError(row.path, "a row without a start, a duration or a name: cut or damaged", line=row.line)
    launched = [row.count(title) for title in ("grdx", "grdy", "grdz", "blkx", "blky", "blkz", "reg/trd")]
    exact = row.columns.get("dymsmem", Column(0, 1.0)).unit == 1.0
    shared = [row.count(title) if exact else None for title in ("stcsmem", "dymsmem")]
    name = COPY.sub(lambda match: _copy(match[1], match[2]), row.text("name"))
    return (round(start), round(start + took), row.text("device"), row.text("strm"), name, *launched, *shared, None)


def _copy(kind: str, way: str) -> str:
    return " ".join((kind.capitalize(), *filter(None, (COPIES.get(way, way),))))


def _name_device(recording: Recording) -> Recording:
    """Reading a profile: with the device's words, which end with its number in brackets."""
    words = re.sub(r"\s*\(\d+\)$", "", recording.device or "")
    return recording.model_copy(update={"tool": nsys.TOOL, "vendor": "nvidia", "device": words or None})


def _sums(path: Path, rows: Sequence[Row]) -> Recording:
    by_name: dict[str, list[tuple[int, float, Row]]] = {}
    for row in rows:
        calls, total = row.number("instances"), row.number("total time")
        if calls is None or total is None or calls < 1 or calls != int(calls):
            raise RecordingError(path, "a row without a whole number of calls and their duration", line=row.line)
        by_name.setdefault(row.text("name"), []).append((int(calls), total, row))
    total = sum(time for entries in by_name.values() for _, time, _ in entries)
    if not total:
        raise RecordingError(path, "every duration is 0: the times are damaged", line=rows[0].line)
    kernels = [_kernel(name, entries, total) for name, entries in by_name.items()]
    return Recording(
        format=SUMS,
        tool=nsys.TOOL,
        vendor="nvidia",
        grade="trace",
        kernels=tuple(sorted(kernels, key=lambda kernel: (-(kernel.total_ns or 0), kernel.name))),
        rows=len(rows),
        sum_ns=total,
        files=(str(path),),
        warnings=(MERGED,) if len(by_name) < len(rows) else (),
    )


def _kernel(name: str, entries: Sequence[tuple[int, float, Row]], whole: float) -> KernelCalls:
    name = COPY.sub(lambda match: _copy(match[1], match[2]), name)
    calls, total = sum(count for count, _, _ in entries), sum(time for _, time, _ in entries)
    launches = tuple(_launch(*entry) for entry in sorted(entries, key=lambda entry: -entry[1]))
    (_, _, row), single = entries[0], len(entries) == 1
    least, most = ([row.number(title) for _, _, row in entries] for title in ("min", "max"))
    return KernelCalls(
        name=name,
        display=display(name),
        category=category(name),
        calls=calls,
        total_ns=total,
        mean_ns=total / calls,
        median_ns=row.number("med") if single else None,
        min_ns=None if None in least else min(value for value in least if value is not None),
        max_ns=None if None in most else max(value for value in most if value is not None),
        stdev_ns=row.number("stddev") if single else None,
        share=total / whole,
        last=launches[0].model_copy(update={"calls": calls, "total_ns": total}),
        variants=() if single else launches[:16],
    )


def _launch(calls: int, total: float, row: Row) -> LaunchShape:
    grid, block = (_axes(row.text(title)) for title in ("gridxyz", "blockxyz"))
    return LaunchShape(
        calls=calls, grid=grid, blocks=grid, workgroup=block, median_ns=row.number("med"), total_ns=total
    )


def _axes(text: str) -> Axes | None:
    numbers = [int(word) for word in re.findall(r"\d+", text)]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 and min(numbers) > 0 else None
