"""Workspace mode: which files make the minimal project of a version, found by what sources and commands name."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from ridgeline.graph.contract import Argv, Contract
from ridgeline.sandbox.audit.shared import C_LIKE, INCLUDE
from ridgeline.sandbox.workspace.globs import matches

Read = Callable[[str], str]
"""Text of a file by its path from the contract's folder."""
WORD = re.compile(r"[^\s\"'`$(){}<>|&;=,]+")
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
PYTEST_FILES = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
LARGEST_SCRIPT = 400_000
"""Characters of a file that is read for the names of others."""


def find_minimal_project(paths: Iterable[str], contract: Contract, read: Read) -> Mapping[str, tuple[str, ...]]:
    """Files of the kernel and what it needs (`src`), of the test (`tests`) and of the benchmarks (`bench`), sorted.

    What test and benchmark share stands in both; what the kernel needs in `src` alone. What the contract names under
    `workspace` is added to what is found.
    """
    present, extra = frozenset(paths), contract.workspace
    flags = (contract.flags_file,) if contract.flags_file else ()
    rebuild = contract.local_rebuild
    build = (rebuild.command,) if rebuild.required and rebuild.command else ()
    benches = (contract.benchmark_command, contract.quick_command, contract.paired_command)
    profile = contract.profile.command if contract.profile else None
    roots: dict[str, tuple[tuple[str, ...], tuple[Argv | None, ...]]] = {
        "src": ((*contract.kernel_source, *flags, *extra.src), build),
        "tests": (extra.tests, (contract.test_command,)),
        "bench": (extra.bench, (*benches, profile)),
    }
    groups: dict[str, tuple[str, ...]] = {}
    sources: set[str] = set()
    for group, (globs, commands) in roots.items():
        start = {path for path in present if matches(path, globs)}
        start.update(path for argv in commands if argv for path in find_named_files(argv, present))
        reached = _follow(start, present, read)
        groups[group] = tuple(sorted(reached - sources))
        sources = sources or reached
    return groups


def find_named_files(argv: Argv, present: frozenset[str]) -> Iterator[str]:
    """Files that a command names: as a word, as a module after `-m`, as make's own file, as pytest's settings."""
    for position, word in enumerate(argv):
        plain = _plain(word.split("::")[0])
        if plain in present:
            yield plain
        elif argv[position - 1 : position] == ("-m",):
            yield from _modules(word, PurePosixPath("."), present)
    program = PurePosixPath(argv[0]).name
    if program in ("make", "gmake"):
        folder = next((argv[at + 1] for at, word in enumerate(argv[:-1]) if word == "-C"), ".")
        yield from (path for name in MAKEFILES if (path := _plain(f"{folder}/{name}")) in present)
    if "pytest" in (program, *argv[1:3]):
        yield from (name for name in PYTEST_FILES if name in present)
        for word in argv[1:]:
            test = PurePosixPath(_plain(word.split("::")[0]))
            if str(test) in present:
                yield from (name for above in test.parents if (name := _plain(f"{above}/conftest.py")) in present)


def _follow(start: Iterable[str], present: frozenset[str], read: Read) -> set[str]:
    """These files and all that they name, directly or through others."""
    reached: set[str] = set()
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting += _find_dependencies(path, read(path)[:LARGEST_SCRIPT], present)
    return reached


def _find_dependencies(path: str, text: str, present: frozenset[str]) -> Iterator[str]:
    """What one file includes, imports or, where it is a script, settings or a build file, names."""
    folder = PurePosixPath(path).parent
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in C_LIKE:
        for name in INCLUDE.findall(text):
            yield from _find_file(name, folder, present)
        return
    if suffix == ".py":
        yield from _read_python(text, folder, present)
        return
    if suffix in (".md", ".rst", ".txt", ".csv"):
        return  # prose and data name files that nothing opens
    for word in WORD.findall(text):
        yield from _find_file(word, folder, present)


def _read_python(text: str, folder: PurePosixPath, present: frozenset[str]) -> Iterator[str]:
    """Modules of the project that a Python source imports, and files that its plain strings name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # a candidate may be broken: its build or test says so
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(alias.name, folder, present)
        elif isinstance(node, ast.ImportFrom):
            above = folder
            for _ in range(node.level - 1):
                above = above.parent
            start = above if node.level else None
            base = node.module or ""
            for name in (base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)):
                yield from _modules(name, start or folder, present)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 300:
            yield from _find_file(node.value, folder, present)


def _modules(name: str, folder: PurePosixPath, present: frozenset[str]) -> Iterator[str]:
    """Files of a module with those of the packages it lies in, from the importing file's folder or the project's."""
    parts = [part for part in name.split(".") if part]
    for base in dict.fromkeys((folder, PurePosixPath("."))):
        for depth in range(1, len(parts) + 1):
            stem = "/".join(parts[:depth])
            for file in (f"{base}/{stem}.py", f"{base}/{stem}/__init__.py"):
                if (path := _plain(file)) in present:
                    yield path


def _find_file(name: str, folder: PurePosixPath, present: frozenset[str]) -> Iterator[str]:
    """The file of that name beside the one that names it, else below the contract's folder."""
    for candidate in (f"{folder}/{name}", name):
        if (path := _plain(candidate)) in present:
            yield path
            return


def _plain(path: str) -> str:
    """The path without `.` and `..`; one that leads out of the folder is no file of it."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
