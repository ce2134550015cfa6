"""The two ends of a CSV file: which columns it has, under which of their many names, and whether its last line ends."""

import csv
import gzip
import io
import json
import os
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

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
        """Reading a profile: the names in lower case, without blanks around them."""
        return tuple(name.strip().lower() for name in self.names)

    def place(self, column: str) -> int | None:
        """Reading a profile: the index of one of our columns; None when the file has none under any of its names."""
        aliases = ALIASES[column]
        return next((self.lower.index(name) for name in aliases if name in self.lower), None)

    def has(self, *columns: str) -> bool:
        """Reading a profile: whether all of these columns of ours are there."""
        return all(self.place(column) is not None for column in columns)


def beginning(path: Path) -> bytes:
    """Reading a profile: the first 64 KiB, unpacked where the file is gzip. `RecordingError` when it is empty or cannot be read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD)
        if head[:2] == b"\x1f\x8b":
            with gzip.open(path) as packed:
                head = packed.read(HEAD)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordingError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not head:
        raise RecordingError(path, "is empty: the profiler wrote nothing, or was killed before it could")
    return head


def is_packed(path: Path) -> bool:
    """Reading a profile: whether the file is gzip, whatever its name says."""
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"


def header(path: Path) -> Head:
    """Reading a profile: the header of a CSV file. `RecordingError` when the first line cannot be one."""
    raw = beginning(path)
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise RecordingError(path, "is UTF-16, as some shells and spreadsheets save; convert it to UTF-8", line=1)
    ends = [end for end in (raw.find(b"\n"), raw.find(b"\r")) if end >= 0]
    try:
        first_line = raw[: min(ends, default=len(raw))].decode("utf-8-sig")
        delimiter = max(",;\t", key=first_line.count)
        names = next(csv.reader([first_line], delimiter=delimiter, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise RecordingError(path, "the first line is no header of a CSV file", line=1) from error
    return Head(tuple(names), delimiter, is_packed(path))


def columns(path: Path) -> tuple[str, ...]:
    """Reading a profile: names in lower case, without quotes; none where the file is not there or its first line is not text.

    Decides cheaply what a file may be: nothing is raised, no other line is looked at, gzip is not unpacked.
    """
    try:
        with path.open("rb") as stream:
            line = stream.readline(WIDEST)
    except OSError:
        return ()
    return () if b"\0" in line else titles(line.decode("utf-8-sig", errors="replace"))


def titles(line: str) -> tuple[str, ...]:
    """Reading a profile: the same of a line; no header that this is asked for has a comma in a name."""
    return tuple(name.strip().strip('"').strip().lower() for name in line.lstrip("\ufeff").strip().split(","))


def is_ended(path: Path) -> bool:
    """Reading a profile: whether the last line of a file has an end: writers end every line, so one without may be cut in a number.

    True for gzip, which checks itself, and for an empty file.
    """
    if is_packed(path):
        return True
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 1))
        return stream.read(1) in (b"\n", b"\r", b"")


# What a recording that cannot be read raises.


class RecordingError(ValueError):
    """A file that is damaged, empty, cut or of an unknown layout: names the file, the line and the mend."""

    def __init__(self, path: Path, what: str, *, line: int | None = None) -> None:
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{place}: {what}")
        self.path = path
        self.what = what
        self.line = line


# Rows of a CSV file that is small by nature (one row per kernel, function or device), with their lines.


def rows(path: Path, head: Head) -> Iterator[tuple[int, list[str]]]:
    """Reading a profile: (line, cells) below the header. `RecordingError` for a row of another width, broken quotes or bytes."""
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
    except (csv.Error, OSError, EOFError, zlib.error) as error:
        raise RecordingError(path, f"damaged: {error}", line=line + 1) from error


def number(text: str, *, path: Path, line: int, column: str) -> float:
    """Reading a profile: a number as C prints it. `RecordingError` for anything else: a locale's comma, a word, an infinity."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if "_" in text or value != value or value in (float("inf"), float("-inf")):
        raise RecordingError(
            path, f"column {column} holds {text[:60]!r}, not a number as the profiler writes it", line=line
        )
    return value


# Reads JSON that a profiler wrote, strictly: what is cut, damaged or of another shape raises with its place.

MAX_BYTES = 256 * 2**20
"""A viewer's JSON is some megabytes; reading a larger one whole would take the machine's memory."""
LARGEST = 2**63 - 1
"""Cycles, hits and times are 64-bit counters; what is larger is damage."""


def load(path: Path) -> object:
    """Reading a profile: the parsed file. Raises RecordingError where it is missing, too large, not UTF-8 or not JSON (line given)."""
    text = read_text(path)
    if not text.strip():
        raise RecordingError(path, "is empty; record again")
    try:
        parsed: object = json.loads(text, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise RecordingError(path, f"is cut or damaged: {error.msg}", line=error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise RecordingError(path, f"is damaged: {error}") from error
    return parsed


def read_text(path: Path) -> str:
    """Reading a profile: the file's text without a byte order mark. Raises RecordingError where it cannot be had whole."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise RecordingError(path, f"has {size:,} bytes, more than {MAX_BYTES:,}; record fewer dispatches")
        data = path.read_bytes()
    except OSError as error:
        raise RecordingError(path, f"cannot be read: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RecordingError(path, f"is not UTF-8 at byte {error.start}", line=line) from error
    if "\0" in text:
        raise RecordingError(path, "holds a NUL byte: damaged", line=text.count("\n", 0, text.index("\0")) + 1)
    return text


def mapping(value: object, path: Path, what: str) -> dict[str, object]:
    """Reading a profile: `value` as an object of JSON; RecordingError says that `what` is another thing."""
    if not isinstance(value, dict):
        raise RecordingError(path, f"{what} is {_kind(value)}, not an object")
    return value


def sequence(value: object, path: Path, what: str) -> list[object]:
    """Reading a profile: `value` as an array of JSON."""
    if not isinstance(value, list):
        raise RecordingError(path, f"{what} is {_kind(value)}, not an array")
    return value


def read_integer(value: object, path: Path, what: str) -> int:
    """Reading a profile: `value` as a whole number from 0 to 2**63 - 1; never a rounded or a missing one."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise RecordingError(path, f"{what} is {str(value)[:40]!r}, not a whole number of 0 or more")
    return value


def read_integers(values: Iterable[object], path: Path, what: str) -> tuple[int, ...]:
    """Reading a profile: each of `values` as `whole` reads it."""
    return tuple(read_integer(value, path, what) for value in values)


def text_of(value: object, path: Path, what: str) -> str:
    """Reading a profile: `value` as a string; null reads as empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RecordingError(path, f"{what} is {_kind(value)}, not text")
    return value


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


# A recording as one file: a tar.gz of what profilers wrote, always the same bytes for the same files.

GZIP = b"\x1f\x8b"
MAGIC = slice(257, 262)
"""Where a tar file says `ustar`."""
MOST_BYTES = 4 << 30
"""Unpacked: as much as a folder of a thread trace may have. What is larger is read as a folder."""
MOST_FILES = 50_000
DAMAGE = (tarfile.TarError, OSError, EOFError, zlib.error, ValueError)
Member = tuple[str, bytes]


def pack(files: Sequence[Member]) -> bytes:
    """Reading a profile: a tar.gz of files with relative names, in their order, without times or owners."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def is_archive(data: bytes) -> bool:
    """Reading a profile: whether the beginning of some data is that of a tar.gz."""
    if data[:2] != GZIP:
        return False
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(512)[MAGIC] == b"ustar"
    except DAMAGE:
        return False


def members(data: bytes) -> Sequence[Member]:
    """Reading a profile: what `pack` was given. Raises tarfile.TarError or OSError for what it never made."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return [(info.name, _content(archive, info).read()) for info in archive if info.isfile()]


def rewritten(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Reading a profile: the archive with each file's content changed."""
    return pack([(name, change(content)) for name, content in members(data)])


def is_archive_file(path: Path) -> bool:
    """Reading a profile: whether a file is a tar.gz, whatever its name."""
    with path.open("rb") as stream:
        return is_archive(stream.read(1 << 16))


@contextmanager
def unpack(path: Path) -> Iterator[Path]:
    """Reading a profile: a folder with the files of the archive, gone after the block.

    Raises `RecordingError` where the archive is cut, damaged or too large, or names a file outside of itself.
    """
    with TemporaryDirectory(prefix="ridgeline-archive-") as folder:
        try:
            with tarfile.open(path, mode="r:gz") as archive:
                _extract(path, archive, Path(folder))
        except RecordingError:
            raise
        except DAMAGE as error:
            raise RecordingError(path, f"is a tar.gz that is cut or damaged: {error}") from error
        yield Path(folder)


def _extract(path: Path, archive: tarfile.TarFile, folder: Path) -> None:
    left = MOST_BYTES
    for count, info in enumerate(archive):
        name = PurePosixPath(info.name)
        if info.isdir():
            continue
        if not info.isfile() or name.is_absolute() or ".." in name.parts:
            raise RecordingError(path, f"{info.name[:80]!r} is no plain file inside the archive")
        left -= info.size
        if left < 0 or count >= MOST_FILES:
            raise RecordingError(path, f"holds more than {MOST_BYTES >> 30} GiB or {MOST_FILES} files: unpack it")
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as stream:
            content = _content(archive, info)
            while chunk := content.read(1 << 20):
                stream.write(chunk)


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> "io.BufferedReader":
    content = archive.extractfile(info)
    assert isinstance(content, io.BufferedReader)  # only None for what is no file
    return content
