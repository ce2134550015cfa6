"""Which part of the sources is timed: the function, what it calls, and its types; the rest of a file is not its business."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Protocol

import yaml

from ridgeline.graph.briefing import Briefing
from ridgeline.graph.task import Task
from ridgeline.graph.values import Artifact
from ridgeline.knowledge.definitions import Definition, Place, list_functions, reach, read_definitions
from ridgeline.knowledge.rewrite import code
from ridgeline.knowledge.source import lang_of

HARNESS = re.compile(r"(^|/)[^/]*(?:test|bench|harness)[^/]*", re.IGNORECASE)
"""Paths of files that call what is timed."""
MOST_FILES = 12
"""Read-only files that are looked through."""
_ENTRY = re.compile(r"^entry:[ \t]*[\"']?(\w+)", re.MULTILINE)
_INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)
_ABOVE = re.compile(r"[ \t]*(?://|/\*|\*|#(?!\s*(?:if|else|elif|endif|define|include|pragma)))")
"""A line of a comment, above the definition that it is about."""
MOST_COMMENT = 12
_OPTIONS = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+(?:GCC|clang)[ \t]+(?:push_options|target|optimize|attribute)\b")
"""A line that says how what follows is compiled."""
_OPTIONS_END = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+(?:GCC[ \t]+pop_options|clang[ \t]+attribute[ \t]+pop)\b")
_WORD = re.compile(r"[A-Za-z_]\w*")


class Files(Protocol):
    """The best version's files and stored artifacts."""

    def paths(self, commit: str) -> tuple[str, ...]: ...
    def text(self, commit: str, path: str) -> str | None: ...
    def search(self, commit: str, text: str) -> tuple[str, ...]: ...
    def read_artifact(self, artifact: Artifact) -> str | None: ...


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The timed functions and what of the editable sources they use."""

    functions: tuple[str, ...]
    because: str
    """Who names them."""
    places: tuple[Place, ...]
    """The functions first, then what they use, nearest first."""
    is_whole: bool
    """Whether the sources define no function beyond these."""

    @property
    def names(self) -> frozenset[str] | None:
        """Names of the timed definitions that a planner may change; None where the whole file is meant."""
        if self.is_whole:
            return None
        return frozenset(name for place in self.places for name in place.definition.names)


def find_scope(briefing: Briefing, files: Files | None = None) -> Scope | None:
    """What is timed, for the planner: by the contract, the task, the instruction, the profile or the test and benchmark, in this order.

    None where nobody names a function of the editable sources. `files`: None where only the briefing is at hand.
    """
    sources = {edit.path: edit.text for edit in briefing.sources if edit.text is not None and code(edit.path)}
    defined = list_functions(sources)
    for because, names in _list_names(briefing, files, defined):
        if functions := tuple(name for name in dict.fromkeys(names) if name in defined):
            return _make_scope(functions, because, tuple(sources.items()))
    return None


@lru_cache(maxsize=32)
def _make_scope(functions: tuple[str, ...], because: str, sources: tuple[tuple[str, str], ...]) -> Scope:
    """The scope of these functions: most rounds are rolled back, and then the sources are those of the last one."""
    places = reach(dict(sources), functions)
    reached = {name for place in places for name in place.definition.names}
    return Scope(
        functions=functions,
        because=because,
        places=places,
        is_whole=list_functions(dict(sources)) <= reached,
    )


def _list_names(
    briefing: Briefing, files: Files | None, defined: frozenset[str]
) -> Iterator[tuple[str, Iterable[str]]]:
    """Who may name the timed function, the surest first, with the names."""
    contract, commit = briefing.contract, briefing.base_commit
    if contract.function:
        yield "the contract's `function`", (contract.function,)
    if files is not None and contract.task_file:
        yield "the task's `entry`", _ENTRY.findall(files.text(commit, contract.task_file) or "")
    yield "the instruction", _WORD.findall(briefing.target.instruction)
    profile, recorded = contract.profile, briefing.profile
    if profile is not None and profile.kernel:
        yield "the contract's `profile.kernel`", _WORD.findall(profile.kernel)
    if recorded is not None and recorded.kernel is not None:
        yield "the profile", _WORD.findall(recorded.kernel.kernel)
    if files is not None and recorded is not None and recorded.report is not None:
        yield "the profile", _costliest(files.read_artifact(recorded.report) or "", defined)
    if files is not None:
        called = set[str]()
        for _, text in read_harness(briefing, files):
            called |= set(_WORD.findall(text))
        yield "the test and the benchmark", sorted(called)


def _costliest(report: str, defined: frozenset[str]) -> tuple[str, ...]:
    """The timed function by a callgrind report: the one of the sources with the most instructions; none in other reports."""
    costs: dict[str, int] = {}
    by_number: dict[str, str] = {}
    function, is_call = "", False
    for line in report.splitlines():
        if line.startswith("fn="):
            number, _, name = line[3:].partition(" ")
            by_number.setdefault(number, name or number)
            function = by_number[number].partition("'")[0]
        elif line.startswith("calls="):
            is_call = True
        elif line[:1].isdigit() or line[:1] in "+-*":
            words = line.split()
            if not is_call and len(words) > 1 and words[1].isdigit() and function in defined:
                costs[function] = costs.get(function, 0) + int(words[1])
            is_call = False
    return (max(costs, key=lambda name: (costs[name], name)),) if costs else ()


WRITTEN = ("call.h", "problem.h")
"""Of a harness that `ridgeline init` wrote: how the function is called, and its sizes, arrays and values."""


def read_task(briefing: Briefing, files: Files) -> Task | None:
    """The scope's task of the judge; None for a contract that the judge does not answer, and where the file cannot be read."""
    path = briefing.contract.task_file
    if path is None:
        return None
    try:
        return Task.model_validate(yaml.safe_load(files.text(briefing.base_commit, path) or ""))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def read_written(briefing: Briefing, files: Files) -> dict[str, str]:
    """For the planner: these files, by path, where the benchmark's command names something below their folder."""
    words = [word for word in briefing.contract.quick_command if "/" in word]
    paths = [path for path in files.paths(briefing.base_commit) if path.rpartition("/")[2] in WRITTEN]
    near = [path for path in paths if any(word.startswith(path.rpartition("/")[0] + "/") for word in words)]
    return {path: text for path in near if (text := files.text(briefing.base_commit, path)) is not None}


def read_harness(briefing: Briefing, files: Files) -> list[tuple[str, str]]:
    """For the planner: read-only sources of test and benchmark: those that a command names, then those named like them."""
    contract, editable = briefing.contract, {edit.path for edit in briefing.sources}
    words = {*contract.test_command, *contract.quick_command, *contract.benchmark_command}
    paths = [path for path in files.paths(briefing.base_commit) if path not in editable and code(path)]
    paths = sorted(
        (path for path in paths if path in words or HARNESS.search(path)), key=lambda path: path not in words
    )
    texts = ((path, files.text(briefing.base_commit, path)) for path in paths[:MOST_FILES])
    return [(path, text) for path, text in texts if text is not None]


@dataclass(frozen=True)
class NamedLines:
    """A definition as lines, counted from 1, with the comment above it and the compiler's options around it."""

    name: str
    start: int
    end: int


def line_spans(texts: Mapping[str, str], functions: Iterable[str]) -> dict[str, tuple[NamedLines, ...]]:
    """The lines of what the timed functions use, themselves first, by path; no path without any."""
    sources = {path: text for path, text in texts.items() if code(path)}
    return _to_lines(reach(sources, functions), sources)


def _to_lines(places: Iterable[Place], texts: Mapping[str, str]) -> dict[str, tuple[NamedLines, ...]]:
    """Source lines of definitions that a planner's edit may touch, in their order."""
    spans: dict[str, list[NamedLines]] = {}
    lines = {path: text.splitlines(keepends=True) for path, text in texts.items()}
    ends = {path: list(accumulate(map(len, items))) for path, items in lines.items()}
    for place in places:
        definition, line_ends = place.definition, ends[place.path]
        start = bisect_right(line_ends, definition.start) + 1
        end = bisect_right(line_ends, max(definition.start, definition.end - 1)) + 1
        least = max(1, start - MOST_COMMENT)
        while start > least and _belongs_to_next(lines[place.path][start - 2]):
            start -= 1
        if end < len(lines[place.path]) and _OPTIONS_END.match(lines[place.path][end]):
            end += 1
        name = min(definition.names, default="")
        spans.setdefault(place.path, []).append(NamedLines(name, start, end))
    return {path: tuple(items) for path, items in spans.items()}


def _belongs_to_next(line: str) -> bool:
    """Whether a line is about the timed definition below it: a comment, or an option of the compiler that begins there."""
    return bool(_ABOVE.match(line) or (_OPTIONS.match(line) and not _OPTIONS_END.match(line)))


def list_read_only(briefing: Briefing, files: Files, scope: Scope) -> dict[str, tuple[NamedLines, ...]]:
    """Of read-only files, for the prompt: types and macros that the timed functions use, then what of test and benchmark calls them."""
    sources = {edit.path: edit.text for edit in briefing.sources if edit.text is not None and code(edit.path)}
    harness = dict(read_harness(briefing, files))
    included = {path: text for path, text in read_included(briefing, files).items() if path not in harness}
    reached = reach({**sources, **included}, scope.functions)
    types = [place for place in reached if place.path in included]
    entries = {name for place in scope.places if not place.distance for name in place.definition.names}
    callers = {
        (path, definition)
        for path, text in harness.items()
        for name in entries
        for definition in _calling(path, text, name)
    }
    order = list(harness)
    calls = sorted(callers, key=lambda item: (order.index(item[0]), item[1].start))
    helpers = [
        place
        for path in dict.fromkeys(path for path, _ in calls)
        for place in reach({path: harness[path]}, {name for at, item in calls if at == path for name in item.names})
        if not place.definition.names & entries
    ]
    places = (*types, *(Place(path, definition, 0) for path, definition in calls), *helpers)
    written = read_written(briefing, files)
    whole = {path: (NamedLines(name="", start=1, end=len(text.splitlines())),) for path, text in written.items()}
    return whole | {
        path: spans for path, spans in _to_lines(places, {**included, **harness}).items() if path not in whole
    }


def _calling(path: str, text: str, name: str) -> list[Definition]:
    """Functions of a file that call the timed one; where there are none, its other statements that do."""
    using = [item for item in read_definitions(text, lang_of(path)) if name in item.uses and item.kind != "prototype"]
    return [item for item in using if item.kind == "function"] or using


def read_included(briefing: Briefing, files: Files) -> Mapping[str, str]:
    """For the planner: read-only files that the sources include or import, and what these include, by path."""
    editable = {edit.path for edit in briefing.sources}
    by_name: dict[str, list[str]] = {}
    for path in files.paths(briefing.base_commit):
        if path not in editable:
            by_name.setdefault(PurePosixPath(path).name, []).append(path)
    texts: dict[str, str] = {}
    waiting = [(edit.path, edit.text or "") for edit in briefing.sources]
    while waiting and len(texts) < MOST_FILES:
        _, text = waiting.pop(0)
        for name in _list_included(text):
            for path in by_name.get(name, ())[:1]:
                text_of_path = files.text(briefing.base_commit, path) if path not in texts else None
                if text_of_path is not None:
                    texts[path] = text_of_path
                    waiting.append((path, text_of_path))
    return texts


def _list_included(text: str) -> list[str]:
    """File names of `#include "..."` and of imports."""
    names = [PurePosixPath(name).name for name in _INCLUDED.findall(text)]
    return [*names, *(f"{module.rpartition('.')[2]}.py" for module in _IMPORTED.findall(text))]
