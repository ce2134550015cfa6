"""Search: routed by operator, GPU, language and phase, ranked by words and their synonyms, cited by file and line."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ridgeline.knowledge.documents import PHASES
from ridgeline.knowledge.excerpt import excerpt, tokens_of
from ridgeline.knowledge.index import Entry, Index, open_index
from ridgeline.knowledge.library import Library
from ridgeline.knowledge.specs import normal
from ridgeline.knowledge.vocabulary import PART, SAME, Concept, concepts, operators, vocabulary

WEIGHTS = (4.0, 2.0, 1.5, 1.0)
"""Worth of a word in the heading, in what the document is about, in its tags, in the text."""
OP, GPU, LANG, PHASED = 2.0, 1.2, 1.3, 1.1
"""Factor for a document that is expressly about the operator, GPU or language that was asked for; for the phase."""
ELSEWHERE, HINTED, OTHER = 0.65, 1.2, 0.45
"""Factor for a document about one operator, GPU or language where none was asked for; where the question's own words name
it, without a route; and where they name another."""
PLAIN = 0.4
"""Worth of a word that is no term of the trade and stands in no heading, title or tag."""
COVERED = 0.5
"""Share of a question below which its unknown words leave it without an answer."""
BUDGET, EACH = 2400, 480
"""Tokens of all excerpts together and of one."""
FLOOR = 1e-6
"""What SQLite takes for the logarithm of a word that stands in most rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """What a question is about. None: it does not matter."""

    op: str | None = None
    gpu: str | None = None
    lang: str | None = None
    phase: str | None = None

    def __post_init__(self) -> None:
        if self.phase is not None and self.phase not in PHASES:
            raise ValueError(f"phase: {self.phase!r} is none; give one of {', '.join(PHASES)}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """One answer."""

    id: str
    path: str
    line: int
    heading: str
    excerpt: str
    score: float


class Search:
    """Answers from an index, in milliseconds; close it, or use it in a `with`."""

    def __init__(self, index: Index) -> None:
        self._index = index

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything of the knowledge that can be found."""
        return tuple(self._index.entries.values())

    def find(
        self,
        question: str,
        route: Route | None = None,
        *,
        limit: int = 5,
        budget: int = BUDGET,
        used: Iterable[str] = (),
    ) -> tuple[Hit, ...]:
        """Best sections and cards of the knowledge first, at most `limit`, excerpts within `budget` tokens.

        `used` names ids that are left out because they were read before. An empty question gives the reading order of
        the route: overviews first.
        """
        excluded = frozenset(used)
        query, open_to = self._prepare(question, route or Route(), excluded)
        weights = self._weigh(query, open_to)
        scores = {number: score for number, (score, _) in weights.items()} if query else self._order(open_to)
        best = sorted(scores, key=lambda number: (-scores[number], number))[:limit]
        return tuple(self._hits(best, scores, query, budget))

    def uncovered_words(self, question: str, route: Route | None = None) -> tuple[str, ...]:
        """Words of a question that nothing in the knowledge has, where they are what it is about: then it is not covered.

        They are if they name a subject (`subjects` of the vocabulary), or if no row has most of the rest either. Numbers
        say nothing of what a question is about.
        """
        query, open_to = self._prepare(question, route or Route())
        unknown = tuple(
            concept.spellings[0][0]
            for concept in query
            if not concept.spellings[0][0].isdigit() and not any(rows for rows, _ in self._scores(concept))
        )
        best = max((share for _, share in self._weigh(query, open_to).values()), default=0.0)
        return unknown if best < COVERED else tuple(word for word in unknown if word in vocabulary().subjects)

    def close(self) -> None:
        """Release the index of the knowledge."""
        self._index.close()

    def __enter__(self) -> "Search":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def gate(self, route: Route, question: tuple[Concept, ...] = ()) -> "Gate":
        """The route in the words of the index: MI300X is the product mi300x of architecture gfx942; with it what the
        question names without a route."""
        product, arch = self._index.products.get(normal(route.gpu), ("", route.gpu.lower())) if route.gpu else ("", "")
        words = frozenset(
            word
            for concept in question
            for spelling, worth in concept.spellings
            if worth >= SAME
            for word in (spelling, *(spelling.split() if worth == 1.0 else ()))
        )
        terms = vocabulary()
        return Gate(
            ops=operators(route.op) if route.op else None,
            arch=arch or None,
            product=product or None,
            lang=route.lang.lower() if route.lang else None,
            phase=route.phase,
            hinted_ops=frozenset(terms.ops[word] for word in words if word in terms.ops),
            hinted_gpus=frozenset(
                self._index.products[normal(word)][1] for word in words if normal(word) in self._index.products
            ),
            hinted_langs=frozenset(terms.langs[word] for word in words if word in terms.langs),
        )

    def _prepare(
        self, question: str, route: Route, excluded: frozenset[str] = frozenset()
    ) -> tuple[tuple[Concept, ...], dict[int, float]]:
        """What is looked up in the knowledge, and the rows that are open to it with their factors."""
        asked = concepts(question)
        gate = self.gate(route, asked)
        open_to = {
            number: factor
            for number, entry in self._index.entries.items()
            if entry.id not in excluded and (factor := gate.factor(entry))
        }
        return self._unrouted_concepts(asked, gate), open_to

    def _unrouted_concepts(self, query: tuple[Concept, ...], gate: "Gate") -> tuple[Concept, ...]:
        """What the route does not say already: a GPU or an operator that was routed to is no longer looked for."""

        def is_routed(concept: Concept) -> bool:
            typed = concept.spellings[0][0]
            return bool(
                (gate.arch and normal(typed) in self._index.products)
                or (gate.ops and typed in vocabulary().ops and operators(typed) <= gate.ops)
                or typed == gate.lang
            )

        return tuple(concept for concept in query if not is_routed(concept)) or query

    def _weigh(self, query: tuple[Concept, ...], open_to: dict[int, float]) -> dict[int, tuple[float, float]]:
        """Score and share of each row: the score sums over the concepts, more for a row that has all of them than for
        one that repeats some; the share is how much of what was asked the row speaks of, by rarity, 0 to 1."""
        total = len(self._index.entries)
        sums: dict[int, float] = {}
        coverage: dict[int, float] = {}
        total_rarity = 0.0
        for concept in query:
            scores = self._scores(concept)
            strengths = self._strengths(scores, total)
            frequency = self._frequency(scores)
            rarity = math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))
            rarity *= 1.0 if concept.term or self._is_title_word(concept) else PLAIN
            total_rarity += rarity
            for number, strength in strengths.items():
                sums[number] = sums.get(number, 0.0) + rarity * strength
                coverage[number] = coverage.get(number, 0.0) + rarity * min(1.0, strength)
        shares = {number: coverage[number] / total_rarity for number in sums}
        return {
            number: (value * (0.5 + 0.5 * shares[number]) * open_to[number], shares[number])
            for number, value in sums.items()
            if number in open_to
        }

    def _is_title_word(self, concept: Concept) -> bool:
        """Whether a heading, a title or a tag has the word; numbers and letters stand there by chance."""
        word = concept.spellings[0][0]
        return len(word) > 1 and not word.isdigit() and self._index.names(word)

    def _scores(self, concept: Concept) -> list[tuple[dict[int, float], float]]:
        """Rows that have each spelling, with their scores, and the spelling's worth."""
        return [(self._index.scores(phrase, WEIGHTS), worth) for phrase, worth in concept.spellings]

    def _strengths(self, spellings: list[tuple[dict[int, float], float]], total: int) -> dict[int, float]:
        """How much each row speaks of a concept, in its best spelling; how rare the spelling is does not count."""
        best: dict[int, float] = {}
        for scores, worth in spellings:
            rarity = max(math.log((total - len(scores) + 0.5) / (len(scores) + 0.5)), FLOOR) if scores else 1.0
            for number, score in scores.items():
                best[number] = max(best.get(number, 0.0), worth * score / rarity)
        return best

    def _frequency(self, spellings: list[tuple[dict[int, float], float]]) -> float:
        """How many rows speak of a concept, each as much as its best spelling is worth; a row that has one word of a phrase
        only does not make the phrase common, unless no row has more."""
        best: dict[int, float] = {}
        for scores, worth in spellings:
            for number in scores:
                best[number] = max(best.get(number, 0.0), worth)
        return sum(worth for worth in best.values() if worth > PART) or sum(best.values())

    def _order(self, open_to: dict[int, float]) -> dict[int, float]:
        """Reading order: overviews, then other documents, then cards; what was named before what is general."""
        entries = self._index.entries
        return {
            number: (2.0 if entries[number].overview else 1.0 if entries[number].kind != "card" else 0.0) + factor
            for number, factor in open_to.items()
        }

    def _hits(
        self, best: list[int], scores: dict[int, float], query: tuple[Concept, ...], budget: int
    ) -> Iterable[Hit]:
        left = budget
        for number in best:
            entry = self._index.entries[number]
            part = excerpt(self._index.text(number), query, budget=min(EACH, left))
            left = max(0, left - tokens_of(part))
            yield Hit(
                id=entry.id,
                path=entry.path,
                line=entry.line,
                heading=entry.heading,
                excerpt=part,
                score=round(scores[number], 4),
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """A route in the words of the index."""

    ops: frozenset[str] | None
    arch: str | None
    product: str | None
    lang: str | None
    phase: str | None
    hinted_ops: frozenset[str] = frozenset()
    """What the question itself names; it prefers where nothing is routed, and excludes nothing."""
    hinted_gpus: frozenset[str] = frozenset()
    hinted_langs: frozenset[str] = frozenset()

    def factor(self, entry: Entry) -> float:
        """Weight of an entry of the knowledge; 0 for one that is about something else."""
        if self.product and entry.kind == "product" and not entry.path.endswith(f"/{self.product}.md"):
            return 0.0
        if self.arch and entry.arch and not re.match(entry.arch, self.arch):
            return 0.0
        about = frozenset(name for op in entry.ops for name in operators(op))
        op = _worth(about, self.ops, OP, self.hinted_ops)
        gpu = _worth(frozenset(entry.gpus), frozenset({self.arch}) if self.arch else None, GPU, self.hinted_gpus)
        lang = _worth(frozenset(entry.langs), frozenset({self.lang}) if self.lang else None, LANG, self.hinted_langs)
        if not (self.arch or self.lang) and 1.0 not in (gpu, lang) and ELSEWHERE in (gpu, lang):
            lang /= ELSEWHERE  # what is about a GPU is written in some language: that counts against it once
        return op * gpu * lang * (PHASED if self.phase in entry.phase else 1.0)


def _worth(has: frozenset[str], wants: frozenset[str] | None, worth: float, hinted: frozenset[str]) -> float:
    """Factor of one criterion of a knowledge entry: 1 where it is about every operator, GPU or language, 0 for another one."""
    if not has:
        return 1.0
    if wants:
        return worth if has & wants else 0.0
    return ELSEWHERE if not hinted else HINTED if has & hinted else OTHER


def searching(wikis: tuple[Path, ...] = (), *, cache: Path | None = None) -> Search:
    """The shipped knowledge and any wikis, ready to be asked. `cache` is a folder for the index; None keeps none."""
    library = Library(wikis)
    return Search(open_index(library, cache))
