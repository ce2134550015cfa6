"""Seeded damage to a file: bytes, lines, or values of a JSON document, as a disk, an editor or a stranger leaves them."""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

TOKENS = (
    b"NaN", b"-Infinity", b"1e999", b"null", b"true", b"{}", b"[]", b'""', b"\x00", b"\xff\xfe", b"\xed\xa0\x80",
    b"\xe2\x80\xae", b"\r", b"\n\n", b"-1", b"9" * 400, b"1" * 5000, b"\\ud800", b'"\\udc80"', b"../../../etc/passwd",
    b"a" * 5000, b"[" * 3000, b'{"a":' * 3000, b"- " * 3000, b"\x1b[2J", b"%s%n", b"&a [*a]", b"!!python/object:os", b"\t",
    b"0x1F", b"12:30:45", b"2026-13-45T99:99:99", b"'", b'"', b"=", b",,,,", b"<<<<<<< SEARCH", b"```",
)  # fmt: skip
"""What parsers stumble over, put in at any place."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, 10**400, 1e308, -0.0, float("nan"), float("inf"), "", " ", "x", "\ud800", "\0",
    "a" * 5000, "../../x", "/", "2026-13-45", "2026-11-23T06:00:00", "9" * 400, [], {}, [[]], [None], {"": None},
    {"kind": "opened"}, "\u202e", "-", "v0",
)  # fmt: skip
"""What may stand where a field of a document stands."""


def mutate(data: bytes, draw: Random) -> bytes:
    """The data with one to four changes."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        data = draw.choice(MUTATIONS)(data, draw)
    return data


def flip(data: bytes, draw: Random) -> bytes:
    """A few bytes are others."""
    changed = bytearray(data)
    for _ in range(draw.randrange(1, 5) if changed else 0):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def cut(data: bytes, draw: Random) -> bytes:
    """The end is missing, or everything."""
    return data[: draw.randrange(len(data) + 1)]


def insert(data: bytes, draw: Random) -> bytes:
    """Something is put in, in the place of what stood there or between."""
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(TOKENS) + data[at + draw.choice((0, 0, 1, 8, 64)) :]


def swap_lines(data: bytes, draw: Random) -> bytes:
    """A line is gone, twice there, or in another place."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    line = lines.pop(draw.randrange(len(lines)))
    for _ in range(draw.randrange(3)):
        lines.insert(draw.randrange(len(lines) + 1), line)
    return b"".join(lines)


def change_value(data: bytes, draw: Random) -> bytes:
    """One value of a JSON document, or of one of its lines, is another; other data are flipped."""
    lines = data.splitlines(keepends=True)
    at = draw.randrange(len(lines)) if lines else 0
    for whole in (True, False):
        part = data if whole else (lines[at] if lines else b"")
        try:
            document = json.loads(part)
        except (ValueError, RecursionError):
            continue
        places = [*_places(document)]
        if not places:
            continue
        holder, name = draw.choice(places)
        if draw.random() < 0.2:
            del holder[name]
        else:
            holder[name] = draw.choice(VALUES)
        changed = json.dumps(document, ensure_ascii=draw.random() < 0.5).encode(errors="surrogatepass")
        return changed if whole else b"".join([*lines[:at], changed + b"\n", *lines[at + 1 :]])
    return flip(data, draw)


def change_number(data: bytes, draw: Random) -> bytes:
    """One run of digits is another number."""
    spans = [(at, _end_of_digits(data, at)) for at in range(len(data)) if _begins_digits(data, at)]
    if not spans:
        return insert(data, draw)
    start, end = draw.choice(spans)
    number = draw.choice(
        (b"0", b"-1", b"1e999", b"nan", b"99999999999999999999", b"", b"1.5", b"1e-320", b"4294967296")
    )
    return data[:start] + number + data[end:]


def _begins_digits(data: bytes, at: int) -> bool:
    return data[at : at + 1].isdigit() and not data[at - 1 : at].isdigit()


def _end_of_digits(data: bytes, at: int) -> int:
    while data[at : at + 1].isdigit():
        at += 1
    return at


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder and name in a JSON document."""
    names = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for name in [*names]:
        yield value, name
        yield from _places(value[name])


MUTATIONS: tuple[Mutation, ...] = (flip, cut, insert, swap_lines, change_value, change_value, change_number)
