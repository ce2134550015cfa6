"""The mailbox: questions written to files, answered by whoever can, on whatever machine the folder is copied to.

`mailbox/NNN.request.md` is for people, `NNN.request.json` for programs, `NNN.answer.json` is what came back. The
folder refers to nothing outside of it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.providers.base import Ask, Message, Reply, find_secret, plain, without_secrets
from ridgeline.agent.providers.tape import estimate_tokens
from ridgeline.graph.values import SCHEMA, Cost, Value
from ridgeline.sandbox.store.durable import write_whole

if TYPE_CHECKING:
    from jsonschema import ValidationError

FOLDER = "mailbox"
LONGEST = 2_000_000
"""Bytes of an answer that are read: a hundred times a large kernel."""


class MailboxRequest(Value):
    """`NNN.request.json`."""

    schema_version: int = SCHEMA
    number: int
    digest: str
    ask: Ask
    checks: str = ""
    """How an answer can be checked before it is stored: JSON of the planner that asked; empty where it cannot."""


class MailboxAnswer(Value):
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

    def requests(self) -> tuple[MailboxRequest, ...]:
        """Every question in the mailbox, oldest first."""
        paths = sorted(self.folder.glob("*.request.json"), key=lambda path: int(path.name.partition(".")[0]))
        return tuple(MailboxRequest.model_validate(_json(path)) for path in paths)

    def open_request(self) -> MailboxRequest | None:
        """The mailbox request that the campaign waits for: the newest, while it has no answer."""
        requests = self.requests()
        return requests[-1] if requests and self.answer_to(requests[-1]) is None else None

    def answer_to(self, request: MailboxRequest) -> MailboxAnswer | None:
        """The answer in the mailbox; None while there is none. Raises UserError when its file answers another question."""
        path = self.path(request.number, "answer.json")
        if not path.is_file():
            return None
        answer = MailboxAnswer.model_validate(_json(path))
        if answer.digest != request.digest:
            raise UserError(f"{path}: answers another question; delete it and answer {request.number:03d} again")
        return answer

    def post(self, ask: Ask) -> MailboxRequest:
        """The question, written into the mailbox once; again at the end when another one was asked since and it has no answer."""
        requests = self.requests()
        for request in reversed(requests):
            if request.digest == ask.digest and (request is requests[-1] or self.answer_to(request) is not None):
                return request
        number = requests[-1].number + 1 if requests else 1
        request = MailboxRequest(number=number, digest=ask.digest, ask=ask, checks=ask.checks)
        write_whole(self.path(number, "request.md"), page(number, ask, before=_before(ask, requests)).encode())
        text = request.model_dump_json(indent=1) + "\n"
        write_whole(self.path(request.number, "request.json"), text.encode())
        return request

    def store(self, request: MailboxRequest, answer: MailboxAnswer) -> Path:
        """Write an answer into the mailbox; where it lies now."""
        path = self.path(request.number, "answer.json")
        write_whole(path, (answer.model_dump_json(indent=1) + "\n").encode())
        return path

    def path(self, number: int, kind: str) -> Path:
        return self.folder / f"{number:03d}.{kind}"


def _before(ask: Ask, requests: Sequence[MailboxRequest]) -> int | None:
    """Number of the mailbox request that this one asks again, with what was wrong; None for a question of its own."""
    messages = ask.messages
    return next(
        (
            request.number
            for request in reversed(requests)
            if len(request.ask.messages) < len(messages)
            and messages[: len(request.ask.messages)] == request.ask.messages
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
        """Tokens of a mailbox question, about; what the writer pays is not known here."""
        input_tokens = sum(estimate_tokens(message.text) for message in ask.messages) + estimate_tokens(
            ask.answer_schema
        )
        return Cost(tokens=input_tokens + ask.max_output_tokens, dollars=None)

    def is_answered(self, ask: Ask) -> bool:
        """Whether somebody has answered this question in the mailbox; asks nothing."""
        return any(request.digest == ask.digest and self._box.answer_to(request) for request in self._box.requests())

    def ask(self, ask: Ask) -> Reply:
        """Ask by mailbox. Raises Waiting until the answer is there."""
        request = self._box.post(ask)
        answer = self._box.answer_to(request)
        if answer is None:
            raise Waiting(describe_request(self._campaign, request))
        return Reply(
            text=without_secrets(answer.text),  # a file that was written here by hand has not been checked
            model=without_secrets(f"mailbox ({answer.author})") if answer.author else "mailbox",
            cost=Cost(tokens=answer.tokens, dollars=answer.dollars),
        )


def describe_request(campaign: Path, request: MailboxRequest) -> str:
    """Which file of the mailbox asks what, and how to answer."""
    page_path = Mailbox(campaign).path(request.number, "request.md")
    return (
        f"{campaign.name}: waits for an answer to {request.ask.purpose!r}: read {page_path}, then"
        f" `ridgeline answer {campaign} FILE --resume`"
    )


def open_request(campaign: Path) -> str | None:
    """Path of the mailbox page that waits for an answer; None when none does."""
    box = Mailbox(campaign)
    request = box.open_request()
    return str(box.path(request.number, "request.md")) if request else None


def decode_answer(text: bytes, source: str) -> str:
    """The text of an answer's file. Raises UserError for one that is too long, empty, not UTF-8, or has a key in it."""
    if len(text) > LONGEST:
        raise UserError(f"{source}: has {len(text)} bytes; an answer has at most {LONGEST}")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{source}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    answer_text = plain(decoded, limit=LONGEST).strip()
    if not answer_text:
        raise UserError(f"{source}: is empty; write the answer into it")
    if secret := find_secret(answer_text):
        raise UserError(f"{source}: {secret}, and what an answer says is kept and shown; take it out and revoke it")
    return answer_text


def check_answer(text: bytes, request: MailboxRequest, *, source: str) -> str:
    """A mailbox answer's text, ready to be stored. Raises UserError saying in one line what is wrong with it."""
    answer_text = decode_answer(text, source)
    if not request.ask.answer_schema:
        return answer_text
    value = _object(answer_text, source)
    if isinstance(value, dict) and set(value) == {"exhausted"} and isinstance(value["exhausted"], str):
        return json.dumps(value, ensure_ascii=False, indent=1)  # nothing is left: an answer to every question
    if why := problem(value, json.loads(request.ask.answer_schema)):
        raise UserError(f"{source}: {why} (request {request.number:03d} shows the form)")
    return json.dumps(value, ensure_ascii=False, indent=1)


def _object(text: str, source: str) -> Any:
    """A person's answer as JSON, alone or in the one fence around it: what a model's chat window gives."""
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
    """A stored object of the mailbox. Raises UserError for what is no JSON or of another schema."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not JSON any more; restore the file from a copy") from error
    if not isinstance(document, dict) or document.get("schema_version") != SCHEMA:
        raise UserError(f"{path}: is not of schema {SCHEMA}; use the version of Ridgeline that wrote it")
    return document


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


NOTHING_LEFT = ' Where nothing is left that is worth a round, answer `{"exhausted": "why"}` instead.'
RESTART = (
    " Saying that nothing is left ends the campaign, unless a partial restart is left to it: it then goes on without"
    " some of its earlier rounds and asks once more, and the same answer again ends it."
)


def page(number: int, ask: Ask, *, before: int | None = None) -> str:
    """A question of the mailbox as Markdown, for a person or for pasting into a chat.

    `before`: the request that this one asks again. Its page has the question, so here stands what was wrong alone.
    """
    if before is not None:
        return _repeat_question(number, ask, before)
    body = "\n\n".join(_section(message) for message in ask.messages)
    return f"# Request {number:03d}: {ask.purpose}\n\n{_how(number, ask, TRIES)}\n\n{body}\n\n{_form(number, ask)}\n"


def _repeat_question(number: int, ask: Ask, before: int) -> str:
    """A mailbox question asked again: what was wrong comes first; question, rules and form are read where they stand already."""
    return (
        f"# Request {number:03d}: {ask.purpose}\n\n## What was wrong with the answer to request {before:03d}\n\n"
        f"{ask.messages[-1].text}\n\n## How to answer\n\n{_how(number, ask, LAST)}\n\nThe question, its rules and the"
        f" form of the answer are those of `{before:03d}.request.md`, unchanged; `{before:03d}.answer.json` is what was"
        f" answered. Both lie beside this file.\n"
    )


HAND_IN = "into a file; then run `ridgeline answer CAMPAIGN FILE` with this campaign's folder"
"""How an answer is given from a shell."""
GOES_ON = "`--resume` measures too"


def _how(number: int, ask: Ask, tries: str) -> str:
    kind = "one JSON object" if ask.answer_schema else "your answer as plain text"
    checked = CHECKED[bool(ask.checks), bool(ask.answer_schema)]
    return (
        f"Write {kind}, and nothing else, {HAND_IN}. It checks {checked} and refuses at once what cannot be used: that"
        f" costs no try, the request stays open. {tries} It names the next question where nothing has to be measured before"
        f" it ({GOES_ON}). `{number:03d}.request.json` is the same for programs."
        + (NOTHING_LEFT if " propose" not in ask.purpose else "")  # the form of a proposal says how
        + RESTART
    )


def _section(message: Message) -> str:
    titles = {"system": "Rules", "user": "Question", "assistant": "What was answered", "tool": "What a tool said"}
    return f"## {titles[message.role]}\n\n{message.text}"


def _form(number: int, ask: Ask) -> str:
    """The form of a mailbox answer once: where the question ends with it, in its own words; else made of the schema."""
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
    """An example of a mailbox answer, by its schema."""
    if not isinstance(schema, dict) or depth > 8:
        return "..."
    if "$ref" in schema:
        node: Any = root
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            node = node.get(part, {}) if isinstance(node, dict) else {}
        return _example(node, root, depth + 1)
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


DEEPEST = 40
"""Nested deeper, an answer is no answer but an attempt to exhaust us."""
MOST_PROBLEMS = 6
"""Of one answer that are told at once."""
LONGEST_VALUE = 80
"""Characters of an answer's own value that a message repeats."""


def problem(value: Any, schema: dict[str, Any]) -> str:
    """What is wrong with a mailbox answer by its JSON Schema, as `place: what`, the worst first; empty when it fits."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    if _depth(value) > DEEPEST:
        return f"$: is nested deeper than {DEEPEST} levels"
    errors = [*Draft202012Validator(schema).iter_errors(value)]
    worst = best_match(errors)
    if worst is None:
        return ""
    ordered = [worst, *(best_match([error]) or error for error in errors)]
    told = [*dict.fromkeys(f"{error.json_path}: {plain(_describe_error(error), limit=400)}" for error in ordered)]
    more = f"; and {len(told) - MOST_PROBLEMS} more" if len(told) > MOST_PROBLEMS else ""
    return "; ".join(told[:MOST_PROBLEMS]) + more


def _describe_error(error: "ValidationError") -> str:
    """The validator's sentence about a mailbox answer with the value in short; of alternatives, one sentence for each."""
    if error.context:
        return "; ".join(dict.fromkeys(map(_describe_error, error.context)))
    text, value = str(error.message), repr(error.instance)
    if len(value) > LONGEST_VALUE:
        text = text.replace(value, f"{value[:LONGEST_VALUE]}...", 1)
    if error.validator == "additionalProperties" and isinstance(error.schema, Mapping):
        return f"{text}; known are {', '.join(error.schema.get('properties', {}))}"
    return text


def _depth(value: Any) -> int:
    """Levels of objects and arrays in a mailbox answer; JSON that could be read is not deeper than Python's own recursion."""
    if isinstance(value, dict | list):
        return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0
