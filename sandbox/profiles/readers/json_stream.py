"""Walks a large JSON document element by element, so that memory stays bounded by one element and a buffer."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ridgeline.sandbox.profiles.readers.files import RecordingError, is_packed

CHUNK = 1 << 20
_DEPTH = 5
"""Objects and lists down to here are walked; what lies deeper comes whole."""
_BLANK = " \t\r\n"
Path_ = tuple[str, ...]


def elements(path: Path, *, into: int = 2) -> Iterator[tuple[Path_, Any]]:
    """Reading a profile: (keys from the root, value): each element of the lists near the root, and each plain value there.

    A list adds `[]` to the keys; elements of a list with more than `into` keys come whole. Raises `RecordingError` with
    the line where the text stops being JSON.
    """
    packed = is_packed(path)
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig") if packed else path.open(encoding="utf-8-sig") as stream:
            text = _Text(path, stream)
            yield from _walk(text, (), into)
            if text.peek(at_end=True):
                raise text.fault("text after the end of the document")
    except UnicodeDecodeError as error:
        raise RecordingError(path, "not UTF-8 text: the file is damaged") from error
    except (OSError, EOFError, zlib.error) as error:
        raise RecordingError(path, f"cannot be read: {error}") from error
    except RecursionError as error:
        raise RecordingError(path, "nested deeper than any profiler writes: the file is damaged") from error


def _walk(text: "_Text", keys: Path_, into: int) -> Iterator[tuple[Path_, Any]]:
    opening = text.peek()
    if len(keys) >= _DEPTH or opening not in "{[":
        yield keys, text.value()
    elif opening == "[":
        yield from _members(text, keys, into, "]")
    else:
        yield from _members(text, keys, into, "}")


def _members(text: "_Text", keys: Path_, into: int, close: str) -> Iterator[tuple[Path_, Any]]:
    text.take()
    if text.peek() == close:
        text.take()
        return
    while True:
        if close == "]":
            yield from _element(text, (*keys, "[]"), into)
        else:
            key = text.value()
            if not isinstance(key, str) or text.take() != ":":
                raise text.fault("a key and a colon were expected")
            yield from _walk(text, (*keys, key), into)
        mark = text.take()
        if mark == close:
            return
        if mark != ",":
            raise text.fault(f"{mark!r} where a comma or {close!r} was expected")


def _element(text: "_Text", keys: Path_, into: int) -> Iterator[tuple[Path_, Any]]:
    """Reading a profile: elements of the lists nearest to the root are walked; those of all other lists come whole."""
    if len(keys) <= into:
        yield keys, None
        yield from _walk(text, keys, into)
    else:
        yield keys, text.value()


class _Text:
    def __init__(self, path: Path, stream: IO[str]) -> None:
        self._path, self._stream = path, stream
        self._text, self._at, self._line = "", 0, 1
        self._decoder = json.JSONDecoder(parse_constant=self._constant)

    def _constant(self, word: str) -> float:
        raise self.fault(f"{word} is no number")

    def fault(self, what: str) -> RecordingError:
        return RecordingError(
            self._path, f"{what}: the file is cut or damaged", line=self._line + self._text.count("\n", 0, self._at)
        )

    def _more(self, size: int = CHUNK) -> bool:
        fresh = self._stream.read(size)
        self._line += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :] + fresh, 0
        return bool(fresh)

    def peek(self, *, at_end: bool = False) -> str:
        """Reading a profile: the next letter that is not blank; "" at the end where that is allowed."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                if at_end:
                    return ""
                raise self.fault("the document ends in the middle")

    def take(self) -> str:
        """Reading a profile: the next letter that is not blank, consumed."""
        letter = self.peek()
        self._at += 1
        return letter

    def value(self) -> Any:
        """Reading a profile: the next value, whole."""
        self.peek()
        size = CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._more(size):
                    raise self.fault(error.msg) from error
            else:
                # a number at the buffer's end may go on behind it
                if end < len(self._text) or not self._more(size):
                    self._at = min(end, len(self._text)) if end < len(self._text) else len(self._text)
                    return value
            size *= 2
