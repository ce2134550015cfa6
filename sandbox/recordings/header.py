"""The two ends of a table: names of columns, which decide cheaply what it may be, and whether its last line ends."""

import os
from pathlib import Path

WIDEST = 2**20
"""A wide table of rocprof-compute has 2,718 columns in 60 kB."""


def columns(path: Path) -> tuple[str, ...]:
    """Names in lower case, without quotes; none where the file is not there or its first line is not text."""
    try:
        with path.open("rb") as file:
            line = file.readline(WIDEST)
    except OSError:
        return ()
    return () if b"\0" in line else names(line.decode("utf-8-sig", errors="replace"))


def names(line: str) -> tuple[str, ...]:
    """The same of a line; no header that this is asked for has a comma in a name."""
    return tuple(name.strip().strip('"').strip().lower() for name in line.lstrip("\ufeff").strip().split(","))


def is_ended(path: Path) -> bool:
    """Whether the last line of a file has an end: writers end every line, so one without may be cut in a number."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"\n", b"\r", b"")
