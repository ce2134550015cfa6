"""The tape: answers of the outside world, kept by the question that was asked.

A port call names itself completely, so the same question has one answer. That makes three things one mechanism:
a live campaign that crashed asks again and reads what was already answered; a replay reads a finished tape; a
question that a replay has never heard is an error, not a guess.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from ridgeline.agent.errors import UserError
from ridgeline.graph import ports as declared
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.errors import MEND
from ridgeline.graph.values import SCHEMA, Value
from ridgeline.sandbox.store.durable import UnsyncedFiles, append_whole
from ridgeline.sandbox.store.json_file import NotJson, explain_first, parse_json

if TYPE_CHECKING:
    from ridgeline.agent.campaign.side_by_side import SideBySide

logger = logging.getLogger(__name__)

Mode = Literal["live", "replay"]
PROTOCOLS: dict[str, type] = {
    "planner": declared.Planner,
    "worker": declared.Worker,
    "builder": declared.Builder,
    "checker": declared.Checker,
    "timer": declared.Timer,
    "profiler": declared.Profiler,
    "searcher": declared.Searcher,
    "device": declared.Device,
    "approvals": declared.Approvals,
    "clock": declared.Clock,
    "signals": declared.Signals,
}
ASKED_AFRESH = frozenset({"device"})
"""Ports that a live campaign always asks again: a campaign may go on on another machine."""


UNDECIDED = frozenset({"approvals"})
"""Ports whose None is no answer yet: asked again, it may be one."""


OPTIONAL = frozenset({"searcher"})
"""Ports that a campaign may be without: what nobody is there to answer is None, and not recorded."""


class TapeMiss(UserError):
    """A replay asked something that was never recorded."""


class Tape:
    """Append-only JSONL of answers: `{schema, key, port, method, about, answer}`."""

    def __init__(
        self, path: Path, *, mode: Mode = "live", machine: str | None = None, later: UnsyncedFiles | None = None
    ) -> None:
        """`machine`: fingerprint of the only machine whose recorded times may be answered; None means any.

        `later`: brings answers to the disk before the ledger's next line; without it each is synced.
        """
        self._path = path
        self.mode = mode
        self._machine = machine
        self._later = later
        self._answers = self._load()
        self._earlier = set(self._answers)
        """Keys that an earlier process recorded."""

    def _load(self) -> dict[str, Any]:
        """Key -> answer of every complete line of the tape."""
        if not self._path.exists():
            return {}
        data = self._path.read_bytes()
        complete_lines = data[: data.rfind(b"\n") + 1]
        if len(complete_lines) != len(data) and self.mode == "live":
            # a kill in the middle of a write leaves half a line: the call is asked again
            torn = self._path.with_name(f"{self._path.name}.torn")
            append_whole(torn, data[len(complete_lines) :] + b"\n")
            logger.warning("%s: its torn last line was moved to %s", self._path, torn.name)
            os.truncate(self._path, len(complete_lines))
        lines = (_line(self._path, number, raw) for number, raw in enumerate(complete_lines.splitlines(), start=1))
        return {line["key"]: line["answer"] for line in lines}

    def is_answered(self, key: str) -> bool:
        """Whether the question was answered, and not by the clocks of a machine that no longer counts."""
        if key not in self._answers:
            return False
        answer = self._answers[key]
        measured_on = answer.get("machine") if isinstance(answer, dict) else None
        return not (isinstance(measured_on, str) and self._machine and measured_on != self._machine)

    def answer(self, key: str) -> Any:
        """The answer on the tape in JSON form. Raises KeyError where there is none."""
        return self._answers[key]

    def is_outdated(self, key: str, port: str) -> bool:
        """Whether a resumed campaign asks again: an earlier process was told that nobody had asked to stop, or what a
        person had changed until then."""
        asks_again = (
            self.mode == "live" and port == "signals" and self._answers[key] is not True and key in self._earlier
        )
        self._earlier.discard(key)
        return asks_again

    def record(self, key: str, *, port: str, method: str, about: str, answer: Any) -> None:
        """Write an answer to the tape before anybody acts on it, so that a killed process has lost nothing."""
        self._answers[key] = answer
        line = {"schema": SCHEMA, "key": key, "port": port, "method": method, "about": about, "answer": answer}
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        append_whole(self._path, data, synced=self._later is None)
        if self._later is not None:
            self._later.add(self._path, grown=True)


def _line(path: Path, number: int, raw: bytes) -> dict[str, Any]:
    """One parsed line of the tape. Raises UserError, with its number, where it is no answer of this schema."""
    try:
        line = parse_json(raw)
    except NotJson as error:
        raise UserError(f"{path}: line {number}: {error}; restore the file from a copy, or: {MEND}") from error
    if (
        not isinstance(line, dict)
        or line.get("schema") != SCHEMA
        or not _NAMES.items() >= _list_field_types(line).items()
    ):
        raise UserError(
            f"{path}: line {number}: is not an answer of schema {SCHEMA}; restore the file from a copy, or use the"
            " version of Ridgeline that wrote it"
        )
    return line


_NAMES = {"key": str, "port": str, "method": str}
"""What every line says beside its answer, and as what."""


def _list_field_types(line: dict[str, Any]) -> dict[str, type]:
    """Types that the fields of a tape's line must have; a line without an answer has none."""
    return {name: type(line.get(name)) for name in _NAMES} if "answer" in line else {"answer": type(None)}


def find_bad_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and fault of every line that holds no answer to its question; number 0 for a torn last line."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    complete_lines = data[: data.rfind(b"\n") + 1]
    for number, raw in enumerate(complete_lines.splitlines(), start=1):
        try:
            line = _line(path, number, raw)
        except UserError as error:
            yield number, str(error).removeprefix(f"{path}: line {number}: ").partition(";")[0]
            continue
        if why := _find_fault(line):
            yield number, why
    if len(complete_lines) < len(data):
        yield 0, "its last line is torn"


def _find_fault(line: dict[str, Any]) -> str:
    """Why an answer on the tape is none that its port could have given; empty where it is one. Ports of others are left alone."""
    port, method = line["port"], line["method"]
    if port not in PROTOCOLS:
        return ""
    if method not in _methods(port):
        return f"{port} has no method {method[:40]!r}"
    try:
        _adapter(port, method).validate_python(line["answer"], strict=False)
    except ValidationError as error:
        return f"answer of {port}.{method}: {explain_first(error)}"
    return ""


class TapedPort:
    """A port whose calls go through the tape. Exceptions are never recorded: the world may be mended."""

    def __init__(self, name: str, inner: object | None, tape: Tape) -> None:
        for method in _methods(name):
            call = getattr(inner, method) if inner is not None else None
            setattr(self, method, _wrap_method(name, method, call, tape))


def tape_port(name: str, inner: object | None, tape: Tape) -> Any:
    """Any port of `PROTOCOLS`; `inner` None is allowed in replay, and for what is `OPTIONAL`."""
    return TapedPort(name, inner, tape)


class TapedPreparer:
    """`ports.Preparer` whose answers are on the tape when it returns: a question about the first candidate loses none of the others.

    What the tape has is not prepared again.
    """

    def __init__(self, ahead: "SideBySide", builder: declared.Builder, checker: declared.Checker, tape: Tape) -> None:
        """`builder`, `checker`: on the tape, of what was prepared."""
        self._ahead, self._builder, self._checker, self._tape = ahead, builder, checker, tape

    def prepare(self, commits: tuple[str, ...], purposes: tuple[str, ...]) -> None:
        """As `ports.Preparer`."""
        waiting = [pair for pair in zip(commits, purposes, strict=True) if not self._is_taped(*pair)]
        self._ahead.prepare(tuple(commit for commit, _ in waiting), tuple(purpose for _, purpose in waiting))
        for commit, purpose in waiting:  # in the order in which the loop asks, whichever was ready first
            if self._ahead.has("build", commit):
                self._builder.build(commit)
            if self._ahead.has("check", commit, purpose):
                self._checker.check(commit, purpose=purpose)

    def _is_taped(self, commit: str, purpose: str) -> bool:
        """Whether the tape has the candidate's test, or a build without which there is none."""
        key = _hash_question("builder", "build", (commit,), {})
        if self._tape.is_answered(key) and not self._tape.answer(key)["ok"]:
            return True
        return self._tape.is_answered(_hash_question("checker", "check", (commit,), {"purpose": purpose}))


def _wrap_method(port: str, method: str, call: Callable[..., Any] | None, tape: Tape) -> Callable[..., Any]:
    """A port's method that asks the tape first and records what it answers."""

    @wraps(cast("Callable[..., Any]", getattr(PROTOCOLS[port], method)))
    def run(*args: Any, **kwargs: Any) -> Any:
        key = _hash_question(port, method, args, kwargs)
        if tape.mode == "replay" and port == "signals" and not tape.is_answered(key):
            # the recording knows no repetitions, or was not stopped where this replay was killed and asks again
            before_repeating: tuple[dict[str, Any], ...] = ({}, dict.fromkeys(kwargs, 0))
            keys = (_hash_question(port, method, args, earlier) for earlier in before_repeating)
            key = next((earlier for earlier in keys if tape.is_answered(earlier)), key)
        adapter = _adapter(port, method)
        if tape.is_answered(key) and (
            tape.mode == "replay" or not (port in ASKED_AFRESH or tape.is_outdated(key, port))
        ):
            try:
                return adapter.validate_python(tape.answer(key), strict=False)
            except ValidationError as error:
                raise UserError(
                    f"tape: the answer of {port}.{method} is none any more ({explain_first(error)}); restore the tape"
                    f" from a copy, or: {MEND}"
                ) from None
        if port in OPTIONAL and (tape.mode == "replay" or call is None):
            return None
        about = _describe_question(kwargs, args)
        if tape.mode == "replay" or call is None:
            raise TapeMiss(f"tape: {port}.{method}({about}) was never recorded; replay the settings it was made with")
        answer = call(*args, **kwargs)
        if answer is None and port in UNDECIDED | OPTIONAL:
            return None
        tape.record(key, port=port, method=method, about=about, answer=adapter.dump_python(answer, mode="json"))
        return answer

    return run


def _hash_question(port: str, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """sha256 that names a question on the tape."""
    question = json.dumps(
        [port, method, _question_as_json(args), _question_as_json(kwargs)], sort_keys=True, separators=(",", ":")
    )
    return sha256(question.encode()).hexdigest()


def _question_as_json(value: Any) -> Any:
    """A port's question as JSON, for the tape. A briefing is named by its round and the ledger's head, which fix all of it."""
    if isinstance(value, Briefing):
        return {"round": value.round, "head": value.head}
    if isinstance(value, tuple | list):
        return [_question_as_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _question_as_json(item) for name, item in value.items()}
    return to_jsonable_python(value)


def _describe_question(kwargs: dict[str, Any], args: tuple[Any, ...]) -> str:
    """A question on the campaign's tape in a few words, for people."""
    return ", ".join([_word(arg) for arg in args] + [f"{name}={_word(value)}" for name, value in kwargs.items()])


def _word(value: Any) -> str:
    """Part of a recorded question in a word: a whole trial by its kind only, as spelling it out costs more than the question."""
    if isinstance(value, Briefing):
        return f"round {value.round}"
    return type(value).__name__.lower() if isinstance(value, Value) else str(value)[:40]


@cache
def _methods(port: str) -> tuple[str, ...]:
    """Names of a port's public methods, which the tape wraps."""
    return tuple(name for name in vars(PROTOCOLS[port]) if not name.startswith("_"))


@cache
def _adapter(port: str, method: str) -> TypeAdapter[Any]:
    """What turns a port method's answer into the tape's JSON and back."""
    return TypeAdapter(get_type_hints(getattr(PROTOCOLS[port], method))["return"])
