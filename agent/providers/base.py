"""A language model as planners see it: one question with everything in it, one answer with its cost."""

import hashlib
import os
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal, Protocol

from pydantic import Field

from ridgeline.agent.console import CONTROLS
from ridgeline.agent.errors import UserError
from ridgeline.graph.briefing import OUT_OF_BUDGET, STOPPED
from ridgeline.graph.values import Cost, Value


class Call(Value):
    """A tool that the model wants run."""

    id: str
    name: str
    arguments: str
    """JSON as the model wrote it; may be no JSON at all."""


class Message(Value):
    """One message of the conversation, in the order it was said."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    calls: tuple[Call, ...] = ()
    """Of an assistant's message."""
    answers: str = ""
    """Of a tool's message: id of the call it answers."""


class Tool(Value):
    """A read-only tool on offer."""

    name: str
    description: str
    parameters: str
    """JSON Schema of its arguments."""


DESK = "RIDGELINE_DEEP_DESK"
"""Variable with the folder where the campaign that an agent works for answers its commands."""


class WorkPlace(Value):
    """Where a coding agent works with its own tools for a question, instead of answering from the text alone."""

    folder: str
    """The files that it edits; it runs there."""
    desk: str
    """The folder where the commands that build and run them are answered."""
    minutes: float
    """After so long it is ended."""
    tokens: int
    """What it may take, for the budget before it is asked."""


class Ask(Value):
    """One question. The same question has the same digest, and therefore one answer."""

    purpose: str
    """For people and for the record, for example `round-4 propose 2`."""
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    answer_schema: str = ""
    """JSON Schema of the final answer; empty for free text."""
    max_output_tokens: int = 8192
    checks: Annotated[str, Field(exclude=True)] = ""
    """How an answer can be checked before it is given, for who takes it; no part of what is asked."""
    place: Annotated[WorkPlace | None, Field(exclude=True)] = None
    """Where an agent may work for it; no part of what is asked either."""

    def shorten(self, most: int) -> "Ask":
        """The same question to a model for an answer of at most `most` tokens."""
        if self.max_output_tokens <= most:
            return self
        fields = {name: getattr(self, name) for name in Ask.model_fields}  # a copy would keep the cached digest
        return Ask.model_validate({**fields, "max_output_tokens": most})

    @cached_property
    def digest(self) -> str:
        """sha256 of the question to a model."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class Reply(Value):
    """One answer: text, or calls of tools."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    truncated: bool = False
    """Cut off by the limit on output tokens."""
    final: Annotated[bool, Field(exclude_if=lambda final: not final)] = False
    """The same question put again would have the same answer: one that was recorded."""
    model: str
    """What really answered, which may be a fallback."""
    cost: Cost = Cost()


class Model(Protocol):
    """Raises the errors below, and `ridgeline.agent.errors.Waiting` where the answer must come from outside first."""

    name: str
    tools: bool
    """Whether tools may be offered: a mailbox takes whole answers only."""

    def ask(self, ask: Ask) -> Reply: ...

    def count(self, text: str) -> int:
        """Tokens of a text, by the model's own counter or a close one; needs no network."""
        ...


class Client(Model, Protocol):
    """A model that says beforehand what a question may cost."""

    def most(self, ask: Ask) -> Cost:
        """Upper estimate of what one answer of the model costs; dollars None where the price is unknown."""
        ...


class ModelError(UserError):
    """A provider that gave no answer. Never a verdict: the campaign stops and can be resumed."""


class KeyMissing(ModelError):
    """The variable that must hold a key is not set, or the model is unknown; exit code 5."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=5)


class Unreachable(ModelError):
    """Connection, time-out, 429 or 5xx after all retries; exit code 5."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=5)


class Unanswerable(ModelError):
    """The provider refused the question itself (4xx): too long, not allowed; exit code 5."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=5)


class NotAsked(ModelError):
    """A question that was not put to the model; `begins` begins the planner's reason for stopping."""

    begins = ""


class StopAsked(NotAsked):
    """A person asked to stop before this process began: it puts no new question, and the campaign concludes (T4)."""

    begins = STOPPED


class BudgetSpent(NotAsked):
    """The next question may cost more than is left of a budget: it was not asked, and the campaign concludes (T7)."""

    begins = OUT_OF_BUDGET


# Keys never leave the environment: they are taken out of everything a provider says, and control characters too.

NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
"""Names of variables whose value is nobody else's business."""
SHORTEST = 8
"""A shorter value is no key, and taking it out would damage ordinary words."""
SHAPES = re.compile(r"\bsk-[\w*.-]{6,}|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}|\bgh[pousr]_\w{20,}|(?<=Bearer )\S+")
"""Keys as providers write them, also half masked: an error message may quote one that is in no variable."""


KEY = re.compile(
    r"\bsk-(?=[\w-]*[0-9])[\w-]{20,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{35}|\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_\w{22,}"
    r"|\bglpat-[\w-]{20,}|\bxox[abprs]-[\w-]{10,}|\bhf_[A-Za-z0-9]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY-----[\w+/=\s\\]*"
)
"""Whole keys, which no source has by chance: what an answer must not bring into a campaign's files."""


def without_keys(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text without API keys: every secret variable's value replaced by the variable's name."""
    for value, name in _secrets(os.environ if environment is None else environment):
        text = text.replace(value, f"[{name}]")
    return text


ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([2-7][0-9a-fA-F])")
"""A letter of ASCII as JSON may write it."""


def without_secrets(text: str) -> str:
    """A model's answer as it may enter a campaign: without the values of secret variables, and without keys of others."""
    unescaped = _spell_out(text)
    safe = KEY.sub("[key]", without_keys(unescaped))
    return text if safe == unescaped else safe


def find_secret(text: str) -> str:
    """Line and kind of the first thing that `without_secrets` takes out, never the thing itself; empty for none."""
    for number, line in enumerate(_spell_out(text).splitlines(), start=1):
        for value, name in _secrets(os.environ):
            if value in line:
                return f"line {number} has the value of {name}"
        if KEY.search(line):
            return f"line {number} has what looks like a key"
    return ""


def _spell_out(text: str) -> str:
    """The JSON of a model's answer with its escaped letters as they are, save quotes and backslashes, which must stay escaped."""

    def spell(match: re.Match[str]) -> str:
        letter = chr(int(match[2], 16))
        return match[0] if letter in '"\\' or letter == "\x7f" else match[1] + letter

    return ESCAPE.sub(spell, text)


def plain(text: str, *, limit: int) -> str:
    """A model's text that can be stored and shown: no control characters, no lone surrogates, at most `limit` characters."""
    head = text[:limit].replace("\r\n", "\n").replace("\r", "\n")
    return CONTROLS.sub("", head).encode("utf-8", "replace").decode("utf-8")


def redact(text: str, *, limit: int = 400) -> str:
    """A provider's message in one line: plain, bounded, without anything that looks like a key."""
    line = " ".join(plain(without_keys(text[:100_000]), limit=100_000).split())
    safe = SHAPES.sub("[key]", line)
    return safe if len(safe) <= limit else f"{safe[:limit]} ..."


def _secrets(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Keys of providers in the environment, longest first, so that a key inside a longer one does not break it up."""
    secrets = [(v, n) for n, v in environment.items() if NAMES.search(n) and len(v) >= SHORTEST]
    return sorted(secrets, key=lambda pair: -len(pair[0]))
