"""Top-level definitions of a C-like or Python source: where each stands, what it names, and what it uses.

One pass over the tokens, whatever the length. Where `#if` opens a block in each of its branches, the last branch counts.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from ridgeline.knowledge.source import Lang, lang_of, scan

Kind = Literal["function", "type", "data", "macro", "prototype", "other"]
_ON_DEVICE = re.compile(r"__global__|@(?:triton\.|gluon\.)?(?:jit|autotune|kernel)\b|@cute\.kernel\b")
_NAMELESS = frozenset(
    {
        *("__attribute__", "__attribute", "__declspec", "alignas", "_Alignas", "__launch_bounds__", "asm", "__asm__"),
        *("if", "for", "while", "switch", "return", "sizeof", "defined", "noexcept", "requires", "decltype"),
    }
)
"""Words before a parenthesis that are no function's name."""
_TAGS = frozenset({"struct", "union", "enum", "class"})
_MEMBER = frozenset({".", "->"})
_CONDITION = re.compile(r"#\s*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b")
_DEFINE = re.compile(r"#\s*define\s+(\w+)(?:\(([^)]*)\))?")


@dataclass(frozen=True)
class Definition:
    """A top-level function, class, type, macro, constant or declaration."""

    kind: Kind
    names: frozenset[str]
    """What it defines; a type with its constants."""
    start: int
    """Character offset of its first token."""
    end: int
    """Offset behind its last token."""
    uses: frozenset[str]
    """Every other name in it."""
    on_device: bool = False
    """A kernel that others launch."""


@lru_cache(maxsize=64)
def read_definitions(text: str, lang: Lang) -> tuple[Definition, ...]:
    """All top-level definitions, first to last; none of a Python source that cannot be parsed."""
    return tuple(_of_python(text) if lang == "python" else _C(text).run())


@dataclass(frozen=True)
class Place:
    """A definition in a file, and how many uses lie between it and what was asked for."""

    path: str
    definition: Definition
    distance: int


def reach(sources: Mapping[str, str], roots: Iterable[str]) -> tuple[Place, ...]:
    """What definitions of a source use, directly or not, themselves first, then by distance and place.

    Whoever launches a kernel of a device belongs to it: the launch says tiles and warps. Prototypes count where no
    source defines the function. Empty where no source defines a root.
    """
    by_name: dict[str, list[tuple[str, Definition]]] = {}
    for path, text in sources.items():
        for definition in read_definitions(text, lang_of(path)):
            for name in definition.names:
                by_name.setdefault(name, []).append((path, definition))
    waiting = [item for name in roots for item in _defining(by_name, name)]
    if any(definition.on_device for _, definition in waiting):
        waiting += list_callers(sources, {name for _, definition in waiting for name in definition.names})
    distance_by_place = dict.fromkeys(waiting, 0)
    for item in waiting:  # grows meanwhile
        for name in sorted(item[1].uses):
            for used in _defining(by_name, name):
                if used not in distance_by_place:
                    distance_by_place[used] = distance_by_place[item] + 1
                    waiting.append(used)
    order = {path: number for number, path in enumerate(sources)}
    places = [Place(path, definition, distance) for (path, definition), distance in distance_by_place.items()]
    return tuple(sorted(places, key=lambda place: (place.distance, order[place.path], place.definition.start)))


def list_callers(sources: Mapping[str, str], names: set[str]) -> list[tuple[str, Definition]]:
    """Functions that use one of the names, and those that use such a function in turn, in their files' order."""
    functions = [
        (path, definition)
        for path, text in sources.items()
        for definition in read_definitions(text, lang_of(path))
        if definition.kind == "function" and not definition.names & names
    ]
    callers: dict[tuple[str, Definition], None] = {}
    sought = set(names)
    while fresh := [item for item in functions if item not in callers and item[1].uses & sought]:
        callers.update(dict.fromkeys(fresh))
        sought = {name for _, definition in fresh for name in definition.names}
    return list(callers)


def list_functions(sources: Mapping[str, str]) -> frozenset[str]:
    """From sources as the knowledge reads them: names of all functions that they define."""
    return frozenset(
        name
        for path, text in sources.items()
        for definition in read_definitions(text, lang_of(path))
        if definition.kind == "function"
        for name in definition.names
    )


def _defining(by_name: Mapping[str, list[tuple[str, Definition]]], name: str) -> list[tuple[str, Definition]]:
    """What defines a name in the sources; prototypes only where nothing else does."""
    items = by_name.get(name, [])
    return [item for item in items if item[1].kind != "prototype"] or items


def _of_python(text: str) -> Iterator[Definition]:
    """Functions with their decorators, classes, assignments and other statements of a module; imports define names too."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    starts = _line_starts(text)
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        first_line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        last_line = node.end_lineno or node.lineno
        start, end = starts[first_line - 1], starts[last_line] if last_line < len(starts) else len(text)
        names = frozenset(_names_of(node))
        words = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
        words |= {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
        kind: Kind = "other"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            kind = "function"
        elif isinstance(node, ast.ClassDef):
            kind = "type"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            kind = "data"
        on_device = bool(decorators) and bool(_ON_DEVICE.search(text, start, end))
        yield Definition(kind, names, start, end, frozenset(words - names), on_device)


def _names_of(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module binds, those inside `if` and `try` included."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.If | ast.Try | ast.With):
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.stmt):
                yield from _names_of(inner)
    else:
        yield from (
            item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
        )


def _line_starts(text: str) -> list[int]:
    """Offset of each line of a source as Python counts them."""
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]


class _C:
    """One pass over the tokens of a C-like source."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._out: list[Definition] = []
        self._item: list[tuple[str, str, int, int]] = []
        """Tokens of the open item: kind, text, depth, end."""
        self._start = 0
        self._depth = 0
        self._conditions: list[int] = []
        self._is_function = False
        self._name: str | None = None
        """The last name at the top that parameters follow."""
        self._has_value = False
        """Whether an initializer has begun."""

    def run(self) -> list[Definition]:
        """All definitions of a C source."""
        for kind, word, start, end in scan(self._text, "c"):
            if kind == "directive":
                self._directive(word, start, end)
            else:
                self._take(kind, word, start, end)
        return self._out

    def _directive(self, word: str, start: int, end: int) -> None:
        """A condition may give back the depth; a macro at the top is a definition; all else belongs to the open item."""
        if condition := _CONDITION.match(word):
            name = condition[1]
            if name.startswith("if"):
                self._conditions.append(self._depth)
            elif name == "endif":
                del self._conditions[-1:]
            elif self._conditions:
                self._depth = self._conditions[-1]
        if self._item:
            self._item += [("name", name, self._depth, end) for name in re.findall(r"[A-Za-z_]\w*", word)]
        elif macro := _DEFINE.match(word):
            parameters = {name.strip() for name in (macro[2] or "").split(",")}
            uses = frozenset(re.findall(r"[A-Za-z_]\w*", word[macro.end() :])) - parameters - {macro[1]}
            self._out.append(Definition("macro", frozenset({macro[1]}), start, end, uses))

    def _take(self, kind: str, word: str, start: int, end: int) -> None:
        """Take one token of a C source's code."""
        if not self._item:
            if word in ("}", ";"):
                return  # of `extern "C"` or a namespace
            self._start = start
        if word == "{" and not self._depth:
            if self._is_transparent():
                self._item, self._name = [], None
                return
            self._is_function = self._name is not None and not self._has_value
        if word in ")]}":
            self._depth = max(0, self._depth - 1)
        if not self._depth:
            self._note(word)
        self._item.append((kind, word, self._depth, end))
        if word in "([{":
            self._depth += 1
        if not self._depth and (word == ";" or (word == "}" and self._is_function)):
            self._close()

    def _is_transparent(self) -> bool:
        """Whether the block that opens in a C source only groups definitions."""
        words = [word for _, word, _, _ in self._item[:2]]
        return words[:1] == ["namespace"] or words in (["inline", "namespace"], ["extern", '"C"'])

    def _note(self, word: str) -> None:
        """A token at the top may make the name before it a function's, or begin a value or a constructor's list."""
        kind, before, depth, _ = self._item[-1] if self._item else ("", "", 0, 0)
        if word == "(" and kind == "name" and not depth and before not in _NAMELESS and not self._has_value:
            self._name = before
        self._has_value |= word == "="

    def _close(self) -> None:
        """The open item of a C source as a definition."""
        kind, names = self._classify()
        pairs = zip([("", "", 0, 0), *self._item], self._item, strict=False)
        words = frozenset(
            word for (_, before, _, _), (token, word, _, _) in pairs if token == "name" and before not in _MEMBER
        )
        head = self._text[self._start : self._start + 400]
        on_device = kind == "function" and bool(_ON_DEVICE.search(head.partition("{")[0]))
        end = self._item[-1][3]
        self._out.append(Definition(kind, frozenset(names), self._start, end, words - names, on_device))
        self._item, self._is_function, self._name, self._has_value = [], False, None, False

    def _classify(self) -> tuple[Kind, set[str]]:
        """Kind and names of the open item of a C source."""
        top = [(kind, word) for kind, word, depth, _ in self._item if depth == 0]
        words = [word for _, word in top]
        if self._is_function and self._name:
            return "function", {self._name}
        if "typedef" in words or (_TAGS & set(words) and "{" in words and "=" not in words):
            return "type", self._type_names(top)
        if self._name and not self._has_value:
            return "prototype", {self._name}
        return "data", {word for (kind, word), (_, after) in pairwise(top) if kind == "name" and after in "=[;,"}

    def _type_names(self, top: list[tuple[str, str]]) -> set[str]:
        """Tag, name of the typedef, constants of an enumeration, and the name of a type of functions."""
        names: set[str] = set()
        for at, (_, word) in enumerate(top):
            if word in _TAGS:
                after = next((text for kind, text in top[at + 1 :] if kind == "name" and text not in _NAMELESS), None)
                names |= {after} if after else set()
        tokens = [(kind, word) for kind, word, _, _ in self._item]
        words = {word for _, word in top}
        if "enum" in words:
            names |= _names_behind(tokens, {"{", ","})
        if "typedef" in words:
            of_functions = _names_behind(tokens, {"*"}) if "{" not in words and "(" in words else set()
            names |= of_functions or {
                word for (kind, word), (_, after) in pairwise(top) if kind == "name" and after in (";", "[", ",")
            }
        return names


def _names_behind(tokens: list[tuple[str, str]], marks: set[str]) -> set[str]:
    """Names in a C source that directly follow one of the marks."""
    return {word for (_, before), (kind, word) in pairwise(tokens) if kind == "name" and before in marks}
