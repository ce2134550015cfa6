"""What the editable files of a candidate are to each other: which are read as C, and which names are its own."""

import functools
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from ridgeline.sandbox.audit.c_source import CSource
from ridgeline.sandbox.audit.c_tokens import Macro

C_LIKE = frozenset(
    {".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hip", ".cl", ".inc", ".inl", ".metal"}
)
OTHER = frozenset({".py", ".pyi", ".pyx", ".md", ".rst", ".sh", ".mk", ".flags", ".json", ".yaml", ".yml", ".toml"})
"""Suffixes of what is read in its own way, or never compiled, unless an `#include` names it."""
INNER = frozenset({"static", "inline", "__inline", "__inline__"})


def read_as_c(texts: Mapping[str, str]) -> frozenset[str]:
    """The audit: paths of what a compiler reads as C sources: by their suffix, or since one of the texts includes their names."""
    included_names = _asked_for(texts)
    suffixes = {path: PurePosixPath(path).suffix.lower() for path in texts}
    return frozenset(
        path
        for path, suffix in suffixes.items()
        if suffix in C_LIKE
        or PurePosixPath(path).name in included_names
        or ("" in included_names and suffix not in OTHER)
    )


def own_modules(path: str, texts: Mapping[str, str]) -> frozenset[str]:
    """A candidate's own Python modules by the names under which the file at `path` reaches them without a doubt."""
    modules: set[str] = set()
    for module_path in texts:
        name = PurePosixPath(module_path)
        if name.suffix == ".py" and len(name.parts) > 1:
            modules.add(".".join(name.with_suffix("").parts))
        if name.suffix == ".py" and name.parent == PurePosixPath(path).parent:
            modules.add(f".{name.stem}")
    return frozenset(modules)


def own_names(path: str, texts: Mapping[str, str]) -> frozenset[str]:
    """Names with which a candidate's file reaches its own files: includes as they are written, and functions.

    A static function counts only where the file includes the one that has it.
    """
    names: set[str] = set()
    for name in _includes(texts.get(path, "")):
        names |= {name} if _beside(path, name) in texts else set()
    for reached in _reachable_files(path, texts):
        names |= _functions(texts[reached])[1]
    for source_path, text in texts.items():
        if PurePosixPath(source_path).suffix.lower() in C_LIKE:
            names |= _functions(text)[0]
    return frozenset(names)


def own_macros(path: str, texts: Mapping[str, str]) -> tuple[Macro, ...]:
    """Macros of the files that a candidate's file includes, directly or through others, where one of them pastes names."""
    macros = [macro for reached in _reachable_files(path, texts) for macro in _macros(texts[reached])]
    return tuple(macros) if any(macro.pastes for macro in macros) else ()


def _reachable_files(path: str, texts: Mapping[str, str]) -> list[str]:
    """The audit: files that a file includes from beside it, directly or through others."""
    waiting, paths = [path], {path: None}
    while waiting:
        at = waiting.pop()
        for name in sorted(_includes(texts.get(at, ""))):
            beside = _beside(at, name)
            if beside in texts and beside not in paths:
                waiting.append(beside)
                paths[beside] = None
    return list(paths)[1:]


def _beside(path: str, name: str) -> str:
    """The path of a candidate's file that another one includes; empty where it lies in no folder below."""
    beside = str(PurePosixPath(path).parent / name)
    return "" if ".." in beside else beside


@functools.lru_cache(maxsize=512)
def _macros(text: str) -> tuple[Macro, ...]:
    return tuple(CSource(text).macros)


def _asked_for(texts: Mapping[str, str]) -> set[str]:
    """Names of the files that a candidate's C sources include, also through others; empty for one that only a macro tells."""
    waiting = [text for path, text in texts.items() if PurePosixPath(path).suffix.lower() in C_LIKE]
    names: set[str] = set()
    while waiting:
        new = {PurePosixPath(name).name for name in _includes(waiting.pop())} - names
        names |= new
        waiting += [text for path, text in texts.items() if PurePosixPath(path).name in new]
    return names


@functools.lru_cache(maxsize=512)
def _includes(text: str) -> frozenset[str]:
    """What a candidate's source includes as it is written; empty for a macro, with what macros hold in quotes."""
    names: set[str] = set()
    computed = False
    directives = CSource(text).directives if "include" in text or "import" in text else []
    for _, line in directives:
        match = re.match(r"#(?:include|include_next|import) ?(?:[<\"]([^>\"]+)|(\w))", line)
        if match:
            names |= {match[1]} if match[1] else set()
            computed = computed or bool(match[2])
    if computed:
        names |= {"", *(literal for _, line in directives for literal in re.findall(r"\"([^\"]+)\"", line))}
    return frozenset(names)


@functools.lru_cache(maxsize=512)
def _functions(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The audit: names of the functions with a body in a source: those that others can link with, and all of them."""
    functions = CSource(text).functions
    return (
        frozenset(function.name for function in functions if not INNER & set(function.before)),
        frozenset(function.name for function in functions),
    )
