"""The mailbox: questions written to files, answered by whoever can, on whatever machine the folder is copied to.

`mailbox/NNN.request.md` is for people, `NNN.request.json` for programs, `NNN.answer.json` is what came back. The
folder refers to nothing outside of it.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.providers.base import Ask, Message, Said, plain
from ridgeline.agent.providers.tape import estimate_tokens
from ridgeline.graph.values import SCHEMA, Cost, Value
from ridgeline.sandbox.store.durable import write_whole

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
        return estimate_tokens(text)

    def most(self, ask: Ask) -> Cost:
        """Tokens about; what the writer pays is not known here."""
        given = sum(estimate_tokens(message.text) for message in ask.messages) + estimate_tokens(ask.answer_schema)
        return Cost(tokens=given + ask.max_output_tokens, dollars=None)

    def answered(self, ask: Ask) -> bool:
        """Whether somebody has answered this question; asks nothing."""
        return any(one.digest == ask.digest and self._box.answer_to(one) for one in self._box.requests())

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


def check_answer(text: bytes, asked: Asked, *, source: str) -> str:
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
    if isinstance(found, dict) and set(found) == {"exhausted"} and isinstance(found["exhausted"], str):
        return json.dumps(found, ensure_ascii=False, indent=1)  # nothing is left: an answer to every question
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


# A question as a page: what is asked, and the exact form of the answer.

MARK = "~" * 12
"""Rules around what is quoted; the fences of a prompt's own are of backquotes."""


OWN_FORM = "Answer with one JSON object"
"""In the prompts that end with the form of their answer."""


TRIES = "Only what the campaign itself finds wrong later costs one of your two tries."
LAST = "This is the second and last try."
CHECKED = {
    (True, True): "the form, the names, the citations and the other rules below",
    (True, False): "that every edit applies and where it goes",
    (False, True): "the form",
    (False, False): "that there is an answer",
}
"""By whether the question brought checks, and whether its answer is JSON."""


def page(number: int, ask: Ask, *, before: int | None = None) -> str:
    """Markdown, for a person or for pasting into a chat.

    `before`: the request that this one asks again. Its page has the question, so here stands what was wrong alone.
    """
    if before is not None:
        return _repeat_question(number, ask, before)
    said = "\n\n".join(_section(message) for message in ask.messages)
    return f"# Request {number:03d}: {ask.purpose}\n\n{_how(number, ask, TRIES)}\n\n{said}\n\n{_form(number, ask)}\n"


def _repeat_question(number: int, ask: Ask, before: int) -> str:
    """What was wrong comes first; the question, the rules and the form are read where they stand already."""
    return (
        f"# Request {number:03d}: {ask.purpose}\n\n## What was wrong with the answer to request {before:03d}\n\n"
        f"{ask.messages[-1].text}\n\n## How to answer\n\n{_how(number, ask, LAST)}\n\nThe question, its rules and the"
        f" form of the answer are those of `{before:03d}.request.md`, unchanged; `{before:03d}.answer.json` is what was"
        f" answered. Both lie beside this file.\n"
    )


def _how(number: int, ask: Ask, tries: str) -> str:
    kind = "one JSON object" if ask.answer_schema else "your answer as plain text"
    checked = CHECKED[bool(ask.checks), bool(ask.answer_schema)]
    return (
        f"Write {kind}, and nothing else, into a file; then run `ridgeline answer CAMPAIGN FILE` with this campaign's"
        f" folder. It checks {checked} and refuses at once what cannot be used: that costs no try, the request stays"
        f" open. {tries} It names the next question where nothing has to be measured before it (`--resume` measures"
        f" too). `{number:03d}.request.json` is the same for programs. Where nothing is left that is worth a round, answer"
        f' `{{"exhausted": "why"}}` instead: the campaign then concludes.'
    )


def _section(message: Message) -> str:
    titles = {"system": "Rules", "user": "Question", "assistant": "What was answered", "tool": "What a tool said"}
    return f"## {titles[message.role]}\n\n{message.text}"


def _form(number: int, ask: Ask) -> str:
    """The form once: where the question ends with it, in its own words; else made of the schema."""
    if not ask.answer_schema:
        return f"## Form of the answer\n\nPlain text, at most about {ask.max_output_tokens} tokens."
    exact = f"`answer_schema` in `{number:03d}.request.json` has its JSON Schema."
    if any(OWN_FORM in message.text for message in ask.messages if message.role == "user"):
        return exact
    schema = json.loads(ask.answer_schema)
    return (
        f"## Form of the answer\n\nOne JSON object, with the kind of each value in its place. {exact}\n\n"
        f"{MARK}json\n{json.dumps(_example(schema, schema, 0), indent=1, ensure_ascii=False)}\n{MARK}"
    )


def _example(schema: Any, root: dict[str, Any], depth: int) -> Any:
    """The shape of a value, by its schema."""
    if not isinstance(schema, dict) or depth > 8:
        return "..."
    if "$ref" in schema:
        found: Any = root
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            found = found.get(part, {}) if isinstance(found, dict) else {}
        return _example(found, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if schema.get(word):
            return _example(schema[word][0], root, depth + 1)
    return _of_type(schema, root, depth)


def _of_type(schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
    match schema.get("type"):
        case "object":
            return {name: _example(item, root, depth + 1) for name, item in schema.get("properties", {}).items()}
        case "array":
            return [_example(schema.get("items", {}), root, depth + 1)]
        case "integer" | "number" | "boolean" as kind:
            return f"<{kind}>"
        case _:
            return str(schema.get("description", "<text>"))


# Does an answer fit its JSON Schema? The part of the standard that answer forms use, without a package for it.
#
# An unknown keyword is no constraint, as the standard says of annotations; a planner checks the answer's meaning itself.

Schema = dict[str, Any]
DEEPEST = 40
"""Nested deeper, an answer is no answer but an attempt to exhaust us."""
TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def problem(value: Any, schema: Schema) -> str:
    """The first thing that is wrong, as `where: what; mend`; empty when the value fits."""
    return next(islice(_problems(value, schema, schema, "$"), 1), "")


def _problems(value: Any, schema: Any, root: Schema, at: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        if schema is False:
            yield f"{at}: is not allowed; leave it out"
        return
    if at.count(".") + at.count("[") > DEEPEST:
        yield f"{at[:60]}: is nested deeper than {DEEPEST} levels"
        return
    if "$ref" in schema:
        yield from _problems(value, _resolve_reference(schema["$ref"], root), root, at)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(TYPES[kind](value) for kind in kinds if kind in TYPES):
        yield f"{at}: is {_kind(value)}, expected {' or '.join(kinds)}"
        return
    yield from _chosen(value, schema, root, at)
    yield from _inside(value, schema, root, at)


def _inside(value: Any, schema: Schema, root: Schema, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _members(value, schema, root, at)
    elif isinstance(value, list):
        yield from _items(value, schema, root, at)
    elif isinstance(value, str):
        yield from _text(value, schema, at)
    elif TYPES["number"](value):
        yield from _bounds(value, schema, at)


def _chosen(value: Any, schema: Schema, root: Schema, at: str) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: is {_show_value(value)}, expected one of {', '.join(_show_value(item) for item in schema['enum'][:20])}"
    if "const" in schema and value != schema["const"]:
        yield f"{at}: is {_show_value(value)}, expected {_show_value(schema['const'])}"
    for each in schema.get("allOf", ()):
        yield from _problems(value, each, root, at)
    for word in ("anyOf", "oneOf"):
        found = [next(islice(_problems(value, each, root, at), 1), "") for each in schema.get(word, ())]
        if found and all(found):
            # the longest path is the form that was meant
            yield max(found, key=lambda text: len(text.partition(": ")[0]))


def _members(value: dict[str, Any], schema: Schema, root: Schema, at: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at}: lacks {name!r}; add it"
    other = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in known:
            yield from _problems(item, known[name], root, f"{at}.{name}")
        elif other is False:
            yield f"{at}: has the unknown field {name[:60]!r}; known are {', '.join(known)}"
        else:
            yield from _problems(item, other, root, f"{at}.{name[:60]}")


def _items(value: list[Any], schema: Schema, root: Schema, at: str) -> Iterator[str]:
    yield from _check_count(len(value), schema, at, words=("minItems", "maxItems", "entries"))
    for number, item in enumerate(value):
        yield from _problems(item, schema.get("items", True), root, f"{at}[{number}]")


def _text(value: str, schema: Schema, at: str) -> Iterator[str]:
    yield from _check_count(len(value), schema, at, words=("minLength", "maxLength", "characters"))
    pattern = schema.get("pattern")
    if pattern and not re.search(pattern, value[:10_000]):
        yield f"{at}: {_show_value(value)} does not match {pattern}"


def _check_count(count: int, schema: Schema, at: str, *, words: tuple[str, str, str]) -> Iterator[str]:
    least, most, noun = words
    if count < schema.get(least, 0):
        yield f"{at}: has {count} {noun}, expected at least {schema[least]}"
    if most in schema and count > schema[most]:
        yield f"{at}: has {count} {noun}, expected at most {schema[most]}"


def _bounds(value: float, schema: Schema, at: str) -> Iterator[str]:
    tests: tuple[tuple[str, Callable[[float], bool], str], ...] = (
        ("minimum", lambda bound: value >= bound, "at least"),
        ("maximum", lambda bound: value <= bound, "at most"),
        ("exclusiveMinimum", lambda bound: value > bound, "more than"),
        ("exclusiveMaximum", lambda bound: value < bound, "less than"),
    )
    for word, holds, said in tests:
        if word in schema and not holds(schema[word]):
            yield f"{at}: is {value}, expected {said} {schema[word]}"


def _resolve_reference(reference: str, root: Schema) -> Any:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part, True) if isinstance(found, dict) else True
    return found


def _kind(value: Any) -> str:
    return next((name for name, test in TYPES.items() if test(value)), type(value).__name__)


def _show_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}..."
