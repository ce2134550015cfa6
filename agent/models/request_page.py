"""A question as a page: what is asked, and the exact form of the answer."""

import json
from typing import Any

from agent.models.base import Ask, Message

MARK = "~" * 12
"""Rules around what is quoted; the fences of a prompt's own are of backquotes."""


def page(number: int, ask: Ask) -> str:
    """Markdown, for a person or for pasting into a chat."""
    said = "\n\n".join(_section(message) for message in ask.messages)
    return f"# Request {number:03d}: {ask.purpose}\n\n{_how(number, ask)}\n\n{said}\n\n{_form(ask)}\n"


def _how(number: int, ask: Ask) -> str:
    kind = "one JSON object of the form at the end" if ask.answer_schema else "your answer as plain text"
    return (
        f"Write {kind} into a file of any name, then run `ridgeline answer CAMPAIGN FILE` with this campaign's folder,"
        " here or on any machine that has a copy of it. The file holds the answer and nothing else. A wrong answer is"
        f" refused in one line and this request stays open; `{number:03d}.request.json` has the same question for"
        " programs."
    )


def _section(message: Message) -> str:
    titles = {"system": "Rules", "user": "Question", "assistant": "What was answered", "tool": "What a tool said"}
    return f"## {titles[message.role]}\n\n{message.text}"


def _form(ask: Ask) -> str:
    if not ask.answer_schema:
        return f"## Form of the answer\n\nPlain text, at most about {ask.max_output_tokens} tokens."
    schema = json.loads(ask.answer_schema)
    return (
        f"## Form of the answer\n\nOne JSON object that fits this JSON Schema:\n\n{MARK}json\n"
        f"{json.dumps(schema, indent=1, ensure_ascii=False)}\n{MARK}\n\n"
        f"In short, with the kind of each value in its place:\n\n{MARK}json\n"
        f"{json.dumps(_example(schema, schema, 0), indent=1, ensure_ascii=False)}\n{MARK}"
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
