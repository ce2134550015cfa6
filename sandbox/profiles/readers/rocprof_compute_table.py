"""Cells of rocprof-compute's tables: which columns are counters, which zeros mean that nothing was collected."""

import csv
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ridgeline.sandbox.profiles.readers import csv_head
from ridgeline.sandbox.profiles.readers.fault import RecordingError

KEYS = ("dispatch_id", "gpu_id", "kernel_name", "grid_size", "workgroup_size", "lds_per_workgroup")
LARGEST = 1e30
"""No counter comes near; what is larger is damage, and sums of it would be infinite."""
ALIVE = ("GRBM_GUI_ACTIVE", "SQ_WAVES", "SQ_BUSY_CYCLES")
"""Never 0 where a kernel ran: a dispatch in which one is 0 was not counted, and its other zeros say nothing."""
_COUNTER = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+(_[a-z]+)?(\[\d+\])?$")
_CHANNEL = re.compile(r"(.+)\[\d+\]$")
_REPEAT = re.compile(r"(.+)_\d+$")
_ACCUMULATED = re.compile(r"SQ_(LEVEL_WAVES|ACCUM_PREV_HIRES|IFETCH_LEVEL|INST_LEVEL_\w+)(_ACCUM)?$")
"""Filled only by the pass that asked for them; every other pass writes 0."""

Row = dict[str, str]


def wide(path: Path) -> Iterator[tuple[Row, dict[str, float], set[str]]]:
    """Per row of a wide table: its other columns, its counters, and names of counters that it did not collect."""
    columns: list[tuple[int, str]] = []
    pick: Callable[[Sequence[str]], Row] | None = None
    for number, cells in lines(path):
        if pick is None:
            pick = picker(path, cells)
            columns = counters(cells)
            continue
        row = pick(cells)
        check(path, row, number)
        told = {name: number_of(path, cells[at], name, number) for at, name in columns if cells[at].strip()}
        yield row, *collected(told)


def collected(told: Mapping[str, float]) -> tuple[dict[str, float], set[str]]:
    """Counters with channels folded into `_sum`, without zeros that mean `not collected`; and the names of those."""
    channels: dict[str, list[float]] = defaultdict(list)
    summed: dict[str, float] = {}
    for name, value in told.items():
        match = _CHANNEL.match(name)
        if match:
            channels[match.group(1) + "_sum"].append(value)
        else:
            summed[name] = value
    summed = {name: math.fsum(values) for name, values in channels.items()} | summed
    dead = any(summed.get(name) == 0 for name in ALIVE)
    left_out = {name for name, value in summed.items() if value == 0 and (dead or _ACCUMULATED.match(name))}
    return {name: value for name, value in summed.items() if name not in left_out}, left_out


def counters(titles: Sequence[str]) -> list[tuple[int, str]]:
    """Places of counters; `X_1` beside `X` is the same column of another pass."""
    named = {name.strip() for name in titles}
    found = []
    for at, text in enumerate(titles):
        name = text.strip()
        repeat = _REPEAT.match(name)
        if _COUNTER.match(name) and name.lower() not in KEYS and not (repeat and repeat.group(1) in named):
            found.append((at, name))
    return found


def picker(path: Path, titles: Sequence[str]) -> Callable[[Sequence[str]], Row]:
    """A function from a row to its columns that are no counters, by name in lower case."""
    names = lowered(titles)
    missing = [name for name in ("dispatch_id", "gpu_id", "kernel_name") if name not in names]
    if missing:
        raise RecordingError(path, f"its header lacks {', '.join(missing)}", line=1)
    counted = {at for at, _ in counters(titles)}
    places = [(name, at) for at, name in enumerate(names) if at not in counted and not _REPEAT.match(name)]
    return lambda cells: {name: cells[at] for name, at in places}


def check(path: Path, row: Mapping[str, str], number: int | None) -> None:
    """Raises RecordingError where a dispatch has no number, size or kernel."""
    for name in ("dispatch_id", "grid_size", "workgroup_size"):
        if name in row and whole(row[name]) is None:
            raise RecordingError(path, f"{name} is {row[name][:40]!r}, not a whole number", line=number)
    if not row["kernel_name"].strip():
        raise RecordingError(path, "a dispatch names no kernel", line=number)


def number_of(path: Path, text: str, name: str, number: int) -> float:
    """The value of a counter. Raises RecordingError where it is none: text, negative, not finite."""
    try:
        value = float(text)
    except ValueError as error:
        raise RecordingError(path, f"{name[:80]} is {text[:40]!r}, not a number", line=number) from error
    if not 0 <= value < LARGEST:
        raise RecordingError(path, f"{name[:80]} is {text[:40]!r}, no count", line=number)
    return value


def lowered(titles: Sequence[str]) -> list[str]:
    """Names of columns as they are compared."""
    return [name.strip().lower() for name in titles]


def lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells, the header first; every row as long as the header."""
    number, width = 1, 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                number = reader.line_num
                if width and cells and len(cells) != width:
                    raise RecordingError(path, f"has {len(cells)} cells, the header {width}: cut", line=number)
                width = width or len(cells)
                if cells:
                    yield number, cells
    except OSError as error:
        raise RecordingError(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordingError(path, f"is not UTF-8: {error.reason}", line=number + 1) from error
    except csv.Error as error:
        raise RecordingError(path, f"is cut or damaged: {error}", line=number + 1) from error
    if not width:
        raise RecordingError(path, "is empty; record again")
    if not csv_head.is_ended(path):
        raise RecordingError(path, "is cut: its last line has no end", line=number)


def whole(text: str | None) -> int | None:
    """A whole number of a cell; None where there is none."""
    digits = (text or "").strip().removesuffix(".0")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else None
