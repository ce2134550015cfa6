"""C, C++, CUDA and HIP: where a name means a variable that lives from call to call, and where an automatic one.

Static storage lasts: what is `static` or stands at file scope, also through a macro. A declaration of a parameter or of
an automatic variable hides it as far as its block goes, but only one that cannot be anything else: a type that no macro
spells, and neither `static` nor `extern` before it. What is not plain counts as lasting.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ridgeline.sandbox.audit.c_source import OPEN, CFunction, CSource, once_a_source

LONGEST = 500
"""Tokens of a declaration that are looked at."""
SCALARS = re.compile(
    r"int|float|double|size_t|bool|_Bool|unsigned|signed|long|short|char|void|u?int(?:8|16|32|64)_t|s?size_t|ptrdiff_t"
)
TYPES = re.compile(
    rf"{SCALARS.pattern}|auto|[a-z]\w*_t|__m(?:128|256|512)(?:i|d|h|bh)?|__mmask(?:8|16|32|64)"
    r"|(?:char|short|int|long|longlong|uchar|ushort|uint|ulong|float|double|half)[1-4]|half|__half2?|_Float16|__bf16"
    r"|__nv_bfloat162?|nv_bfloat16|__hip_bfloat16|dim3"
)
"""Words that are types wherever no macro gives them another meaning."""
QUALIFIERS = frozenset({"const", "constexpr", "__constant__"})
BESIDE_TYPES = frozenset(
    {"const", "volatile", "register", "constexpr", "struct", "union", "enum", "std", "::", "__shared__"}
)
TAGS = frozenset({"struct", "class", "union", "enum", "typename", "using"})
WITH_BRACKETS = frozenset({"__attribute__", "alignas", "_Alignas", "__declspec", "decltype", "typeof", "__typeof__"})
HEADS = frozenset({"for", "if", "while", "switch", "catch", "]"})
"""Before a bracket whose declarations hold for the statement behind it; the last is a lambda's."""
NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Declared:
    """One variable of a name: the tokens between which the name means it."""

    begin: int
    end: int
    lasts: bool


@once_a_source
def list_lasting_places(source: CSource) -> frozenset[int]:
    """The audit of C: every token that names a variable which lives from call to call and may change."""
    lasting, always, members = _list_lasting(source)
    local = _list_automatic(source, lasting.keys() - always)
    places: set[int] = set()
    for name, variables in lasting.items():
        if name in always:
            places.update(source.places.get(name, ()))
            continue
        whole = any(variable.begin < 0 for variable in variables)
        declared = sorted((*variables, *local.get(name, ())), key=lambda variable: variable.begin)
        inside: list[Declared] = []
        step = 0
        for at in source.places.get(name, ()):
            while step < len(declared) and declared[step].begin <= at:
                inside.append(declared[step])
                step += 1
            while inside and inside[-1].end < at:
                inside.pop()
            before = source.text(at - 1)
            if before in {".", "->"}:
                lasts = name in members
            else:
                lasts = whole if before == "::" else bool(inside) and inside[-1].lasts
            if lasts:
                places.add(at)
    return frozenset(places)


def _list_lasting(source: CSource) -> tuple[dict[str, list[Declared]], set[str], set[str]]:
    """The audit of C: variables of static storage by name; names that nothing hides, for a macro declares them; members of classes."""
    variables: dict[str, list[Declared]] = {}
    always: set[str] = set()
    members: set[str] = set()
    file = Declared(-1, len(source.tokens), lasts=True)
    for at in sorted(at for word in _static_words(source) for at in source.places.get(word, ())):
        if source.text(at - 1) == "[":  # of an array parameter's size
            continue
        in_function = source.around(at) is not None and not source.in_directive(at)
        room = Declared(at, source.block_end(at), lasts=True) if in_function else file
        for name in _static_names(source, at, in_function=in_function):
            variables.setdefault(name, []).append(room)
            if source.in_directive(at):
                always.add(name)
            elif not in_function and source.scopes[at] == "inner":
                members.add(name)
    for at in _ends_at_file_scope(source):
        words = _statement(source, at)
        if len(words) > 1 and not _unchanging(words) and not {"using", "typedef"} & {*words}:
            names = [_variable(words)]
            names += _further(source, at - len(words)) if source.text(at) == ";" else ()
            for name in names:
                variables.setdefault(name, []).append(file)
                if source.in_directive(at):
                    always.add(name)
    variables.pop("", None)
    return variables, always, members


def _static_names(source: CSource, at: int, *, in_function: bool) -> Iterator[str]:
    """The audit of C: names that the declaration behind a `static` makes; none for a constant, shared memory or a function."""
    words: list[str] = []
    step = at + 1
    latest = source.directive_around(at)[1] if source.in_directive(at) else len(source.tokens)
    while step < latest and len(words) < 24 and source.text(step) not in {";", "=", "{", "("}:
        words.append(source.text(step))
        bracketed = source.text(step) in WITH_BRACKETS and source.text(step + 1) == "("
        step = source.closing(step + 1) + 1 if bracketed else step + 1
    names = [word for word in words if NAME.fullmatch(word) and word not in WITH_BRACKETS]
    if not names or _unchanging(words) or _is_shared(source, words):
        return
    if source.text(step) == "(":
        if not in_function:
            return
        inner = (source.text(place) for place in range(step + 1, source.closing(step)))
        yield names[-1] if len(names) > 1 else next((word for word in inner if NAME.fullmatch(word)), "")
    else:
        plain = [word for word in words if word not in WITH_BRACKETS - {"decltype", "typeof", "__typeof__"}]
        yield _of_a_struct(source, step) if "struct" in words else _variable(plain)
    yield from _further(source, at + 1)


def _macros(source: CSource) -> frozenset[str]:
    """The audit of C: names of the macros of the file, and of those of the candidate's that it includes."""
    return source.macro_names | {macro.name for macro in source.borrowed}


def _static_words(source: CSource) -> set[str]:
    """The audit of C: `static` and the macros that stand for it."""
    macros = (*source.borrowed, *source.macros)
    specifiers = (macro for macro in macros if not {";", "="} & {token.text for token in macro.body})
    words = {"static", "thread_local"}
    return words | {macro.name for macro in specifiers if words & {token.text for token in macro.body}}


def _is_shared(source: CSource, words: list[str]) -> bool:
    """The audit of C: shared memory of a block, which ends with it."""
    return "__shared__" in words and "__shared__" not in source.macro_names


def _ends_at_file_scope(source: CSource) -> Iterator[int]:
    """The audit of C: every `;` and `=` of file scope, also of macros that stand there."""
    used = _macros_at_file_scope(source)
    taken = {at for begin in source.places.get("template", ()) for at in _parameters_of_template(source, begin)}
    for at, token in enumerate(source.tokens):
        if token.kind != "op" or token.text not in {";", "="} or source.scopes[at] == "inner" or at in taken:
            continue
        if source.text(source.bracket_around(at)) not in {"(", "["} and (
            not source.in_directive(at) or source.text(source.directive_around(at)[0] + 2) in used
        ):
            yield at


def _parameters_of_template(source: CSource, at: int) -> Iterator[int]:
    """The audit of C: the tokens between the signs behind a `template`."""
    depth, step = 0, at + 1
    while step < min(at + LONGEST, len(source.tokens)):
        word = source.text(step)
        depth += (word == "<") - (word == ">") - 2 * (word == ">>")
        if depth <= 0:
            return
        yield step
        step = source.closing(step) + 1 if word in OPEN else step + 1


def _macros_at_file_scope(source: CSource) -> set[str]:
    """The audit of C: names of macros that stand outside of functions, and of those that these use."""
    names = {name for name in source.macro_names if any(_is_outside(source, at) for at in source.places.get(name, ()))}
    waiting = list(names)
    words = {macro.name: set(re.findall(r"\w+", macro.text)) & source.macro_names for macro in source.macros}
    while waiting:
        more = words.get(waiting.pop(), set()) - names
        names |= more
        waiting += more
    return names


def _is_outside(source: CSource, at: int) -> bool:
    return not source.in_directive(at) and source.scopes[at] != "inner"


def _list_automatic(source: CSource, names: set[str]) -> dict[str, list[Declared]]:
    """The audit of C: parameters and automatic variables of those names, each as far as it reaches."""
    variables: dict[str, list[Declared]] = {}
    if not names:
        return variables
    macros = _macros(source)
    types = _own_types(source) - macros
    for function in source.functions:
        for name in _parameters(function) & names if function.name not in macros else ():
            end = min(function.end, source.branch_end(function.at))
            variables.setdefault(name, []).append(Declared(function.at, end, lasts=False))
    for at, token in enumerate(source.tokens):
        is_type = token.kind == "name" and token.text not in macros
        if not is_type or not (token.text in types or TYPES.fullmatch(token.text)):
            continue
        if source.around(at) is None or source.in_directive(at) or not _begins(source, at, types):
            continue
        for place in _declared_behind(source, at, macros):
            if source.text(place) in names:
                end = min(_reach(source, place), source.branch_end(place))
                variables.setdefault(source.text(place), []).append(Declared(place, end, lasts=False))
    return variables


def _own_types(source: CSource) -> set[str]:
    """The audit of C: types that the file makes or takes as a template's parameter."""
    tags = {source.text(at + 1) for tag in TAGS for at in source.places.get(tag, ())}
    ends = (next(iter(source.within(";", at, at + LONGEST)), -1) for at in source.places.get("typedef", ()))
    return {word for word in tags | {source.text(end - 1) for end in ends if end > 0} if NAME.fullmatch(word)}


def _parameters(function: CFunction) -> set[str]:
    """The audit of C: a function's parameters that have a type before their name."""
    parts = (part[: part.index("[")] if "[" in part else part for part in function.parts)
    return {part[-1] for part in parts if len(part) > 1 and NAME.fullmatch(part[-1])}


def _begins(source: CSource, at: int, types: set[str]) -> bool:
    """The audit of C: whether a declaration of an automatic variable begins with the type at a token."""
    step = at - 1
    while not source.in_directive(step):
        before = source.text(step)
        opened = source.bracket_around(step)
        if before == ")" and source.text(opened - 1) in {"__attribute__", "alignas", "_Alignas", "_Pragma"}:
            step = opened - 2
        elif before in BESIDE_TYPES or before in types or SCALARS.fullmatch(before):
            step -= 1
        else:
            in_head = before in {"(", ","} and source.text(source.bracket_around(at) - 1) in HEADS
            return before in {";", "{", "}", ":"} or in_head
    return True


def _declared_behind(source: CSource, at: int, macros: frozenset[str]) -> Iterator[int]:
    """The audit of C: where the names stand that a declaration with the type at a token makes."""
    step = at + 1
    latest = min(at + LONGEST, len(source.tokens) - 1)
    while step < latest:
        while source.text(step) in {"*", "const", "restrict", "__restrict__", "__restrict", "volatile"}:
            step += 1
        if not NAME.fullmatch(source.text(step)) or source.text(step) in macros:
            return
        if source.text(step + 1) in {"=", ";", ",", "[", "{", "(", ")", ":", "__attribute__"}:
            yield step
        while step < latest and source.text(step) not in {",", ";", ")", "}", ":", "#"}:
            step = source.closing(step) + 1 if source.text(step) in OPEN else step + 1
        if source.text(step) != ",":
            return
        step += 1


def _reach(source: CSource, at: int) -> int:
    """The audit of C: the last token where what is declared at a token is meant: of its block, or of the statement of its head."""
    opened = source.bracket_around(at)
    close = source.closing(opened)
    if source.text(opened) != "(" or source.text(opened - 1) not in HEADS:
        return close
    body = source.body(close + 1) if source.text(opened - 1) == "]" else None
    return source.closing(body) if body is not None else _end_of_body(source, close + 1)


def _end_of_body(source: CSource, at: int) -> int:
    """The audit of C: the last token of the statement that begins at one."""
    while source.text(at) in {"for", "while", "if", "switch"} and source.text(at + 1) == "(":
        at = source.closing(at + 1) + 1
    if source.text(at) == "{":
        return source.closing(at)
    return next(iter(source.within(";", at, at + LONGEST)), at)


def _further(source: CSource, at: int) -> Iterator[str]:
    """The audit of C: the second and later variables of the declaration that begins at a token; none for a function or a template."""
    in_initializer, step = False, at
    kinds = {"struct", "union", "enum"}
    latest = min(at + LONGEST, len(source.tokens) - 1)
    while step < latest and source.text(step) not in {";", "<", "#"}:
        word = source.text(step)
        in_initializer = in_initializer or word == "=" or word in kinds
        if word == "{" and not in_initializer:
            return
        if word in OPEN:
            step = source.closing(step)
        elif word == ",":
            while source.text(step + 1) in {"*", "const", "restrict", "__restrict__", "volatile"}:
                step += 1
            if NAME.fullmatch(source.text(step + 1)):
                yield source.text(step + 1)
        step += 1


def _of_a_struct(source: CSource, at: int) -> str:
    """The audit of C: the variable behind `static struct { ... } room;`; what stands before the brace of another one."""
    if source.text(at) != "{":
        return source.text(at - 1)
    after = source.text(source.closing(at) + 1)
    return after if NAME.fullmatch(after) else ""


def _unchanging(words: list[str]) -> bool:
    """The audit of C: whether a C declaration is of a constant; a pointer to constant data may itself be moved."""
    after = words[words.index("*") :] if "*" in words else words
    return bool(QUALIFIERS & set(after)) or bool({"constexpr", "__constant__"} & set(words))


def _variable(words: list[str]) -> str:
    """The audit of C: the name that a C declaration is about: the last one before an array's bracket."""
    plain = words[: words.index("[")] if "[" in words else words
    names = [word for word in plain if NAME.fullmatch(word)]
    return names[-1] if len(names) > 1 or (names and "*" in plain) else ""


def _statement(source: CSource, at: int) -> list[str]:
    words: list[str] = []
    for step in range(at - 1, max(-1, at - 24), -1):
        word = source.text(step)
        if word in {";", "}", "{", ")", "#", "="}:
            break
        words.append(word)
    return list(reversed(words))
