"""The registry of sources: what every citation must resolve to."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ridgeline.knowledge.documents import Problem
from ridgeline.knowledge.library import File, Library
from ridgeline.knowledge.yaml_text import NotYaml, read_yaml

FIELDS = ("title", "url", "repo", "path", "publisher", "accessed", "note", "standing")
UNVERIFIED = "unverified"
"""`standing` of a source that says of itself that its numbers are to be verified."""
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_URL = re.compile(r"https?://[\w.-]+\.[a-z]{2,}(/[^\s<>\"]*)?")
_REPO = re.compile(r"[\w.-]+/[\w.-]+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where a fact comes from."""

    id: str
    title: str
    publisher: str
    where: str
    """Address, or `owner/name: path` of a repository; empty for a book."""
    accessed: str
    path: str
    line: int
    standing: str = ""
    """UNVERIFIED, or nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Registry:
    """All sources by id, and what is wrong with the files that list them."""

    sources: Mapping[str, Source]
    problems: tuple[Problem, ...]


def registry(library: Library) -> Registry:
    """Merge every registry of sources; the same id twice is a problem, and so is an entry that leads nowhere."""
    sources: dict[str, Source] = {}
    problems: list[Problem] = []
    for file in library.registries():
        entries, broken = _read_entries(file)
        problems += broken
        for source in entries:
            if source.id in sources:
                place = f"{sources[source.id].path}:{sources[source.id].line}"
                what = f"{source.id} is also in {place}"
                problems.append(_problem(file, source.line, what, "remove one or rename it"))
            else:
                sources[source.id] = source
    return Registry(sources=sources, problems=tuple(problems))


@lru_cache(maxsize=64)
def _read_entries(file: File) -> tuple[tuple[Source, ...], tuple[Problem, ...]]:
    """Registered sources of one file, and what is wrong with them; read once while the file stays the same."""
    document, broken = _load(file)
    sources: list[Source] = []
    problems = [*broken]
    for name, fields in document.items():
        line = _line_of(file.text, name)
        problems += [_problem(file, line, f"{name}: {what}", mend) for what, mend in _wrong(fields)]
        if not _ID.fullmatch(name):
            problems.append(_problem(file, line, f"{name}: the id is not kebab-case", "use a-z, 0-9 and single -"))
        sources.append(_source(name, fields if isinstance(fields, dict) else {}, file, line))
    return tuple(sources), tuple(problems)


def _load(file: File) -> tuple[dict[str, object], list[Problem]]:
    try:
        fields_by_id = read_yaml(file.text)
    except NotYaml as error:
        return {}, [_problem(file, error.line, "is not YAML", "quote texts that hold `: ` or `#`")]
    if fields_by_id is None:
        return {}, []
    if not isinstance(fields_by_id, dict):
        return {}, [_problem(file, 1, "is not a mapping", "write `id: {title: ..., url: ...}`")]
    return {str(name): fields for name, fields in fields_by_id.items()}, []


def _wrong(fields: object) -> list[tuple[str, str]]:
    """What is wrong with one registered source, each with its mend."""
    if not isinstance(fields, dict):
        return [("is not a mapping", "write `{title: ..., url: ..., publisher: ..., accessed: ...}`")]
    wrongs = [(f"{field} is no field", f"known are {', '.join(FIELDS)}") for field in fields if field not in FIELDS]
    wrongs += [
        (f"{field} is missing", f"write `{field}: ...`") for field in ("title", "publisher") if not fields.get(field)
    ]
    url, repo = fields.get("url"), fields.get("repo")
    if url is not None and not _URL.fullmatch(str(url)):
        wrongs.append((f"url {url!r} is not an address", "write https://..."))
    if repo is not None and not (_REPO.fullmatch(str(repo)) and fields.get("path")):
        wrongs.append(("repo and path do not name a file", "write `repo: owner/name` and `path: folder/file`"))
    if url is None and repo is None and not fields.get("note"):
        wrongs.append(("leads nowhere", "give url, or repo and path, or for a book its edition as note"))
    if fields.get("standing") not in (None, UNVERIFIED):
        wrongs.append((f"standing {fields['standing']!r} is none", f"write `standing: {UNVERIFIED}`, or nothing"))
    if (url or repo) and not _DATE.fullmatch(str(fields.get("accessed", ""))):
        wrongs.append(("accessed is missing", "write `accessed: YYYY-MM-DD`"))
    return wrongs


def _source(name: str, fields: Mapping[str, object], file: File, line: int) -> Source:
    repository = f"{fields.get('repo')}: {fields.get('path')}" if fields.get("repo") else ""
    return Source(
        id=name,
        title=str(fields.get("title", "")),
        publisher=str(fields.get("publisher", "")),
        where=str(fields.get("url") or repository),
        accessed=str(fields.get("accessed", "")),
        path=file.path,
        line=line,
        standing=str(fields.get("standing") or ""),
    )


def _line_of(text: str, name: str) -> int:
    match = re.search(rf"^[\"']?{re.escape(name)}[\"']?\s*:", text, re.M)
    return text.count("\n", 0, match.start()) + 1 if match else 1


def _problem(file: File, line: int, what: str, mend: str) -> Problem:
    return Problem(path=file.path, line=line, what=what, mend=mend)
