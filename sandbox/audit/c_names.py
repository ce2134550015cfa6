"""C, C++, CUDA and HIP: names under which a harness would find the candidate's code instead of the system's."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ridgeline.sandbox.audit.c_source import CSource, strings
from ridgeline.sandbox.audit.c_tokens import Macro, Token
from ridgeline.sandbox.audit.python_surroundings import REFERENCE
from ridgeline.sandbox.audit.rules import Hit

CLOCKS = re.compile(
    r"clock_gettime(?:64)?|__clock_gettime|gettimeofday|clock|times|omp_get_wtime|timespec_get|clock_getres"
    r"|(?:cu|cuda|hip)Event(?:ElapsedTime|Record|RecordWithFlags|Synchronize|Query)(?:_v2|_ptsz|_spt)?|(?:cuda|hip)(?:DeviceSynchronize|StreamSynchronize)"
    r"|cu(?:CtxSynchronize|StreamSynchronize)|mach_absolute_time|QueryPerformanceCounter"
)
FIELDS = re.compile(r"tv_n?sec|tv_usec|CLOCKS_PER_SEC|CLOCK_MONOTONIC(?:_RAW)?|CLOCK_REALTIME")
"""What a clock's answer is read by; redefined, every time that a harness takes is another."""
JUDGES = re.compile(r"memcmp|bcmp|strn?cmp|fabs[fl]?|v?printf|puts|exit|isnan|isinf|isfinite|assert")
CHANNELS = re.compile(
    r"v?[fd]printf|vs?n?printf|sn?printf|__[fvds]?n?printf_chk|f?put[sc]|putchar|write|writev|fwrite|fopen(?:64)?|fclose|fflush"
    r"|abort|__assert_fail|_exit|_Exit|quick_exit|__libc_start_main|_start|getenv|atexit|strtod|atoi|strto[lu]l{1,2}"
)
"""With the judges, what a harness compares and reports with: nobody's kernel defines these for the whole program."""
MATH = re.compile(
    r"(?:exp|exp2|expm1|log|log2|log1p|pow|sqrt|tanh?|sinh?|cosh?|erf|fmax|fmin|fma|floor|ceil|round|fmod|copysign)[fl]?"
)
MEMORY = frozenset({"malloc", "free", "calloc", "realloc", "memcpy", "memset", "dlsym", "cudaMalloc", "hipMalloc"})
SECTIONS = re.compile(r"\.(?:pre)?(?:init|fini)_array|\.[cd]tors|\.init\b|\.fini\b")
ASM = frozenset({"asm", "__asm__", "__asm"})
LONGEST = 200
"""Tokens of a declaration that are looked at, before a place and behind it."""
EARLY = frozenset({"constructor", "destructor", "init_priority"})
INCLUDED = re.compile(r"#(?:include|include_next|import|embed)\b(.*)|#.*?\b__has_(?:include|include_next|embed)\b(.*)")
"""Directives that read a file, or look whether one is there."""
AWAY = re.compile(r"(?:^|[\"<(])/|^<[^>]*$")
"""A path from the machine's root; with two slashes it is a comment to whoever reads `<//tmp/x>` as words."""
STEPS_UP = 4
"""Of a path that leads out of every checkout: all lie deeper."""


class Symbol(NamedTuple):
    """A name that the linker sees, given by this file."""

    name: str
    line: int
    how: str
    """`defined`, or the attribute, pragma or label that gives it."""


def hits(source: CSource) -> Iterator[Hit]:
    """Audit of C names: every name that is given to somebody else's function, and code that runs before or after the program."""
    for symbol in external_symbols(source):
        yield from _symbol(symbol)
    for macro in source.macros:
        yield from _macro(macro)
    for line, text in source.directives:
        if text.startswith("#include_next"):
            yield Hit(rule="shadowed-import", line=line)
        included = re.match(r"#include(?:_next)? ?[<\"]([^>\"]+)", text)
        if (
            included
            and included[1] not in source.own_names
            and REFERENCE.search(re.sub(r"\.\w+$", "", included[1]).replace("/", "."))
        ):
            yield Hit(rule="reads-reference", line=line)
    yield from _files_elsewhere(source)
    yield from _early(source)
    yield from _strangers(source)


def external_symbols(source: CSource) -> Iterator[Symbol]:
    """The audit of C: external names that this file gives to code of its own."""
    yield from _definitions(source)
    yield from _parenthesized_definitions(source)
    yield from _aliases(source)
    yield from _labels(source)
    pragmas = [(line, text) for line, text in source.directives if text.startswith("#pragma")]
    for call in source.calls:
        if call.name in {"_Pragma", "__pragma"}:
            pragma_text = " ".join(" ".join(strings(source.arguments(call))).split())
            pragmas.append((call.line, f"#pragma {pragma_text}"))
    for line, text in pragmas:
        match = re.match(r"#pragma (?:redefine_extname (\w+)|weak (\w+) ?=)", text)
        if match:
            yield Symbol(match[1] or match[2], line, "#pragma")


def _symbol(symbol: Symbol) -> Iterator[Hit]:
    name, line = symbol.name, symbol.line
    if CLOCKS.fullmatch(name):
        yield Hit(rule="replaced-clock", line=line)
    elif JUDGES.fullmatch(name) or CHANNELS.fullmatch(name):
        yield Hit(rule="replaced-judge", line=line)
    elif name in MEMORY or (MATH.fullmatch(name) and symbol.how == "defined"):
        yield Hit(rule="patched-library", line=line)
    elif symbol.how == "#pragma":
        yield Hit(rule="symbol-name", line=line)


def _files_elsewhere(source: CSource) -> Iterator[Hit]:
    """The audit of C: files that are included by their place on the machine, or by a macro that is not told here."""
    macros = {macro.name: _leads_away(macro.text) for macro in source.macros}
    for line, text in source.directives:
        match = INCLUDED.match(text)
        if match is None:
            continue
        path = (match[1] or match[2] or "").strip()
        name = re.match(r"\w+", path) if match[1] else None
        if _leads_away(path) or (name and any(macros.values())):
            yield Hit(rule="file-access", line=line)
        elif name and name[0] == path and path not in macros:
            yield Hit(rule="hidden-name", line=line)


def _leads_away(path: str) -> bool:
    """The audit of C: whether an include's path, in its words, leads out of the tree that is built."""
    compact = "".join(path.split())
    return bool(AWAY.search(compact)) or compact.count("../") >= STEPS_UP


def _macro(macro: Macro) -> Iterator[Hit]:
    """The audit of C: a macro reaches what includes it; in a file that nobody includes it is the file's own affair."""
    if is_port(macro) or macro.text.replace(" ", "").startswith(f"__builtin_{macro.name}"):
        return
    if CLOCKS.fullmatch(macro.name) or FIELDS.fullmatch(macro.name):
        yield Hit(rule="replaced-clock", line=macro.line)
    elif macro.name == "main":
        yield Hit(rule="replaced-judge", line=macro.line)
    elif JUDGES.fullmatch(macro.name) and macro.name not in {"printf", "puts", "assert"}:
        used = set(re.findall(r"\w+", macro.text))
        blind = bool(macro.parameters) and not used & {*(macro.parameters or ()), "__VA_ARGS__"}
        yield Hit(rule="replaced-judge" if blind and macro.text else "local-macro", line=macro.line)


def is_port(macro: Macro) -> bool:
    """The audit of C: a macro that gives one runtime's call the name of another's, as ports between CUDA and HIP do."""
    match = re.match(r"(?:cuda|hip|cu)(?=[A-Z])(\w+)$", macro.name)
    return bool(match and re.fullmatch(rf"(?:cuda|hip|cu){re.escape(match[1])}(?: \(.*\))?", macro.text))


def _definitions(source: CSource) -> Iterator[Symbol]:
    """The audit of C: functions at file scope, which take the place of the system's of that name."""
    for function in source.functions:
        words = function.before
        inner = "static" in words or "::" in words or "__device__" in words or "template" in words
        inline = bool({"inline", "__inline", "__inline__"} & set(words)) and "extern" not in words
        if inner or inline or source.scopes[function.at] != "global":
            continue
        common = function.name in {"clock", "times"} and "clock_t" not in words  # a kernel may be called `times`
        replaces_system = function.name in {"write", "exit", "abort", "assert"} and not _like_the_system(
            function.name, words
        )
        if not common and not replaces_system and function.name != "main":
            yield Symbol(function.name, source.tokens[function.at].line, "defined")


def _like_the_system(name: str, words: tuple[str, ...]) -> bool:
    """The audit of C: whether a function of a common name answers as the system's does."""
    answers = {"write": {"ssize_t", "long", "int"}, "exit": {"void"}, "abort": {"void"}}
    return bool(answers.get(name, set()) & set(words)) and "__global__" not in words


def _parenthesized_definitions(source: CSource) -> Iterator[Symbol]:
    """The audit of C: `int (fprintf)(FILE *f, ...) {`: a definition whose name stands in brackets."""
    for at, token in enumerate(source.tokens):
        alone = source.text(at - 1) == "(" and source.text(at + 1) == ")" and source.text(at + 2) == "("
        if token.kind == "name" and alone and source.scopes[at] == "global" and at > 1:
            typed = source.tokens[at - 2].kind == "name" or source.text(at - 2) == "*"
            if typed and source.body(source.closing(at + 2) + 1) is not None:
                yield Symbol(token.text, token.line, "defined")


def _aliases(source: CSource) -> Iterator[Symbol]:
    """The audit of C: `__attribute__((alias("f")))` and its kin: the statement's names are the symbol's."""
    for at, word in _alias_attributes(source):
        yield from (Symbol(name.text, name.line, word) for name in _statement(source, at) if name.kind == "name")


def _alias_attributes(source: CSource) -> Iterator[tuple[int, str]]:
    """The audit of C: where an attribute gives a name to something else, and its word without underscores."""
    for at, token in enumerate(source.tokens):
        word = token.text.strip("_") if token.kind == "name" else ""
        if word in {"alias", "ifunc", "weakref", "symver"} and source.text(at + 1) == "(":
            yield at, word


def _strangers(source: CSource) -> Iterator[Hit]:
    """The audit of C: `weakref("system")`: a name of this file's own that means a function of somebody else's."""
    own = {function.name for function in source.functions}
    for at, _ in _alias_attributes(source):
        target = "".join(strings(tuple(source.tokens[at + 1 : source.closing(at + 1)])))
        if target and target.partition("@")[0] not in own:
            yield Hit(rule="hidden-name", line=source.tokens[at].line)


def _statement(source: CSource, at: int) -> list[Token]:
    """The audit of C: tokens of the C declaration around a token, outside of brackets that were closed."""
    begin, earliest = at, max(0, at - LONGEST)
    while begin > earliest and source.text(begin - 1) not in {";", "}", "{"}:
        begin -= 1
    end, latest = at, min(len(source.tokens) - 1, at + LONGEST)
    while end < latest and source.text(end) not in {";", "{"}:
        end += 1
    return source.tokens[begin:end]


def _labels(source: CSource) -> Iterator[Symbol]:
    """The audit of C: `int f(void) __asm__("clock_gettime")`, and assembly that defines a symbol."""
    for at, token in enumerate(source.tokens):
        if token.kind != "name" or token.text not in ASM:
            continue
        step = at + 1
        while source.text(step) in {"volatile", "__volatile__", "goto", "inline"}:
            step += 1
        texts = list(strings(tuple(source.tokens[step : source.closing(step)]))) if source.text(step) == "(" else []
        joined = "".join(texts)
        if re.fullmatch(r"\w+", joined):
            yield Symbol(joined, token.line, "label")
        for name in re.findall(r"(?:\.globa?l|\.weak|\.set|\.symver|\.equ)\s+(\w+)|^\s*(\w+):", joined, re.M):
            yield Symbol(name[0] or name[1], token.line, "assembly")


def _early(source: CSource) -> Iterator[Hit]:
    """The audit of C: code that runs before `main` or after it: attributes, and sections of such functions' addresses."""
    for at, token in enumerate(source.tokens):
        marked = token.kind == "name" and token.text.strip("_") in EARLY and source.text(at - 1) in {"(", ",", "::"}
        placed = token.kind == "string" and SECTIONS.search(token.text) and _is_section(source, at)
        if marked or placed:
            yield Hit(rule="runs-at-load", line=token.line)


def _is_section(source: CSource, at: int) -> bool:
    words_before = {source.text(step).strip("_") for step in range(max(0, at - 3), at)}
    return bool(words_before & {"section", "asm", "volatile"}) or source.text(at - 2) == "define"
