"""What a change means to files that it does not touch: macros and symbols that protected sources would take from it."""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from ridgeline.graph.finding import Finding
from ridgeline.sandbox.audit.c_names import CLOCKS, FIELDS, Symbol, external_symbols
from ridgeline.sandbox.audit.c_source import CSource
from ridgeline.sandbox.audit.own_files import INNER, read_as_c
from ridgeline.sandbox.audit.rules import Hit, finding
from ridgeline.sandbox.workspace.git import Entry

C_LIKE = frozenset({".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hip", ".cl", ".inc", ".inl"})
PLAIN_C = frozenset({".c", ".h", ".inc"})
"""Where a function's name is its symbol; in C++ only of what is declared `extern "C"`."""
INCLUDE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(?:include|include_next|import)[ \t]*[<\"]([^>\"\n]+)", re.M)
NAME = re.compile(r"[A-Za-z_]\w*")
MOST_FILES = 400
MOST_BYTES = 1_000_000
"""Of protected sources that are looked at, the shortest paths first."""


@dataclass(frozen=True)
class SourceNames:
    """What a source is made of."""

    names: frozenset[str]
    """Everything that is written in it outside of comments and strings."""
    called: frozenset[str]
    defined: frozenset[str]
    """Functions and macros that it defines itself."""
    macros: tuple[tuple[str, int, str], ...]
    """Name, line and what it stands for."""
    symbols: tuple[Symbol, ...]
    inner_functions: tuple[tuple[str, int], ...]
    """Functions that are static or inline, with their lines: whoever includes the file has them."""


def find_shared(
    before: Mapping[str, str], after: Mapping[str, str | None], protected: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Findings of changed C files that only their use by protected ones makes.

    `before`: every editable text of the version before; `after`: the changed ones, None for a deleted file.
    """
    findings: list[Finding] = []
    changed = {path: text for path, text in after.items() if text is not None and text != before.get(path)}
    if not changed or not protected:
        return ()
    protected_texts = _limit_texts(protected)
    editable = {path: text for path, text in {**before, **after}.items() if text is not None}
    old, new = read_as_c({**before, **protected_texts}), read_as_c({**editable, **protected_texts})
    sources = {path: text for path, text in editable.items() if path in new and (path in changed or path not in old)}
    texts = {**before, **protected_texts, **{path: text for path, text in after.items() if text is not None}}
    earlier_names = frozenset(name for path, text in before.items() if path in old for name in NAME.findall(text))
    for path, text in sorted(sources.items()):
        users = [
            read_names(protected_texts[user]) for user in _reached_from(path, texts, new) if user in protected_texts
        ]
        was = before.get(path, "") if path in old else ""
        hits = [*_macros(read_names(text), read_names(was), users, earlier_names)]
        hits += _symbols(path, text, was, protected_texts, earlier_names)
        hits += _inner(read_names(text), users, earlier_names)
        findings += [
            finding(hit, path, text.split("\n")) for hit in {(hit.rule, hit.line): hit for hit in hits}.values()
        ]
    return tuple(findings)


@functools.lru_cache(maxsize=128)
def read_names(text: str) -> SourceNames:
    """The audit: a source's names; kept, because the protected ones are the same in every round."""
    source = CSource(text)
    defined = tuple((macro.name, macro.line, f"{macro.parameters} {macro.text}") for macro in source.macros)
    undone = [match[1] for _, line in source.directives if (match := re.match(r"#undef (\w+)", line))]
    functions = (function.name for function in source.functions)
    return SourceNames(
        names=frozenset(token.text for token in source.tokens if token.kind == "name"),
        called=frozenset(call.name for call in source.calls),
        defined=frozenset((*(name for name, _, _ in defined), *undone, *functions)),
        macros=defined,
        symbols=tuple(external_symbols(source)),
        inner_functions=tuple(
            (function.name, source.tokens[function.at].line)
            for function in source.functions
            if INNER & set(function.before)
        ),
    )


def _macros(
    new: SourceNames, old: SourceNames, users: list[SourceNames], earlier_names: frozenset[str]
) -> Iterator[Hit]:
    """Macros of a candidate that are new or changed, under names that a protected source uses and does not define."""
    before = {(name, body) for name, _, body in old.macros}
    for name, line, body in new.macros:
        if (name, body) in before or not any(name in user.names and name not in _macro_names(user) for user in users):
            continue
        if CLOCKS.fullmatch(name) or FIELDS.fullmatch(name):
            yield Hit(rule="replaced-clock", line=line)
        else:
            yield Hit(rule="shared-macro" if name in earlier_names else "replaced-judge", line=line)


def _macro_names(user: SourceNames) -> frozenset[str]:
    return frozenset(name for name, _, _ in user.macros)


def _symbols(
    path: str, text: str, before: str, protected: Mapping[str, str], earlier_names: frozenset[str]
) -> Iterator[Hit]:
    """The audit: functions that protected sources call and got from elsewhere until now."""
    old = {symbol.name for symbol in read_names(before).symbols}
    for symbol in read_names(text).symbols:
        if symbol.name in old or symbol.name in earlier_names or not _is_linked(path, symbol, text):
            continue
        users = [read_names(user_text) for user_text in protected.values() if symbol.name in user_text]
        called = any(symbol.name in user.called for user in users)
        if called and not any(symbol.name in user.defined for user in users):
            clock = CLOCKS.fullmatch(symbol.name)
            yield Hit(rule="replaced-clock" if clock else "replaced-judge", line=symbol.line)


def _inner(new: SourceNames, users: list[SourceNames], earlier_names: frozenset[str]) -> Iterator[Hit]:
    """The audit: static functions of a header under names that a protected source, which includes it, calls and got elsewhere."""
    for name, line in new.inner_functions:
        if name not in earlier_names and any(name in user.called and name not in user.defined for user in users):
            yield Hit(rule="replaced-clock" if CLOCKS.fullmatch(name) else "replaced-judge", line=line)


def _is_linked(path: str, symbol: Symbol, text: str) -> bool:
    """Whether the linker would take a candidate's function for the C function of that name."""
    return (
        PurePosixPath(path).suffix in PLAIN_C or symbol.how != "defined" or re.search(r'extern\s*"C"', text) is not None
    )


def _reached_from(path: str, texts: Mapping[str, str], sources: frozenset[str]) -> set[str]:
    """The audit: files that include a file, directly or through others, by the ends of their paths."""
    includes = {name: _includes(text) for name, text in texts.items() if name in sources}
    users, waiting = set[str](), [path]
    while waiting:
        name = PurePosixPath(waiting.pop()).name
        new = {user for user, included in includes.items() if name in included and user not in users}
        users |= new
        waiting += new
    return users


@functools.lru_cache(maxsize=512)
def _includes(text: str) -> frozenset[str]:
    return frozenset(PurePosixPath(name).name for name in INCLUDE.findall(text.replace("\\\n", "")))


def native(path: str) -> bool:
    """Whether an audited file of that name is a C, C++, CUDA or HIP source."""
    return PurePosixPath(path).suffix.lower() in C_LIKE


def nearest(files: list[tuple[str, Entry]]) -> list[tuple[str, Entry]]:
    """As many protected files as the audit reads with a change, the nearest to the contract first."""
    return sorted(files, key=lambda item: (item[0].count("/"), item[0]))[:MOST_FILES]


def _limit_texts(protected: Mapping[str, str]) -> dict[str, str]:
    texts, size = dict[str, str](), 0
    for path in sorted(protected, key=lambda name: (name.count("/"), name)):
        size += len(protected[path])
        if size > MOST_BYTES:
            break
        texts[path] = protected[path]
    return texts
