"""The knowledge base as a planner asks it: routed by the campaign's target, cited by file and line."""

from functools import cached_property
from pathlib import Path
from threading import local

from ridgeline.agent.planners.model_history import asked
from ridgeline.agent.planners.model_levers import levers
from ridgeline.graph.briefing import Briefing
from ridgeline.knowledge.cards import Card, load
from ridgeline.knowledge.index import opened
from ridgeline.knowledge.library import Library
from ridgeline.knowledge.search import Hit, Route, Search

STALLED = 3
"""Rollbacks in a row from which excerpts that earlier rounds rested on make room for others (rules 9.9)."""
SPARE, LONG = 3, 480
"""Times as many answers that are looked through then, and tokens of each."""


class ShippedBooks:
    """The knowledge that ships with Ridgeline, and other folders in its layout. Opened when first asked."""

    def __init__(self, *, wikis: tuple[Path, ...] = (), cache: Path | None = None) -> None:
        """`cache`: folder for the index; None keeps it in memory, which takes half a second the first time."""
        self._wikis = wikis
        self._cache = cache
        self._open = local()

    def find(self, question: str, briefing: Briefing, *, phase: str, limit: int, budget: int) -> tuple[Hit, ...]:
        """Excerpts for the target, best first, within `budget` tokens."""
        search, target = self._search(), briefing.target
        product = search.gate(Route(gpu=target.platform)).product
        gpu = target.platform if product else target.target_gpu
        route = Route(op=target.target_op, gpu=gpu, lang=target.target_lang, phase=phase)
        if briefing.consecutive_rollbacks < STALLED:
            return search.find(question, route, limit=limit, budget=budget)
        read = [asked(closed).sources for closed in briefing.rounds if not closed.accepted]
        known = {place for places in read for place in places}
        order = search.find(question, route, limit=limit * SPARE, budget=limit * SPARE * LONG)
        used = [hit.id for hit in order if any(_inside(place, hit) for place in known)]
        return search.find(question, route, limit=limit, budget=budget, used=used)

    def levers(self, briefing: Briefing) -> tuple[Card, ...]:
        """Cards that the campaign's machine and operator allow and no round has settled, the most promising first."""
        return levers(load(), briefing)

    def line(self, path: str, number: int) -> str | None:
        """A line of the knowledge by its cited path; None where there is no such line."""
        return self.library.line(path, number)

    @cached_property
    def library(self) -> Library:
        return Library(self._wikis)

    def _search(self) -> Search:
        """One connection for each thread: SQLite's are not shared."""
        if not hasattr(self._open, "search"):
            self._open.search = Search(opened(self.library, self._cache))
        found: Search = self._open.search
        return found


def _inside(place: str, hit: Hit) -> bool:
    """Whether a citation points into an excerpt."""
    path, _, line = place.rpartition(":")
    if path != hit.path or not line.split("-")[0].isdigit():
        return False
    return hit.line <= int(line.split("-")[0]) <= hit.line + hit.excerpt.count("\n") + 1
