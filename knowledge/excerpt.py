"""The part of a section that answers, within a budget of tokens."""

import re
from collections.abc import Sequence

from ridgeline.knowledge.vocabulary import Concept, split_words, stem

CHARACTERS = 4
"""Of a token, for English and code in the tokenizers of today's models; a budget needs no more precision."""
GAP = "[...]"


def tokens_of(text: str) -> int:
    """Estimated tokens of an excerpt."""
    return -(-len(text) // CHARACTERS)


def excerpt(text: str, query: Sequence[Concept], *, budget: int) -> str:
    """A knowledge section whole where it fits, else its blocks that speak most of what was asked, in their order.

    Blocks are list items and paragraphs; left out ones are marked. Empty where not even one block fits.
    """
    if tokens_of(text) <= budget:
        return text.strip()
    blocks = _blocks(text)
    stems = {
        stem(word)
        for concept in query
        for phrase, worth in concept.spellings
        if worth > 0.5
        for word in split_words(phrase)
    }
    order = sorted(range(len(blocks)), key=lambda at: (-_worth(blocks[at], stems), at))
    chosen: list[int] = []
    left = budget - tokens_of(GAP) - 1
    for at in order:
        cost = tokens_of(blocks[at]) + 1
        if cost <= left:
            chosen.append(at)
            left -= cost
    return _join_blocks(blocks, sorted(chosen))


def _blocks(text: str) -> list[str]:
    """Blocks of a knowledge section: list items with their continuation lines, table rows, paragraphs, code blocks."""
    parts = re.split(r"\n(?=[-*+|] |\d+\. )|\n\s*\n", text)
    return [part.rstrip() for part in parts if part.strip()]


def _worth(block: str, stems: set[str]) -> int:
    return len(stems & {stem(word) for word in split_words(block)})


def _join_blocks(blocks: list[str], chosen: list[int]) -> str:
    lines: list[str] = []
    for place, at in enumerate(chosen):
        if at != (chosen[place - 1] + 1 if place else 0):
            lines.append(GAP)
        lines.append(blocks[at])
    if chosen and chosen[-1] != len(blocks) - 1:
        lines.append(GAP)
    return "\n".join(lines)
