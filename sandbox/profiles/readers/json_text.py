"""Reads JSON that a profiler wrote, strictly: what is cut, damaged or of another shape raises with its place."""

import json
from collections.abc import Iterable
from pathlib import Path

from ridgeline.sandbox.profiles.readers.fault import RecordingError

MAX_BYTES = 256 * 2**20
"""A viewer's JSON is some megabytes; reading a larger one whole would take the machine's memory."""
LARGEST = 2**63 - 1
"""Cycles, hits and times are 64-bit counters; what is larger is damage."""


def load(path: Path) -> object:
    """The parsed file. Raises RecordingError where it is missing, too large, not UTF-8 or not JSON (line given)."""
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
    """The file's text without a byte order mark. Raises RecordingError where it cannot be had whole."""
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
    """`value` as an object of JSON; RecordingError says that `what` is another thing."""
    if not isinstance(value, dict):
        raise RecordingError(path, f"{what} is {_kind(value)}, not an object")
    return value


def sequence(value: object, path: Path, what: str) -> list[object]:
    """`value` as an array of JSON."""
    if not isinstance(value, list):
        raise RecordingError(path, f"{what} is {_kind(value)}, not an array")
    return value


def whole(value: object, path: Path, what: str) -> int:
    """`value` as a whole number from 0 to 2**63 - 1; never a rounded or a missing one."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise RecordingError(path, f"{what} is {str(value)[:40]!r}, not a whole number of 0 or more")
    return value


def wholes(values: Iterable[object], path: Path, what: str) -> tuple[int, ...]:
    """Each of `values` as `whole` reads it."""
    return tuple(whole(value, path, what) for value in values)


def text_of(value: object, path: Path, what: str) -> str:
    """`value` as a string; null reads as empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RecordingError(path, f"{what} is {_kind(value)}, not text")
    return value


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")
