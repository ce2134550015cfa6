"""What a campaign may cost, said before it starts; rough, and said to be."""

from ridgeline.agent.errors import UserError
from ridgeline.agent.models.choice import MAILBOX, Choice, Price
from ridgeline.agent.models.prices import MILLION
from ridgeline.graph.limits import Limits

QUESTIONS = (2, 6)
"""Questions of one round: a direction and its edits; with tool calls, a repair and the lesson beside them."""
GIVEN, MADE = 12_000, 3_000
"""Tokens of a question and of an answer. A measured campaign says better: see the costs in its report."""


def forecast(choice: Choice, limits: Limits) -> tuple[str, ...]:
    """Lines for standard error.

    Raises UserError for a budget in dollars that nobody could keep, and KeyMissing where the model cannot be asked.
    """
    if choice.name == MAILBOX:
        if limits.max_dollars is not None:
            raise UserError(
                "--budget-usd: nobody knows what answers to a mailbox cost; leave it out or use --budget-tokens"
            )
        return ("model mailbox: the campaign stops with exit code 3 at every question, until it is answered",)
    from ridgeline.agent.models.client import LitellmModel

    prices = LitellmModel(choice).prices
    unknown = [name for name, price in prices if price is None]
    if unknown and limits.max_dollars is not None:
        raise UserError(
            f"--budget-usd: the price of {', '.join(unknown)} is not known, so a budget in dollars cannot be kept; use"
            " --budget-tokens, or say the price: RIDGELINE_MODEL_PRICE=IN,OUT in dollars per million tokens"
        )
    return (*(_priced(name, price) for name, price in prices), _rounds(prices[0][1], limits))


def _priced(name: str, price: Price | None) -> str:
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
