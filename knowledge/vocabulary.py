"""From a question to what is looked up: its words, and other words of the trade for the same thing."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "vocabulary.toml"
SAME, SEE, PART = 0.8, 0.4, 0.2
"""Worth of a synonym, of a related word, and of a single word of a phrase, against 1 for what was typed."""
LONGEST = 4
"""Words of a phrase."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Concept:
    """One thing a question is about."""

    spellings: tuple[tuple[str, float], ...]
    """Each with its worth, the typed one first."""
    term: bool = False
    """Whether the vocabulary has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """The tables of `vocabulary.toml`, keyed by stemmed words."""

    same: dict[tuple[str, ...], tuple[str, ...]]
    see: dict[tuple[str, ...], tuple[str, ...]]
    ops: dict[str, str]
    also: dict[str, str]
    langs: dict[str, str]
    stop: frozenset[str]
    subjects: frozenset[str]


@cache
def vocabulary() -> Vocabulary:
    """The knowledge's words and synonyms, read once."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return Vocabulary(
        same={_key(term): tuple(group) for group in tables["same"] for term in group},
        see={_key(term): tuple(related) for term, related in tables["see"].items()},
        stop=frozenset(tables["stop"].split()),
        subjects=frozenset(tables["subjects"].split()),
        ops={word: name for name, words in tables["ops"].items() for word in (name, *words)},
        also={word: name for name, words in tables["also"].items() for word in words},
        langs={word: name for name, words in tables["langs"].items() for word in words},
    )


def concepts(question: str) -> tuple[Concept, ...]:
    """What a question to the knowledge asks for, phrases before single words and never across a comma; the same concept once."""
    concepts_by_key: dict[tuple[str, ...], Concept] = {}
    for clause in re.split(r"[,;:.!?]\s", question):
        words = split_words(clause)
        at = 0
        while at < len(words):
            length = _longest(words, at)
            phrase = words[at : at + length]
            at += length
            if length == 1 and phrase[0] in vocabulary().stop:
                continue
            concept = _concept(phrase)
            concepts_by_key.setdefault(_key(" ".join(phrase)), concept)
    return tuple(concepts_by_key.values())


def operators(name: str) -> frozenset[str]:
    """Folders of the knowledge that an operator's name speaks of: `gemm_fp8_blockwise` of gemm; the name itself where none is."""
    terms = vocabulary()
    lowered = name.lower()
    parts = [lowered, *re.split(r"[_\s-]+", lowered)]
    folders = {terms.ops[part] for part in parts if part in terms.ops}
    return frozenset(folders | {terms.also[part] for part in parts if part in terms.also}) or frozenset({lowered})


def split_words(text: str) -> list[str]:
    """Lower-case words of a question; identifiers fall apart at underscores, as they do in the index."""
    return re.findall(r"[a-z0-9]+", text.lower())


def stem(word: str) -> str:
    """A question's word without the plural's s; the index does the rest."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _key(text: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in split_words(text))


def _longest(words: list[str], at: int) -> int:
    """How many words of a question from here on are one term."""
    terms = vocabulary()
    for length in range(min(LONGEST, len(words) - at), 1, -1):
        key = tuple(stem(word) for word in words[at : at + length])
        if key in terms.same or key in terms.see:
            return length
    return 1


def _concept(phrase: list[str]) -> Concept:
    typed = " ".join(phrase)
    worth: dict[str, float] = dict.fromkeys((typed, *_respell(typed)), 1.0)
    for term, value in _related_terms(phrase):
        spelling = " ".join(split_words(term))
        worth[spelling] = max(value, worth.get(spelling, 0.0))
    terms, key = vocabulary(), _key(typed)
    return Concept(spellings=tuple(worth.items()), term=key in terms.same or key in terms.see)


def _respell(typed: str) -> Iterator[str]:
    """American for British and the other way round; a spelling that nobody uses finds nothing and costs nothing."""
    for pattern, replacement in ((r"is(e[ds]?|ing|ation)\b", r"iz\1"), (r"iz(e[ds]?|ing|ation)\b", r"is\1")):
        if re.search(pattern, typed):
            yield re.sub(pattern, replacement, typed)
    for ending, replacement in (("our", "or"), ("or", "our")):
        changed = re.sub(rf"(?<=[bi]){ending}(?=\b|s\b|ing\b|ed\b)", replacement, typed)
        if changed != typed:
            yield changed


def _related_terms(phrase: list[str]) -> Iterator[tuple[str, float]]:
    terms = vocabulary()
    key = tuple(stem(word) for word in phrase)
    yield from ((term, SAME) for term in terms.same.get(key, ()))
    yield from ((term, SEE) for term in terms.see.get(key, ()))
    if len(phrase) > 1:
        yield from ((word, PART) for word in phrase if word not in terms.stop)
