"""A planner whose budget can end in the middle of a round: the round closes, and the campaign concludes by T7."""

from collections.abc import Callable

from ridgeline.agent.models.base import BudgetSpent
from ridgeline.graph.briefing import OUT_OF_BUDGET, Briefing, Draft, Proposal, Review
from ridgeline.graph.ports import Planner
from ridgeline.graph.record import Reflection
from ridgeline.graph.trial import Broken, Built, Judged
from ridgeline.graph.values import Cost


class FrugalPlanner:
    """Answers by a refusal where the planner behind it may ask no more; what was already paid is in its cost."""

    def __init__(self, inner: Planner, *, heard: Callable[[], Cost]) -> None:
        """`heard`: cost of every answer that was given in this process."""
        self._inner = inner
        self._heard = heard

    def propose(self, briefing: Briefing) -> Proposal:
        before = self._heard()
        try:
            return self._inner.propose(briefing)
        except BudgetSpent as spent:
            return Proposal(hypothesis=None, exhausted=f"{OUT_OF_BUDGET}{spent}", cost=self._since(before))

    def draft(self, briefing: Briefing, proposal: Proposal) -> Draft:
        return self._drafted(lambda: self._inner.draft(briefing, proposal))

    def repair(self, briefing: Briefing, broken: Broken | Built, attempt: int) -> Draft:
        return self._drafted(lambda: self._inner.repair(briefing, broken, attempt))

    def split(self, briefing: Briefing, judged: Judged) -> Draft:
        return self._drafted(lambda: self._inner.split(briefing, judged))

    def review(self, briefing: Briefing, trigger: str) -> Review:
        before = self._heard()
        try:
            return self._inner.review(briefing, trigger)
        except BudgetSpent as spent:
            return Review(directions=(f"none: {OUT_OF_BUDGET}{spent}",), cost=self._since(before))

    def reflect(self, briefing: Briefing, judged: Judged) -> Reflection:
        before = self._heard()
        try:
            return self._inner.reflect(briefing, judged)
        except BudgetSpent as spent:
            said = f"The model was not asked: {OUT_OF_BUDGET}{spent}. The verdict stands: {judged.verdict.sentence}"
            return Reflection(attribution=said, root_cause=said, cost=self._since(before))

    def _drafted(self, call: Callable[[], Draft]) -> Draft:
        before = self._heard()
        try:
            return call()
        except BudgetSpent as spent:
            return Draft(edits=(), refusal=f"{OUT_OF_BUDGET}{spent}", cost=self._since(before))

    def _since(self, before: Cost) -> Cost:
        """What was answered since then: an unknown price in it stays unknown."""
        now = self._heard()
        known = now.dollars is not None and before.dollars is not None
        return Cost(
            tokens=now.tokens - before.tokens,
            dollars=max(0.0, (now.dollars or 0.0) - (before.dollars or 0.0)) if known else None,
        )
