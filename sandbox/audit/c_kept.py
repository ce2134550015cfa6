"""C, C++, CUDA and HIP: what is left from an earlier call and given out, compared or counted.

Workspaces are left from call to call as well: what a function fills before it hands it on is one.
"""

import re
from collections.abc import Iterator, Mapping

from ridgeline.sandbox.audit.c_source import CCall, CFunction, CSource, once_a_source, strings
from ridgeline.sandbox.audit.c_tokens import Token
from ridgeline.sandbox.audit.rules import Hit

COPIES = frozenset({"memcpy", "cudaMemcpy", "cudaMemcpyAsync", "hipMemcpy", "hipMemcpyAsync", "memmove", "copy_n"})
LONGEST = 500
"""Tokens of one statement that are looked at."""
COMPARES = frozenset({"memcmp", "bcmp", "strcmp"})
VERSION = re.compile(r"v|ver\w*|\w*version|gen|generation|epoch|stamp|serial")
RESTRICTIONS = frozenset({"restrict", "__restrict__", "__restrict"})
LEAVES = frozenset({"return", "goto", "break", "continue", "longjmp"})
SCALARS = re.compile(
    r"int|float|double|size_t|bool|_Bool|unsigned|signed|long|short|char|void|u?int(?:8|16|32|64)_t|s?size_t|ptrdiff_t"
)


def hits(source: CSource, statics: Mapping[str, Token]) -> Iterator[Hit]:
    """A lasting variable is returned, copied to the output, compared with an argument, or counts the calls."""
    yield from _done_before(source, statics)
    yield from _looks_at_output(source)
    reported: set[tuple[str, str]] = set()
    copies, compared = _arguments_of(source, COPIES), _arguments_of(source, COMPARES)
    for at, token in enumerate(source.tokens):
        if token.kind != "name" or token.text not in statics or source.around(at) is None:
            continue
        rule = _use(source, at, token.text, copies.get(at), compared.get(at))
        if rule and (rule, token.text) not in reported:
            reported.add((rule, token.text))
            yield Hit(rule=rule, line=token.line)


def _arguments_of(source: CSource, functions: frozenset[str]) -> dict[int, CCall]:
    """For each token between the brackets of a call of one of those functions: the outermost such call."""
    where: dict[int, CCall] = {}
    end = -1
    for call in source.calls:
        if call.name in functions and call.at >= end:
            where |= dict.fromkeys(range(call.at + 1, call.end), call)
            end = call.end
    return where


def _use(source: CSource, at: int, name: str, copy: CCall | None, compared: CCall | None) -> str:
    before, after = source.text(at - 1), source.text(at + 1)
    is_returned = before == "return" and after in {";", "[", "."} and _gives_a_result(source, at)
    if (
        is_returned or _source_of_copy(source, at, copy) or _returns_before_filling(source, at, name)
    ) and not _workspace(source, at, name):
        return "kept-output"
    if compared and not (compared.name == "strcmp" and any(strings(source.arguments(compared)))):
        return "content-cache"
    if after == "=" and _remembers_pointer(source, at, name):
        return "address-cache"
    if "++" in (before, after) or (after == "+=" and source.text(at + 2) == "1"):
        return "call-count" if _decides(source, name) else ""
    if (before == "==" or after == "==") and _compared_with_argument(source, at):
        return "" if _of_a_version(source, at, name) else "address-cache"
    return ""


def _source_of_copy(source: CSource, at: int, copy: CCall | None) -> bool:
    """`memcpy(out, kept, n)` and the like: the second argument."""
    return copy is not None and source.text(at - 1) == "," and len(source.within(",", copy.at, at)) == 1


def _returns_before_filling(source: CSource, at: int, name: str) -> bool:
    """`c[i] = kept[i];` where only what follows stores into `kept` what the function is given."""
    function = source.around(at)
    if function is None or not function.works or source.text(at + 1) != "[":
        return False
    begin = at
    earliest = max(function.begin, at - LONGEST)
    while source.text(begin - 1) not in {";", "{", "}", ")"} and begin > earliest:
        begin -= 1
    if source.text(begin) not in function.outputs or not _is_stored(source, begin):
        return False
    return _last_refill(source, function.begin, name) > at


@once_a_source
def _last_refill(source: CSource, begin: int, name: str) -> int:
    """The last place in a function where it stores into the variable what it is given; -1 for none."""
    function = source.around(begin)
    assert function is not None
    parameters = _parameters(function)
    for step in reversed(source.within(name, begin, function.end)):
        end = _end_of_statement(source, step)
        if _is_stored(source, step) and parameters & set(source.names(source.closing(step + 1), end)):
            return step
    return -1


def _compared_with_argument(source: CSource, at: int) -> bool:
    """Whether the other side of `==` is a parameter, which is an address where it has a `*`."""
    function = source.around(at)
    operand = source.text(at + 2) if source.text(at + 1) == "==" else source.text(at - 2)
    if function is None:
        return False
    return operand in function.pointers or operand in {"data_ptr", "ptr", "key"}


def _done_before(source: CSource, statics: Mapping[str, Token]) -> Iterator[Hit]:
    """`if (seen[n]) return;` in a function with inputs and outputs: its work was done by an earlier call."""
    for condition in source.conditions:
        close = condition.close
        braced = source.text(close + 1) == "{"
        ends = source.text(close + 1 + braced) == "return" and source.text(close + 2 + braced) == ";"
        function = source.around(condition.at)
        if ends and function is not None and function.works and not condition.names.isdisjoint(statics):
            yield Hit(rule="call-count", line=source.tokens[condition.at].line)


def _looks_at_output(source: CSource) -> Iterator[Hit]:
    """A comparison with what an output holds before anything was written to it, as a result of an earlier call."""
    for function in source.functions:
        if not function.works:
            continue
        for name in function.outputs:
            places = source.within(name, function.begin, function.end)
            if places and source.text(places[0] + 1) == "[" and not _is_stored(source, places[0]):
                end = _end_of_statement(source, places[0])
                if {"<", ">", "==", "!=", "<=", ">="} & {source.text(step) for step in range(places[0], end)}:
                    yield Hit(rule="reads-output", line=source.tokens[places[0]].line)


def _gives_a_result(source: CSource, at: int) -> bool:
    """Whether what is returned can be a result of the function's inputs: no number, and it has inputs."""
    function = source.around(at)
    if function is None:
        return False
    number = "*" not in function.before and any(SCALARS.fullmatch(word) for word in function.before)
    return not number and any(token.text in {"*", "[", "Tensor"} or "ensor" in token.text for token in function.head)


def _asked_about(source: CSource, at: int, name: str) -> bool:
    """Whether the place stands under an `if` that looks at the lasting thing of that name, or compares contents."""
    for condition in source.conditions_before(at, 400):
        close = condition.close
        block_end = source.closing(close + 1) if source.text(close + 1) == "{" else _end_of_statement(source, close + 1)
        if close < at <= block_end and (name in condition.names or not condition.names.isdisjoint(COMPARES)):
            return True
    return False


def _end_of_statement(source: CSource, at: int) -> int:
    return next(iter(source.within(";", at, at + LONGEST)), min(at + LONGEST, len(source.tokens) - 1))


def _is_stored(source: CSource, at: int) -> bool:
    """`name[...] = ` or `name[...] +=`; a plain `name = ` gives it a place and no contents."""
    step = at + 1
    while source.text(step) == "[":
        step = source.closing(step) + 1
    return step > at + 1 and bool(re.fullmatch(r"[-+*/|&^]?=", source.text(step)))


def _remembers_pointer(source: CSource, at: int, name: str) -> bool:
    """`last = x;` for a parameter that is a pointer, where some condition asks about `last`."""
    function = source.around(at)
    if function is None or source.text(at + 3) != ";":
        return False
    tested = name in source.conditions_by_name or name in source.chosen_by
    return source.text(at + 2) in function.pointers and tested and not _of_a_version(source, at, name)


@once_a_source
def _decides(source: CSource, name: str) -> bool:
    """Whether some condition asks for the counter, other than to keep it within its table or to set one up once."""
    has_condition = any(
        not _bookkeeping(source, condition.at, name) for condition in source.conditions_by_name.get(name, ())
    )
    return has_condition or name in source.chosen_by


def _bookkeeping(source: CSource, at: int, name: str) -> bool:
    """`if (++next == 4) next = 0;`, `if (n < MOST) table[n++] = entry;` and `if (!ready++)` before a table's loop."""
    close = source.closing(at + 1)
    begin, end = _body(source, close + 1)
    if source.text(end + 1) == "else":
        return False
    words = [token.text for token in source.tokens[begin:end]]
    while words[-1:] == [";"]:
        words.pop()
    function = source.around(at)
    parameters = _parameters(function) if function else set()
    if words == [name, "=", "0"]:
        return True
    if words[1:6] == ["[", name, "++", "]", "="]:
        return words[0] not in parameters and ";" not in words
    once = [token.text for token in source.tokens[at + 2 : close]] == ["!", name, "++"]
    return (
        once
        and not (_handed_on(source, parameters) | parameters | LEAVES) & set(words)
        and not _calls(source, begin, end)
    )


def _parameters(function: CFunction) -> set[str]:
    """Names of what a function takes: each the last one before a comma, or before an array's bracket."""
    names: set[str] = set()
    name = ""
    for token in function.head:
        if token.text == "," and name:
            names.add(name)
        name = (
            token.text if token.kind == "name" and token.text not in RESTRICTIONS else "" if token.text == "," else name
        )
    return names | ({name} if name else set())


def _body(source: CSource, at: int) -> tuple[int, int]:
    """The statement that begins at a token: its first token, and the `;` or bracket that ends it."""
    begin = at
    while source.text(at) in {"for", "while"} and source.text(at + 1) == "(":
        at = source.closing(at + 1) + 1
    if source.text(at) == "{":
        return (begin + 1 if at == begin else begin), source.closing(at)
    return begin, _end_of_statement(source, at)


def _handed_on(source: CSource, parameters: set[str]) -> set[str]:
    """Names that a parameter was assigned to anywhere: through them a body reaches what it is given."""
    uses = (at for name in parameters for at in source.places.get(name, ()))
    return {source.text(at - 2) for at in uses if source.text(at - 1) == "="}


def _calls(source: CSource, begin: int, end: int) -> bool:
    """Whether functions of this file are called in between, which may do anything."""
    return any(call.name in source.own_functions for call in source.calls_between(begin, end))


def _of_a_version(source: CSource, at: int, name: str) -> bool:
    """Whether every condition on the pointer asks for a version that the caller gives as well: a packed weight."""
    function = source.around(at)
    return function is not None and _asked_with_a_version(source, function.begin, name)


@once_a_source
def _asked_with_a_version(source: CSource, begin: int, name: str) -> bool:
    function = source.around(begin)
    assert function is not None
    version_names = {token.text for token in function.head if token.kind == "name" and VERSION.fullmatch(token.text)}
    conditions = source.conditions_by_name.get(name, ())
    tested_names = [test.names for test in conditions if function.begin <= test.at < function.end]
    return bool(tested_names) and all(version_names & names for names in tested_names)


def _workspace(source: CSource, at: int, name: str) -> bool:
    """Whether the function filled the variable on the way to this place, which does not hang on what it held before."""
    function = source.around(at)
    return (
        function is not None and not _asked_about(source, at, name) and _first_fill(source, function.begin, name) < at
    )


@once_a_source
def _first_fill(source: CSource, begin: int, name: str) -> int:
    """The first place in a function behind which it has stored into the variable or handed it to a call.

    The number of tokens where there is none. A call that only compares does not fill.
    """
    function = source.around(begin)
    assert function is not None
    names = {name} | {
        source.text(step - 2)  # `float *p = kept;`
        for step in source.within(name, begin + 3, function.end)
        if [source.text(step + by) for by in (-3, -1, 1)] == ["*", "=", ";"]
    }
    stored = (
        step for variable in names for step in source.within(variable, begin, function.end) if _is_stored(source, step)
    )
    passed = (
        call.end
        for step in source.within(name, begin, function.end)
        for call in source.holding(step)
        if begin < call.at and call.name not in COMPARES
    )
    return min((*stored, *passed), default=len(source.tokens))
