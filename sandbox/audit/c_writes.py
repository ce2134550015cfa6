"""C, C++, CUDA and HIP: storing into what a function was given as constant data, with its `const` cast away."""

import re
from collections.abc import Iterator

from ridgeline.sandbox.audit.c_source import CFunction, CSource
from ridgeline.sandbox.audit.rules import Hit

STORES = re.compile(r"[-+*/%&|^]?=")
FILLS = frozenset({"memset", "memcpy", "memmove"})


def hits(source: CSource) -> Iterator[Hit]:
    """`((float *)x)[i] = 0` and its kin, for a parameter that is a pointer to constant data."""
    for function in source.functions:
        constant = _constant(function)
        if constant:
            for first, last in _casts(source, function, constant):
                if _stored(source, first, last) or _stored_by_name(source, function, first):
                    yield Hit(rule="foreign-memory", line=source.tokens[first].line)


def _constant(function: CFunction) -> set[str]:
    """Parameters that are pointers to constant data; a constant pointer to data is none."""
    found: set[str] = set()
    part: list[str] = []
    for word in [*(token.text for token in function.head), ","]:
        if word != ",":
            part.append(word)
            continue
        star = part.index("*") if "*" in part else len(part)
        if {"*", "["} & set(part) and "const" in part[:star] and part.count("*") < 2:
            names = [name for name in part if re.fullmatch(r"[A-Za-z_]\w*", name)]
            found |= set(names[-1:])
        part = []
    return found


def _casts(source: CSource, function: CFunction, constant: set[str]) -> Iterator[tuple[int, int]]:
    """First and last token of each cast of a parameter to a pointer that is not to constant data."""
    for at in range(function.begin, function.end):
        opened = source.text(at) == "("
        close = source.closing(at)
        words = [source.text(step) for step in range(at + 1, close)]
        if opened and words[-1:] == ["*"] and "const" not in words and source.text(close + 1) in constant:
            yield at, close + 1
        if source.text(at) == "const_cast" and source.text(at + 1) == "<":
            step = at + 2
            while step < function.end and source.text(step) not in {"(", ";"}:
                step += 1
            if source.text(step) == "(" and source.text(step + 1) in constant and source.closing(step) == step + 2:
                yield at, step + 2


def _stored(source: CSource, first: int, last: int) -> bool:
    """Whether the expression is assigned to at once, or filled by a function of the C library."""
    while source.text(first - 1) == "(" and source.text(first - 2) not in FILLS and source.text(last + 1) == ")":
        first, last = first - 1, last + 1
    after = source.text(last + 1)
    if after == "[":
        return _assigned(source, source.closing(last + 1) + 1)
    if source.text(first - 1) == "(" and source.text(first - 2) in FILLS:
        return True
    if source.text(first - 1) == "(" and source.text(first - 2) == "*" and _begins(source, first - 2):
        return _assigned(source, source.closing(first - 1) + 1)
    return source.text(first - 1) == "*" and _begins(source, first - 1) and _assigned(source, last + 1)


def _stored_by_name(source: CSource, function: CFunction, first: int) -> bool:
    """`float *room = (float *)x;` and later `room[i] = 0` or `*room = 0`."""
    if source.text(first - 1) != "=" or source.tokens[first - 2].kind != "name":
        return False
    name = source.text(first - 2)
    for at in range(first, function.end):
        if source.text(at) != name:
            continue
        step = at + 1 + (source.text(at + 1) in {"++", "--"})
        if source.text(step) == "[" and _assigned(source, source.closing(step) + 1):
            return True
        if source.text(at - 1) == "*" and _begins(source, at - 1) and _assigned(source, step):
            return True
    return False


def _assigned(source: CSource, at: int) -> bool:
    return bool(STORES.fullmatch(source.text(at))) or source.text(at) in {"++", "--"}


def _begins(source: CSource, at: int) -> bool:
    """Whether a `*` stands where a statement begins: there it is no product and no declaration."""
    return source.text(at - 1) in {";", "{", "}", ")", "else", "do"}
