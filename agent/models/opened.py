"""From a choice to a model that can be asked: budgeted, and on the campaign's own tape."""

from pathlib import Path

from ridgeline.agent.models.base import Client
from ridgeline.agent.models.budget import BudgetedModel
from ridgeline.agent.models.choice import MAILBOX, Choice
from ridgeline.agent.models.mailbox import MailboxModel
from ridgeline.agent.models.tape import FILE, ModelTape, TapedModel
from ridgeline.graph.limits import Limits


def opened(choice: Choice, *, campaign: Path, limits: Limits) -> TapedModel:
    """Raises KeyMissing, naming what is not set, before anything is asked or measured."""
    tape = ModelTape(campaign / FILE)
    asked = BudgetedModel(client(choice, campaign), limits=limits, spent=lambda: tape.spent)
    return TapedModel(asked, tape, longest=limits.answer_tokens)


def client(choice: Choice, campaign: Path) -> Client:
    """The model itself. litellm is imported only for one that needs it."""
    if choice.name == MAILBOX:
        return MailboxModel(campaign)
    from ridgeline.agent.models.client import LitellmModel

    return LitellmModel(choice)
