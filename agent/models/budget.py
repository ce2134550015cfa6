"""The stop before overspending: a question that may not fit into what is left is not asked."""

from collections.abc import Callable

from ridgeline.agent.models.base import Ask, BudgetSpent, Client, Said
from ridgeline.graph.limits import Limits
from ridgeline.graph.values import Cost


class BudgetedModel:
    """Asks only what fits, judged by the most that an answer may cost."""

    def __init__(self, inner: Client, *, limits: Limits, spent: Callable[[], Cost]) -> None:
        """`spent`: what all answers of the campaign have cost so far."""
        self._inner = inner
        self._limits = limits
        self._spent = spent
        self.name = inner.name
        self.tools = inner.tools

    def count(self, text: str) -> int:
        return self._inner.count(text)

    def ask(self, ask: Ask) -> Said:
        """Raises BudgetSpent instead of asking what may not fit."""
        if self._limits.max_dollars is not None or self._limits.max_tokens is not None:
            why = over(self._inner.most(ask), self._spent(), self._limits)
            if why:
                raise BudgetSpent(f"{ask.purpose}: {why}")
        return self._inner.ask(ask)


def over(most: Cost, spent: Cost, limits: Limits) -> str:
    """Why an answer of at most that cost does not fit; empty when it does."""
    if limits.max_tokens is not None and spent.tokens + most.tokens > limits.max_tokens:
        return f"may take {most.tokens} tokens, and {spent.tokens} of {limits.max_tokens} are spent"
    if limits.max_dollars is None:
        return ""
    if most.dollars is None or spent.dollars is None:
        return f"a price is unknown, so {limits.max_dollars:g} dollars cannot be kept"
    if spent.dollars + most.dollars > limits.max_dollars:
        return f"may cost {most.dollars:.4f} dollars, and {spent.dollars:.4f} of {limits.max_dollars:g} are spent"
    return ""
