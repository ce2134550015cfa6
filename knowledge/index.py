"""The lexical index: every section and card as one row of SQLite's full-text search, kept in a file by content."""

import json
import logging
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeline.knowledge.documents import Document, texts
from ridgeline.knowledge.library import File, Library
from ridgeline.knowledge.specs import Products
from ridgeline.knowledge.yaml_text import NotYaml, read_yaml

logger = logging.getLogger(__name__)

SCHEMA = 1
"""Raised when rows are made in another way; older files are then not used."""
KEPT = 4
"""Index files that stay in the cache, the newest."""
COLUMNS = ("heading", "about", "tags", "body")
_FIELD = re.compile(r"^(\w+):.*\n(?:(?:[ #-].*)?\n)*", re.M)
"""One field of a card's front matter, with the lines that belong to it."""
_SOUGHT = (
    *("id", "title", "ops", "gpus", "langs", "category", "bottlenecks", "requires"),
    *("change", "because", "prediction", "counters", "risks", "measured_on"),
)
"""Fields of a card that a search needs; its edits and their variants are most of the YAML."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """What a search can return, and what routes it there. Empty lists mean: for every one."""

    id: str
    """`path#heading`; what was used before is known by it."""
    path: str
    line: int
    heading: str
    kind: str
    """`op`, `hardware`, `product`, `backend`, or `card`."""
    overview: bool
    ops: tuple[str, ...]
    gpus: tuple[str, ...]
    langs: tuple[str, ...]
    phase: tuple[str, ...]
    arch: str = ""
    """Cards: regular expression that the architecture must match."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """An entry and its texts."""

    entry: Entry
    about: str
    text: str


class Index:
    """An open index. Close it, or use it in a `with`."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        rows = database.execute("SELECT id, entry FROM entries ORDER BY id").fetchall()
        self.entries: dict[int, Entry] = {number: _entry(text) for number, text in rows}
        rows = database.execute("SELECT name, product, arch FROM products").fetchall()
        self.products: dict[str, tuple[str, str]] = {name: (product, arch) for name, product, arch in rows}
        """Product (empty for an architecture) and architecture by name, as `specs.normal` writes it."""

    def scores(self, phrase: str, weights: tuple[float, ...]) -> dict[int, float]:
        """BM25 of every row of the knowledge index that holds the phrase, larger is better; `weights` one for each of `COLUMNS`."""
        words = re.sub(r"[^\w ]+", " ", phrase).strip()
        if not words:
            return {}
        rank = f"bm25(search, {', '.join(f'{float(weight)}' for weight in weights)})"
        rows = self._database.execute(f"SELECT rowid, -{rank} FROM search WHERE search MATCH ?", (f'"{words}"',))
        return {int(number): float(score) for number, score in rows}

    def names(self, phrase: str) -> bool:
        """Whether a heading, a title or a tag of the knowledge holds the phrase."""
        words = re.sub(r"[^\w ]+", " ", phrase).strip()
        query = f'{{heading about tags}} : "{words}"'
        return (
            bool(words)
            and self._database.execute("SELECT 1 FROM search WHERE search MATCH ? LIMIT 1", (query,)).fetchone()
            is not None
        )

    def text(self, number: int) -> str:
        """The whole text of a row of the knowledge index."""
        row = self._database.execute("SELECT body FROM search WHERE rowid = ?", (number,)).fetchone()
        return str(row[0])

    def close(self) -> None:
        """Release the file of the knowledge index."""
        self._database.close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_index(library: Library, cache: Path | None = None) -> Index:
    """The index of a library: from the cache folder where it lies there, else made, and kept there if that works."""
    path = None if cache is None else cache / f"{SCHEMA}-{library.digest}.sqlite"
    if path is not None and path.is_file():
        try:
            return Index(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True))
        except (sqlite3.Error, json.JSONDecodeError, TypeError) as error:
            logger.warning("%s cannot be read and is made again: %s", path, error)
    if path is not None and _write_cache(library, path):
        return Index(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True))
    database = sqlite3.connect(":memory:")
    _fill(database, library)
    return Index(database)


def rows(library: Library) -> Iterator[Row]:
    """Everything of the knowledge that can be found. What cannot be read is left out here and named by the check."""
    for document in library.documents:
        yield from _sections(document)
    for file in library.cards():
        row = _card(file)
        if row is not None:
            yield row


def _sections(document: Document) -> Iterator[Row]:
    for section in document.sections:
        yield Row(
            entry=Entry(
                id=section.id,
                path=section.path,
                line=section.line,
                heading=section.heading,
                kind=document.kind,
                overview=document.overview,
                ops=document.ops,
                gpus=document.gpus,
                langs=document.langs,
                phase=document.phase,
            ),
            about=f"{document.title} {' '.join(document.aliases)}",
            text=section.text.strip("\n"),
        )


def _card(file: File) -> Row | None:
    """A card as it is read in search: what it changes and why, then its text. None for one that is not YAML."""
    match = re.match(r"---\n(.*?)\n---\n(.*)", file.text, re.S)
    if match is None:
        return None
    sought = "".join(field[0] for field in _FIELD.finditer(f"{match[1]}\n") if field[1] in _SOUGHT)
    try:
        fields = read_yaml(sought)
    except NotYaml:
        return None
    if not isinstance(fields, dict) or "title" not in fields:
        return None
    needs = fields.get("requires")
    ops = tuple(op for op in texts(fields, "ops") if op != "any")
    return Row(
        entry=Entry(
            id=f"{file.path}#{fields['title']}",
            path=file.path,
            line=1,
            heading=str(fields["title"]),
            kind="card",
            overview=False,
            ops=ops,
            gpus=texts(fields, "gpus"),
            langs=texts(fields, "langs"),
            phase=("propose", "draft"),
            arch=str(needs.get("arch", "")) if isinstance(needs, dict) else "",
        ),
        about=f"{fields.get('id', '')} {fields.get('category', '')} {' '.join(texts(fields, 'bottlenecks'))}",
        text=_lever(fields) + "\n\n" + match[2].strip(),
    )


def _lever(fields: dict[str, object]) -> str:
    predicted = fields.get("prediction")
    counter = f"{predicted.get('counter')} {predicted.get('direction')}" if isinstance(predicted, dict) else ""
    lines = {
        "Change": fields.get("change", ""),
        "Because": fields.get("because", ""),
        "Predicts": ", ".join((counter, *texts(fields, "counters"))),
        "Risks": fields.get("risks", ""),
        "Measured on": fields.get("measured_on", ""),
    }
    return "\n".join(f"{name}: {value}" for name, value in lines.items() if value)


def _fill(database: sqlite3.Connection, library: Library) -> None:
    database.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, entry TEXT NOT NULL)")
    database.execute(f"CREATE VIRTUAL TABLE search USING fts5({', '.join(COLUMNS)}, tokenize='porter unicode61')")
    database.execute("CREATE TABLE products (name TEXT PRIMARY KEY, product TEXT NOT NULL, arch TEXT NOT NULL)")
    database.executemany("INSERT INTO products VALUES (?, ?, ?)", Products(library).routes())
    for number, row in enumerate(rows(library), start=1):
        entry = row.entry
        tags = " ".join((entry.kind, *entry.ops, *entry.gpus, *entry.langs))
        routed = {name: getattr(entry, name) for name in entry.__slots__}
        database.execute("INSERT INTO entries VALUES (?, ?)", (number, json.dumps(routed)))
        values = (number, entry.heading, row.about, tags, row.text)
        database.execute("INSERT INTO search (rowid, heading, about, tags, body) VALUES (?, ?, ?, ?, ?)", values)
    database.commit()


def _write_cache(library: Library, path: Path) -> bool:
    """Write the knowledge index into the cache, whole or not at all; False where the folder does not allow it."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        os.close(handle)
    except OSError as error:
        logger.info("the index is not kept: %s", error)
        return False
    part = Path(name)
    try:
        database = sqlite3.connect(part)
        database.execute("PRAGMA journal_mode = OFF")  # nobody reads it before it is whole
        _fill(database, library)
        database.close()
        part.replace(path)
        _forget(path.parent)
    except (sqlite3.Error, OSError) as error:
        logger.info("the index is not kept: %s", error)
        part.unlink(missing_ok=True)
        return False
    return True


def _forget(folder: Path) -> None:
    files = sorted(folder.glob("*.sqlite"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in files[KEPT:]:
        old.unlink(missing_ok=True)


def _entry(text: str) -> Entry:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()
    }
    return Entry(**fields)
