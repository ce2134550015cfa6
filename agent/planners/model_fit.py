"""Text from outside made fit to be shown to a model: plain, bounded with the elision stated, fenced as data."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Count = Callable[[str], int]
"""Tokens of a text."""

ELIDED = " left out]"
"""Ends every note about text that is not shown."""
SAFETY = 0.95
"""Share of the room that a first cut takes: tokens are not spread evenly over a text."""
SMALLEST = 60
"""Characters below which cutting further is pointless."""
RADII = (200, 100, 50, 25, 10, 3)
"""Lines around a place of interest, widest first."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


def plain(text: str) -> str:
    """Without terminal colours and control characters; tabs and line ends stay."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def fenced(text: str, label: str = "") -> str:
    """A code block that its content cannot close: the fence is longer than every run of backticks inside."""
    body = plain(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`{3,}", body)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{re.sub(r'[^A-Za-z0-9_+-]', '', label)}\n{body}\n{fence}"


def bounded(text: str, *, tokens: int, count: Count) -> str:
    """The whole text, or its beginning and end with what is between them stated; at most about `tokens`."""
    whole = count(text)
    if whole <= tokens:
        return text
    size = int(len(text) * tokens / whole * SAFETY)
    cut = _ends(text, size)
    while size > SMALLEST and count(cut) > tokens:
        size = int(size * 0.8)
        cut = _ends(text, size)
    return cut


def clipped(text: str, characters: int) -> str:
    """One line of at most so many characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= characters else f"{line[: max(0, characters - 4)].rstrip()} ..."


def numbered(text: str, *, tokens: int, count: Count, focus: Iterable[int] = ()) -> str:
    """Lines with their numbers; where they do not fit, those around the lines in `focus` and the first ones."""
    return _shown(text, tokens=tokens, count=count, focus=tuple(focus), number=True)


def excerpt(text: str, *, tokens: int, count: Count, focus: Iterable[int] = ()) -> str:
    """Lines exactly as they are; where they do not fit, those around `focus` and the first ones, with gaps stated."""
    return _shown(text, tokens=tokens, count=count, focus=tuple(focus), number=False)


def _shown(text: str, *, tokens: int, count: Count, focus: tuple[int, ...], number: bool) -> str:
    lines = text.splitlines()
    whole = _joined(lines, range(1, len(lines) + 1), number=number)
    needed = count(whole)
    if needed <= tokens:
        return whole
    if not focus:
        return bounded(whole, tokens=tokens, count=count)
    places = (1, *focus)
    found = whole
    for radius in RADII:
        chosen = sorted(
            {line for place in places for line in range(place - radius, place + radius + 1) if 1 <= line <= len(lines)}
        )
        found = _joined(lines, chosen, number=number)
        if len(chosen) * needed <= tokens * len(lines) and count(found) <= tokens:
            return found
    return bounded(found, tokens=tokens, count=count)


def _joined(lines: Sequence[str], chosen: Sequence[int], *, number: bool) -> str:
    width = len(str(len(lines)))
    out: list[str] = []
    before = 0
    for line in chosen:
        if line != before + 1:
            out.append(f"[lines {before + 1}-{line - 1} left out]")
        out.append(f"{line:>{width}}| {lines[line - 1]}" if number else lines[line - 1])
        before = line
    if before < len(lines):
        out.append(f"[lines {before + 1}-{len(lines)} left out]")
    return "\n".join(out)


def _ends(text: str, size: int) -> str:
    """Two thirds from the beginning, one from the end, cut at line ends where there are any."""
    head, tail = text[: size * 2 // 3], text[len(text) - size // 3 :]
    head = head[: head.rfind("\n")] if "\n" in head else head
    tail = tail[tail.find("\n") + 1 :] if "\n" in tail else tail
    between = text[len(head) : len(text) - len(tail)]
    return f"{head}\n[{between.count(chr(10))} lines, {len(between)} characters left out]\n{tail}"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One section of a context."""

    name: str
    share: float
    """Of the whole budget, at most."""
    make: Callable[[int], str]
    """Tokens -> a text of at most about that many; empty when there is nothing to say."""


def composed(parts: Sequence[Part], *, budget: int, count: Count) -> dict[str, str]:
    """The parts by name, the first ones first served; one that finds no room says so."""
    found: dict[str, str] = {}
    left = budget
    for part in parts:
        room = min(left, int(budget * part.share))
        text = part.make(max(room, 0))
        size = count(text) if text else 0
        if size > max(left, 0):
            text = f"(left out: the context of {budget} tokens is full)"
            size = 0
        found[part.name] = text
        left -= size
    return found
