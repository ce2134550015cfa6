"""Which knowledge cards a model is shown: those for its operator, device and bottleneck that are still untried."""

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from ridgeline.agent.planners.catalog_candidates import Candidate, candidates, excluded, texts, unmet
from ridgeline.agent.planners.catalog_rank import OFF_BOTTLENECK
from ridgeline.agent.planners.model_fit import clipped
from ridgeline.agent.planners.model_history import asked
from ridgeline.graph.briefing import Briefing
from ridgeline.knowledge.cards import Card, Needs
from ridgeline.knowledge.vocabulary import operators, spelled, stem, vocabulary

UNMEASURED = 0.08
"""Nats (1.08x) that a card is ranked with which nobody measured: less than what a measured good one showed."""
LEAST = 1.01
"""So that a card without an expectation still has a rank among its like."""
OURS, OTHERS = 2.0, 0.4
"""Factors for a card that speaks of the operator, and for one that speaks of another operator only."""
LATER, NOWHERE = 0.6, 0.35
"""Factors for a card that waits for other flags, and for one that finds nothing to change in these sources yet."""
NUMBERS, NATIVE = 1.15, 1.1
"""Factors that settle ties: somebody measured it somewhere; it was written for this very language."""
TRIED = 16_000
"""Characters of sources up to which the cards' own edits are tried on them: it takes as long as their square."""
COMMON = 1 / 3
"""A word that more than this share of the cards use says nothing about the operator."""
NAMES = 4
"""Further levers that are named: a name without its reason helps little."""


def levers(cards: Sequence[Card], told: Briefing) -> tuple[Card, ...]:
    """Every card that this machine and operator allow and no round has settled, the most promising first."""
    sources = texts(told)
    fitting = [card for card in cards if _fits(card, told) and not excluded(card.excludes, told, sources=sources)]
    said = [_words(card) for card in fitting]
    ours = _spoken(operators(told.target.target_op))
    telling = frozenset(word for word in ours if sum(word in words for words in said) <= COMMON * len(fitting))
    worth = {card.id: _worth(card, told, telling) for card in fitting}
    untried = [card for card in fitting if not _settled(card, told)]
    return tuple(sorted(untried, key=lambda card: -worth[card.id]))


def distinct(cards: Sequence[Card]) -> tuple[tuple[Card, tuple[str, ...]], ...]:
    """Each card with the ids of those after it that have the same reason: other forms of one lever."""
    forms: dict[str, list[Card]] = {}
    for card in cards:
        forms.setdefault(card.because, []).append(card)
    return tuple((first, tuple(card.id for card in rest)) for first, *rest in forms.values())


def shown(card: Card, forms: Sequence[str] = (), *, how: bool = False) -> str:
    """A card in a few lines, under the place that is cited. `how`: with the way it is done, for who writes it."""
    size = f" to {card.prediction.ratio:g} of it" if card.prediction.ratio else ""
    gain = f", expected {card.expected_speedup:g}x" if card.edits else ""
    measured = f" ({clipped(card.measured_on, 90)})" if card.measured_on else ""
    same = f"; another form: {', '.join(forms)}" if forms else ""
    lines = [
        f"{card.path}:1  {card.title} [lever {card.id}, {card.category}{same}]",
        f"change: {clipped(card.change, 120)}; because {clipped(card.because, 140)}",
        f"predicts: {card.prediction.counter} {card.prediction.direction}{size}{gain}{measured}",
        f"applies when: {_section(card, 'Applies when', 150)}",
        *([f"how: {_section(card, 'How', 500)}"] if how else []),
        f"mind: {clipped(card.risks, 90)}; {_section(card, 'Pitfalls', 90)}",
    ]
    return "\n".join(lines)


def others(names: Sequence[str]) -> str:
    """The levers that are not shown, as they can be cited, in their order; empty when there are none."""
    if not names:
        return ""
    more = f", and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{len(names)} further lever{'s' if len(names) > 1 else ''} left out: {', '.join(names[:NAMES])}{more}"


def spoken(card: Card) -> str:
    """What the card says that it is about."""
    return " ".join((card.id, card.title, card.change, card.because))


def _fits(card: Card, told: Briefing) -> bool:
    """Whether language, operator and machine allow it, whatever the sources and flags are now."""
    words = {told.target.target_lang.lower(), told.target.target_backend.lower()}
    if not words & set(card.langs) or (card.gpus and told.machine.arch not in card.gpus):
        return False
    if "any" not in card.ops and not any(op in told.target.target_op for op in card.ops):
        return False
    hard = Needs(**card.requires.model_dump(include={"cpu_all", "cpu_any", "arch", "threads_over"}))
    return not unmet(hard, told, sources=texts(told))


def _settled(card: Card, told: Briefing) -> bool:
    """Whether a round was about it and nothing says that it is worth another: sweeps are, and what was not measured."""
    past = [closed for closed in told.rounds if asked(closed).lever == card.id]
    if not past or card.sweep:
        return False
    later = any(closed.accepted and closed.round > past[-1].round for closed in told.rounds)
    return past[-1].accepted or not (card.retry and later)


def _worth(card: Card, told: Briefing, telling: frozenset[str]) -> float:
    """Expected gain in nats, weighed by bottleneck, operator and whether the source has what it works on."""
    gain = math.log(max(card.expected_speedup, LEAST)) if card.edits else UNMEASURED
    gain *= 1.0 if told.bottleneck in card.bottlenecks else OFF_BOTTLENECK
    gain *= _about(card, told.target.target_op, telling)
    gain *= NUMBERS if card.measured_on else 1.0
    gain *= NATIVE if PurePosixPath(card.path).parent.name == told.target.target_lang.lower() else 1.0
    return gain * _ready(card, told)


def _ready(card: Card, told: Briefing) -> float:
    """Of a card that only describes nothing here can say whether it finds its place; its requirements can be asked."""
    sources = texts(told)
    if unmet(Needs(pattern=card.requires.pattern), told, sources=sources):
        return NOWHERE
    if unmet(card.requires, told, sources=sources):
        return LATER
    if not card.edits or sum(map(len, sources.values())) > TRIED:
        return 1.0
    return 1.0 if any(isinstance(item, Candidate) and item.texts for item in candidates(card, told)) else NOWHERE


def _about(card: Card, op: str, telling: frozenset[str]) -> float:
    """How much the card is about the operator: expressly, by its words, not at all, or about another one."""
    if "any" not in card.ops:
        return OURS
    said = _words(card)
    ours = _spoken(operators(op))
    if said & telling:
        return OURS
    foreign = _spoken(frozenset(vocabulary().ops.values()) - operators(op)) - ours
    return OTHERS if said & foreign else 1.0


@lru_cache(maxsize=64)
def _spoken(ops: frozenset[str]) -> frozenset[str]:
    """Single words by which an operator goes."""
    known = vocabulary()
    names = {name for name, folder in known.ops.items() if folder in ops} | set(ops)
    groups = [term for name in names for term in known.same.get((stem(name),), (name,))]
    return frozenset(stem(word) for term in groups for word in spelled(term) if word not in known.stop)


def _words(card: Card) -> frozenset[str]:
    return _stems(" ".join((card.title, card.change, card.because, _section(card, "Applies when", 400))))


@lru_cache(maxsize=1024)
def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in spelled(text))


def _section(card: Card, heading: str, most: int) -> str:
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", card.body, re.M | re.S)
    return clipped(found.group(1), most) if found else ""
