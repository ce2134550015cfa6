"""JSON out of a model's answer: in fences or in prose, with the mistakes that models make."""

import json
import re
from collections.abc import Iterator
from typing import Any

from ridgeline.graph.values import Value

QUOTED = 160
"""Characters of the answer that a complaint quotes around the mistake."""
_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.S | re.I)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)^[ \t]*\1", re.M | re.S)


class Wrong(Value):
    """An answer that cannot be used, in words that its author can act on."""

    why: str


def json_of(text: str) -> Any | Wrong:
    """The first object or list that the answer holds, comments and trailing commas forgiven; else what is wrong."""
    said = without_thoughts(text)
    first: Wrong | None = None
    for candidate in _candidates(said):
        found = _loaded(candidate)
        if isinstance(found, dict | list):
            return found
        if first is None and isinstance(found, Wrong):
            first = found
    if first is not None:
        return first
    if not said.strip():
        return Wrong(why="the answer is empty")
    return Wrong(why=f"the answer holds no JSON object; it begins {said.strip()[:QUOTED]!r}")


def without_thoughts(text: str) -> str:
    """The answer without what a reasoning model thought aloud, also where only the end of the thought was sent."""
    said = _THOUGHT.sub("", text)
    return re.split(r"</think(?:ing)?>", said, flags=re.I)[-1]


def _candidates(text: str) -> Iterator[str]:
    for match in _FENCE.finditer(text):
        yield match[2]
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    while start >= 0:
        end = _closing(text, start)
        yield text[start : end + 1] if end is not None else text[start:]
        if end is None:
            return
        start = min((at for at in (text.find("{", end + 1), text.find("[", end + 1)) if at >= 0), default=-1)


def _closing(text: str, start: int) -> int | None:
    """Where the bracket at `start` is closed; None where it never is."""
    depth, quoted, at = 0, False, start
    while at < len(text):
        letter = text[at]
        if quoted:
            at += letter == "\\"
            quoted = letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "{[":
            depth += 1
        elif letter in "}]":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return None


def _loaded(text: str) -> Any | Wrong:
    wrong = Wrong(why="the answer holds no JSON")
    for attempt in (text.strip(), _mended(text.strip())):
        try:
            return json.loads(attempt, strict=False, parse_constant=_refused)
        except json.JSONDecodeError as error:
            place = attempt[max(0, error.pos - QUOTED // 2) : error.pos + QUOTED // 2]
            wrong = Wrong(why=f"the JSON cannot be read: {error.msg} at line {error.lineno}, near {place!r}")
        except (RecursionError, ValueError) as error:
            wrong = Wrong(why=f"the JSON cannot be read: {str(error)[:QUOTED]}")
    return wrong


def _refused(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _mended(text: str) -> str:
    """Without comments and trailing commas outside strings."""
    return re.sub(
        r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', lambda match: match[1] or "", text, flags=re.S
    )
