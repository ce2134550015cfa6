"""The repository of a recorded campaign: what git answered, kept once and played again.

A recording is to be small and to give nobody's files away, so it has no repository. Git's answers are facts like those
of the timer: the same parent, edits and instant make the same commit.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any, get_type_hints

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from ridgeline.agent.tape import Tape, TapeMiss
from ridgeline.graph import ports as declared
from ridgeline.graph.ports import Applied, Base, Refused, Workspace
from ridgeline.graph.values import Artifact, FileEdit

PORT = "workspace"
Answer = Callable[[str, Mapping[str, Any]], Any]
"""Method and its arguments by name -> the answer in JSON."""


class ToldWorkspace:
    """Port `Workspace`, every call of which is answered by one function."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def open(self, branch: str) -> Base:
        return self._ask("open", branch=branch)  # type: ignore[no-any-return]

    def sources(self, commit: str) -> tuple[FileEdit, ...]:
        return self._ask("sources", commit=commit)  # type: ignore[no-any-return]

    def snapshot(self, commit: str) -> tuple[Artifact, ...]:
        return self._ask("snapshot", commit=commit)  # type: ignore[no-any-return]

    def apply(self, *, round: int, parent: str, edits: tuple[FileEdit, ...], at: str) -> Applied | Refused:
        return self._ask("apply", round=round, parent=parent, edits=edits, at=at)  # type: ignore[no-any-return]

    def accept(self, *, parent: str, tree: str, message: str, at: str) -> str:
        return self._ask("accept", parent=parent, tree=tree, message=message, at=at)  # type: ignore[no-any-return]

    def reset(self, commit: str) -> None:
        self._ask("reset", commit=commit)

    def _ask(self, method: str, **arguments: Any) -> Any:
        return answer_type(method).validate_python(self._answer(method, arguments), strict=False)


def asking(inner: Workspace) -> Answer:
    """A real workspace as such a function."""

    def answer(method: str, arguments: Mapping[str, Any]) -> Any:
        return answer_type(method).dump_python(getattr(inner, method)(**arguments), mode="json")

    return answer


def recording(answer: Answer, tape: Tape) -> Answer:
    """The same, each new question put on a tape with its answer."""

    def told(method: str, arguments: Mapping[str, Any]) -> Any:
        found, name = answer(method, arguments), key(method, arguments)
        if not tape.known(name):
            tape.record(name, port=PORT, method=method, about=_about(arguments), answer=found)
        return found

    return told


def playing(tape: Tape) -> Answer:
    """Answers of a tape; raises TapeMiss for a question that is not on it."""

    def answer(method: str, arguments: Mapping[str, Any]) -> Any:
        name = key(method, arguments)
        if not tape.known(name):
            raise TapeMiss(f"workspace.{method}({_about(arguments)}) was never recorded")
        return tape.answer(name)

    return answer


def key(method: str, arguments: Mapping[str, Any]) -> str:
    """sha256 that names the question."""
    question = json.dumps([method, to_jsonable_python(dict(arguments))], sort_keys=True, separators=(",", ":"))
    return sha256(question.encode()).hexdigest()


@cache
def answer_type(method: str) -> TypeAdapter[Any]:
    """How an answer of that method is read and written."""
    return TypeAdapter(get_type_hints(getattr(declared.Workspace, method))["return"])


def _about(arguments: Mapping[str, Any]) -> str:
    """The question in a few words, for people; a file's text and a message are too long for that."""
    short = {name: value for name, value in arguments.items() if name not in ("edits", "message")}
    return ", ".join(f"{name}={str(value)[:40]}" for name, value in short.items())
