"""One question to a model, with its tool calls and one second chance, until there is an answer or a reason."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

from ridgeline.agent.providers.base import Ask, Call, Message, Model, Reply, Tool, WorkPlace
from ridgeline.graph.values import Cost, Value
from ridgeline.prompts.render import render

# JSON out of a model's answer: in fences or in prose, with the mistakes that models make.

QUOTED = 160
"""Characters of the answer that a complaint quotes around the mistake."""
_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.S | re.I)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n(.*?)^[ \t]*\1", re.M | re.S)


class Wrong(Value):
    """An answer that cannot be used, in words that its author can act on."""

    why: str


def json_of(text: str) -> Any | Wrong:
    """The first object or list in a model's answer, comments and trailing commas forgiven; else what is wrong."""
    plain_text = without_thoughts(text)
    first_error: Wrong | None = None
    for candidate in _candidates(plain_text):
        value = _load_json(candidate)
        if isinstance(value, dict | list):
            return value
        if first_error is None and isinstance(value, Wrong):
            first_error = value
    if first_error is not None:
        return first_error
    if not plain_text.strip():
        return Wrong(why="the answer is empty")
    return Wrong(why=f"the answer holds no JSON object; it begins {plain_text.strip()[:QUOTED]!r}")


def without_thoughts(text: str) -> str:
    """A model's answer without what it thought aloud, also where only the end of the thought was sent."""
    rest = _THOUGHT.sub("", text)
    return re.split(r"</think(?:ing)?>", rest, flags=re.I)[-1]


def _candidates(text: str) -> Iterator[str]:
    """Texts in a model's answer that may be the JSON: every fenced block, then every bracketed part of the prose."""
    for match in _FENCE.finditer(text):
        yield match[2]
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    while start >= 0:
        end = _closing(text, start)
        yield text[start : end + 1] if end is not None else text[start:]
        if end is None:
            return
        start = min((at for at in (text.find("{", end + 1), text.find("[", end + 1)) if at >= 0), default=-1)


def _closing(text: str, start: int) -> int | None:
    """Where a bracket in a model's answer is closed; None where it never is."""
    depth, quoted, at = 0, False, start
    while at < len(text):
        letter = text[at]
        if quoted:
            at += letter == "\\"
            quoted = letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "{[":
            depth += 1
        elif letter in "}]":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return None


def _load_json(text: str) -> Any | Wrong:
    """The value of JSON in a model's answer, with and without its comments; else what is wrong with it."""
    wrong = Wrong(why="the answer holds no JSON")
    for attempt in (text.strip(), _strip_comments(text.strip())):
        try:
            return json.loads(attempt, strict=False, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            place = attempt[max(0, error.pos - QUOTED // 2) : error.pos + QUOTED // 2]
            wrong = Wrong(why=f"the JSON cannot be read: {error.msg} at line {error.lineno}, near {place!r}")
        except (RecursionError, ValueError) as error:
            wrong = Wrong(why=f"the JSON cannot be read: {str(error)[:QUOTED]}")
    return wrong


def _refuse_constant(name: str) -> float:
    """Refuse NaN and Infinity in a model's answer, which are no JSON. Raises ValueError."""
    raise ValueError(f"{name} is no number")


def _strip_comments(text: str) -> str:
    """A model's JSON without comments and trailing commas outside strings."""
    return re.sub(
        r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', lambda match: match[1] or "", text, flags=re.S
    )


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
    """What whoever takes the answer can check it by: `ridgeline.agent.planner.checks.Checks` as JSON."""
    place: WorkPlace | None = None
    """Where a coding agent works for the answer; None where it answers from the text alone."""


@dataclass(frozen=True, kw_only=True)
class Exchange(Generic[T]):
    """The answer, or why there is none after two attempts; what it cost; what was wrong on the way."""

    value: T | Wrong
    cost: Cost
    asks: int
    complaints: tuple[str, ...] = ()
    final: bool = False
    """The answer was a recorded one, and the question not put again."""


def talk(model: Model, question: Question, parse: Callable[[str], T | Wrong]) -> Exchange[T]:
    """Ask a model until `read` accepts its answer: at most one more time after one that it does not.

    Every call to the model is numbered in its purpose, so that the same conversation is the same questions again.
    """
    messages = [Message(role="system", text=question.system), Message(role="user", text=question.text)]
    left = question.calls if model.tools and question.tools and question.desk else 0
    cost, asks = Cost(), 0
    complaints: list[str] = []
    while True:
        asks += 1
        reply = model.ask(_ask(question, messages, asks, offered=left > 0 and not complaints))
        cost = cost + reply.cost
        if reply.calls and left > 0 and not complaints and question.desk is not None:
            left = _serve_calls(question.desk, reply, messages, left)
            continue
        value = _parse_reply(reply, parse)
        if not isinstance(value, Wrong):
            return Exchange(value=value, cost=cost, asks=asks, complaints=tuple(complaints))
        complaints.append(value.why)
        if len(complaints) > 1 or reply.final:
            return Exchange(value=value, cost=cost, asks=asks, complaints=tuple(complaints), final=reply.final)
        messages.append(Message(role="assistant", text=bound_text(reply.text, tokens=ECHOED, count=model.count)))
        messages.append(Message(role="user", text=render(REASK, problem=fence(value.why), tools=bool(question.tools))))


def _ask(question: Question, messages: list[Message], number: int, *, offered: bool) -> Ask:
    """One request to a model with a schema or tools, never both: several providers force the one by means of the other."""
    return Ask(
        purpose=f"{question.purpose} {number}",
        messages=tuple(messages),
        tools=question.tools if offered else (),
        answer_schema="" if offered else question.schema,
        checks=question.checks,
        place=question.place,
    )


def _serve_calls(desk: Desk, reply: Reply, messages: list[Message], left: int) -> int:
    """Answer a model's tool calls; returns how many more may be made. Every call gets an answer, also one beyond the limit."""
    messages.append(Message(role="assistant", text=reply.text, calls=reply.calls))
    for call in reply.calls:
        result = desk.run(call) if left > 0 else "not run: no tool calls are left"
        left = max(0, left - 1)
        messages.append(Message(role="tool", text=result, answers=call.id))
    note = render("calls.v1.md", left=left)
    message = messages[-1]
    messages[-1] = message.model_copy(update={"text": f"{message.text}\n\n{note}"})
    return left


def _parse_reply(reply: Reply, parse: Callable[[str], T | Wrong]) -> T | Wrong:
    """What `parse` makes of a model's reply that is whole and not empty."""
    if reply.truncated:
        return Wrong(why="the answer was cut off by the limit on its length; give a shorter one")
    if not reply.text.strip():
        what = f"calls of {', '.join(call.name for call in reply.calls)}" if reply.calls else "nothing"
        return Wrong(why=f"the answer is {what}, where text is needed now")
    return parse(reply.text)


# Text from outside made fit to be shown to a model: plain, bounded with the elision stated, fenced as data.

Count = Callable[[str], int]
"""Tokens of a text."""

ELIDED = " left out]"
"""Ends every note about text that is not shown."""
SAFETY = 0.95
"""Share of the room that a first cut takes: tokens are not spread evenly over a text."""
SMALLEST = 60
"""Characters below which cutting further is pointless."""
RADII = (200, 100, 50, 25, 10, 3)
"""Lines around a place of interest, widest first."""
_CONTROL = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


def strip_controls(text: str) -> str:
    """A model's text without terminal colours and control characters; tabs and line ends stay."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def fence(text: str, label: str = "") -> str:
    """A code block of a prompt that its content cannot close: the fence is longer than every run of backticks inside."""
    body = strip_controls(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`{3,}", body)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{re.sub(r'[^A-Za-z0-9_+-]', '', label)}\n{body}\n{fence}"


def bound_text(text: str, *, tokens: int, count: Count) -> str:
    """A prompt's text whole, or its beginning and end with what is between them stated; at most about `tokens`."""
    total_tokens = count(text)
    if total_tokens <= tokens:
        return text
    size = int(len(text) * tokens / total_tokens * SAFETY)
    cut = _ends(text, size)
    while size > SMALLEST and count(cut) > tokens:
        size = int(size * 0.8)
        cut = _ends(text, size)
    return cut


def bound_texts(texts: Sequence[str], *, tokens: int, count: Count) -> list[str]:
    """A prompt's texts of one kind, in their order, at most about `tokens` together; where they do not fit, each is cut in its own middle.

    What a short one leaves of its share goes to the longer ones.
    """
    bounded = list(texts)
    left = tokens
    for done, place in enumerate(sorted(range(len(texts)), key=lambda place: count(texts[place]))):
        bounded[place] = bound_text(texts[place], tokens=max(0, left // (len(texts) - done)), count=count)
        left -= count(bounded[place])
    return bounded


def clip_line(text: str, characters: int) -> str:
    """One line of a prompt, of at most so many characters."""
    line = " ".join(strip_controls(text).split())
    return line if len(line) <= characters else f"{line[: max(0, characters - 4)].rstrip()} ..."


def number_lines(text: str, *, tokens: int, count: Count, focus: Iterable[int] = ()) -> str:
    """A prompt's source lines with their numbers; where they do not fit, those around the lines in `focus` and the first ones."""
    return _fit_lines(text, tokens=tokens, count=count, focus=tuple(focus), number=True)


def excerpt(text: str, *, tokens: int, count: Count, focus: Iterable[int] = ()) -> str:
    """A prompt's source lines exactly as they are; where they do not fit, those around `focus` and the first ones, with gaps stated."""
    return _fit_lines(text, tokens=tokens, count=count, focus=tuple(focus), number=False)


def _fit_lines(text: str, *, tokens: int, count: Count, focus: tuple[int, ...], number: bool) -> str:
    """For a prompt all lines of a source, or those around `focus` with the widest radius that fits into `tokens`."""
    lines = text.splitlines()
    full_text = _join_lines(lines, range(1, len(lines) + 1), number=number)
    needed = count(full_text)
    if needed <= tokens:
        return full_text
    if not focus:
        return bound_text(full_text, tokens=tokens, count=count)
    places = (1, *focus)
    selection = full_text
    for radius in RADII:
        chosen = sorted(
            {line for place in places for line in range(place - radius, place + radius + 1) if 1 <= line <= len(lines)}
        )
        selection = _join_lines(lines, chosen, number=number)
        if len(chosen) * needed <= tokens * len(lines) and count(selection) <= tokens:
            return selection
    return bound_text(selection, tokens=tokens, count=count)


def choose_lines(
    text: str, spans: Sequence[tuple[int, int]], *, tokens: int, count: Count, number: bool
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """For a prompt, the lines of as many spans (first and last line, from 1) as fit, those named first before others; and the rest.

    A first span that alone does not fit is cut in its middle. Gaps of empty lines are shown.
    """
    lines = text.splitlines()
    chosen_lines: set[int] = set()
    left_out: list[tuple[int, int]] = []
    room = tokens
    for start, end in spans:
        new = [line for line in range(start, min(end, len(lines)) + 1) if line not in chosen_lines]
        size = count(_join_lines(lines, new, number=number)) if new else 0
        if size <= room:
            chosen_lines |= set(new)
            room -= size
        else:
            left_out.append((start, end))
    if not chosen_lines and spans:
        start, end = spans[0]
        return bound_text(_join_lines(lines, range(start, end + 1), number=number), tokens=tokens, count=count), ()
    between = {line for start, end in pairwise(sorted(chosen_lines)) for line in range(start + 1, min(end, start + 4))}
    chosen_lines |= {line for line in between if not lines[line - 1].strip()}
    return _join_lines(lines, sorted(chosen_lines), number=number), tuple(left_out)


def _join_lines(lines: Sequence[str], chosen: Sequence[int], *, number: bool) -> str:
    """The lines chosen for a prompt (numbers from 1), every gap between them stated."""
    width = len(str(len(lines)))
    out: list[str] = []
    before = 0
    for line in chosen:
        if line != before + 1:
            out.append(f"[lines {before + 1}-{line - 1} left out]")
        out.append(f"{line:>{width}}| {lines[line - 1]}" if number else lines[line - 1])
        before = line
    if before < len(lines):
        out.append(f"[lines {before + 1}-{len(lines)} left out]")
    return "\n".join(out)


def _ends(text: str, size: int) -> str:
    """A prompt's long text: two thirds from the beginning, one from the end, cut at line ends where there are any."""
    head, tail = text[: size * 2 // 3], text[len(text) - size // 3 :]
    head = head[: head.rfind("\n")] if "\n" in head else head
    tail = tail[tail.find("\n") + 1 :] if "\n" in tail else tail
    between = text[len(head) : len(text) - len(tail)]
    return f"{head}\n[{between.count(chr(10))} lines, {len(between)} characters left out]\n{tail}"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One section of a context."""

    name: str
    share: float
    """Of the whole budget, at most."""
    make: Callable[[int], str]
    """Tokens -> a text of at most about that many; empty when there is nothing to say."""


def compose_parts(parts: Sequence[Part], *, budget: int, count: Count) -> dict[str, str]:
    """The parts of a prompt by name, the first ones first served; one that finds no room says so."""
    texts: dict[str, str] = {}
    left = budget
    for part in parts:
        room = min(left, int(budget * part.share))
        text = part.make(max(room, 0))
        size = count(text) if text else 0
        if size > max(left, 0):
            text = f"(left out: the context of {budget} tokens is full)"
            size = 0
        texts[part.name] = text
        left -= size
    return texts
