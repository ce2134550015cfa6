"""The model tape: every answer of a model, kept by its question's digest before anybody acts on it.

`model_tape.jsonl` has two kinds of lines. A message, tool or schema is written once, named by its sha256, because
the questions of a round share most of them; a question names its parts, with the answer beside it. Keys, headers and
the environment are no part of a question or an answer, so they cannot be in the file.
"""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from ridgeline.agent.errors import UserError
from ridgeline.agent.providers.base import Ask, Message, Model, NotAsked, Reply, StopAsked, Tool
from ridgeline.graph.limits import Limits
from ridgeline.graph.values import SCHEMA, Cost, Value
from ridgeline.sandbox.store.durable import append_whole

FILE = "model_tape.jsonl"
LONGEST = Limits().answer_tokens


class _Question(Value):
    """An `Ask` whose long parts are named by their sha256."""

    purpose: str
    messages: tuple[str, ...]
    tools: tuple[str, ...]
    answer_schema: str
    """sha256 of the schema's text; empty for free text."""
    max_output_tokens: int


class ModelTape:
    """What was asked and answered so far."""

    def __init__(self, path: Path, *, repaired: bool = True) -> None:
        """A tape of a model's answers. `repaired`: cut off half a line that a kill left; a recording is only read."""
        self._path = path
        self._parts: dict[str, str] = {}
        self._questions: dict[str, _Question] = {}
        self._answers: dict[str, Reply] = {}
        self._refused: dict[str, str] = {}
        for line in self._lines(repaired):
            self._take(line)

    def find_answer(self, ask: Ask) -> Reply | None:
        """The model's taped answer; None for a question that was never answered."""
        return self._answers.get(ask.digest)

    def find_refusal(self, ask: Ask) -> str | None:
        """Why a taped question was not put to the model, when a budget forbade it."""
        return self._refused.get(ask.digest)

    @property
    def spent(self) -> Cost:
        """Cost of every model answer on the tape."""
        return sum((answer.cost for answer in self._answers.values()), Cost())

    @property
    def asks(self) -> tuple[Ask, ...]:
        """Every question to a model on the tape, in the order it was asked."""
        return tuple(self._restore(question) for question in self._questions.values())

    @property
    def said(self) -> tuple[tuple[Ask, str], ...]:
        """Every question on the tape that a model answered in words, in order, with the answer."""
        return tuple(
            (self._restore(self._questions[digest]), reply.text)
            for digest, reply in self._answers.items()
            if not reply.calls
        )

    def record(self, ask: Ask, reply: Reply) -> None:
        """Write a model's answer to the tape, on the disk before it returns."""
        self._write(ask, {"said": reply.model_dump(mode="json")})

    def refuse(self, ask: Ask, why: str) -> None:
        """Note on the tape that a model was not asked: a replay must stop at the same place."""
        self._write(ask, {"refused": why})

    def _write(self, ask: Ask, outcome: dict[str, Any]) -> None:
        parts = {_name(text): text for text in _texts(ask)}
        question = _Question(
            purpose=ask.purpose,
            messages=tuple(_name(message.model_dump_json()) for message in ask.messages),
            tools=tuple(_name(tool.model_dump_json()) for tool in ask.tools),
            answer_schema=_name(ask.answer_schema) if ask.answer_schema else "",
            max_output_tokens=ask.max_output_tokens,
        )
        fresh: list[dict[str, Any]] = [
            {"schema": SCHEMA, "part": name, "text": text} for name, text in parts.items() if name not in self._parts
        ]
        entry = {"schema": SCHEMA, "digest": ask.digest, "question": question.model_dump(mode="json"), **outcome}
        data = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in (*fresh, entry))
        append_whole(self._path, data)
        for line in (*fresh, entry):
            self._take(line)

    def _lines(self, repaired: bool) -> Iterator[dict[str, Any]]:
        """The model tape's entries in order; a last line cut off by a crash is left out, and with `repaired` cut off the file."""
        if not self._path.exists():
            return
        data = self._path.read_bytes()
        full_lines = data[: data.rfind(b"\n") + 1]
        if repaired and len(full_lines) != len(data):
            os.truncate(self._path, len(full_lines))
        for number, raw in enumerate(full_lines.splitlines(), start=1):
            yield _line(self._path, number, raw)

    def _take(self, line: dict[str, Any]) -> None:
        if "part" in line:
            self._parts[line["part"]] = line["text"]
            return
        self._questions[line["digest"]] = _Question.model_validate(line["question"])
        if "said" in line:
            self._answers[line["digest"]] = Reply.model_validate(line["said"])
        else:
            self._refused[line["digest"]] = line["refused"]

    def _restore(self, question: _Question) -> Ask:
        return Ask(
            purpose=question.purpose,
            messages=tuple(Message.model_validate_json(self._parts[name]) for name in question.messages),
            tools=tuple(Tool.model_validate_json(self._parts[name]) for name in question.tools),
            answer_schema=self._parts[question.answer_schema] if question.answer_schema else "",
            max_output_tokens=question.max_output_tokens,
        )


class TapedModel:
    """Answers from the tape, and asks the model only what was never answered."""

    def __init__(self, inner: Model, tape: ModelTape, *, longest: int = LONGEST) -> None:
        """A model whose answers are taped. `longest`: tokens of an answer, at most."""
        self._inner = inner
        self._tape = tape
        self._longest = longest
        self.name = inner.name
        self.tools = inner.tools
        self.answers_cost = Cost()
        """Cost of every answer given in this process, also of those that a process before it paid for."""

    def count(self, text: str) -> int:
        return self._inner.count(text)

    def ask(self, ask: Ask) -> Reply:
        ask = ask.shorten(self._longest)
        reply = self._tape.find_answer(ask)
        if reply is None:
            try:
                reply = self._inner.ask(ask)
            except NotAsked as spent:
                self._tape.refuse(ask, f"{spent.begins if isinstance(spent, StopAsked) else ''}{spent}")
                raise
            self._tape.record(ask, reply)
        self.answers_cost = self.answers_cost + reply.cost
        return reply


def estimate_tokens(text: str) -> int:
    """Tokens, about: four bytes make one in English, three in code. Needs nothing installed."""
    return -(-2 * len(text.encode("utf-8", "replace")) // 7)


def _texts(ask: Ask) -> Iterator[str]:
    yield from (message.model_dump_json() for message in ask.messages)
    yield from (tool.model_dump_json() for tool in ask.tools)
    if ask.answer_schema:
        yield ask.answer_schema


def _name(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _line(path: Path, number: int, raw: bytes) -> dict[str, Any]:
    """One recorded answer of a model out of the tape's file. Raises UserError for what is none."""
    try:
        document = json.loads(raw)
    except ValueError as error:
        raise UserError(f"{path}: line {number}: is not JSON any more; restore the file from a copy") from error
    is_entry = isinstance(document, dict) and (
        "text" in document or ("question" in document and document.keys() & {"said", "refused"})
    )
    if not is_entry or document.get("schema") != SCHEMA:
        raise UserError(
            f"{path}: line {number}: is no answer of schema {SCHEMA}; restore the file from a copy, or use the version"
            " of Ridgeline that wrote it"
        )
    return dict(document)
