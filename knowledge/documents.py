"""Documents of the knowledge base: Markdown with front matter, cut into sections that can be cited by line.

Plain dataclasses, not pydantic: a search must have answered before that library has even been loaded.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.knowledge.yaml_text import NotYaml, read_yaml

KINDS = ("op", "hardware", "product", "backend")
PHASES = ("analyze", "propose", "draft", "diagnose")
LISTS = ("ops", "gpus", "langs", "phase", "aliases", "default_for")
FIELDS = ("title", "kind", "summary", *LISTS)
LONGEST = 60
"""Lines of a section; retrieval returns a section, and a longer one would crowd out the others."""
_FRONT = re.compile(r"---\n(.*?)\n---\n", re.S)
_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"(\s*)[-*+] (.*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """What is wrong at a place, and how to mend it."""

    path: str
    line: int
    what: str
    mend: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}; {self.mend}"


class DocumentError(ValueError):
    """A document that cannot be read at all; `problem` names file, line and mend."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One list item, its continuation lines joined."""

    line: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading and the text below it, up to the next heading of its level."""

    path: str
    line: int
    """Of the heading, counted from 1."""
    heading: str
    text: str
    """Without the heading line."""

    @property
    def id(self) -> str:
        """A knowledge section's name: `path#heading`."""
        return f"{self.path}#{self.heading}"

    def items(self) -> Iterator[Item]:
        """List items of a knowledge document outside code blocks, with the line each begins in."""
        parts: list[str] = []
        began = 0
        for number, line in prose(self.text, self.line + 1):
            match = _ITEM.fullmatch(line)
            if match is None and parts and line.startswith("  ") and line.strip():
                parts.append(line.strip())
                continue
            if parts:
                yield Item(line=began, text=" ".join(parts))
            parts, began = ([match[2].strip()], number) if match else ([], 0)
        if parts:
            yield Item(line=began, text=" ".join(parts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One file. An empty list of operators, architectures or languages means: for every one."""

    path: str
    title: str
    kind: str
    summary: str
    ops: tuple[str, ...]
    gpus: tuple[str, ...]
    langs: tuple[str, ...]
    phase: tuple[str, ...]
    aliases: tuple[str, ...]
    """Product: other names it is sold or reported under."""
    default_for: tuple[str, ...]
    """Product: family names that mean this one of several."""
    sections: tuple[Section, ...]

    @property
    def overview(self) -> bool:
        """Whether a knowledge document is the one to read before the others of its folder."""
        return self.path.endswith("/overview.md") or self.kind == "product"


def parse(text: str, path: str) -> Document:
    """Read one knowledge document. Raises DocumentError naming file, line and mend when its front matter is not as agreed."""
    front_matter = _FRONT.match(text)
    if front_matter is None:
        raise _error(path, 1, "has no front matter", "put title, kind and summary between two lines of ---")
    fields = front(front_matter[1], path)
    for name in ("title", "summary"):
        if not isinstance(fields.get(name), str) or not fields[name].strip():
            raise _error(path, 1, f"front matter: {name} is missing", f"write `{name}: ...`, one sentence")
    if fields.get("kind") not in KINDS:
        place = line_of(front_matter[1], "kind")
        raise _error(path, place, f"kind is {fields.get('kind')!r}", f"write one of {', '.join(KINDS)}")
    lists = {name: _words(fields.get(name), path, line_of(front_matter[1], name), name) for name in LISTS}
    if unknown := sorted(set(lists["phase"]) - set(PHASES)):
        where = line_of(front_matter[1], "phase")
        raise _error(path, where, f"phase: {unknown[0]!r} is none", f"write some of {', '.join(PHASES)}")
    first_line = front_matter[0].count("\n") + 1
    return Document(
        path=path,
        title=fields["title"].strip(),
        kind=fields["kind"],
        summary=fields["summary"].strip(),
        sections=tuple(sections(text[front_matter.end() :], path, first_line=first_line)),
        **lists,
    )


def front(text: str, path: str) -> dict[str, Any]:
    """A knowledge document's YAML front matter as a mapping of known fields. Raises DocumentError."""
    try:
        fields = read_yaml(text)
    except NotYaml as error:
        raise _error(path, 1 + error.line, "front matter is not YAML", "quote texts that hold `: ` or `#`") from error
    if not isinstance(fields, dict):
        raise _error(path, 2, "front matter is not a mapping", "write `name: value` lines")
    if unknown := sorted(str(name) for name in set(fields) - set(FIELDS)):
        line = line_of(text, unknown[0])
        raise _error(path, line, f"{unknown[0]} is no field", f"known are {', '.join(FIELDS)}")
    return fields


def sections(text: str, path: str, *, first_line: int = 1) -> Iterator[Section]:
    """A knowledge document cut at `## ` headings; what stands before the first belongs to the title. `first_line`: its number."""
    heading, began, body = "", first_line, [""][:0]
    fenced = False
    for number, line in enumerate(text.splitlines(), start=first_line):
        fenced ^= bool(_FENCE.match(line))
        if not fenced and re.match(r"##? \S", line):
            if heading and any(part.strip() for part in body):
                yield Section(path=path, line=began, heading=heading, text="\n".join(body))
            heading, began, body = line.lstrip("#").strip(), number, []
        else:
            body.append(line)
    if heading and any(part.strip() for part in body):
        yield Section(path=path, line=began, heading=heading, text="\n".join(body))


def prose(text: str, first_line: int) -> Iterator[tuple[int, str]]:
    """A knowledge document's lines outside code blocks, with their numbers; `first_line` is the number of the first line."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=first_line):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def line_of(front_matter: str, field: str) -> int:
    """Line of a field in a knowledge document; that of the front matter's beginning where it does not stand."""
    for number, line in enumerate(front_matter.splitlines(), start=2):
        if line.startswith(f"{field}:"):
            return number
    return 1


def _words(value: object, path: str, line: int, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return tuple(str(item) for item in value)
    raise _error(path, line, f"{name} is not a list of words", f"write `{name}: [one, two]`")


def _error(path: str, line: int, what: str, mend: str) -> DocumentError:
    return DocumentError(Problem(path=path, line=line, what=what, mend=mend))


def texts(fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    """A list of words in a document's front matter that was checked elsewhere; a single word counts as one."""
    value = fields.get(name)
    if isinstance(value, list | tuple):
        return tuple(str(item) for item in value)
    return (str(value),) if isinstance(value, str) and value else ()
