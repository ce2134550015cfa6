"""Whether the knowledge base can be trusted: every fact sourced, every source known, every number readable."""

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from ridgeline.knowledge.documents import LONGEST, Document, Problem, Section, prose
from ridgeline.knowledge.facts import Citation, citations, facts, find_hedge, list_unsourced, without
from ridgeline.knowledge.library import File, Library
from ridgeline.knowledge.registry import Registry, registry
from ridgeline.knowledge.specs import HEADING, specs, wrong

_LINK = re.compile(r"\[[^\]\n]+\]\(([^()\s]*)\)")
_URL = re.compile(r"https?://[\w.-]+\.[a-z]{2,}(/\S*)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckReport:
    """What the check counted, and what it found wrong."""

    documents: int
    facts: int
    """Sourced statements, specs not counted."""
    specs: int
    """Numbers a program reads, UNKNOWN ones not counted."""
    cards: int
    sources: int
    unused: tuple[str, ...]
    """Sources that nothing cites."""
    problems: tuple[Problem, ...]


def check(library: Library, *, root: str = "") -> CheckReport:
    """Read the whole knowledge base, or what is cited from one root; problems in the order of files and lines."""
    sources = registry(library)
    cited: set[str] = set()
    problems = [*library.problems, *sources.problems]
    counted = 0
    prefix = f"{root}/" if root else ""
    documents = [document for document in library.documents if document.path.startswith(prefix)]
    paths = {file.path for file in library.files}
    for document in documents:
        unspecified = [fact for fact in facts(document) if not _is_spec(document, fact.line)]
        counted += len(unspecified)
        problems += _document(document, sources, paths)
        cited |= {citation.source for fact in facts(document) for citation in fact.citations}
    cards = 0
    for file in library.cards():
        if not file.path.startswith(prefix):
            continue
        cards += 1
        names, wrongs = _card(file, sources)
        cited |= names
        problems += wrongs
    problems += _twice(library)
    return CheckReport(
        documents=len(documents),
        facts=counted,
        specs=sum(bool(spec.written) for document in documents for spec in specs(document)),
        cards=cards,
        sources=len(sources.sources),
        unused=tuple(sorted(set(sources.sources) - cited)),
        problems=tuple(sorted(_select(problems, prefix), key=lambda problem: (problem.path, problem.line))),
    )


def _select(problems: Iterable[Problem], prefix: str) -> Iterator[Problem]:
    """The knowledge files whose cited path begins so."""
    return (problem for problem in problems if problem.path.startswith(prefix))


def _document(document: Document, sources: Registry, paths: Set[str]) -> Iterator[Problem]:
    yield from wrong(document)
    line_by_heading: dict[str, int] = {}
    for section in document.sections:
        if section.heading in line_by_heading:
            what = f"heading {section.heading!r} stands in line {line_by_heading[section.heading]} too"
            yield _problem(section, section.line, what, "give each section its own heading")
        line_by_heading[section.heading] = section.line
        if (length := len(section.text.strip().splitlines())) > LONGEST:
            yield _problem(section, section.line, f"the section has {length} lines", f"split it, {LONGEST} at most")
        yield from _items(section, sources)
        yield from _links(section, paths)
        if section.heading == HEADING:
            continue
        for item in list_unsourced(section):
            yield _problem(section, item.line, f"a number without source: {_short(item.text)}", "end it with [src: id]")


def _items(section: Section, sources: Registry) -> Iterator[Problem]:
    for item in section.items():
        cited = citations(item.text)
        for citation in cited:
            if citation.source not in sources.sources:
                yield _problem(section, item.line, f"source {citation.source!r} is not registered", _register(citation))
        if "[src:" in without(item.text):
            yield _problem(section, item.line, "the sources do not end the item", "write `[src: id, place; id]` last")
        if cited and not without(item.text):
            yield _problem(section, item.line, "a source without a fact", "write the fact before it")
        if cited and (word := find_hedge(item.text)):
            yield _problem(section, item.line, f"{word!r} hedges a fact", "give the number, or write UNKNOWN")


def _links(section: Section, paths: Set[str]) -> Iterator[Problem]:
    folder = section.path.rpartition("/")[0]
    for number, line in prose(section.text, section.line + 1):
        for target in _LINK.findall(line):
            if _URL.fullmatch(target) or target.startswith("#"):
                continue
            if "://" in target or _join_path(folder, target.partition("#")[0]) not in paths:
                yield _problem(section, number, f"link {target!r} leads nowhere", "correct the address or the path")


def _card(file: File, sources: Registry) -> tuple[set[str], list[Problem]]:
    """Ids that a card cites, and what is wrong with it."""
    from ridgeline.knowledge.cards import CardError, parse

    try:
        card = parse(file.text, file.path)
    except CardError as error:
        what = str(error).removeprefix(f"{file.path}: ")
        return set(), [Problem(path=file.path, line=1, what=what, mend="see the README of the knowledge folder")]
    line = next((at for at, text in enumerate(file.text.splitlines(), 1) if text.startswith("sources:")), 1)
    cited = [citation for text in card.sources for citation in citations(f"[src: {text}]")]
    problems = [
        Problem(
            path=file.path, line=line, what=f"source {citation.source!r} is not registered", mend=_register(citation)
        )
        for citation in cited
        if citation.source not in sources.sources
    ]
    problems += [
        Problem(path=file.path, line=1, what=f"{field}: {word!r} hedges", mend="give the number, or leave it out")
        for field, text in (("because", card.because), ("change", card.change), ("measured_on", card.measured_on))
        if (word := find_hedge(text))
    ]
    return {citation.source for citation in cited}, problems


def _twice(library: Library) -> Iterator[Problem]:
    """Complaints about a card: its id is its file's name, and stands once in all languages."""
    path_by_name: dict[str, str] = {}
    for file in library.cards():
        name = file.path.rpartition("/")[2].removesuffix(".md")
        if not re.search(rf"^id: {re.escape(name)}\s*$", file.text, re.M):
            yield Problem(path=file.path, line=2, what="the id is not the file's name", mend=f"write `id: {name}`")
        if name in path_by_name:
            yield Problem(path=file.path, line=2, what=f"{name} is also in {path_by_name[name]}", mend="rename one")
        path_by_name[name] = file.path


def _is_spec(document: Document, line: int) -> bool:
    return any(
        section.heading == HEADING and section.line < line <= section.line + section.text.count("\n") + 1
        for section in document.sections
    )


def _join_path(folder: str, target: str) -> str:
    """A relative path of the knowledge as it is cited."""
    parts = folder.split("/")
    for part in target.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _register(citation: Citation) -> str:
    suggestion = re.sub(r"[^a-z0-9]+", "-", citation.source.lower()).strip("-")
    return f"add it to a file in knowledge/sources, for example as `{suggestion}:`"


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _problem(section: Section, line: int, what: str, mend: str) -> Problem:
    return Problem(path=section.path, line=line, what=what, mend=mend)
