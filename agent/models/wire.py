"""A question as litellm's arguments, and litellm's response as an answer. What comes back is data of a stranger."""

import json
from collections.abc import Iterable
from typing import Any

from ridgeline.agent.models.base import Ask, Call, Message, Said
from ridgeline.agent.models.redaction import plain, without_keys
from ridgeline.graph.values import Cost

LONGEST_TEXT = 400_000
"""Characters of an answer that are kept: ten times the largest kernel file."""
MOST_CALLS = 32
"""Calls of tools in one answer that are kept."""
CACHING = frozenset({"anthropic", "bedrock", "vertex_ai"})
"""Providers that cache a prompt only where the request says so; the others do it by themselves or not at all."""


def arguments(ask: Ask, *, provider: str, model: str, schema: bool, tools: bool) -> dict[str, Any]:
    """Messages, tools, form of the answer and its longest length."""
    marked = provider in CACHING and "claude" in model.lower()
    found: dict[str, Any] = {
        "messages": [_message(message, cached=marked and at < 2) for at, message in enumerate(ask.messages)],
        "max_tokens": ask.max_output_tokens,
    }
    if ask.tools and tools:
        found["tools"] = [
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
        found["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": json.loads(ask.answer_schema), "strict": False},
        }
    return found


def _message(message: Message, *, cached: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message.role, "content": message.text}
    if cached and message.text and message.role in ("system", "user"):
        # rules and context come first and stay the same in a round: the prefix worth caching
        part = {"type": "text", "text": message.text, "cache_control": {"type": "ephemeral"}}
        found["content"] = [part]
    if message.calls:
        found["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]
        found["content"] = message.text or None
    if message.role == "tool":
        found["tool_call_id"] = message.answers
    return found


def answer(response: Any, *, asked: str, cost: Cost) -> Said:
    """Raises ValueError for a response without a choice."""
    if not response.choices:
        raise ValueError("an answer without any choice")
    choice = response.choices[0]
    text = choice.message.content if isinstance(choice.message.content, str) else ""
    return Said(
        text=_safe(text),
        calls=tuple(_calls(choice.message.tool_calls or ())),
        truncated=choice.finish_reason == "length" or len(text) > LONGEST_TEXT,
        model=f"{asked} ({served})" if (served := _served(response, asked)) else asked,
        cost=cost,
    )


def _calls(given: Iterable[Any]) -> Iterable[Call]:
    for number, call in enumerate(given):
        if number == MOST_CALLS:
            return
        name, argument = call.function.name, call.function.arguments
        yield Call(
            id=_safe(str(call.id or f"call-{number}"), 200),
            name=_safe(str(name or ""), 200),
            arguments=_safe(argument if isinstance(argument, str) else json.dumps(argument)),
        )


def _served(response: Any, asked: str) -> str:
    """What the server says it is, when that is another name; a snapshot's date, for example."""
    found = _safe(str(response.model or ""), 120)
    return "" if found in asked else found


def _safe(text: str, limit: int = LONGEST_TEXT) -> str:
    return plain(without_keys(text[:limit]), limit=limit)
