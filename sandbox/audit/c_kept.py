"""C, C++, CUDA and HIP: what is left from an earlier call and given out, compared or counted.

Workspaces are left from call to call as well: what a function fills before it hands it on is one.
"""

import re
from collections.abc import Iterator, Mapping

from ridgeline.sandbox.audit import c_counts
from ridgeline.sandbox.audit.c_source import CFunction, CSource, Token, strings
from ridgeline.sandbox.audit.rules import Hit

COPIES = frozenset({"memcpy", "cudaMemcpy", "cudaMemcpyAsync", "hipMemcpy", "hipMemcpyAsync", "memmove", "copy_n"})
COMPARES = frozenset({"memcmp", "bcmp", "strcmp"})
VERSION = re.compile(r"v|ver\w*|\w*version|gen|generation|epoch|stamp|serial")
SCALARS = re.compile(
    r"int|float|double|size_t|bool|_Bool|unsigned|signed|long|short|char|void|u?int(?:8|16|32|64)_t|s?size_t|ptrdiff_t"
)


def hits(source: CSource, statics: Mapping[str, Token]) -> Iterator[Hit]:
    """A lasting variable is returned, copied to the output, compared with an argument, or counts the calls."""
    yield from _done_before(source, statics)
    yield from _looks_at_output(source)
    seen: set[tuple[str, str]] = set()
    for at, token in enumerate(source.tokens):
        if token.kind != "name" or token.text not in statics or source.around(at) is None:
            continue
        rule = _use(source, at, token.text)
        if rule and (rule, token.text) not in seen:
            seen.add((rule, token.text))
            yield Hit(rule=rule, line=token.line)


def _use(source: CSource, at: int, name: str) -> str:
    before, after = source.text(at - 1), source.text(at + 1)
    given = before == "return" and after in {";", "[", "."} and _gives_a_result(source, at)
    if (given or _source_of_copy(source, at) or _given_before_filled(source, at, name)) and not _workspace(
        source, at, name
    ):
        return "kept-output"
    if _compared_by_value(source, at):
        return "content-cache"
    if after == "=" and _remembers_pointer(source, at, name):
        return "address-cache"
    if "++" in (before, after) or (after == "+=" and source.text(at + 2) == "1"):
        return "call-count" if c_counts.decides(source, name) else ""
    function = source.around(at)
    if (before == "==" or after == "==") and _compared_with_argument(source, at):
        return "" if function and _of_a_version(source, function, name) else "address-cache"
    return ""


def _source_of_copy(source: CSource, at: int) -> bool:
    """`memcpy(out, kept, n)` and the like: the second argument."""
    for call in source.calls:
        if call.name in COPIES and call.at < at < call.end:
            return source.text(at - 1) == "," and sum(source.text(i) == "," for i in range(call.at, at)) == 1
    return False


def _given_before_filled(source: CSource, at: int, name: str) -> bool:
    """`c[i] = kept[i];` where only what follows stores into `kept` what the function is given."""
    function = source.around(at)
    if function is None or not _works(function) or source.text(at + 1) != "[":
        return False
    begin = at
    while source.text(begin - 1) not in {";", "{", "}", ")"} and begin > function.begin:
        begin -= 1
    if source.text(begin) not in _outputs(function) or not _stored(source, begin):
        return False
    given = c_counts.parameters(function)
    return any(
        source.text(step) == name
        and _stored(source, step)
        and bool(given & set(source.names(source.closing(step + 1), _end_of_statement(source, step))))
        for step in range(at + 1, function.end)
    )


def _tested(source: CSource, name: str) -> bool:
    for at, token in enumerate(source.tokens):
        branch = token.kind == "name" and token.text == "if" and source.text(at + 1) == "("
        if branch and name in source.names(at + 2, source.closing(at + 1)):
            return True
        if token.text == "?" and name in source.names(max(0, at - 8), at):
            return True
    return False


def _compared_with_argument(source: CSource, at: int) -> bool:
    """Whether the other side of `==` is a parameter, which is an address where it has a `*`."""
    function = source.around(at)
    other = source.text(at + 2) if source.text(at + 1) == "==" else source.text(at - 2)
    if function is None:
        return False
    pointers = {
        function.head[i + 1].text
        for i, t in enumerate(function.head[:-1])
        if t.text in {"*", "__restrict__", "restrict"}
    }
    return other in pointers or other in {"data_ptr", "ptr", "key"}


def _done_before(source: CSource, statics: Mapping[str, Token]) -> Iterator[Hit]:
    """`if (seen[n]) return;` in a function with inputs and outputs: its work was done by an earlier call."""
    for at, token in enumerate(source.tokens):
        if token.kind != "name" or token.text != "if" or source.text(at + 1) != "(":
            continue
        close = source.closing(at + 1)
        braced = source.text(close + 1) == "{"
        ends = source.text(close + 1 + braced) == "return" and source.text(close + 2 + braced) == ";"
        function = source.around(at)
        asked = ends and function is not None and _works(function)
        if asked and any(name in statics for name in source.names(at + 2, close)):
            yield Hit(rule="call-count", line=token.line)


def _looks_at_output(source: CSource) -> Iterator[Hit]:
    """A comparison with what an output holds before anything was written to it, as a result of an earlier call."""
    for function in source.functions:
        if not _works(function):
            continue
        for name in _outputs(function):
            places = [at for at in range(function.begin, function.end) if source.text(at) == name]
            if places and source.text(places[0] + 1) == "[" and not _stored(source, places[0]):
                end = _end_of_statement(source, places[0])
                if {"<", ">", "==", "!=", "<=", ">="} & {source.text(step) for step in range(places[0], end)}:
                    yield Hit(rule="reads-output", line=source.tokens[places[0]].line)


def _outputs(function: CFunction) -> list[str]:
    """Pointer parameters that are not to constant data."""
    found: list[str] = []
    part: list[str] = []
    for word in [*(token.text for token in function.head), ","]:
        if word != ",":
            part.append(word)
            continue
        if {"*", "["} & set(part) and "const" not in part:
            found += [name for name in part[-1:] if re.fullmatch(r"[A-Za-z_]\w*", name)]
        part = []
    return found


def _works(function: CFunction) -> bool:
    """Whether a function has inputs and outputs, as far as its pointers say."""
    part: list[str] = []
    kinds: set[bool] = set()
    for word in [*(token.text for token in function.head), ","]:
        if word != ",":
            part.append(word)
            continue
        kinds |= {"const" in part} if {"*", "["} & set(part) else set()
        part = []
    return kinds == {True, False}


def _gives_a_result(source: CSource, at: int) -> bool:
    """Whether what is returned can be a result of the function's inputs: no number, and it has inputs."""
    function = source.around(at)
    if function is None:
        return False
    number = "*" not in function.before and any(SCALARS.fullmatch(word) for word in function.before)
    return not number and any(token.text in {"*", "[", "Tensor"} or "ensor" in token.text for token in function.head)


def _workspace(source: CSource, at: int, name: str) -> bool:
    """Whether the function filled the variable on the way to this place, which does not hang on what it held before."""
    function = source.around(at)
    if function is None or _asked_about(source, at, name):
        return False
    names = {name} | {
        source.text(step - 2)  # `float *p = kept;`
        for step in range(function.begin + 3, at)
        if [source.text(step + by) for by in (-3, -1, 0, 1)] == ["*", "=", name, ";"]
    }
    filled = any(
        source.text(step) in names and source.text(step + 1) in {"[", "="} and _stored(source, step)
        for step in range(function.begin, at)
    )
    passed = any(
        function.begin < call.at and call.end < at and call.name not in COMPARES and _argument(source, call.at, name)
        for call in source.calls
    )
    return filled or passed


def _asked_about(source: CSource, at: int, name: str) -> bool:
    """Whether the place stands under an `if` that looks at the lasting thing of that name, or compares contents."""
    for step in range(max(0, at - 400), at):
        if source.text(step) != "if" or source.text(step + 1) != "(":
            continue
        close = source.closing(step + 1)
        last = source.closing(close + 1) if source.text(close + 1) == "{" else _end_of_statement(source, close + 1)
        asked = set(source.names(step + 2, close))
        if close < at <= last and (name in asked or asked & COMPARES):
            return True
    return False


def _end_of_statement(source: CSource, at: int) -> int:
    while at < len(source.tokens) - 1 and source.text(at) != ";":
        at += 1
    return at


def _stored(source: CSource, at: int) -> bool:
    """`name[...] = ` or `name[...] +=`; a plain `name = ` gives it a place and no contents."""
    step = at + 1
    while source.text(step) == "[":
        step = source.closing(step) + 1
    return step > at + 1 and bool(re.fullmatch(r"[-+*/|&^]?=", source.text(step)))


def _argument(source: CSource, at: int, name: str) -> bool:
    return name in source.names(at + 2, source.closing(at + 1))


def _compared_by_value(source: CSource, at: int) -> bool:
    """`memcmp(kept, x, n)`: what an earlier call had is looked for in what this one has, which no quoted word is."""
    asked = [call for call in source.calls if call.name in COMPARES and call.at < at < call.end]
    words = [call for call in asked if call.name == "strcmp" and any(strings(source.arguments(call)))]
    return len(asked) > len(words)


def _remembers_pointer(source: CSource, at: int, name: str) -> bool:
    """`last = x;` for a parameter that is a pointer, where some condition asks about `last`."""
    function = source.around(at)
    if function is None or source.text(at + 3) != ";":
        return False
    head = function.head
    pointers = {head[i + 1].text for i, t in enumerate(head[:-1]) if t.text in {"*", "__restrict__", "restrict"}}
    return source.text(at + 2) in pointers and _tested(source, name) and not _of_a_version(source, function, name)


def _of_a_version(source: CSource, function: CFunction, name: str) -> bool:
    """Whether every condition on the pointer asks for a version that the caller gives as well: a packed weight."""
    given = {token.text for token in function.head if token.kind == "name" and VERSION.fullmatch(token.text)}
    asked = [
        set(source.names(at + 2, source.closing(at + 1)))
        for at in range(function.begin, function.end)
        if source.text(at) == "if" and name in source.names(at + 2, source.closing(at + 1))
    ]
    return bool(asked) and all(given & names for names in asked)
