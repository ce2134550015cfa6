"""What other prompts would have asked at each decision point: a recording is played, and its planner is listened to."""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Never

from jinja2 import UndefinedError

from ridgeline.agent.errors import UserError
from ridgeline.agent.planner.checks import Checks
from ridgeline.agent.planner.model import ModelPlanner
from ridgeline.agent.planner.tools import BriefedReader, ShippedBooks
from ridgeline.agent.providers.base import Ask
from ridgeline.agent.providers.choice import MAILBOX
from ridgeline.agent.providers.tape import counted
from ridgeline.agent.tape import PROTOCOLS, Tape, taped
from ridgeline.evals.decisions.points import Kind
from ridgeline.evals.decisions.prompts import Prompt
from ridgeline.evals.decisions.shipped import task_of
from ridgeline.evals.recordings.folder import LEDGER, TAPE, WORKSPACE, Folder
from ridgeline.evals.recordings.stage import perform, wired
from ridgeline.evals.recordings.workspace import ToldWorkspace, playing
from ridgeline.evals.task_folders import Parts
from ridgeline.graph.briefing import Briefing, Draft, Proposal, Review
from ridgeline.graph.limits import Limits
from ridgeline.graph.ports import Planner
from ridgeline.graph.record import Reflection
from ridgeline.graph.trial import Broken, Built, Judged
from ridgeline.graph.values import Value


class Point(Value):
    """Where a question was asked."""

    recording: str
    round: int
    kind: Kind
    attempt: int = 0
    """Of a repair, from 1."""

    @property
    def name(self) -> str:
        """For files and tables."""
        return f"{self.recording}-r{self.round:03d}-{self.kind}{self.attempt or ''}"


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One decision point: what each prompt asks there, and what an answer is checked by."""

    point: Point
    asks: dict[str, Ask]
    """By the name of the prompt."""
    checks: Checks


class _Heard(Exception):
    """No error: it ends a question that nobody is to answer."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask.purpose)
        self.ask = ask


class _Ear:
    """A model that hears one question and answers nothing. A mailbox's questions bring their checks."""

    name = MAILBOX
    tools = False

    def ask(self, ask: Ask) -> Never:
        raise _Heard(ask)

    def count(self, text: str) -> int:
        return counted(text)


class Listening:
    """Port `Planner`: answers as the recording does, and notes what other prompts would ask in its place."""

    def __init__(
        self, recording: str, inner: Planner, limits: Limits, prompts: Sequence[Prompt], *, task: Parts | None
    ) -> None:
        self.heard: list[Situation] = []
        self._recording, self._inner, self._limits, self._prompts, self._task = recording, inner, limits, prompts, task
        self._books = ShippedBooks()

    def propose(self, briefing: Briefing) -> Proposal:
        self._listen(briefing, "propose", lambda planner: planner.propose(briefing))
        return self._inner.propose(briefing)

    def draft(self, briefing: Briefing, proposal: Proposal) -> Draft:
        self._listen(briefing, "draft", lambda planner: planner.draft(briefing, proposal))
        return self._inner.draft(briefing, proposal)

    def repair(self, briefing: Briefing, broken: Broken | Built, attempt: int) -> Draft:
        self._listen(briefing, "repair", lambda planner: planner.repair(briefing, broken, attempt), attempt=attempt)
        return self._inner.repair(briefing, broken, attempt)

    def split(self, briefing: Briefing, judged: Judged) -> Draft:
        return self._inner.split(briefing, judged)

    def review(self, briefing: Briefing, trigger: str) -> Review:
        return self._inner.review(briefing, trigger)

    def reflect(self, briefing: Briefing, judged: Judged) -> Reflection:
        return self._inner.reflect(briefing, judged)

    def _listen(self, briefing: Briefing, kind: Kind, ask: Callable[[Planner], Any], *, attempt: int = 0) -> None:
        asks: dict[str, Ask] = {}
        for prompt in self._prompts:
            reader = BriefedReader(briefing) if self._task is None else TaskReader(briefing, self._task)
            planner = ModelPlanner(
                _Ear(), limits=self._limits, reader=reader, books=self._books, wording=prompt.wording
            )
            try:
                ask(planner)
            except UndefinedError as error:
                raise UserError(
                    f"--prompts: {prompt.name}: {error.message}: questions have no such part any more"
                ) from error
            except _Heard as heard:
                asks[prompt.name] = heard.ask.shortened(self._limits.answer_tokens)
                checks = Checks.model_validate_json(heard.ask.checks)
        if asks:
            point = Point(recording=self._recording, round=briefing.round, kind=kind, attempt=attempt)
            self.heard.append(Situation(point=point, asks=asks, checks=checks))


class TaskReader(BriefedReader):
    """With the read-only files of the task that ships: a recording has no repository."""

    def __init__(self, briefing: Briefing, task: Parts) -> None:
        super().__init__(briefing)
        self._task = task

    @cached_property
    def _files(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for folder in self._task:
            for path in folder.rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts:
                    with suppress(UnicodeDecodeError):
                        found[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8")
        return {**found, ".gitignore": "build/\n"}

    def paths(self, commit: str) -> tuple[str, ...]:
        return tuple(sorted({*self._files, *super().paths(commit)})) if commit == self._commit else ()

    def text(self, commit: str, path: str) -> str | None:
        own = super().text(commit, path)
        return self._files.get(path) if own is None and commit == self._commit else own


def situations(path: Path, prompts: Sequence[Prompt]) -> tuple[Situation, ...]:
    """Every decision point of a recording, in order. Raises UserError for a folder that cannot be played."""
    folder = Folder(path)
    request, tape, lines = folder.request(), Tape(folder.file(TAPE), mode="replay"), folder.lines()
    answering = {name: taped(name, None, tape) for name in PROTOCOLS}
    planner = Listening(folder.name, answering["planner"], request.limits, prompts, task=task_of(request.contract))
    git = ToldWorkspace(playing(Tape(folder.file(WORKSPACE), mode="replay")))
    with tempfile.TemporaryDirectory(prefix="ridgeline-asking-") as scratch:
        ledger = Path(scratch) / LEDGER
        perform(request, wired({**answering, "planner": planner}, git, lines, ledger), ledger)
    return tuple(planner.heard)
