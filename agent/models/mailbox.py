"""The mailbox: questions written to files, answered by whoever can, on whatever machine the folder is copied to.

`mailbox/NNN.request.md` is for people, `NNN.request.json` for programs, `NNN.answer.json` is what came back. The
folder refers to nothing outside of it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.models.base import Ask, Said
from ridgeline.agent.models.redaction import plain
from ridgeline.agent.models.request_page import page
from ridgeline.agent.models.schema import problem
from ridgeline.agent.models.tape import counted
from ridgeline.graph.values import SCHEMA, Cost, Value
from ridgeline.sandbox.durable import write_whole

FOLDER = "mailbox"
LONGEST = 2_000_000
"""Bytes of an answer that are read: a hundred times a large kernel."""


class Asked(Value):
    """`NNN.request.json`."""

    schema_version: int = SCHEMA
    number: int
    digest: str
    ask: Ask
    checks: str = ""
    """How an answer can be checked before it is stored: JSON of the planner that asked; empty where it cannot."""


class Answered(Value):
    """`NNN.answer.json`. Dollars are None where the writer did not say what the answer cost."""

    schema_version: int = SCHEMA
    digest: str
    text: str
    author: str
    """Who or what wrote it."""
    tokens: int
    dollars: float | None


class Mailbox:
    """The folder of one campaign."""

    def __init__(self, campaign: Path) -> None:
        self.folder = campaign / FOLDER

    def requests(self) -> tuple[Asked, ...]:
        """Every question, oldest first."""
        paths = sorted(self.folder.glob("*.request.json"), key=lambda path: int(path.name.partition(".")[0]))
        return tuple(Asked.model_validate(_json(path)) for path in paths)

    def open_request(self) -> Asked | None:
        """The one that the campaign waits for: the newest, while it has no answer."""
        known = self.requests()
        return known[-1] if known and self.answer_to(known[-1]) is None else None

    def answer_to(self, asked: Asked) -> Answered | None:
        """None while there is no answer. Raises UserError when its file answers another question."""
        path = self.path(asked.number, "answer.json")
        if not path.is_file():
            return None
        found = Answered.model_validate(_json(path))
        if found.digest != asked.digest:
            raise UserError(f"{path}: answers another question; delete it and answer {asked.number:03d} again")
        return found

    def post(self, ask: Ask) -> Asked:
        """The question, written down once; again at the end when another one was asked since and it has no answer."""
        known = self.requests()
        for asked in reversed(known):
            if asked.digest == ask.digest and (asked is known[-1] or self.answer_to(asked) is not None):
                return asked
        number = known[-1].number + 1 if known else 1
        asked = Asked(number=number, digest=ask.digest, ask=ask, checks=ask.checks)
        write_whole(self.path(number, "request.md"), page(number, ask, before=_before(ask, known)).encode())
        text = asked.model_dump_json(indent=1) + "\n"
        write_whole(self.path(asked.number, "request.json"), text.encode())
        return asked

    def store(self, asked: Asked, answer: Answered) -> Path:
        """Where the answer lies now."""
        path = self.path(asked.number, "answer.json")
        write_whole(path, (answer.model_dump_json(indent=1) + "\n").encode())
        return path

    def path(self, number: int, kind: str) -> Path:
        return self.folder / f"{number:03d}.{kind}"


def _before(ask: Ask, known: Sequence[Asked]) -> int | None:
    """Number of the request that this one asks again, with what was wrong; None for a question of its own."""
    messages = ask.messages
    return next(
        (
            asked.number
            for asked in reversed(known)
            if len(asked.ask.messages) < len(messages) and messages[: len(asked.ask.messages)] == asked.ask.messages
        ),
        None,
    )


class MailboxModel:
    """Asks by writing a file and stopping the campaign; the answer is read when the campaign goes on."""

    name = "mailbox"
    tools = False

    def __init__(self, campaign: Path) -> None:
        self._box = Mailbox(campaign)
        self._campaign = campaign

    def count(self, text: str) -> int:
        return counted(text)

    def most(self, ask: Ask) -> Cost:
        """Tokens about; what the writer pays is not known here."""
        given = sum(counted(message.text) for message in ask.messages) + counted(ask.answer_schema)
        return Cost(tokens=given + ask.max_output_tokens, dollars=None)

    def ask(self, ask: Ask) -> Said:
        """Raises Waiting until the answer is there."""
        asked = self._box.post(ask)
        answer = self._box.answer_to(asked)
        if answer is None:
            raise Waiting(waiting(self._campaign, asked))
        return Said(
            text=answer.text,
            model=f"mailbox ({answer.author})" if answer.author else "mailbox",
            cost=Cost(tokens=answer.tokens, dollars=answer.dollars),
        )


def waiting(campaign: Path, asked: Asked) -> str:
    """Which file asks what, and how to answer."""
    request = Mailbox(campaign).path(asked.number, "request.md")
    return (
        f"{campaign.name}: waits for an answer to {asked.ask.purpose!r}: read {request}, then"
        f" `ridgeline answer {campaign} FILE --resume`"
    )


def open_request(campaign: Path) -> str | None:
    """Path of the page that waits for an answer; None when none does."""
    box = Mailbox(campaign)
    asked = box.open_request()
    return str(box.path(asked.number, "request.md")) if asked else None


def judged(text: bytes, asked: Asked, *, source: str) -> str:
    """The answer's text, ready to be stored. Raises UserError saying in one line what is wrong with it."""
    if len(text) > LONGEST:
        raise UserError(f"{source}: has {len(text)} bytes; an answer has at most {LONGEST}")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{source}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    kept = plain(decoded, limit=LONGEST).strip()
    if not kept:
        raise UserError(f"{source}: is empty; write the answer into it")
    if not asked.ask.answer_schema:
        return kept
    found = _object(kept, source)
    if why := problem(found, json.loads(asked.ask.answer_schema)):
        raise UserError(f"{source}: {why} (request {asked.number:03d} shows the form)")
    return json.dumps(found, ensure_ascii=False, indent=1)


def _object(text: str, source: str) -> Any:
    """JSON, alone or in the one fence around it: what a model's chat window gives."""
    lines = text.splitlines()
    if lines[0].startswith("```") and lines[-1].strip() == "```":
        text = "\n".join(lines[1:-1])
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{source}: line {error.lineno}: is not JSON ({error.msg}); the answer is one JSON object and nothing else"
        ) from None
    except RecursionError:
        raise UserError(f"{source}: is nested too deeply; the answer is one flat JSON object") from None


def _json(path: Path) -> Any:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not JSON any more; restore the file from a copy") from error
    if not isinstance(found, dict) or found.get("schema_version") != SCHEMA:
        raise UserError(f"{path}: is not of schema {SCHEMA}; use the version of Ridgeline that wrote it")
    return found
