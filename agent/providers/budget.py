"""From a choice to a model that can be asked: budgeted, and on the campaign's own tape."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import Ask, BudgetSpent, Client, Reply, StopAsked
from ridgeline.agent.providers.choice import AGENT, MAILBOX, Choice, Price
from ridgeline.agent.providers.client import MILLION
from ridgeline.agent.providers.mailbox import MailboxModel
from ridgeline.agent.providers.recorded import RecordedModel, read_answers
from ridgeline.agent.providers.tape import FILE, ModelTape, TapedModel
from ridgeline.graph.limits import Limits
from ridgeline.graph.values import Cost
from ridgeline.sandbox.store.campaign_folder import StopFile


def open_model(choice: Choice, *, campaign: Path, limits: Limits) -> TapedModel:
    """The model that a campaign asks, budgeted and on tape. Raises KeyMissing, naming what is not set, before anything is asked."""
    tape = ModelTape(campaign / FILE)
    inner = client(choice, campaign, answered=lambda: [ask for ask, _ in tape.said])
    model = BudgetedModel(inner, limits=limits, spent=lambda: tape.spent)
    if StopFile(campaign).stop_requested(0):
        return TapedModel(StoppedModel(model), tape, longest=limits.answer_tokens)
    return TapedModel(model, tape, longest=limits.answer_tokens)


def client(choice: Choice, campaign: Path, *, answered: Callable[[], Sequence[Ask]] = tuple) -> Client:
    """The client of one model's provider. litellm is imported only for one that needs it.

    `answered`: the campaign's own questions that have an answer.
    """
    if choice.recording is not None:
        return RecordedModel(choice.recording, campaign, answered=answered)
    if choice.name == MAILBOX:
        return MailboxModel(campaign)
    if choice.name.startswith(AGENT):
        from ridgeline.agent.providers.agents import AgentModel

        return AgentModel(choice)
    from ridgeline.agent.providers.client import LitellmModel

    return LitellmModel(choice)


# What a campaign may cost, said before it starts; rough, and said to be.

QUESTIONS = (2, 6)
"""Questions of one round: a direction and its edits; with tool calls, a repair and the lesson beside them."""
GIVEN, MADE = 12_000, 3_000
"""Tokens of a question and of an answer. A measured campaign says better: see the costs in its report."""


def forecast(choice: Choice, limits: Limits) -> tuple[str, ...]:
    """What a campaign may spend on its model, as lines for standard error.

    Raises UserError for a budget in dollars that nobody could keep, and KeyMissing where the model cannot be asked.
    """
    if choice.name == MAILBOX:
        if limits.max_dollars is not None:
            raise UserError(
                "--budget-usd: nobody knows what answers to a mailbox cost; leave it out or use --budget-tokens"
            )
        return ("model mailbox: the campaign stops with exit code 3 at every question, until it is answered",)
    if choice.recording is not None:
        answers = read_answers(choice.recording)
        turns = f"{answers.turns or 'no'} question{'s' if answers.turns != 1 else ''}"
        return (
            f"model {choice.name_shown}: {turns} for directions answered before; nobody is asked, it ends where they end",
        )
    prices = _list_prices(choice)
    unknown = [name for name, price in prices if price is None]
    if unknown and limits.max_dollars is not None:
        raise UserError(
            f"--budget-usd: the price of {', '.join(unknown)} is not known, so a budget in dollars cannot be kept; use"
            " --budget-tokens, or say the price: RIDGELINE_MODEL_PRICE=IN,OUT in dollars per million tokens"
        )
    return (*(_describe_price(name, price) for name, price in prices), _rounds(prices[0][1], limits))


def _list_prices(choice: Choice) -> tuple[tuple[str, Price | None], ...]:
    """Every model that a campaign may ask, with its price per token. Raises KeyMissing where one cannot be asked."""
    if choice.name.startswith(AGENT):
        from ridgeline.agent.providers.agents import AgentModel

        return ((AgentModel(choice).name, choice.price),)
    from ridgeline.agent.providers.client import LitellmModel

    return LitellmModel(choice).prices


def _describe_price(name: str, price: Price | None) -> str:
    if price is None:
        return f"model {name}: its price is unknown; tokens are counted, dollars are not"
    return f"model {name}: at most {price.input:g} dollars per million tokens in, {price.output:g} out"


def _rounds(price: Price | None, limits: Limits) -> str:
    each = tuple(count * (GIVEN + MADE) for count in QUESTIONS)
    rounds = limits.max_rounds
    times = rounds or 1
    what = f"{rounds} round{'s' if rounds > 1 else ''}" if rounds else "every round"
    text = f"estimate: {what} about {_thousands(each[0] * times)} to {_thousands(each[1] * times)} tokens"
    if price is not None:
        cost = [count * times * (price.input * GIVEN + price.output * MADE) / MILLION for count in QUESTIONS]
        text += f", {cost[0]:.2f} to {cost[1]:.2f} dollars"
    budgets = [
        f"{value:g} {unit}"
        for value, unit in ((limits.max_dollars, "dollars"), (limits.max_tokens, "tokens"))
        if value is not None
    ]
    return f"{text}; " + (f"it stops before {' or '.join(budgets)} are exceeded" if budgets else "no budget is set")


def _thousands(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k"


# The stop before overspending: a question that may not fit into what is left is not asked.


class StoppedModel:
    """Of a campaign that a person asked to stop before this process began: no new question is put.

    An answer that lies in the mailbox is heard: somebody wrote it.
    """

    def __init__(self, inner: "BudgetedModel") -> None:
        self._inner = inner
        self.name = inner.name
        self.tools = inner.tools

    def count(self, text: str) -> int:
        return self._inner.count(text)

    def ask(self, ask: Ask) -> Reply:
        """Raises StopAsked instead of asking the model."""
        if not self._inner.is_answered(ask):
            raise StopAsked(f"{ask.purpose}: a person asked to stop before it was answered")
        return self._inner.ask(ask)


class BudgetedModel:
    """Asks only what fits, judged by the most that an answer may cost."""

    def __init__(self, inner: Client, *, limits: Limits, spent: Callable[[], Cost]) -> None:
        """`spent`: what all answers of the campaign's model have cost so far."""
        self._inner = inner
        self._limits = limits
        self._spent = spent
        self.name = inner.name
        self.tools = inner.tools

    def count(self, text: str) -> int:
        return self._inner.count(text)

    def is_answered(self, ask: Ask) -> bool:
        """Whether the model's answer lies in a mailbox."""
        return isinstance(self._inner, MailboxModel) and self._inner.is_answered(ask)

    def ask(self, ask: Ask) -> Reply:
        """Ask the model. Raises BudgetSpent instead of asking what may not fit."""
        if self._limits.max_dollars is not None or self._limits.max_tokens is not None:
            why = over(self._inner.most(ask), self._spent(), self._limits)
            if why:
                raise BudgetSpent(f"{ask.purpose}: {why}")
        return self._inner.ask(ask)


def over(most: Cost, spent: Cost, limits: Limits) -> str:
    """Why an answer of the model of at most that cost does not fit the budget; empty when it does."""
    if limits.max_tokens is not None and spent.tokens + most.tokens > limits.max_tokens:
        return f"{spent.tokens} of {limits.max_tokens} tokens are spent, and the next question may take up to {most.tokens}"
    if limits.max_dollars is None:
        return ""
    if most.dollars is None or spent.dollars is None:
        return f"a price is unknown, so {limits.max_dollars:g} dollars cannot be kept"
    if spent.dollars + most.dollars > limits.max_dollars:
        return (
            f"{spent.dollars:.4f} of {limits.max_dollars:g} dollars are spent,"
            f" and the next question may cost up to {most.dollars:.4f}"
        )
    return ""
