"""Replay: the real graph on a recording's tape, and whether it writes the recorded ledger again, line by line."""

import json
import logging
import re
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, get_type_hints

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from ridgeline.agent.campaign.checkpoints import Checkpoints
from ridgeline.agent.campaign.progress import NoView
from ridgeline.agent.campaign.runner import drive
from ridgeline.agent.campaign.tape import ASKED_AFRESH, OPTIONAL, PROTOCOLS, Tape, TapeMiss, tape_port
from ridgeline.agent.errors import UserError
from ridgeline.evals.recordings.recording import LEDGER, TAPE, WORKSPACE, Folder, changed_files
from ridgeline.graph import ports as declared
from ridgeline.graph.approval import ApprovalRequest, Decision
from ridgeline.graph.briefing import Briefing
from ridgeline.graph.loop.build import CHECKPOINTED
from ridgeline.graph.ports import Base, CandidateCommit, EditRefusal, Ports, Workspace
from ridgeline.graph.record import Line, MinimalVersion, Opened, RoundClosed
from ridgeline.graph.state import Request
from ridgeline.graph.values import SCHEMA, Artifact, FileEdit, Value
from ridgeline.sandbox.store.durable import UnsyncedFiles
from ridgeline.sandbox.store.ledger import JsonlLedger

# Drives the real graph on ports that only answer: no model, machine or repository; only a ledger is written.


class NoFiles:
    """Port `Files`: what people read is a view of the ledger, so a replay writes none of it."""

    def __init__(self, tips: str | None) -> None:
        """`tips`: text of the tips file as the campaign read it before round 1."""
        self._tips = tips

    def write(self, files: Mapping[str, str | Artifact]) -> None:
        """A replay keeps no rendered file."""

    def tips(self, gpu: str, op: str, backend: str) -> str | None:
        """The recorded text of the tips, for a replay."""
        return self._tips

    def add_tip(self, gpu: str, op: str, backend: str, entry: str) -> None:
        """A replay keeps no tip."""


class RecordedApprovals:
    """Port `Approvals`: what people decided stands in the ledger, in the order in which they were asked."""

    def __init__(self, lines: Sequence[Line]) -> None:
        bodies = [line.body for line in lines if isinstance(line.body, Opened | RoundClosed)]
        self._left = [decision for body in bodies for decision in body.decisions]

    def decision(self, request: ApprovalRequest) -> Decision | None:
        """A replay's next recorded decision, for what is asked now; None when nobody had decided any more."""
        return self._left.pop(0).model_copy(update={"key": request.key}) if self._left else None


def wire_recorded(answering: Mapping[str, Any], workspace: Workspace, recorded: Sequence[Line], ledger: Path) -> Ports:
    """A replay's ports that only answer: `answering` by name, people and tips from the recorded ledger, a new ledger to write."""
    opened = recorded[0].body
    tips = opened.tips if isinstance(opened, Opened) else None
    return Ports(
        **{"approvals": RecordedApprovals(recorded), **answering},
        workspace=workspace,
        ledger=JsonlLedger(ledger, rests_on=UnsyncedFiles()),
        files=NoFiles(tips),
    )


@dataclass(frozen=True, kw_only=True)
class Performance:
    """What came of a performance."""

    lines: tuple[bytes, ...]
    """Of the ledger that was written, each with its newline."""
    stopped: str
    """The question that had no answer; empty when the campaign ran to its end."""


def perform(request: Request, ports: Ports, ledger: Path) -> Performance:
    """Replay the recorded campaign from its beginning until it concludes or asks something that nobody answers.

    `ports.ledger` writes to `ledger`. Raises UserError where an answer leads to numbers that the graph cannot use.
    """
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    stopped = ""
    try:
        saver = SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=CHECKPOINTED))
        with _quiet():
            drive(Checkpoints(saver=saver), request, ports, NoView())
    except TapeMiss as miss:
        stopped = str(miss)
    except ValueError as error:
        raise UserError(f"the recorded answers cannot be played: {error}; restore the tape from a copy") from error
    finally:
        connection.close()
    written = ledger.read_bytes() if ledger.exists() else b""
    return Performance(lines=tuple(written.splitlines(keepends=True)), stopped=stopped)


@contextmanager
def _quiet() -> Iterator[None]:
    """Runs a replay without warnings that were for the people who ran the campaign."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


# The repository of a recorded campaign: what git answered, kept once and played again.
#
# A recording is to be small and to give nobody's files away, so it has no repository. Git's answers are facts like those
# of the timer: the same parent, edits and instant make the same commit.

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

    def apply(self, *, round: int, parent: str, edits: tuple[FileEdit, ...], at: str) -> CandidateCommit | EditRefusal:
        return self._ask("apply", round=round, parent=parent, edits=edits, at=at)  # type: ignore[no-any-return]

    def extract(self, commit: str) -> MinimalVersion:
        return self._ask("extract", commit=commit)  # type: ignore[no-any-return]

    def select_core(self, edits: tuple[FileEdit, ...]) -> tuple[FileEdit, ...]:
        return self._ask("select_core", edits=edits)  # type: ignore[no-any-return]

    def accept(self, *, parent: str, tree: str, message: str, at: str) -> str:
        return self._ask("accept", parent=parent, tree=tree, message=message, at=at)  # type: ignore[no-any-return]

    def reset(self, commit: str) -> None:
        self._ask("reset", commit=commit)

    def _ask(self, method: str, **arguments: Any) -> Any:
        return answer_type(method).validate_python(self._answer(method, arguments), strict=False)


def ask_workspace(inner: Workspace) -> Answer:
    """A replay's real workspace, asked as a port is."""

    def answer(method: str, arguments: Mapping[str, Any]) -> Any:
        return answer_type(method).dump_python(getattr(inner, method)(**arguments), mode="json")

    return answer


def record_answers(answer: Answer, tape: Tape) -> Answer:
    """For exporting a replayable recording: a real workspace whose every new question is put on a tape with its answer."""

    def answer_recorded(method: str, arguments: Mapping[str, Any]) -> Any:
        result, name = answer(method, arguments), key(method, arguments)
        if not tape.is_answered(name):
            tape.record(name, port=PORT, method=method, about=_about(arguments), answer=result)
        return result

    return answer_recorded


def play_tape(tape: Tape) -> Answer:
    """A replay's tape in place of a real workspace; raises TapeMiss for a question that is not on it."""

    def answer(method: str, arguments: Mapping[str, Any]) -> Any:
        name = key(method, arguments)
        if not tape.is_answered(name):
            raise TapeMiss(f"workspace.{method}({_about(arguments)}) was never recorded")
        return tape.answer(name)

    return answer


def key(method: str, arguments: Mapping[str, Any]) -> str:
    """sha256 that names a replayed question."""
    question = json.dumps([method, to_jsonable_python(dict(arguments))], sort_keys=True, separators=(",", ":"))
    return sha256(question.encode()).hexdigest()


@cache
def answer_type(method: str) -> TypeAdapter[Any]:
    """How a replayed answer of that method is read and written."""
    return TypeAdapter(get_type_hints(getattr(declared.Workspace, method))["return"])


def _about(arguments: Mapping[str, Any]) -> str:
    """A replayed question in a few words, for people; a file's text and a message are too long for that."""
    short = {name: value for name, value in arguments.items() if name not in ("edits", "message")}
    return ", ".join(f"{name}={str(value)[:40]}" for name, value in short.items())


# The answers of a campaign in the order in which the graph asked for them, to be given again in that order.


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
        self._spoken_keys: set[str] = set()

    def is_answered(self, key: str) -> bool:
        """Whether a replay's tape answers the question."""
        return self._tape.is_answered(key)

    def answer(self, key: str) -> Any:
        """What a replay's tape has, noted."""
        line = self._lines[key]
        if key not in self._spoken_keys or line["port"] in ASKED_AFRESH:
            self._spoken_keys.add(key)
            self._script.append(Spoken(port=line["port"], method=line["method"], answer=line["answer"]))
        return self._tape.answer(key)


def overheard(answer: Answer, script: list[Spoken]) -> Answer:
    """A replay's ports that note what is answered; the workspace is asked for real."""

    def answer_recorded(method: str, arguments: Mapping[str, Any]) -> Any:
        result = answer(method, arguments)
        script.append(Spoken(port=PORT, method=method, answer=result))
        return result

    return answer_recorded


class Prompter:
    """Gives the answers of a script in its order, whatever is asked; the kind of question must be the same."""

    def __init__(self, script: list[Spoken]) -> None:
        self._script = script
        self._at = 0

    def next(self, port: str, method: str) -> Any:
        """A replay's next recorded answer. Raises TapeMiss at the script's end, and where another question was asked there.

        None from a port that the campaign may have been without, where it did not answer.
        """
        if port in OPTIONAL and (self.over or self._script[self._at].port != port):
            return None
        if self._at == len(self._script):
            raise TapeMiss(f"{port}.{method}: the recording ends here")
        spoken = self._script[self._at]
        if (spoken.port, spoken.method) != (port, method):
            raise TapeMiss(f"{port}.{method}: the campaign asked {spoken.port}.{spoken.method} here")
        self._at += 1
        return spoken.answer

    @property
    def over(self) -> bool:
        """Whether a replay has given every answer."""
        return self._at == len(self._script)

    def port(self, name: str) -> "PromptedPort":
        """A port of `PROTOCOLS` that answers from the replayed script."""
        return PromptedPort(name, lambda method, arguments: self.next(name, method))

    def workspace(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """A replay's workspace, as a function."""
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
    """A replay's tape by key; the last answer of a question counts, and it has been read without a problem before."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return {line["key"]: line for line in lines if line.get("schema") == SCHEMA}


# A campaign of an older version in the words of this one: what was answered stays, what the graph says of it is new.
#
# A planner's answers are filed under the ledger as it was worded then, and an accepted commit's name holds its message.
# Both are found by round instead, so that the same answers meet the same questions.

ROUND = re.compile(r"round (\d+)")
PLANNER = "planner"


def planner(tape: Path, script: list[Spoken]) -> PromptedPort:
    """A replay's port `Planner`: its recorded answers of each kind and round, in order, noted in `script`."""
    left: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for line in tape_lines(tape).values():
        if line["port"] == PLANNER and (match := ROUND.match(line["about"])):
            left[(line["method"], int(match[1]))].append(line["answer"])

    def answer(method: str, arguments: Sequence[Any]) -> Any:
        briefing = arguments[0]
        assert isinstance(briefing, Briefing)
        waiting = left[(method, briefing.round)]
        if not waiting:
            raise TapeMiss(f"planner.{method}(round {briefing.round}) was never recorded")
        script.append(Spoken(port=PLANNER, method=method, answer=waiting.pop(0)))
        return script[-1].answer

    return PromptedPort(PLANNER, answer)


def same_commits(answer: Answer, recorded: Sequence[Line]) -> Answer:
    """A replay's workspace, where an accepted tree becomes the very commit that it became then."""
    rounds = [line.body for line in recorded if isinstance(line.body, RoundClosed)]
    then = {body.tree: body.commit for body in rounds if body.commit}

    def answer_recorded(method: str, arguments: Mapping[str, Any]) -> Any:
        if method == "reset":  # the copied mirror's branch is where the campaign left it, and nobody looks at it
            return None
        commit = then.get(str(arguments.get("tree"))) if method == "accept" else None
        return commit or answer(method, arguments)

    return answer_recorded


# The first place where two ledgers part, as a field's path and its two values.

CHAIN = frozenset({"prev", "sha256"})
"""Follow from what else a line says, so they are told only where nothing else differs."""
LONGEST = 300


class Difference(Value):
    """One field of one line."""

    line: int
    """Counted from 1; as in the recorded ledger."""
    key: str
    """Event of that line, for example `round-4`."""
    field: str
    """Path inside the line, for example `body.judged.verdict.gain`; empty when a whole line is missing."""
    recorded: str | None
    """Value as JSON, shortened; None when the recording has none."""
    replayed: str | None

    @property
    def text(self) -> str:
        """The first difference of a replayed ledger, in three lines for people."""
        place = f"line {self.line} ({self.key})" + (f", {self.field}" if self.field else "")
        return f"{place}\n  recorded: {_show_text(self.recorded)}\n  replayed: {_show_text(self.replayed)}"


def first_difference(recorded: Sequence[bytes], replayed: Sequence[bytes]) -> Difference | None:
    """Where a replayed ledger differs; None when both are equal byte for byte."""
    for number in range(max(len(recorded), len(replayed))):
        ours = recorded[number] if number < len(recorded) else None
        theirs = replayed[number] if number < len(replayed) else None
        if ours != theirs:
            return _of_line(number + 1, ours, theirs)
    return None


def _of_line(number: int, recorded: bytes | None, replayed: bytes | None) -> Difference:
    ours: dict[str, Any] = json.loads(recorded) if recorded is not None else {}
    theirs: dict[str, Any] = json.loads(replayed) if replayed is not None else {}
    key = (ours or theirs)["key"]
    if not ours or not theirs:
        events = [f"the event {line['key']}" if line else None for line in (ours, theirs)]
        return Difference(line=number, key=key, field="", recorded=events[0], replayed=events[1])
    differences = list(_fields(ours, theirs, "")) or [("", ours, theirs)]  # the same values, spelled otherwise
    field, before, after = next(
        (difference for difference in differences if difference[0] not in CHAIN), differences[0]
    )
    return Difference(line=number, key=key, field=field, recorded=_json(before), replayed=_json(after))


class _Absent:
    """A field that one side does not have."""


ABSENT = _Absent()


def _fields(ours: Any, theirs: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Every leaf in which a replayed line differs, in the order of the recorded line."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in dict.fromkeys((*ours, *theirs)):
            yield from _fields(ours.get(name, ABSENT), theirs.get(name, ABSENT), f"{path}.{name}".lstrip("."))
    elif isinstance(ours, list) and isinstance(theirs, list):
        for index in range(max(len(ours), len(theirs))):
            before, after = (side[index] if index < len(side) else ABSENT for side in (ours, theirs))
            yield from _fields(before, after, f"{path}[{index}]")
    elif ours is not theirs and (type(ours) is not type(theirs) or ours != theirs):
        yield path, ours, theirs


def _json(value: Any) -> str | None:
    if value is ABSENT:
        return None
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"


def _show_text(value: str | None) -> str:
    return "nothing" if value is None else value


class ReplayResult(Value):
    """What a replay found."""

    recording: str
    equal: bool
    """The ledger that was written is the recorded one, byte for byte."""
    rounds: int
    """Closed rounds of the replayed ledger, the baseline among them."""
    lines: int
    """Lines that are equal, before the first difference."""
    first_difference: Difference | None
    stopped: str
    """The question at which the tape ended; empty when the campaign ran to its end."""
    open: bool
    """The recorded campaign was never concluded: stopping at its open question is right."""
    answers: int
    """On the tapes."""
    unused: int
    """Of these, never asked for: left by a crash, or by a question that is not asked any more."""
    changed: tuple[str, ...]
    """Files that are not those that were exported, by the digests of `recording.json`."""
    seconds: float
    """Wall seconds of the replay itself."""

    @property
    def good(self) -> bool:
        """Whether a replay is equal, and nobody touched the recording since it was exported."""
        return self.equal and not self.changed


class CountedTape(Tape):
    """A finished tape that knows which of its answers were wanted."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, mode="replay")
        self.requested_keys: set[str] = set()

    @property
    def unused(self) -> int:
        """Recorded answers that a replay did not ask for."""
        return len(self) - len(self.requested_keys)

    def __len__(self) -> int:
        return len(self._answers)

    def answer(self, key: str) -> Any:
        """A replay's tape like any other, and counted."""
        self.requested_keys.add(key)
        return super().answer(key)


def replay(path: Path) -> ReplayResult:
    """Play a recording. Raises UserError for a folder that cannot be played, naming file and line."""
    began = time.perf_counter()
    folder = Folder(path)
    recorded, lines = folder.ledger(), folder.lines()
    tape, git = CountedTape(folder.file(TAPE)), CountedTape(folder.file(WORKSPACE))
    with tempfile.TemporaryDirectory(prefix="ridgeline-replay-") as scratch:
        ledger = Path(scratch) / LEDGER
        answering = {name: tape_port(name, None, tape) for name in PROTOCOLS}
        ports = wire_recorded(answering, ToldWorkspace(play_tape(git)), lines, ledger)
        played = perform(folder.request(), ports, ledger)
    difference = first_difference(recorded, played.lines)
    concluded = lines[-1].key == "concluded"
    return ReplayResult(
        recording=folder.name,
        equal=difference is None and not (concluded and played.stopped),
        rounds=_rounds(played),
        lines=difference.line - 1 if difference else len(recorded),
        first_difference=difference,
        stopped=played.stopped,
        open=not concluded,
        answers=len(tape) + len(git),
        unused=tape.unused + git.unused,
        changed=changed_files(folder.path),
        seconds=round(time.perf_counter() - began, 3),
    )


def _rounds(played: Performance) -> int:
    return sum(b'"key":"round-' in line for line in played.lines)
