"""Findings of a source text, and those that a change adds to what was there before."""

import ast
import functools
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from ridgeline.graph.finding import Finding
from ridgeline.sandbox.audit import (
    build_options,
    c_surroundings,
    c_work,
    python_caches,
    python_surroundings,
    python_tampering,
    python_work,
    relaxed_math,
)
from ridgeline.sandbox.audit.c_source import CSource
from ridgeline.sandbox.audit.c_tokens import Macro
from ridgeline.sandbox.audit.own_files import C_LIKE, own_macros, own_modules, own_names, read_as_c
from ridgeline.sandbox.audit.python_source import LINE_END, PythonSource
from ridgeline.sandbox.audit.rules import Hit, finding

PYTHON = frozenset({".py", ".pyi", ".pyx"})
LARGEST = 1_000_000
"""Characters of a text that are examined."""
EMBEDDED = re.compile(r"__global__|#\s*include|PYBIND11_MODULE|TORCH_LIBRARY|extern\s+\"C\"")
IMPORT = re.compile(r"(?:import [\w., ]+|from [\w.]+ import [\w, ]+)")
REMEMBERED = 32
"""Texts whose findings are kept: a file is examined as the change, and again as what the next one changes."""
MOST_LINES = 1000
"""Lines of a text that is no Python which are looked at one by one."""
SHADOWING = frozenset({"sitecustomize.py", "usercustomize.py", "conftest.py"})
SYSTEM_HEADERS = re.compile(
    r"(?:alloca|assert|complex|ctype|errno|fcntl|features|fenv|float|getopt|immintrin|inttypes|limits|locale|malloc|math|omp|pthread|setjmp"
    r"|signal|std(?:align|arg|atomic|bool|def|int|io|lib)|strings?|tgmath|threads|time|unistd|wchar|x86intrin|cuda_runtime"
    r"|cuda_fp16|hip_runtime)\.h"
    r"|algorithm|array|atomic|chrono|cmath|cstd(?:def|int|io|lib)|cstring|ctime|f?stream|functional|iostream|limits|numeric"
    r"|random|sstream|string|thread|utility|vector"
)
SYSTEM_FOLDERS = re.compile(r"(?:.*/)?(?:bits|sys|gnu|asm|linux|arpa|netinet|x86_64-linux-gnu)/(?:[\w-]+/)*[\w-]+\.h")
"""A file of such a name beside the kernel is found first where its folder is on the path of includes."""
SHADOWED = frozenset(
    [
        "torch",
        "triton",
        "numpy",
        "time",
        "timeit",
        "json",
        "csv",
        "random",
        "statistics",
        "math",
        "os",
        "sys",
        "subprocess",
        "pytest",
        "unittest",
    ]
)


def is_examined(path: str) -> bool:
    """Whether a file of that name is a kind of source that the audit reads."""
    return PurePosixPath(path).suffix.lower() in PYTHON | C_LIKE | {".pth", ".sh", ".flags", ".mk"} or path.endswith(
        "Makefile"
    )


@functools.lru_cache(maxsize=REMEMBERED)
def audit(
    path: str,
    text: str,
    *,
    dtype: str = "fp32",
    as_c: bool = False,
    own_names: frozenset[str] = frozenset(),
    borrowed: tuple[Macro, ...] = (),
) -> tuple[Finding, ...]:
    """The audit's findings in one source file by line. Nothing is imported or run. `dtype`: of the contract's data.

    `as_c`: a C source includes the file, whatever its suffix is. `own_names`: names that other files of the candidate have.
    `borrowed`: macros of the files that it includes.

    Every text gets an answer: one that cannot be read has the finding `unreadable`.
    """
    lines = LINE_END.split(text)
    if len(text) > LARGEST:
        return (finding(Hit(rule="unreadable", line=1, code=f"{len(text)} characters"), path, lines),)
    findings = [finding(hit, path, lines) for hit in _by_name(path)]
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in PYTHON:
        findings += _python(path, text, dtype, own_names)
    elif as_c or suffix in C_LIKE:
        findings += [finding(hit, path, lines) for hit in _c_like(text, dtype, own_names, borrowed)]
    if suffix not in C_LIKE:
        findings += [finding(hit, path, lines) for hit in relaxed_math.hits_of_text(text)]
        findings += [finding(hit, path, lines, embedded=suffix in PYTHON) for hit in build_options.hits(path, text)]
    return _order(findings)


def find_added(
    before: Mapping[str, str],
    after: Mapping[str, str | None],
    *,
    dtype: str = "fp32",
    protected: Mapping[str, str] | None = None,
) -> tuple[Finding, ...]:
    """The audit's findings in changed files that their earlier texts did not have; None in `after` is a deleted file.

    `protected`: other sources, whose macros a changed file may include.

    A finding is the same when its rule and its quoted line are, wherever the line went. So a line that was taken away
    counts as well: a stream whose join is gone is a new finding at the stream. A file of any name counts as a C source
    from the change on that includes it.
    """
    findings: list[Finding] = []
    texts = {path: text for path, text in {**before, **after}.items() if text is not None}
    native, native_before = read_as_c(texts), read_as_c(before)
    for path, text in sorted(texts.items()):
        begun = path in native and path not in native_before and path in before
        if before.get(path) == text and not begun:
            continue
        local_names = own_names(path, texts) if path in native else own_modules(path, texts)
        borrowed = own_macros(path, {**(protected or {}), **texts}) if path in native else ()
        find = functools.partial(audit, path, dtype=dtype, own_names=local_names, borrowed=borrowed)
        earlier = Counter[tuple[str, str]]()  # a file that is new has none, not even those of its place
        if path in before:
            earlier.update((old.rule, old.code) for old in find(before[path], as_c=path in native and not begun))
        for new in find(text, as_c=path in native):
            if earlier[new.rule, new.code] > 0:
                earlier[new.rule, new.code] -= 1
            else:
                findings.append(new)
    return tuple(findings)


def _python(path: str, text: str, dtype: str, own_names: frozenset[str]) -> list[Finding]:
    lines = LINE_END.split(text)
    try:
        source = _parse(text)
        source.own_names = own_names
        hits = [*_python_hits(source, dtype)]
        inside = [*_embedded_sources(source)]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        unreadable = Hit(rule="unreadable", line=1, code=f"{type(error).__name__}: {error}")
        single = (finding(hit, path, lines, embedded=True) for hit in _single_lines(lines, dtype))
        return [finding(unreadable, path, lines), *single]
    findings = [finding(hit, path, lines) for hit in hits]
    for line, code in inside:
        findings += [
            finding(Hit(rule=hit.rule, line=hit.line + line - 1), path, lines, embedded=True)
            for hit in _c_like(code, dtype)
        ]
    return findings


def _parse(text: str) -> PythonSource:
    """An audited Python file, or a piece of one that begins in the middle. Raises SyntaxError where it is neither."""
    try:
        return PythonSource(text)
    except SyntaxError as first:
        dedented = textwrap.dedent(text)
        for attempt in (dedented, f"if True:\n{textwrap.indent(dedented, ' ')}"):
            try:
                return PythonSource(attempt if attempt == dedented else _same_lines(attempt))
            except SyntaxError:
                continue
        raise first


def _single_lines(lines: list[str], dtype: str) -> Iterator[Hit]:
    """The audit's hits in single statements of a text that is no Python as a whole, such as a piece of a diff.

    Whether such a line stands in a string cannot be told, so none of them convicts.
    """
    stripped = [line.strip() for line in lines[:MOST_LINES]]
    imports = "; ".join(line for line in stripped if IMPORT.fullmatch(line))
    for number, line in enumerate(stripped, start=1):
        if "." not in line and "(" not in line:
            continue
        try:
            source = PythonSource(f"{imports}; {line}" if imports else line)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        line_hits = (
            *python_tampering.hits(source),
            *python_surroundings.hits(source),
            *python_work.hits(source, dtype=dtype),
        )
        yield from (
            Hit(rule=hit.rule, line=number) for hit in line_hits if hit.rule not in {"file-access", "reads-reference"}
        )


def _same_lines(text: str) -> str:
    """The audit: the wrapped text with its line numbers kept: the line that opens the block is joined to the first."""
    return text.replace("if True:\n", "if True: pass\n", 1)


def _python_hits(source: PythonSource, dtype: str) -> Iterator[Hit]:
    yield from python_caches.hits(source)
    yield from python_tampering.hits(source)
    yield from python_surroundings.hits(source)
    yield from python_work.hits(source, dtype=dtype)


def _embedded_sources(source: PythonSource) -> Iterator[tuple[int, str]]:
    """C or CUDA source of extensions that stands in an audited file's strings, with the line where it begins."""
    for node in source.of(ast.Constant):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and EMBEDDED.search(node.value):
            yield node.lineno, node.value


def _c_like(
    text: str, dtype: str, own_names: frozenset[str] = frozenset(), borrowed: tuple[Macro, ...] = ()
) -> Iterator[Hit]:
    source = CSource(text, own_names, borrowed)
    yield from c_surroundings.hits(source)
    yield from c_work.hits(source, dtype=dtype)
    yield from relaxed_math.hits_of_source(source.tokens)


def _by_name(path: str) -> Iterator[Hit]:
    """The audit's hits for files whose place alone has an effect on others."""
    name = PurePosixPath(path).name
    module = name.endswith(".py") and name.removesuffix(".py") in SHADOWED
    if module or name in SHADOWING or name.endswith(".pth") or _of_the_system(path, name):
        yield Hit(rule="shadowed-import", line=1, code=name)


def _of_the_system(path: str, name: str) -> bool:
    """The audit: whether an `#include` of a system's header could find the file."""
    return bool(SYSTEM_HEADERS.fullmatch(name) or SYSTEM_FOLDERS.fullmatch(path))


def _order(findings: list[Finding]) -> tuple[Finding, ...]:
    """The audit's findings by line, each rule once a line."""
    unique = {(item.line, item.rule): item for item in reversed(findings)}
    return tuple(unique[key] for key in sorted(unique))
