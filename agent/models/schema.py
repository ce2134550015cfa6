"""Does an answer fit its JSON Schema? The part of the standard that answer forms use, without a package for it.

An unknown keyword is no constraint, as the standard says of annotations; a planner checks the answer's meaning itself.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

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
        yield from _problems(value, _resolved(schema["$ref"], root), root, at)
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
        yield f"{at}: is {_shown(value)}, expected one of {', '.join(_shown(item) for item in schema['enum'][:20])}"
    if "const" in schema and value != schema["const"]:
        yield f"{at}: is {_shown(value)}, expected {_shown(schema['const'])}"
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
    yield from _counted(len(value), schema, at, words=("minItems", "maxItems", "entries"))
    for number, item in enumerate(value):
        yield from _problems(item, schema.get("items", True), root, f"{at}[{number}]")


def _text(value: str, schema: Schema, at: str) -> Iterator[str]:
    yield from _counted(len(value), schema, at, words=("minLength", "maxLength", "characters"))
    pattern = schema.get("pattern")
    if pattern and not re.search(pattern, value[:10_000]):
        yield f"{at}: {_shown(value)} does not match {pattern}"


def _counted(count: int, schema: Schema, at: str, *, words: tuple[str, str, str]) -> Iterator[str]:
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


def _resolved(reference: str, root: Schema) -> Any:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part, True) if isinstance(found, dict) else True
    return found


def _kind(value: Any) -> str:
    return next((name for name, test in TYPES.items() if test(value)), type(value).__name__)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}..."
