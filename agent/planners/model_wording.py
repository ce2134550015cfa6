"""Which templates a planner's questions are made of: those that ship, or others that are tried against them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline.agent.planners.model_tools import TEMPLATE
from ridgeline.prompts.render import SHIPPED, Templates

SYSTEM = "system.v1.md"
PROMPTS: dict[str, tuple[str, ...]] = {
    "propose": ("propose.v5.md", "terms.v4.md", "context.v3.md"),
    "draft": ("draft.v4.md", "context.v3.md", "edits.v3.md"),
    "repair": ("repair.v4.md", "context.v3.md", "edits.v3.md"),
    "split": ("split.v4.md", "context.v3.md", "edits.v3.md"),
    "review": ("review.v5.md", "terms.v4.md", "context.v3.md"),
    "reflect": ("reflect.v5.md", "judged.v4.md", "terms.v4.md"),
    "diagnose": ("diagnose.v5.md", "judged.v4.md", "terms.v4.md"),
}
"""Question -> its template, then those that it includes: the ledger cites them all."""


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What the questions of a planner say."""

    names: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: PROMPTS)
    templates: Templates = SHIPPED

    def system(self) -> str:
        """The rules that hold in every round."""
        return self.templates.render(SYSTEM)

    def question(self, name: str, **known: Any) -> str:
        """The question of that name; a variable that its template lacks is an error."""
        return self.templates.render(self.names[name][0], **known)

    def identities(self, name: str, *, tools: bool = False) -> tuple[str, ...]:
        """What the ledger cites: every template that the question was made of."""
        made_of = (SYSTEM, *self.names[name], *([TEMPLATE] if tools else []))
        return tuple(map(self.templates.identity, made_of))
