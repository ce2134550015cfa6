"""Any model that litellm reaches: a provider's, or an OpenAI-compatible server's."""

import logging
import math
import os
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ridgeline.agent.models.base import Ask, ModelError, Said, Unanswerable
from ridgeline.agent.models.choice import Choice, Price
from ridgeline.agent.models.faults import fault
from ridgeline.agent.models.library import failures, library, tokens
from ridgeline.agent.models.patience import Patience, within
from ridgeline.agent.models.prices import MILLION, dollars, listed, price
from ridgeline.agent.models.providers import LOCAL, own_server, require
from ridgeline.agent.models.wire import answer, arguments
from ridgeline.graph.values import Cost

logger = logging.getLogger(__name__)
COUNTED_SHORT = 1.3
"""Other tokenizers make up to this many times the tokens that ours counts."""
PER_MESSAGE = 16
"""Tokens of a message's frame, at most."""


@dataclass(frozen=True)
class Reached:
    """One model of the list, and what it was found to take."""

    name: str
    provider: str
    base_url: str
    price: Price | None
    listed: bool
    """Whether `price` is litellm's, so that its exact arithmetic holds."""
    longest: int | None
    """Output tokens it can give; None where nobody says."""
    schema: bool
    tools: bool


class LitellmModel:
    """Asks the first model; the next one of the fallbacks when it gives no answer.

    Raises KeyMissing at once when a variable that a model needs is not set.
    """

    def __init__(self, choice: Choice, *, patience: Patience | None = None) -> None:
        self._patience = patience or Patience(total_s=choice.total_s)
        self._timeout_s = choice.timeout_s
        self._models = [self._reached(name, choice) for name in (choice.name, *choice.fallbacks)]
        self.name = choice.name
        self.tools = all(model.tools for model in self._models)

    @property
    def prices(self) -> tuple[tuple[str, Price | None], ...]:
        """Every model that may be asked, with the most it costs."""
        return tuple((model.name, model.price) for model in self._models)

    def count(self, text: str) -> int:
        """By an OpenAI encoding that needs no network; a close count for others."""
        library()
        return tokens(text)

    def most(self, ask: Ask) -> Cost:
        """As if the dearest of the models answered at full length; a repeated request that failed is not in it."""
        given = math.ceil(COUNTED_SHORT * self._counted(ask)) + PER_MESSAGE * len(ask.messages)
        prices = [model.price for model in self._models]
        known = [each for each in prices if each is not None]
        top = max((_spent(each, given, ask.max_output_tokens) for each in known), default=0.0)
        return Cost(tokens=given + ask.max_output_tokens, dollars=top if len(known) == len(prices) else None)

    def ask(self, ask: Ask) -> Said:
        """Raises the typed failures of `ridgeline.agent.models.base`."""
        failures: list[ModelError] = []
        for at, model in enumerate(self._models):
            try:
                call = partial(self._once, at, ask)
                return self._patience.insist(call, who=f"--model {model.name}")
            except ModelError as failure:
                failures.append(failure)
                if at + 1 < len(self._models):
                    logger.warning("%s; asking %s instead", failure, self._models[at + 1].name)
        if len(failures) > 1:
            raise type(failures[0])("; ".join(str(failure) for failure in failures))
        raise failures[0]

    def _once(self, at: int, ask: Ask, left_s: float) -> Said:
        """One request, and at once a second and third without what the server says it cannot do."""
        for _ in range(2):
            try:
                return self._request(self._models[at], ask, left_s)
            except Unanswerable as refused:
                simpler = _without(self._models[at], ask, str(refused))
                if simpler is None:
                    raise
                logger.warning("%s; asking without", refused)
                self._models[at] = simpler
        return self._request(self._models[at], ask, left_s)

    def _request(self, model: Reached, ask: Ask, left_s: float) -> Said:
        lib = library()
        seconds = min(self._timeout_s, max(1.0, left_s))
        given = arguments(ask, provider=model.provider, model=model.name, schema=_formed(model, ask), tools=model.tools)
        given["max_tokens"] = min(given["max_tokens"], model.longest or given["max_tokens"])
        given.update(model=model.name, timeout=seconds, num_retries=0, max_retries=0)
        if model.base_url:
            given["base_url"] = model.base_url
            if model.provider == "openai" and not os.environ.get("OPENAI_API_KEY"):
                given["api_key"] = "none"  # the client insists on one, a server of one's own needs none
        try:
            # a little more than the socket's own limit, which should speak first
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # litellm warns of oddly shaped answers; we judge them ourselves
                response = within(seconds + 1, partial(lib.completion, **given))
            if response is None:  # litellm drops parameters after a 422, asks again, and then has nothing to say
                raise Unanswerable(f"--model {model.name}: the provider refused the question (422)")
            said = answer(response, asked=model.name, cost=Cost())
        except failures() as error:
            raise fault(error, name=model.name, provider=model.provider) from None
        return said.model_copy(update={"cost": self._cost(model, ask, response, said)})

    def _cost(self, model: Reached, ask: Ask, response: Any, said: Said) -> Cost:
        usage = getattr(response, "usage", None)
        given, made = _number(usage, "prompt_tokens"), _number(usage, "completion_tokens")
        if not given:  # the server does not say
            given = self._counted(ask)
            made = self.count(said.text + "".join(call.arguments for call in said.calls))
            return Cost(tokens=given + made, dollars=_spent(model.price, given, made) if model.price else None)
        exact = dollars(response, model.name) if model.listed else None
        if exact is None and model.price is not None:
            exact = _spent(model.price, given, made)
        return Cost(tokens=given + made, dollars=exact)

    def _counted(self, ask: Ask) -> int:
        parts = [message.text + "".join(call.arguments for call in message.calls) for message in ask.messages]
        tools = [tool.name + tool.description + tool.parameters for tool in ask.tools]
        return self.count("\n".join((*parts, *tools, ask.answer_schema)))

    def _reached(self, name: str, choice: Choice) -> Reached:
        first = name == choice.name or name.partition("/")[0] == choice.name.partition("/")[0]
        base_url = choice.base_url if first else ""
        provider = require(name, base_url=base_url, environment=os.environ)
        own = own_server(provider, base_url, os.environ)
        entry = None if own and provider not in LOCAL else listed(name)
        known = price(name) if entry else None
        if provider in LOCAL:
            known = known or Price(input=0.0, output=0.0)
        return Reached(
            name=name,
            provider=provider,
            base_url=base_url,
            price=choice.price or known,
            listed=choice.price is None and entry is not None,
            longest=(entry or {}).get("max_output_tokens"),
            schema=entry is None or bool(entry.get("supports_response_schema")),
            tools=entry is None or bool(entry.get("supports_function_calling")),
        )


def _formed(model: Reached, ask: Ask) -> bool:
    """Beside tools a form is asked for only of those who are known to take both: a grammar would forbid the call."""
    return model.schema and (not ask.tools or (model.provider in ("openai", "azure") and not model.base_url))


def _without(model: Reached, ask: Ask, refusal: str) -> Reached | None:
    """The same model, asked for less; None when the refusal is about something else."""
    text = refusal.lower()
    if (
        model.schema
        and ask.answer_schema
        and any(word in text for word in ("response_format", "json_schema", "schema"))
    ):
        return replace(model, schema=False)
    if model.tools and ask.tools and "tool" in text:
        return replace(model, tools=False)
    return None


def _spent(price: Price, given: int, made: int) -> float:
    return (price.input * given + price.output * made) / MILLION


def _number(usage: Any, name: str) -> int:
    found = getattr(usage, name, 0)
    return max(0, found) if isinstance(found, int) else 0
