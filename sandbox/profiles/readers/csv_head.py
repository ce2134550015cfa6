"""The two ends of a CSV file: which columns it has, under which of their many names, and whether its last line ends."""

import csv
import gzip
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ridgeline.sandbox.profiles.readers.fault import RecordingError

HEAD = 1 << 16
"""Bytes that are looked at to tell what a file is."""
WIDEST = 1 << 20
"""Bytes of a first line: a wide table of rocprof-compute has 2,718 columns in 60 kB."""
ALIASES: Mapping[str, tuple[str, ...]] = {
    "name": ("kernel_name", "kernelname"),
    "agent": ("agent_id", "gpu_id"),
    "queue": ("queue_id",),
    "symbol": ("kernel_id",),
    "process": ("process_id", "pid"),
    "dispatch": ("dispatch_id",),
    "start": ("start_timestamp", "start_ns", "beginns"),
    "end": ("end_timestamp", "end_ns", "endns"),
    "vgpr": ("vgpr_count", "arch_vgpr_count", "arch_vgpr"),
    "accum": ("accum_vgpr_count", "accum_vgpr"),
    "sgpr": ("sgpr_count", "sgpr"),
    "lds": ("lds_block_size", "group_segment_size", "lds_size"),
    "scratch": ("scratch_size", "private_segment_size"),
    "wg_x": ("workgroup_size_x",),
    "wg_y": ("workgroup_size_y",),
    "wg_z": ("workgroup_size_z",),
    "grid_x": ("grid_size_x",),
    "grid_y": ("grid_size_y",),
    "grid_z": ("grid_size_z",),
    "grid": ("grid_size",),
    "workgroup": ("workgroup_size",),
    "counter": ("counter_name",),
    "value": ("counter_value",),
    "calls": ("calls",),
    "total": ("totaldurationns",),
}
"""Our name of a column, and the names that tool versions gave it, in lower case."""


@dataclass(frozen=True)
class Head:
    """How a CSV file begins."""

    names: tuple[str, ...]
    """As written."""
    delimiter: str
    packed: bool
    """gzip."""

    @property
    def lower(self) -> tuple[str, ...]:
        """The names in lower case, without blanks around them."""
        return tuple(name.strip().lower() for name in self.names)

    def place(self, column: str) -> int | None:
        """The index of one of our columns; None when the file has none under any of its names."""
        wanted = ALIASES[column]
        return next((self.lower.index(name) for name in wanted if name in self.lower), None)

    def has(self, *columns: str) -> bool:
        """Whether all of these columns of ours are there."""
        return all(self.place(column) is not None for column in columns)


def beginning(path: Path) -> bytes:
    """The first 64 KiB, unpacked where the file is gzip. `RecordingError` when it is empty or cannot be read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD)
        if head[:2] == b"\x1f\x8b":
            with gzip.open(path) as packed:
                head = packed.read(HEAD)
    except (OSError, EOFError) as error:
        raise RecordingError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not head:
        raise RecordingError(path, "is empty: the profiler wrote nothing, or was killed before it could")
    return head


def is_packed(path: Path) -> bool:
    """Whether the file is gzip, whatever its name says."""
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def header(path: Path) -> Head:
    """The header of a CSV file. `RecordingError` when the first line cannot be one."""
    raw = beginning(path)
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise RecordingError(path, "is UTF-16, as some shells and spreadsheets save; convert it to UTF-8", line=1)
    ends = [end for end in (raw.find(b"\n"), raw.find(b"\r")) if end >= 0]
    try:
        first = raw[: min(ends, default=len(raw))].decode("utf-8-sig")
        delimiter = max(",;\t", key=first.count)
        names = next(csv.reader([first], delimiter=delimiter, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise RecordingError(path, "the first line is no header of a CSV file", line=1) from error
    return Head(tuple(names), delimiter, is_packed(path))


def columns(path: Path) -> tuple[str, ...]:
    """Names in lower case, without quotes; none where the file is not there or its first line is not text.

    Decides cheaply what a file may be: nothing is raised, no other line is looked at, gzip is not unpacked.
    """
    try:
        with path.open("rb") as stream:
            line = stream.readline(WIDEST)
    except OSError:
        return ()
    return () if b"\0" in line else titles(line.decode("utf-8-sig", errors="replace"))


def titles(line: str) -> tuple[str, ...]:
    """The same of a line; no header that this is asked for has a comma in a name."""
    return tuple(name.strip().strip('"').strip().lower() for name in line.lstrip("\ufeff").strip().split(","))


def is_ended(path: Path) -> bool:
    """Whether the last line of a file has an end: writers end every line, so one without may be cut in a number.

    True for gzip, which checks itself, and for an empty file.
    """
    if is_packed(path):
        return True
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 1))
        return stream.read(1) in (b"\n", b"\r", b"")
