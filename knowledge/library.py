"""Where knowledge lies: the folder that ships and any wiki of the same layout, file by file."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ridgeline.knowledge.documents import Document, DocumentError, Problem, parse

HERE = Path(__file__).parent
FOLDERS = ("ops", "hardware", "backends")
"""Folders of documents, in the order in which they are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file and the path it is cited by."""

    path: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    """A folder in the layout of the knowledge base."""

    folder: Path
    name: str
    """First part of every path that is cited from it."""


class Library:
    """All files of all roots, read once."""

    def __init__(self, wikis: tuple[Path, ...] = (), *, folder: Path = HERE) -> None:
        self.roots = tuple(_name_roots((folder, *wikis)))

    @cached_property
    def files(self) -> tuple[File, ...]:
        """Documents, cards and source registries; a file that is no UTF-8 has its bad bytes replaced."""
        return tuple(
            File(path=f"{root.name}/{path.relative_to(root.folder).as_posix()}", text=_read_text(path))
            for root in self.roots
            for path in paths(root.folder)
        )

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        """Every document that can be read; `problems` has the others."""
        return tuple(document for document in self._documents_or_problems if isinstance(document, Document))

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """Documents that cannot be read, and why."""
        return tuple(problem for problem in self._documents_or_problems if isinstance(problem, Problem))

    @cached_property
    def digest(self) -> str:
        """sha256 over paths and contents of the knowledge: the same digest means the same."""
        digest = hashlib.sha256()
        for file in self.files:
            for part in (file.path, file.text):
                data = part.encode()
                digest.update(len(data).to_bytes(8, "big"))
                digest.update(data)
        return digest.hexdigest()

    def cards(self) -> Iterator[File]:
        """Files of lever cards."""
        return (file for file in self.files if "/cards/" in file.path and file.path.endswith(".md"))

    def registries(self) -> Iterator[File]:
        """Files that register sources."""
        return (file for file in self.files if file.path.endswith(".yaml"))

    def line(self, path: str, number: int) -> str | None:
        """Text of one line of the knowledge by its cited path; None where there is no such file or line."""
        text = next((file.text for file in self.files if file.path == path), None)
        lines = text.splitlines() if text is not None else []
        return lines[number - 1] if 1 <= number <= len(lines) else None

    @cached_property
    def _documents_or_problems(self) -> tuple[Document | Problem, ...]:
        prefixes = tuple(f"{root.name}/{folder}/" for root in self.roots for folder in FOLDERS)
        return tuple(_parse(file) for file in self.files if file.path.startswith(prefixes))


def _name_roots(folders: tuple[Path, ...]) -> Iterator[Root]:
    """The first is `knowledge`, a wiki has its folder's name, with a number where that is taken."""
    names: list[str] = []
    for folder in folders:
        name = folder.resolve().name if names else "knowledge"
        names.append(name)
        count = names.count(name)
        yield Root(folder=folder, name=name if count == 1 else f"{name}-{count}")


def paths(folder: Path) -> Iterator[Path]:
    """Files of one root of the knowledge that are read: documents, cards, source registries."""
    for name in (*FOLDERS, "cards"):
        yield from sorted((folder / name).rglob("*.md"))
    registry = folder / "sources.yaml"
    yield from ([registry] if registry.is_file() else [])
    yield from sorted((folder / "sources").glob("*.yaml"))


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@lru_cache(maxsize=512)
def _parse(file: File) -> Document | Problem:
    """The knowledge document, or why it cannot be read; once while it stays the same."""
    try:
        return parse(file.text, file.path)
    except DocumentError as error:
        return error.problem
