"""One question to a model, with its tool calls and one second chance, until there is an answer or a reason."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ridgeline.agent.models.base import Ask, Call, Message, Model, Said, Tool
from ridgeline.agent.planners.model_fit import bounded, fenced
from ridgeline.agent.planners.model_parse import Wrong
from ridgeline.graph.values import Cost
from ridgeline.prompts.render import render

T = TypeVar("T")
REASK = "reask.v2.md"
ECHOED = 3000
"""Tokens of its own bad answer that a model is shown again."""


class Desk(Protocol):
    """What answers tool calls."""

    def run(self, call: Call) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked, and with which means."""

    purpose: str
    system: str
    text: str
    schema: str = ""
    """JSON Schema of the answer; empty for free text."""
    tools: tuple[Tool, ...] = ()
    calls: int = 0
    """Tool calls that may be made."""
    desk: Desk | None = None
    checks: str = ""
    """What whoever takes the answer can check it by: `ridgeline.agent.planners.model_checks.Checks` as JSON."""


@dataclass(frozen=True, kw_only=True)
class Heard(Generic[T]):
    """The answer, or why there is none after two attempts; what it cost; what was wrong on the way."""

    value: T | Wrong
    cost: Cost
    asks: int
    complaints: tuple[str, ...] = ()


def talk(model: Model, question: Question, read: Callable[[str], T | Wrong]) -> Heard[T]:
    """Ask until `read` accepts an answer: at most one more time after one that it does not.

    Every call to the model is numbered in its purpose, so that the same conversation is the same questions again.
    """
    messages = [Message(role="system", text=question.system), Message(role="user", text=question.text)]
    left = question.calls if model.tools and question.tools and question.desk else 0
    cost, asks = Cost(), 0
    complaints: list[str] = []
    while True:
        asks += 1
        said = model.ask(_ask(question, messages, asks, offered=left > 0 and not complaints))
        cost = cost + said.cost
        if said.calls and left > 0 and not complaints and question.desk is not None:
            left = _served(question.desk, said, messages, left)
            continue
        found = _read(said, read)
        if not isinstance(found, Wrong):
            return Heard(value=found, cost=cost, asks=asks, complaints=tuple(complaints))
        complaints.append(found.why)
        if len(complaints) > 1:
            return Heard(value=found, cost=cost, asks=asks, complaints=tuple(complaints))
        messages.append(Message(role="assistant", text=bounded(said.text, tokens=ECHOED, count=model.count)))
        messages.append(Message(role="user", text=render(REASK, problem=fenced(found.why), tools=bool(question.tools))))


def _ask(question: Question, messages: list[Message], number: int, *, offered: bool) -> Ask:
    """Schema or tools, never both: several providers force the one by means of the other."""
    return Ask(
        purpose=f"{question.purpose} {number}",
        messages=tuple(messages),
        tools=question.tools if offered else (),
        answer_schema="" if offered else question.schema,
        checks=question.checks,
    )


def _served(desk: Desk, said: Said, messages: list[Message], left: int) -> int:
    """Answer the calls; returns how many more may be made. Every call gets an answer, also one beyond the limit."""
    messages.append(Message(role="assistant", text=said.text, calls=said.calls))
    for call in said.calls:
        result = desk.run(call) if left > 0 else "not run: no tool calls are left"
        left = max(0, left - 1)
        messages.append(Message(role="tool", text=result, answers=call.id))
    note = render("calls.v1.md", left=left)
    last = messages[-1]
    messages[-1] = last.model_copy(update={"text": f"{last.text}\n\n{note}"})
    return left


def _read(said: Said, read: Callable[[str], T | Wrong]) -> T | Wrong:
    if said.truncated:
        return Wrong(why="the answer was cut off by the limit on its length; give a shorter one")
    if not said.text.strip():
        what = f"calls of {', '.join(call.name for call in said.calls)}" if said.calls else "nothing"
        return Wrong(why=f"the answer is {what}, where text is needed now")
    return read(said.text)
