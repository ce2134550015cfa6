"""Rows of a CSV file that is small by nature (one row per kernel, function or device), with their lines."""

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

from ridgeline.sandbox.profiles.readers.csv_head import Head
from ridgeline.sandbox.profiles.readers.fault import RecordingError


def rows(path: Path, head: Head) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) below the header. `RecordingError` for a row of another width, broken quotes or bytes."""
    opener = gzip.open if head.packed else open
    line = 1
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, delimiter=head.delimiter, strict=True)
            next(reader, None)
            for row in reader:
                line = reader.line_num
                if not row:
                    continue
                if len(row) != len(head.names):
                    raise RecordingError(
                        path, f"{len(row)} columns where the header has {len(head.names)}: cut or damaged", line=line
                    )
                yield line, row
    except UnicodeDecodeError as error:
        raise RecordingError(path, "not UTF-8 text: the file is damaged", line=line + 1) from error
    except (csv.Error, OSError, EOFError) as error:
        raise RecordingError(path, f"damaged: {error}", line=line + 1) from error


def number(text: str, *, path: Path, line: int, column: str) -> float:
    """A number as C prints it. `RecordingError` for anything else: a locale's comma, a word, an infinity."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if "_" in text or value != value or value in (float("inf"), float("-inf")):
        raise RecordingError(
            path, f"column {column} holds {text[:60]!r}, not a number as the profiler writes it", line=line
        )
    return value
