"""Facts: list items that end in their sources, and the words that a fact may not have."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ridgeline.knowledge.documents import Document, Item, Section

WORDS = r"approximately|approx\b\.?|should be|usually|similar products?|roughly|probably|presumably"
BEFORE_NUMBER = r"(?:around|about|circa) (?=\d)|(?:~|≈) ?(?=\d)"
_HEDGE = rf"(?<![\w/~-])(?:(?:{WORDS})(?![\w-])|{BEFORE_NUMBER})"
"""Rules 5.1.6, and what says the same in other words; a number is known or it is UNKNOWN.

Compiled at its first use, which a search never comes to.
"""
NUMBER = re.compile(r"(?<![\w.#/-])\d[\d ,.]*\d(?![\w])|(?<![\w.#/-])\d(?![\w])")
_CITED = re.compile(r"\[src: ([^\[\]]+)\]\s*$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Citation:
    """A registered source and the place in it."""

    source: str
    place: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One sourced statement."""

    path: str
    line: int
    text: str
    """Without its citations."""
    citations: tuple[Citation, ...]


def facts(document: Document) -> Iterator[Fact]:
    """In a document of the knowledge: every list item with sources; specs are list items too."""
    for section in document.sections:
        for item in section.items():
            cited = citations(item.text)
            if cited:
                yield Fact(path=section.path, line=item.line, text=without(item.text), citations=cited)


def citations(text: str) -> tuple[Citation, ...]:
    """What stands in `[src: id, place; id]` at the end of a text; nothing where it has none."""
    match = _CITED.search(text)
    if match is None:
        return ()
    parts = (part.strip() for part in match[1].split(";"))
    split = (part.partition(",") for part in parts if part)
    return tuple(Citation(source=source.strip(), place=place.strip()) for source, _, place in split)


def without(text: str) -> str:
    """In a document of the knowledge: a fact's text before its citations."""
    return _CITED.sub("", text).strip()


def hedge(text: str) -> re.Match[str] | None:
    """In a document of the knowledge: where a fact hedges first."""
    return re.search(_HEDGE, text, re.IGNORECASE)


def find_hedge(text: str) -> str | None:
    """The first word of a fact that hedges, or None; code spans and citations do not count."""
    match = hedge(re.sub(r"`[^`]*`", "``", without(text)))
    return match[0].strip() if match else None


def list_unsourced(section: Section) -> Iterator[Item]:
    """In a document of the knowledge: list items that state a number and name no source."""
    for item in section.items():
        if not citations(item.text) and NUMBER.search(_plain(item.text)):
            yield item


def _plain(text: str) -> str:
    """A fact without code, links, and the numbers that only order or name things."""
    text = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)|https?://\S+", " ", text)
    return re.sub(r"\b(?:section|table|figure|chapter|step|version|rule|page)s? [\d.]+", " ", text, flags=re.IGNORECASE)
