"""Named numbers: where a constant of a ladder stands in a source, which values are next, and setting one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ridgeline.knowledge.source import closing, lang_of, tokens
from ridgeline.knowledge.steps import Constant

_DEFINED = (
    r"^([ \t]*#[ \t]*define[ \t]+(?P<name>{names})[ \t]+)\(?(?P<value>\d+)\)?(?=[ \t]*(?:$|//|/\*))",
    r"^([ \t]*(?:static[ \t]+)?(?:constexpr|const)[ \t]+\w+(?:[ \t]+\w+)?[ \t]+(?P<name>{names})[ \t]*=[ \t]*)"
    r"(?P<value>\d+)(?=[ \t]*;)",
)
_ASSIGNED = (
    r"^((?P<name>{names})[ \t]*(?::[ \t]*[\w.]+)?[ \t]*=[ \t]*(?:tl\.constexpr\()?)"
    r"(?P<value>\d+)(?=[ \t]*\)?[ \t]*(?:$|#))",
    r"^([ \t]+(?P<name>{names})[ \t]*(?::[ \t]*tl\.constexpr)?[ \t]*=[ \t]*)(?P<value>\d+)(?=[ \t]*(?:$|#|,|\)))",
    r"([(,{{][ \t]*(?P<name>{names})[ \t]*:[ \t]*tl\.constexpr[ \t]*=[ \t]*)(?P<value>\d+)(?=[ \t]*[,)])",
)
_KEYWORD = (
    r"([(,][ \t\n]*(?P<name>{names})[ \t]*=[ \t]*)(?P<value>\d+)(?=[ \t\n]*[,)])",
    r"([{{,][ \t\n]*['\"](?P<name>{names})['\"][ \t]*:[ \t]*)(?P<value>\d+)(?=[ \t\n]*[,}}])",
)
_FORMS = {"define": _DEFINED, "assigned": _ASSIGNED, "keyword": _KEYWORD}


@dataclass(frozen=True)
class Setting:
    """A constant and what it is set to; `present` is false for an argument that a launch leaves to its default."""

    name: str
    value: int
    present: bool = True


def settings(step: Constant, sources: Mapping[str, str]) -> tuple[Setting, ...]:
    """The constants of a card's step, by name. One with two different values in the sources is a choice already: left out."""
    values: dict[str, set[int]] = {}
    for text in sources.values():
        for match in _find_constants(step, text):
            values.setdefault(match["name"], set()).add(int(match["value"]))
    constants = tuple(
        Setting(name, next(iter(numbers))) for name, numbers in sorted(values.items()) if len(numbers) == 1
    )
    if values or step.missing is None or not re.fullmatch(r"\w+", step.names):
        return constants
    launched = any(launches(text) for path, text in sources.items() if lang_of(path) == "python")
    return (Setting(step.names, step.missing, present=False),) if launched else ()


def neighbours(step: Constant, value: int) -> tuple[int, ...]:
    """The next value up a constant's ladder, then the next one down."""
    up = [rung for rung in step.ladder if rung > value][:1]
    down = [rung for rung in step.ladder if rung < value][-1:]
    return tuple(up + down)


def set_constant(text: str, step: Constant, *, target: Mapping[str, int]) -> str:
    """A source with each targeted constant of a card set; an argument that no launch names is added to every launch."""
    spans = [
        (m.start("value"), m.end("value"), target[m["name"]])
        for m in _find_constants(step, text)
        if m["name"] in target
    ]
    for start, end, value in sorted(set(spans), reverse=True):
        text = f"{text[:start]}{value}{text[end:]}"
    if spans or step.missing is None or step.names not in target:
        return text
    for end, comma in reversed(launches(text)):
        text = f"{text[:end]}{comma}{step.names}={target[step.names]}{text[end:]}"
    return text


def launches(text: str) -> list[tuple[int, str]]:
    """For a card's constants: kernel launches `kernel[grid](...)` of @triton.jit functions: where the last argument ends."""
    kernels = set(re.findall(r"@triton\.jit[^\n]*\n(?:[ \t]*@[^\n]*\n)*[ \t]*def[ \t]+(\w+)", text))
    stream = tokens(text, "python")
    places = []
    for index in range(len(stream) - 1):
        if stream[index].text not in kernels or stream[index + 1].text != "[":
            continue
        after = closing(stream, index + 1) + 1
        if after < len(stream) and stream[after].text == "(":
            last_token = stream[closing(stream, after) - 1]
            places.append((last_token.end, {"(": "", ",": " "}.get(last_token.text, ", ")))
    return places


def _find_constants(step: Constant, text: str) -> list[re.Match[str]]:
    patterns = (re.compile(form.format(names=f"(?:{step.names})"), re.M) for form in _FORMS[step.form])
    return [match for pattern in patterns for match in pattern.finditer(text)]
