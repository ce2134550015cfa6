"""Which language model a campaign asks, and how patiently: everything but the keys, which stay in the environment."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from ridgeline.agent.errors import UserError
from ridgeline.graph.values import Value

MAILBOX = "mailbox"
TIMEOUT_S = 300.0
"""One request. A long answer of a large model takes minutes."""
TOTAL_S = 900.0
"""One question with all its retries."""


class Price(Value):
    """Dollars per million tokens."""

    input: float
    output: float


class Choice(Value):
    """A model by litellm's name `provider/model`, or `mailbox`."""

    name: str
    base_url: str = ""
    """Where an OpenAI-compatible server listens; empty for the provider's own address."""
    fallbacks: tuple[str, ...] = ()
    """Asked in this order when the models before them give no answer."""
    timeout_s: float = TIMEOUT_S
    total_s: float = TOTAL_S
    price: Price | None = None
    """What a person says it costs; wins over litellm's list."""

    @property
    def planner(self) -> str:
        """The word for it in the ledger, for example `llm:openai/gpt-5`."""
        return MAILBOX if self.name == MAILBOX else f"llm:{self.name}"


def choose(
    name: str | None,
    *,
    base_url: str | None,
    fallbacks: Sequence[str],
    environment: Mapping[str, str],
) -> Choice | None:
    """The model of the command line, completed from `RIDGELINE_MODEL`, `RIDGELINE_BASE_URL`, `RIDGELINE_MODEL_PRICE`.

    None when no model was asked for. Raises `UserError` for what cannot be.
    """
    asked = name or environment.get("RIDGELINE_MODEL", "")
    url = base_url or environment.get("RIDGELINE_BASE_URL", "")
    if not asked:
        if base_url or fallbacks:
            raise UserError("--model: is missing; give it together with --base-url or --fallback")
        return None
    if any(not part.strip() or part != part.strip() for part in (asked, *fallbacks)):
        raise UserError("--model: is empty or has spaces around it; write provider/model, for example openai/gpt-5")
    if asked == MAILBOX and (base_url or fallbacks):
        raise UserError("--model mailbox: is answered through files; leave out --base-url and --fallback")
    if MAILBOX in fallbacks:
        raise UserError("--fallback mailbox: a mailbox stands alone; use --model mailbox")
    return Choice(
        name=asked,
        base_url="" if asked == MAILBOX else checked_url(url),
        fallbacks=tuple(fallbacks),
        price=_price(environment.get("RIDGELINE_MODEL_PRICE", "")),
    )


def elsewhere(kept: Choice, environment: Mapping[str, str]) -> Choice:
    """The choice of a campaign that goes on: its server may listen at another address by now."""
    url = checked_url(environment.get("RIDGELINE_BASE_URL", ""))
    return kept.model_copy(update={"base_url": url}) if url and kept.name != MAILBOX else kept


def checked_url(url: str) -> str:
    """The address without its last slash. It is written into the campaign, so it may hold no key."""
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UserError("--base-url: is no http address; write for example http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        raise UserError(
            "--base-url: holds a name, password or query, and would be written down; give the key by variable"
        )
    return url.rstrip("/")


def _price(text: str) -> Price | None:
    if not text:
        return None
    mend = "RIDGELINE_MODEL_PRICE: write two numbers, dollars per million tokens in and out, for example 0.5,1.5"
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(mend) from None
    if len(values) != 2 or not all(0 <= value < 1e6 for value in values):
        raise UserError(mend)
    return Price(input=values[0], output=values[1])
