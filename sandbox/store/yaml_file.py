"""YAML files that people write: read strictly, checked against a model, every problem one line with its mend."""

import difflib
import types
import typing
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

SHOWN = 60
"""Characters of a wrong value that are repeated."""
DEEPEST = 60
"""Mappings and lists inside each other: no file of ours needs ten, and PyYAML recurses."""


class NotReadable(ValueError):
    """A file that is no YAML mapping. The text is one line: file, what is wrong, mend."""


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key given twice; plain YAML would keep the last one and say nothing.

    What PyYAML answers with errors of Python's own is a `yaml.MarkedYAMLError` with its place here: deep nesting, a day
    of month 13, a number of 5,000 digits.
    """

    _depth = 0

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        """The mapping. Raises `yaml.constructor.ConstructorError` with the place of the second key."""
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is given twice", key.start_mark)
            keys.add(str(key.value))
        return super().construct_mapping(node, deep)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Part of the document. Raises `yaml.composer.ComposerError` where it is nested deeper than `DEEPEST`."""
        self._depth += 1
        if self._depth > DEEPEST:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, f"is nested deeper than {DEEPEST} levels", mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """The value. Raises `yaml.constructor.ConstructorError` for a scalar that is none, such as 2026-13-01."""
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            reason = f"{_show(node.value)} has no value ({error})"
            raise yaml.constructor.ConstructorError(None, None, reason, node.start_mark) from None


def document(file: Path, *, empty: str) -> dict[str, object]:
    """Fields of a YAML file. `empty` is the mend for a file that holds nothing. Raises `NotReadable`."""
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)
    except UnicodeDecodeError as error:
        raise NotReadable(f"{file.name}: byte {error.start} is not UTF-8; save the file as UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file.name}:{mark.line + 1}:{mark.column + 1}" if mark else file.name
        raise NotReadable(f"{where}: is not YAML: {error.problem}; correct that line") from None
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise NotReadable(f"{file.name}: is not YAML: {reason}; remove what YAML cannot hold") from None
    if content is None:
        raise NotReadable(f"{file.name}: is empty; {empty}")
    if not isinstance(content, dict):
        raise NotReadable(f"{file.name}: is a {type(content).__name__}, not a mapping; write `field: value` lines")
    return {str(name): value for name, value in content.items()}


def unknown_keys(fields: Mapping[str, object], model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """A line for each key of a YAML file that the model, or a model inside it, does not have, with the nearest one that it has."""
    for name, value in fields.items():
        field = model.model_fields.get(str(name))
        if field is None:
            yield f"{prefix}{name}: unknown field; {nearest(str(name), model.model_fields)}"
            continue
        nested = _nest(field.annotation)
        if nested is None:
            continue
        if isinstance(value, dict):
            yield from unknown_keys(value, nested, f"{prefix}{name}.")
        elif isinstance(value, list):
            for place, inside in enumerate(value):
                if isinstance(inside, dict):
                    yield from unknown_keys(inside, nested, f"{prefix}{name}.{place}.")


def fields_of_lines(lines: list[str]) -> set[str]:
    """The fields of a YAML file that the lines are about."""
    return {line.split(":")[0] for line in lines}


def explain_errors(error: ValidationError) -> Iterator[str]:
    """One line per wrong field of a YAML file; the alternatives of a field that may be several things are told together."""
    by_field: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False):
        # pydantic names the member of a union in the path, for example `tuple[str, ...]`
        where = ".".join(str(part) for part in problem["loc"] if "[" not in str(part))
        by_field.setdefault(where, []).append(_say(problem))
    for where, problems in by_field.items():
        text = " or ".join(dict.fromkeys(problems))
        yield f"{where}: {text}" if where else text


def _nest(annotation: object) -> type[BaseModel] | None:
    """The model inside an annotation such as `Profile | None` or `tuple[Shape, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, tuple):
        return next((model for part in typing.get_args(annotation) if (model := _nest(part))), None)
    return None


def _say(problem: ErrorDetails) -> str:
    message = str(problem["msg"])
    match problem["type"]:
        case "missing":
            return "missing; add it"
        case "extra_forbidden":
            return "unknown field; remove it or correct the name"
        case "value_error":
            return message.removeprefix("Value error, ")
        case "string_type" if isinstance(problem["input"], bool):
            return f"found {problem['input']}, which is how YAML reads on, off, yes and no; put the word in quotes"
        case _:
            return f"{message[:1].lower()}{message[1:]}, found {_show(problem['input'])}; correct the value"


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


# Name the thing that a mistyped word most likely meant.


def nearest(name: str, names: Iterable[str]) -> str:
    """`did you mean 'x'?`, or the list of the names when none is close."""
    choices = sorted(names)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(choices)}"
