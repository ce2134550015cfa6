"""Any model that litellm reaches: a provider's, or an OpenAI-compatible server's."""

import json
import logging
import math
import multiprocessing
import os
import random
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Any, TypeVar

from ridgeline.agent.providers.base import (
    Ask,
    Call,
    KeyMissing,
    Message,
    ModelError,
    Reply,
    Unanswerable,
    Unreachable,
    plain,
    redact,
    without_secrets,
)
from ridgeline.agent.providers.choice import LOCAL, Choice, Price, own_server, require, variables
from ridgeline.agent.providers.library import failures, library, tokens
from ridgeline.graph.values import Cost

# Asking again: exponential backoff with jitter, the server's own Retry-After first, never longer than a bound.

logger = logging.getLogger(__name__)
T = TypeVar("T")


class TransientFailure(Exception):
    """A failure that may pass: the connection, a time-out, 429, 5xx."""

    def __init__(self, message: str, *, after_s: float | None = None) -> None:
        """`after_s`: seconds that the provider asks to wait; None when it says nothing."""
        super().__init__(message)
        self.after_s = after_s


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often and how long; seconds."""

    attempts: int = 6
    first_s: float = 1.0
    """Mean of the first pause; each later one is twice as long."""
    longest_s: float = 60.0
    """No pause of our own choosing is longer."""
    total_s: float = 900.0
    """Of one question with all pauses and attempts."""
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[], float] = random.random

    def insist(self, call: Callable[[float], T], *, who: str) -> T:
        """`call(seconds left)` until the provider answers. Raises Unreachable with the last failure when patience ends."""
        until = self.now() + self.total_s
        for attempt in range(1, self.attempts + 1):
            try:
                return call(until - self.now())
            except TransientFailure as failure:
                pause = self._pause(attempt, failure.after_s)
                if attempt == self.attempts:
                    raise Unreachable(f"{who}: no answer in {attempt} attempts: {failure}") from None
                if self.now() + pause >= until:
                    wait_note = f", and asks to wait {failure.after_s:.0f} s" if failure.after_s else ""
                    raise Unreachable(f"{who}: no answer within {self.total_s:g} s: {failure}{wait_note}") from None
                logger.warning("%s: %s; asking again in %.1f s", who, failure, pause)
                self.sleep(pause)
        raise AssertionError("attempts is at least 1")

    def _pause(self, attempt: int, after_s: float | None) -> float:
        if after_s is not None:
            return after_s + self.draw()  # a little later than asked, so that many clients do not come back at once
        return min(self.longest_s, self.first_s * 2.0 ** (attempt - 1)) * (0.5 + self.draw())


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a provider's call, or TransientFailure when it takes longer than `seconds` of wall time.

    A socket's own time limit starts anew with every byte, so a server that drips would hold us for ever. The thread
    that is left behind ends with the process.
    """
    pool = ThreadPool(1)
    try:
        return pool.apply_async(call).get(max(0.0, seconds))
    except multiprocessing.TimeoutError:
        raise TransientFailure(f"no complete answer within {seconds:.0f} s") from None
    finally:
        pool.terminate()


COUNTED_SHORT = 1.3
"""Other tokenizers make up to this many times the tokens that ours counts."""
PER_MESSAGE = 16
"""Tokens of a message's frame, at most."""


@dataclass(frozen=True)
class ReachableModel:
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
        self._models = [self._reach(name, choice) for name in (choice.name, *choice.fallbacks)]
        self.name = choice.name
        self.tools = all(model.tools for model in self._models)

    @property
    def prices(self) -> tuple[tuple[str, Price | None], ...]:
        """Every model that may be asked, with the most it costs."""
        return tuple((model.name, model.price) for model in self._models)

    def count(self, text: str) -> int:
        """Tokens of a question, by an OpenAI encoding that needs no network; a close count for other models."""
        library()
        return tokens(text)

    def most(self, ask: Ask) -> Cost:
        """The most a question costs: the dearest of the models answers at full length; a repeated request that failed is not in it."""
        input_tokens = math.ceil(COUNTED_SHORT * self._count_tokens(ask)) + PER_MESSAGE * len(ask.messages)
        prices = [model.price for model in self._models]
        known_prices = [model_price for model_price in prices if model_price is not None]
        top = max(
            (_compute_dollars(model_price, input_tokens, ask.max_output_tokens) for model_price in known_prices),
            default=0.0,
        )
        return Cost(
            tokens=input_tokens + ask.max_output_tokens, dollars=top if len(known_prices) == len(prices) else None
        )

    def ask(self, ask: Ask) -> Reply:
        """Ask a provider by litellm. Raises the typed failures of `ridgeline.agent.providers.base`."""
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

    def _once(self, at: int, ask: Ask, left_s: float) -> Reply:
        """One request to a provider, and at once a second and third without what its server says it cannot do."""
        for _ in range(2):
            try:
                return self._request(self._models[at], ask, left_s)
            except Unanswerable as refused:
                simpler = _drop_refused_parameter(self._models[at], ask, str(refused))
                if simpler is None:
                    raise
                logger.warning("%s; asking without", refused)
                self._models[at] = simpler
        return self._request(self._models[at], ask, left_s)

    def _request(self, model: ReachableModel, ask: Ask, left_s: float) -> Reply:
        """One attempt to ask a provider. Raises TransientFailure where another may succeed, ModelError where none will."""
        lib = library()
        seconds = min(self._timeout_s, max(1.0, left_s))
        parameters = arguments(
            ask, provider=model.provider, model=model.name, schema=_asks_for_form(model, ask), tools=model.tools
        )
        parameters["max_tokens"] = min(parameters["max_tokens"], model.longest or parameters["max_tokens"])
        parameters.update(model=model.name, timeout=seconds, num_retries=0, max_retries=0)
        if model.base_url:
            parameters["base_url"] = model.base_url
            if model.provider == "openai" and not os.environ.get("OPENAI_API_KEY"):
                parameters["api_key"] = "none"  # the client insists on one, a server of one's own needs none
        try:
            # a little more than the socket's own limit, which should speak first
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # litellm warns of oddly shaped answers; we judge them ourselves
                response = within(seconds + 1, partial(lib.completion, **parameters))
            if response is None:  # litellm drops parameters after a 422, asks again, and then has nothing to say
                raise Unanswerable(f"--model {model.name}: the provider refused the question (422)")
            reply = answer(response, model_name=model.name, cost=Cost())
        except failures() as error:
            raise fault(error, name=model.name, provider=model.provider) from None
        return reply.model_copy(update={"cost": self._cost(model, ask, response, reply)})

    def _cost(self, model: ReachableModel, ask: Ask, response: Any, reply: Reply) -> Cost:
        """Tokens and dollars of one answer, by the provider's usage, else by our own count."""
        usage = getattr(response, "usage", None)
        input_tokens, output_tokens = _number(usage, "prompt_tokens"), _number(usage, "completion_tokens")
        if not input_tokens:  # the server does not say
            input_tokens = self._count_tokens(ask)
            output_tokens = self.count(reply.text + "".join(call.arguments for call in reply.calls))
            return Cost(
                tokens=input_tokens + output_tokens,
                dollars=_compute_dollars(model.price, input_tokens, output_tokens) if model.price else None,
            )
        exact = dollars(response, model.name) if model.listed else None
        if exact is None and model.price is not None:
            exact = _compute_dollars(model.price, input_tokens, output_tokens)
        return Cost(tokens=input_tokens + output_tokens, dollars=exact)

    def _count_tokens(self, ask: Ask) -> int:
        parts = [message.text + "".join(call.arguments for call in message.calls) for message in ask.messages]
        tools = [tool.name + tool.description + tool.parameters for tool in ask.tools]
        return self.count("\n".join((*parts, *tools, ask.answer_schema)))

    def _reach(self, name: str, choice: Choice) -> ReachableModel:
        same_provider = name == choice.name or name.partition("/")[0] == choice.name.partition("/")[0]
        base_url = choice.base_url if same_provider else ""
        provider = require(name, base_url=base_url, environment=os.environ)
        is_own_server = own_server(provider, base_url, os.environ)
        entry = None if is_own_server and provider not in LOCAL else find_entry(name)
        model_price = price(name) if entry else None
        if provider in LOCAL:
            model_price = model_price or Price(input=0.0, output=0.0)
        return ReachableModel(
            name=name,
            provider=provider,
            base_url=base_url,
            price=choice.price or model_price,
            listed=choice.price is None and entry is not None,
            longest=(entry or {}).get("max_output_tokens"),
            schema=entry is None or bool(entry.get("supports_response_schema")),
            tools=entry is None or bool(entry.get("supports_function_calling")),
        )


def _asks_for_form(model: ReachableModel, ask: Ask) -> bool:
    """Whether a model is asked for a form beside tools: only of those known to take both, as a grammar would forbid the call."""
    return model.schema and (not ask.tools or (model.provider in ("openai", "azure") and not model.base_url))


def _drop_refused_parameter(model: ReachableModel, ask: Ask, refusal: str) -> ReachableModel | None:
    """The same model, asked without a parameter that it refused; None when the refusal is about something else."""
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


def _compute_dollars(price: Price, input_tokens: int, output_tokens: int) -> float:
    """Dollars for that many tokens, by the model's price."""
    return (price.input * input_tokens + price.output * output_tokens) / MILLION


def _number(usage: Any, name: str) -> int:
    """A count of tokens in the `usage` of a response; 0 where it is missing or no number."""
    count = getattr(usage, name, 0)
    return max(0, count) if isinstance(count, int) else 0


# What a provider's failure means: ask again, change the question, or tell the user.

LONGEST_WAIT_S = 86_400.0
SPENT = ("insufficient_quota", "credit balance is too low", "billing hard limit")
"""A 429 or 400 that no waiting mends."""


def fault(error: Exception, *, name: str, provider: str) -> TransientFailure | ModelError:
    """Our provider failure to raise in place of litellm's."""
    status, message = _status(error), words(error)
    who = f"--model {name}"
    if any(word in message.lower() for word in SPENT):
        return Unanswerable(f"{who}: the account has no credit left ({status}): {message}")
    if status in (401, 403):
        return KeyMissing(f"{who}: the provider refused {variables(provider)} ({status}): {message}")
    if status == 404:
        return KeyMissing(f"{who}: the provider does not know the model, or its address is wrong (404): {message}")
    if status in (408, 409, 425, 429) or status >= 500:
        return TransientFailure(f"{status}: {message}", after_s=_retry_after(error))
    return Unanswerable(f"{who}: the provider refused the question ({status}): {message}")


def words(error: Exception) -> str:
    """The provider's own sentence, in one line, without keys and without the library's prefixes."""
    text = str(error)
    head, dash, rest = text.partition("Exception - ")
    body = rest if dash and len(head) < 120 else text
    return redact(body.partition("Traceback (most recent call last)")[0]) or type(error).__name__


def _status(error: Exception) -> int:
    """The HTTP status of a provider's failure; 500 for one without: a broken connection or an answer that is none."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and status >= 400 else 500


def _retry_after(error: Exception) -> float | None:
    headers = getattr(error, "litellm_response_headers", None)
    if headers is None:
        headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return None
    value = next((text for key, text in headers.items() if str(key).lower() == "retry-after"), None)
    try:
        seconds = float(str(value))
    except ValueError:
        return None  # a date, which needs a clock that agrees with the server's: our own pauses instead
    return min(seconds, LONGEST_WAIT_S) if seconds >= 0 else None


# What an answer costs, from litellm's own list, which is on the disk; an unknown price stays unknown.

MILLION = 1_000_000


def find_entry(name: str) -> dict[str, Any] | None:
    """litellm's entry of a model; None when it has none."""
    lib = library()
    try:
        return dict(lib.get_model_info(name))
    except (lib.exceptions.ModelNotMappedError, ValueError, KeyError):
        return None


def price(name: str) -> Price | None:
    """The most that a million tokens of a model cost, in and out: writing to a cache, and a dearer tier of length, included."""
    entry = find_entry(name)
    if entry is None:
        return None
    rates = [
        _highest(entry, "input_cost_per_token", "cache_creation_input_token_cost"),
        _highest(entry, "output_cost_per_token"),
    ]
    if None in rates:
        return None
    return Price(input=MILLION * (rates[0] or 0.0), output=MILLION * (rates[1] or 0.0))


def _highest(entry: dict[str, Any], *prefixes: str) -> float | None:
    """The dearest of a model's rates whose names begin so, in dollars a token; None where there is none."""
    rates = [
        value
        for key, value in entry.items()
        if key.startswith(prefixes) and isinstance(value, int | float) and not key.endswith(("_batches", "_priority"))
    ]
    return max(rates) if rates else None


def dollars(response: Any, name: str) -> float | None:
    """Dollars of one answer by litellm's list, its cached tokens at their own price; None when the model is not in the list."""
    lib = library()
    try:
        return float(lib.completion_cost(completion_response=response, model=name))
    except (lib.exceptions.ModelNotMappedError, *failures()):
        return None


# A question as litellm's arguments, and litellm's response as an answer. What comes back is data of a stranger.

LONGEST_TEXT = 400_000
"""Characters of an answer that are kept: ten times the largest kernel file."""
MOST_CALLS = 32
"""Calls of tools in one answer that are kept."""
CACHING = frozenset({"anthropic", "bedrock", "vertex_ai"})
"""Providers that cache a prompt only where the request says so; the others do it by themselves or not at all."""


def arguments(ask: Ask, *, provider: str, model: str, schema: bool, tools: bool) -> dict[str, Any]:
    """Arguments of litellm for a question: messages, tools, form of the answer and its longest length."""
    marked = provider in CACHING and "claude" in model.lower()
    request: dict[str, Any] = {
        "messages": [_message(message, cached=marked and at < 2) for at, message in enumerate(ask.messages)],
        "max_tokens": ask.max_output_tokens,
    }
    if ask.tools and tools:
        request["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": json.loads(tool.parameters),
                },
            }
            for tool in ask.tools
        ]
    if ask.answer_schema and schema:
        request["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": json.loads(ask.answer_schema), "strict": False},
        }
    return request


def _message(message: Message, *, cached: bool) -> dict[str, Any]:
    """One message of a conversation as the provider takes it; `cached`: marked for the provider's prompt cache."""
    fields: dict[str, Any] = {"role": message.role, "content": message.text}
    if cached and message.text and message.role in ("system", "user"):
        # rules and context come first and stay the same in a round: the prefix worth caching
        part = {"type": "text", "text": message.text, "cache_control": {"type": "ephemeral"}}
        fields["content"] = [part]
    if message.calls:
        fields["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
        fields["content"] = message.text or None
    if message.role == "tool":
        fields["tool_call_id"] = message.answers
    return fields


def answer(response: Any, *, model_name: str, cost: Cost) -> Reply:
    """The answer out of litellm's response. Raises ValueError for a response without a choice."""
    if not response.choices:
        raise ValueError("an answer without any choice")
    choice = response.choices[0]
    text = choice.message.content if isinstance(choice.message.content, str) else ""
    return Reply(
        text=_safe(text),
        calls=tuple(_calls(choice.message.tool_calls or ())),
        truncated=choice.finish_reason == "length" or len(text) > LONGEST_TEXT,
        model=f"{model_name} ({served})" if (served := _served_name(response, model_name)) else model_name,
        cost=cost,
    )


def _calls(tool_calls: Iterable[Any]) -> Iterable[Call]:
    """A model's calls of tools, at most MOST_CALLS, made safe to store."""
    for number, call in enumerate(tool_calls):
        if number == MOST_CALLS:
            return
        name, argument = call.function.name, call.function.arguments
        yield Call(
            id=_safe(str(call.id or f"call-{number}"), 200),
            name=_safe(str(name or ""), 200),
            arguments=_safe(argument if isinstance(argument, str) else json.dumps(argument)),
        )


def _served_name(response: Any, model_name: str) -> str:
    """What the model's server says it is, when that is another name; a snapshot's date, for example."""
    served_name = _safe(str(response.model or ""), 120)
    return "" if served_name in model_name else served_name


def _safe(text: str, limit: int = LONGEST_TEXT) -> str:
    return plain(without_secrets(text[:limit]), limit=limit)
