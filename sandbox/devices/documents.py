"""The JSON documents in what a tool printed: warnings may stand before them, and one may be printed twice."""

import json
import re

from ridgeline.sandbox.devices.values import Unreadable

START = re.compile(r'^[ \t]*(?=\{\s*["}]|\[\s*[\{\]])', re.MULTILINE)
"""Where a document begins: `[WARN] low power` is none."""


def has_documents(text: str) -> bool:
    """Whether any JSON begins in the text."""
    return START.search(text) is not None


def documents(text: str, source: str) -> tuple[object, ...]:
    """Every whole document, one that repeats the one before it left out. Raises Unreadable where one is broken."""
    found: list[object] = []
    at = 0
    while (begin := START.search(text, at)) is not None:
        try:
            one, at = json.JSONDecoder(parse_constant=_refuse).raw_decode(text, begin.end())
        except (ValueError, RecursionError) as error:
            position = error.pos if isinstance(error, json.JSONDecodeError) else begin.end()
            position = min(position, len(text.rstrip()))
            cut = position == len(text.rstrip()) or "Unterminated string" in str(error)
            why = "the JSON is cut off" if cut else f"the JSON is broken ({_words(error)})"
            raise Unreadable(source, line=text.count("\n", 0, position) + 1, why=why) from None
        if not found or one != found[-1]:
            found.append(one)
    return tuple(found)


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _words(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
