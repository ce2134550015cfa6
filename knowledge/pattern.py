"""Structural patterns: template text with holes, matched against tokens, like a small comby.

Holes are `$name` or `$name:kind`; kinds: expr (default), atom (a postfix expression), lv (an assignable), id, num,
type, stmts (statements without loops or jumps, possibly none). A hole that returns must match equal tokens. Macros:
`$for(i, a, n)` is any counting loop header, `$add(x, e)` is `x += e` or `x = x + e`, `$mul(A, B)` either order.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from ridgeline.knowledge.source import Lang, Token, closing, tokens

Kind = str
Bindings = dict[str, tuple[Token, ...]]
ADVICE = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+(?:GCC[ \t]+(?:unroll|ivdep)|unroll)\b")
_LONGEST = 400
_HOLE = re.compile(r"\$(\w+)(?::(\w+))?")
_MACRO = re.compile(r"\$(for|add|mul)\(")
_ASSIGN = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", ":="})
_STOPS = frozenset({";", "{", "}"})
_JUMPS = frozenset({"for", "while", "do", "goto", "return", "break", "continue"})
_NOT_NAMES = frozenset({"return", "for", "if", "while", "else", "do", "case", "sizeof"})


@dataclass(frozen=True)
class Hole:
    """A named gap in a pattern."""

    name: str
    kind: Kind


Atom = str | Hole


@dataclass(frozen=True)
class Match:
    """Where a pattern stands in a text, in characters, and what its holes hold."""

    start: int
    end: int
    bound: Mapping[str, tuple[Token, ...]]


def search(text: str, find: str, *, lang: Lang, where: tuple[str, ...] = ()) -> Iterator[Match]:
    """Matches of a card's pattern that do not overlap, first to last; `where` are conditions such as `lacks A j`.

    Advice to the compiler about a loop is no part of its structure: such pragmas are looked through.
    """
    stream, words = _stream(text, lang), _words(text, lang)  # a spelling with other words stands nowhere in the text
    patterns = tuple(atoms for atoms in _patterns(find, lang) if words.issuperset(a for a in atoms if type(a) is str))
    heads = {atoms[0] for atoms in patterns}
    anywhere = not all(isinstance(head, str) for head in heads)
    past = 0
    for at, token in enumerate(stream):
        if at < past or not (anywhere or token.text in heads):
            continue
        match = _first_match(stream, patterns, at, where)
        if match is not None:
            past, bound = match
            yield Match(token.start, stream[past - 1].end, bound)


@lru_cache(maxsize=64)
def _stream(text: str, lang: Lang) -> tuple[Token, ...]:
    return tuple(token for token in tokens(text, lang) if not ADVICE.match(token.text))


@lru_cache(maxsize=64)
def _words(text: str, lang: Lang) -> frozenset[str]:
    return frozenset(token.text for token in _stream(text, lang))


@lru_cache(maxsize=1024)
def _patterns(find: str, lang: Lang) -> tuple[tuple[Atom, ...], ...]:
    """Every spelling of a pattern, ready to be walked: the cards' patterns are asked for each round."""
    return tuple(_atoms(variant, lang) for variant in expand(find))


def expand(find: str) -> list[str]:
    """All spellings of a pattern: macros are replaced by what they stand for."""
    match = _MACRO.search(find)
    if match is None:
        return [find]
    args, end = macro_arguments(find, match.end())
    before, after = find[: match.start()], expand(find[end:])
    forms = _spellings(match.group(1), args)
    return [before + form + rest for form, rest in product(forms, after)]


def macro_arguments(text: str, at: int) -> tuple[list[str], int]:
    """The comma separated arguments of a pattern's macro whose parenthesis opened before `at`, and where it ends."""
    args, depth, begin = [], 1, at
    while at < len(text):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0 or (depth == 1 and text[at] == ","):
            args.append(text[begin:at].strip())
            begin = at + 1
        at += 1
        if depth == 0:
            return args, at
    raise ValueError("a macro's parenthesis is never closed")


def _spellings(macro: str, args: list[str]) -> list[str]:
    if macro == "mul":
        return [f"{args[0]} * {args[1]}", f"{args[1]} * {args[0]}"]
    if macro == "add":
        return [form for e in expand(args[1]) for form in (f"{args[0]} += {e}", f"{args[0]} = {args[0]} + {e}")]
    i, start, stop = args[0].strip(), args[1], args[2]
    return [f"for (${i}_type:opt ${i}:id = {start}; ${i} < {stop}; ${i}:inc)"]


def _atoms(find: str, lang: Lang) -> tuple[Atom, ...]:
    """A pattern as literals and holes. Holes are hidden as identifiers while the text is cut into tokens."""
    holes: list[Hole] = []

    def hide(match: re.Match[str]) -> str:
        holes.append(Hole(match.group(1), match.group(2) or ""))
        return f" HOLE_{len(holes) - 1}_ "

    hidden = _HOLE.sub(hide, find.strip())
    kinds = {hole.name: hole.kind for hole in reversed(holes) if hole.kind not in ("", "inc")}
    out: list[Atom] = []
    for token in tokens(hidden, lang):
        slot = re.fullmatch(r"HOLE_(\d+)_", token.text)
        if slot is None:
            out.append(token.text)
            continue
        hole = holes[int(slot.group(1))]
        out.append(hole if hole.kind == "inc" else Hole(hole.name, kinds.get(hole.name, "expr")))
    return tuple(out)


def _first_match(
    stream: tuple[Token, ...], patterns: tuple[tuple[Atom, ...], ...], at: int, where: tuple[str, ...]
) -> tuple[int, Bindings] | None:
    for atoms in patterns:
        if isinstance(atoms[0], str) and atoms[0] != stream[at].text:
            continue
        for end, bound in _walk(stream, atoms, at, {}):
            if end > at and all(holds(condition, bound) for condition in where):
                return end, bound
    return None


def _walk(
    stream: tuple[Token, ...], atoms: tuple[Atom, ...], at: int, bound: Bindings
) -> Iterator[tuple[int, Bindings]]:
    """For a card's pattern: backtracking: every way to match its atoms from `at`."""
    if not atoms:
        yield at, bound
        return
    head, rest = atoms[0], atoms[1:]
    if isinstance(head, str):
        if at < len(stream) and stream[at].text == head:
            yield from _walk(stream, rest, at + 1, bound)
        return
    if head.kind != "inc" and head.name in bound:
        bound_tokens = bound[head.name]
        if [t.text for t in stream[at : at + len(bound_tokens)]] == [t.text for t in bound_tokens]:
            yield from _walk(stream, rest, at + len(bound_tokens), bound)
        return
    for end in _ends(stream, head, at, bound):
        grown = bound if head.kind == "inc" else {**bound, head.name: stream[at:end]}
        yield from _walk(stream, rest, end, grown)


def _ends(stream: tuple[Token, ...], hole: Hole, at: int, bound: Bindings) -> Iterator[int]:
    """Where a pattern's hole that begins at `at` may end, nearest first."""
    match hole.kind:
        case "id":
            if at < len(stream) and stream[at].kind == "name" and stream[at].text not in _NOT_NAMES:
                yield at + 1
        case "num":
            sign = at < len(stream) and stream[at].text == "-"
            if at + sign < len(stream) and stream[at + sign].kind == "number":
                yield at + sign + 1
        case "inc":
            yield from _increments(stream, at, bound[hole.name][0].text)
        case "type" | "opt":
            yield from _types(stream, at, hole.kind == "opt")
        case "atom" | "lv":
            yield from _postfix(stream, at, hole.kind == "lv")
        case "stmts":
            yield from _statements(stream, at)
        case _:
            yield from _expressions(stream, at)


def _increments(stream: tuple[Token, ...], at: int, name: str) -> Iterator[int]:
    words = [t.text for t in stream[at : at + 3]]
    if words[:2] in ([name, "++"], ["++", name]):
        yield at + 2
    elif words == [name, "+=", "1"]:
        yield at + 3


def _types(stream: tuple[Token, ...], at: int, optional: bool) -> Iterator[int]:
    if optional:
        yield at
    end = at
    while end < len(stream) and (stream[end].kind == "name" or (stream[end].text == "*" and end > at)):
        if stream[end].text in _NOT_NAMES:
            return
        end += 1
        yield end


def _postfix(stream: tuple[Token, ...], at: int, assignable: bool) -> Iterator[int]:
    """For a pattern's hole: a name or a parenthesis with its subscripts, members and calls: nothing binds tighter."""
    if at >= len(stream) or stream[at].text in _NOT_NAMES:
        return
    if stream[at].kind == "number" and not assignable:
        yield at + 1
    if stream[at].kind == "name":
        end = at + 1
    elif stream[at].text == "(" and not assignable:
        end = closing(stream, at) + 1
    else:
        return
    suffixes = ("[",) if assignable else ("[", "(")
    while end < len(stream) and (stream[end].text in suffixes or stream[end].text in (".", "->")):
        end = closing(stream, end) + 1 if stream[end].text in suffixes else end + 2
    yield end


def _expressions(stream: tuple[Token, ...], at: int) -> Iterator[int]:
    end = at
    while end < len(stream) and end - at < _LONGEST:
        token = stream[end]
        if token.text in _STOPS or token.kind in ("directive", "newline") or token.text in (",", ")", "]"):
            return
        if token.text in _ASSIGN or (token.text in _NOT_NAMES and token.text != "sizeof"):
            return
        end = closing(stream, end) + 1 if token.text in ("(", "[") else end + 1
        yield end


def _statements(stream: tuple[Token, ...], at: int) -> Iterator[int]:
    yield at
    end = at
    while end < len(stream) and end - at < _LONGEST:
        token = stream[end]
        if token.text in _JUMPS or token.text in ("}", "{") or token.kind == "directive":
            return
        end = closing(stream, end) + 1 if token.text in ("(", "[") else end + 1
        if token.text == ";":
            yield end


def holds(condition: str, bound: Mapping[str, tuple[Token, ...]]) -> bool:
    """Whether a condition on a pattern's holes is true. ValueError for an unknown one.

    `has A i`, `lacks A i`, `unit A i` (A steps by one element when i does), `differ A B`, `inside A B` (A reads B's
    array only as B), `word A text` (A contains the token).
    """
    verb, left, right = condition.split()
    texts = [token.text for token in bound.get(left, ())]
    if verb == "word":
        return right in texts
    other_texts = [token.text for token in bound.get(right, ())]
    match verb:
        case "has":
            return len(other_texts) == 1 and other_texts[0] in texts
        case "lacks":
            return len(other_texts) != 1 or other_texts[0] not in texts
        case "differ":
            return texts != other_texts
        case "inside":
            return _only_whole(texts, other_texts)
        case "unit":
            return len(other_texts) == 1 and _unit(texts, other_texts[0])
        case _:
            raise ValueError(f"unknown condition {verb!r}")


def _only_whole(texts: list[str], part: list[str]) -> bool:
    """Whether a pattern's matched array is read, and only ever as that whole part."""
    count = sum(texts[at : at + len(part)] == part for at in range(len(texts)))
    return bool(part) and count > 0 and texts.count(part[0]) == count


def _unit(texts: list[str], name: str) -> bool:
    """Whether a pattern's name stands once, in the last subscript, and only between plus signs and brackets."""
    if texts.count(name) != 1 or not texts or texts[-1] != "]":
        return False
    at, depth = texts.index(name), 0
    for text in reversed(texts[at + 1 :]):
        if depth == 0 and text != "]":
            return False
        depth += (text in ("]", ")")) - (text in ("[", "("))
        if depth == 0:
            return False
    return depth == 1 and texts[at - 1] in ("[", "+") and texts[at + 1] in ("]", "+")
