"""The planner without a model: levers from the knowledge cards, each with its machine-readable edits."""

from itertools import islice

from ridgeline.agent.planners.catalog_candidates import Candidate, Drop, barred, candidates, of_language, texts
from ridgeline.agent.planners.catalog_rank import ranked
from ridgeline.agent.planners.catalog_words import directions, explanation, hypothesis, reflection
from ridgeline.graph.briefing import Briefing, Draft, Proposal, Review
from ridgeline.graph.policy.change import forbidden
from ridgeline.graph.record import Reflection
from ridgeline.graph.trial import Broken, Built, Judged, proposed
from ridgeline.graph.values import FileEdit, Hypothesis
from ridgeline.knowledge.cards import Card, filled, load
from ridgeline.knowledge.rewrite import apply

OFFERED = 4
"""Levers that a proposal names, the chosen one among them: making the edits of all is most of what a round thinks."""


class CatalogPlanner:
    """Picks by bottleneck, history and expected gain. Costs nothing, and the same briefing gives the same answer."""

    def __init__(self, cards: tuple[Card, ...] | None = None) -> None:
        self._cards = load() if cards is None else cards

    def propose(self, briefing: Briefing) -> Proposal:
        """The best lever that applies to the best version's sources and was not settled before."""
        order, drops = self.order(briefing, most=OFFERED)
        dropped = tuple(f"{drop.lever}: {drop.why}" for drop in drops)
        if not order:
            return Proposal(hypothesis=None, dropped=dropped, exhausted=self._exhausted(briefing, drops))
        return Proposal(
            hypothesis=hypothesis(order[0], briefing),
            ranked=tuple(f"{other.id}: {other.change} ({other.expected:.2f}x expected)" for other in order[1:]),
            dropped=dropped,
        )

    def draft(self, briefing: Briefing, proposal: Proposal) -> Draft:
        """The whole new texts of the files that the lever changes."""
        asked = proposal.hypothesis
        candidate = self._find(briefing, asked) if asked else None
        if candidate is None:
            return Draft(edits=(), refusal=f"no card carries out {asked.id if asked else 'nothing'} on these sources")
        edits = tuple(FileEdit(path=path, text=text) for path, text in sorted(candidate.texts.items()))
        return Draft(edits=edits, explanation=explanation(candidate))

    def repair(self, briefing: Briefing, broken: Broken | Built, attempt: int) -> Draft:
        """The card's next weaker form, made from the best version; a refusal when it has none left."""
        asked = proposed(broken).hypothesis
        card = self._card(asked.lever)
        if card is None or not 1 <= attempt <= len(card.fallbacks):
            return Draft(edits=(), refusal=f"{asked.lever} has no weaker form left")
        fallback = card.fallbacks[attempt - 1]
        name = asked.id.partition(":")[2]
        variant = next((variant for variant in card.variants if variant.id == name), None)
        edits = filled(fallback.edits, variant.params if variant else {})
        changed = apply(edits, texts(briefing), flags_file=briefing.contract.flags_file)
        if not changed:
            return Draft(edits=(), refusal=f"the weaker form of {asked.lever} does not apply: {fallback.why}")
        return Draft(
            edits=tuple(FileEdit(path=path, text=text) for path, text in sorted(changed.items())),
            explanation=f"{card.title}, weaker form: {fallback.why}.",
        )

    def split(self, briefing: Briefing, judged: Judged) -> Draft:
        """Refused: a card rewrites the kernel as a whole and cannot dispatch by configuration class."""
        lever = proposed(judged).hypothesis.lever
        return Draft(edits=(), refusal=f"{lever} is a card: it has no form specialised for one configuration class")

    def review(self, briefing: Briefing, trigger: str) -> Review:
        """At least three directions from different categories, unexplored ones first."""
        return Review(directions=directions(self.order(briefing)[0], briefing))

    def reflect(self, briefing: Briefing, judged: Judged) -> Reflection:
        """What the round taught, by comparing prediction and profile."""
        return reflection(briefing, judged, card=self._card(proposed(judged).hypothesis.lever))

    def order(self, briefing: Briefing, *, most: int | None = None) -> tuple[list[Candidate], list[Drop]]:
        """The `most` best levers that change something now (None: all), best first, and those that are out."""
        found: list[Candidate] = []
        drops: list[Drop] = []
        for card in of_language(self._cards, briefing):
            for item in candidates(card, briefing):
                if isinstance(item, Drop):
                    drops.append(item)
                elif why := barred(item, briefing.rounds) or _forbidden(item, briefing):
                    drops.append(Drop(lever=item.id, why=why))
                else:
                    found.append(item)
        working = (item for item in ranked(found, briefing) if item.texts)  # tried in this order, and no further
        return list(islice(working, most)), drops

    def _find(self, briefing: Briefing, asked: Hypothesis) -> Candidate | None:
        card = self._card(asked.lever)
        found = candidates(card, briefing) if card else ()
        same = (item for item in found if isinstance(item, Candidate) and item.id == asked.id)
        return next((item for item in same if item.texts), None)

    def _card(self, lever: str) -> Card | None:
        return next((card for card in self._cards if card.id == lever), None)

    def _exhausted(self, briefing: Briefing, drops: list[Drop]) -> str:
        cards = of_language(self._cards, briefing)
        if not cards:
            return f"no knowledge card is about {briefing.target.target_lang} and {briefing.target.target_op}"
        return (
            f"every lever of {len(cards)} cards for {briefing.target.target_lang} is settled: {len(briefing.rounds)} "
            f"rounds were run, {len(drops)} levers are barred or lack what they need, the rest find nothing to change"
        )


def _forbidden(item: Candidate, briefing: Briefing) -> str | None:
    """What rule 11 says of it; kernel work is always allowed, so its hypothesis is only written when it is chosen."""
    return None if item.card.bucket.startswith("K") else forbidden(hypothesis(item, briefing))
