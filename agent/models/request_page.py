"""A question as a page: what is asked, and the exact form of the answer."""

import json
from typing import Any

from ridgeline.agent.models.base import Ask, Message

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
        return _again(number, ask, before)
    said = "\n\n".join(_section(message) for message in ask.messages)
    return f"# Request {number:03d}: {ask.purpose}\n\n{_how(number, ask, TRIES)}\n\n{said}\n\n{_form(number, ask)}\n"


def _again(number: int, ask: Ask, before: int) -> str:
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
        f" too). `{number:03d}.request.json` is the same for programs."
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
