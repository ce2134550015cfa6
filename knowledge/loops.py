"""Edits of C that need no pattern: a pragma before loops, `restrict` on pointer parameters."""

import re
from collections.abc import Iterator

from ridgeline.knowledge.source import Token, closing, tokens

_TYPE_WORDS = frozenset({"return", "else", "case", "goto", "typedef"})


def before_loops(text: str, pragma: str, *, innermost: bool) -> str:
    """The pragma on a line of its own before each innermost (or outermost) `for` that has no pragma yet."""
    stream = tokens(text, "c")
    spans = [(index, _loop_end(stream, index)) for index, token in enumerate(stream) if token.text == "for"]
    chosen = [
        (start, end)
        for start, end in spans
        if not any(_holds(one, other) for one, other in _pairs((start, end), spans, innermost=innermost))
    ]
    for start, _ in reversed(chosen):
        if start and stream[start - 1].kind == "directive" and "pragma" in stream[start - 1].text:
            continue
        offset = stream[start].start
        begin = text.rfind("\n", 0, offset) + 1
        lead = text[begin:offset]
        if lead.strip():
            continue
        text = f"{text[:begin]}{lead}{pragma}\n{text[begin:]}"
    return text


def _pairs(
    span: tuple[int, int], spans: list[tuple[int, int]], *, innermost: bool
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    others = [other for other in spans if other != span]
    return [(span, other) if innermost else (other, span) for other in others]


def _holds(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer[0] < inner[0] and inner[1] <= outer[1]


def _loop_end(stream: tuple[Token, ...], at: int) -> int:
    head = closing(stream, at + 1) + 1
    return closing(stream, head) if head < len(stream) and stream[head].text == "{" else head


def add_restrict(text: str, *, plain_c: bool) -> str:
    """Every function definition with two or more pointer parameters gets `restrict` on those that lack it."""
    word = "restrict" if plain_c else "__restrict__"
    stream = tokens(text, "c")
    stars: list[Token] = []
    for index, depth in enumerate(_depths(stream[:-1])):
        if depth or stream[index].text != "(" or not index or stream[index - 1].kind != "name":
            continue
        end = closing(stream, index)
        if end + 1 < len(stream) and stream[end + 1].text == "{":
            stars += _plain_pointers(stream[index + 1 : end])
    for star in reversed(stars):
        text = f"{text[: star.end]}{word} {text[star.end :].lstrip(' ')}"
    return text


def _depths(stream: tuple[Token, ...]) -> Iterator[int]:
    """Braces open at each token; `extern "C" {` and namespaces do not count."""
    depth = 0
    for index, token in enumerate(stream):
        yield depth
        if token.text == "{" and not _scope(stream, index):
            depth += 1
        elif token.text == "}" and depth:
            depth -= 1


def _scope(stream: tuple[Token, ...], at: int) -> bool:
    return at > 0 and (stream[at - 1].kind == "string" or stream[max(at - 2, 0)].text == "namespace")


def _plain_pointers(params: tuple[Token, ...]) -> list[Token]:
    """The last star of each pointer parameter, when there are at least two; none if one already says restrict."""
    if any(re.fullmatch(r"(__)?restrict(__)?", token.text) for token in params):
        return []
    stars = [
        token
        for index, token in enumerate(params)
        if token.text == "*" and index + 1 < len(params) and params[index + 1].kind == "name"
    ]
    return stars if len(stars) >= 2 else []
