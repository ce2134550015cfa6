"""The answers of a campaign in the order in which the graph asked for them, to be given again in that order."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from ridgeline.agent.tape import ASKED_AFRESH, PROTOCOLS, Tape, TapeMiss
from ridgeline.evals.recordings.workspace import PORT, Answer
from ridgeline.graph.values import SCHEMA


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """One answer, in JSON."""

    port: str
    method: str
    answer: Any


class Overheard(Tape):
    """A finished tape that notes, in order, every answer that is given: once each, as a live campaign would ask."""

    def __init__(self, lines: Mapping[str, Mapping[str, Any]], script: list[Spoken], tape: Tape) -> None:
        """`lines`: of the tape's file by key, which say whose answers they are."""
        self.mode = "replay"
        self._lines, self._script, self._tape = lines, script, tape
        self._seen: set[str] = set()

    def known(self, key: str) -> bool:
        """As the tape says."""
        return self._tape.known(key)

    def answer(self, key: str) -> Any:
        """What the tape has, noted."""
        line = self._lines[key]
        if key not in self._seen or line["port"] in ASKED_AFRESH:
            self._seen.add(key)
            self._script.append(Spoken(port=line["port"], method=line["method"], answer=line["answer"]))
        return self._tape.answer(key)


def overheard(answer: Answer, script: list[Spoken]) -> Answer:
    """The same for the workspace, which is asked for real."""

    def told(method: str, arguments: Mapping[str, Any]) -> Any:
        found = answer(method, arguments)
        script.append(Spoken(port=PORT, method=method, answer=found))
        return found

    return told


class Prompter:
    """Gives the answers of a script in its order, whatever is asked; the kind of question must be the same."""

    def __init__(self, script: list[Spoken]) -> None:
        self._script = script
        self._at = 0

    def next(self, port: str, method: str) -> Any:
        """The next answer. Raises TapeMiss at the script's end, and where another question was asked there."""
        if self._at == len(self._script):
            raise TapeMiss(f"{port}.{method}: the recording ends here")
        spoken = self._script[self._at]
        if (spoken.port, spoken.method) != (port, method):
            raise TapeMiss(f"{port}.{method}: the campaign asked {spoken.port}.{spoken.method} here")
        self._at += 1
        return spoken.answer

    @property
    def over(self) -> bool:
        """Every answer was given."""
        return self._at == len(self._script)

    def port(self, name: str) -> "PromptedPort":
        """A port of `PROTOCOLS`."""
        return PromptedPort(name, lambda method, arguments: self.next(name, method))

    def workspace(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """The workspace, as a function."""
        return self.next(PORT, method)


class PromptedPort:
    """A port of `PROTOCOLS`, every call of which is answered in JSON by one function of method and arguments."""

    def __init__(self, name: str, answer: Callable[[str, Sequence[Any]], Any]) -> None:
        for method in (word for word in vars(PROTOCOLS[name]) if not word.startswith("_")):
            setattr(self, method, _call(name, method, answer))


def _call(port: str, method: str, answer: Callable[[str, Sequence[Any]], Any]) -> Callable[..., Any]:
    answers = TypeAdapter[Any](get_type_hints(getattr(PROTOCOLS[port], method))["return"])

    def call(*args: Any, **kwargs: Any) -> Any:
        return answers.validate_python(answer(method, (*args, *kwargs.values())), strict=False)

    return call


def tape_lines(path: Path) -> dict[str, dict[str, Any]]:
    """By key; the last answer of a question counts, as on the tape, which has been read without a problem before."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return {line["key"]: line for line in lines if line.get("schema") == SCHEMA}
