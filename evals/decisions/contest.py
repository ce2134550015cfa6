"""Contestants (a wording answered by a model) at the decision points of recordings: answers found, scored, compared."""

import json
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Never

from jinja2 import UndefinedError
from pydantic import ValidationError

from ridgeline.agent.analysis.isa_request import InspectionRequest, inspect_kernels
from ridgeline.agent.campaign.tape import PROTOCOLS, Tape, tape_port
from ridgeline.agent.contract_file import load
from ridgeline.agent.errors import UserError
from ridgeline.agent.planner.checks import Checks
from ridgeline.agent.planner.conversation import Wrong
from ridgeline.agent.planner.edits import apply_answer
from ridgeline.agent.planner.model import PROMPTS, SYSTEM, ModelPlanner, Wording
from ridgeline.agent.planner.tools import BriefedReader, ShippedBooks
from ridgeline.agent.providers.base import Ask
from ridgeline.agent.providers.choice import MAILBOX
from ridgeline.agent.providers.tape import estimate_tokens
from ridgeline.agent.scaffold.contract import compose
from ridgeline.evals.decisions.points import Decision, Kind, decisions, task_of
from ridgeline.evals.decisions.scores import ContestantComparison, Line, Score, Summary, compare, score, summary
from ridgeline.evals.recordings.recording import LEDGER, TAPE, WORKSPACE, Folder
from ridgeline.evals.recordings.replay import ToldWorkspace, perform, play_tape, wire_recorded
from ridgeline.evals.task_folders import Parts
from ridgeline.graph.briefing import Briefing, Draft, Proposal, Review
from ridgeline.graph.limits import Limits
from ridgeline.graph.ports import CandidateCommit, Planner
from ridgeline.graph.record import Reflection
from ridgeline.graph.trial import Broken, Built, Judged
from ridgeline.graph.values import FileEdit, Hypothesis, Value
from ridgeline.prompts.render import TEMPLATES, Templates
from ridgeline.sandbox.profiles.isa.values import CompilerMissing, NotCompiled
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.store.durable import append_whole
from ridgeline.sandbox.workspace.builder import ContractBuilder
from ridgeline.sandbox.workspace.checker import ContractChecker
from ridgeline.sandbox.workspace.checkouts import Trees
from ridgeline.sandbox.workspace.commands import Commands, judge_of
from ridgeline.sandbox.workspace.worktree import GitWorkspace

# Prompts by a word: those that ship, an earlier version of them, or a folder of other templates.

SHIPPED = "shipped"
OTHERS = Path(__file__).parent.parent / "prompts"
"""Folders of templates that were tried against those that ship; each is known by its name."""
VERSION = re.compile(r"(?:(?P<kind>[a-z]+)\.)?v(?P<number>\d+)")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One wording of every question, under the name that people gave."""

    name: str
    wording: Wording

    @property
    def made_of(self) -> tuple[str, ...]:
        """Every template, `name@sha256`: with these the same decision point is the same question."""
        return tuple(dict.fromkeys(template for kind in PROMPTS for template in self.wording.identities(kind)))


def prompt(word: str) -> Prompt:
    """A contestant's wording: `shipped`, `v2` (all prompts as of version 2), `propose.v2`, a name in `evals/prompts`, or a folder.

    Raises UserError for anything else, and for a folder without a template that is used.
    """
    if word == SHIPPED:
        return Prompt(name=word, wording=Wording())
    if match := VERSION.fullmatch(word):
        return Prompt(name=word, wording=Wording(names=_versions_up_to(word, match["kind"], int(match["number"]))))
    folder = OTHERS / word if (OTHERS / word).is_dir() else Path(word)
    if not folder.is_dir():
        choices = ", ".join((SHIPPED, "v1", "propose.v1", *shipped_folders()))
        raise UserError(
            f"--prompts: {word!r} is no folder and no version; give a folder of templates, or one of {choices}"
        )
    folder = folder.resolve()
    names = {kind: _parts(path, folder) for kind in PROMPTS if (path := _find_own_template(folder, kind))}
    if not names and not any((folder / f"{name}.j2").is_file() for name in _list_used_templates()):
        raise UserError(
            f"{folder}: holds no template that is used; name one as it is named there: {', '.join(sorted(_list_used_templates()))}"
        )
    wording = Wording(names={**PROMPTS, **names}, templates=Templates(folder))
    return Prompt(name=folder.name, wording=wording)


def _list_used_templates() -> set[str]:
    return {SYSTEM, *(name for names in PROMPTS.values() for name in names)}


def _find_own_template(folder: Path, kind: str) -> Path | None:
    """A contestant's own template of a question, of whatever version."""
    return max(folder.glob(f"{kind}.v*.md.j2"), key=_number, default=None)


def _number(path: Path) -> int:
    return int(path.name.split(".")[1][1:])


def shipped_folders() -> tuple[str, ...]:
    """Names of the folders of `evals/prompts`."""
    return tuple(sorted(path.name for path in OTHERS.iterdir() if path.is_dir() and any(path.glob("*.j2"))))


def _versions_up_to(word: str, kind: str | None, number: int) -> dict[str, tuple[str, ...]]:
    """Each question's template by its greatest version up to `number`, with whatever that one includes."""
    if kind is not None and kind not in PROMPTS:
        raise UserError(f"--prompts: {word!r}: there is no question {kind!r}; known: {', '.join(PROMPTS)}")
    kinds = (kind,) if kind else tuple(PROMPTS)
    versions = {name: _up_to(name, number) for name in kinds}
    if not any(versions.values()):
        raise UserError(f"--prompts: {word!r}: there is no such version; give v1 or a later one")
    return {**PROMPTS, **{name: parts for name, parts in versions.items() if parts}}


def _up_to(kind: str, number: int) -> tuple[str, ...]:
    older = [path for path in TEMPLATES.glob(f"{kind}.v*.md.j2") if _number(path) <= number]
    return _parts(max(older, key=_number), TEMPLATES) if older else ()


def _parts(path: Path, folder: Path) -> tuple[str, ...]:
    """A contestant's template and what it includes, which lies in its folder or with those that ship."""
    included = re.findall(r'{% include "([^"]+\.j2)" %}', path.read_text(encoding="utf-8"))
    paths = (folder / name if (folder / name).is_file() else TEMPLATES / name for name in included)
    return (path.name.removesuffix(".j2"), *(name for file in paths for name in _parts(file, folder)))


# What other prompts would have asked at each decision point: a recording is played, and its planner is listened to.


class Point(Value):
    """Where a question was asked."""

    recording: str
    round: int
    kind: Kind
    attempt: int = 0
    """Of a repair, from 1."""

    @property
    def name(self) -> str:
        """A decision point's name for files and tables."""
        return f"{self.recording}-r{self.round:03d}-{self.kind}{self.attempt or ''}"


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One decision point: what each prompt asks there, and what an answer is checked by."""

    point: Point
    asks: dict[str, Ask]
    """By the name of the prompt."""
    checks: Checks


class _CapturedQuestion(Exception):
    """No error: it ends a question that nobody is to answer."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask.purpose)
        self.ask = ask


class _Ear:
    """A model that hears one question and answers nothing. A mailbox's questions bring their checks."""

    name = MAILBOX
    tools = False

    def ask(self, ask: Ask) -> Never:
        raise _CapturedQuestion(ask)

    def count(self, text: str) -> int:
        return estimate_tokens(text)


class ListeningPlanner:
    """Port `Planner`: answers as the recording does, and notes what other prompts would ask in its place."""

    def __init__(
        self, recording: str, inner: Planner, limits: Limits, prompts: Sequence[Prompt], *, task: Parts | None
    ) -> None:
        self.situations: list[Situation] = []
        self._recording, self._inner, self._limits, self._prompts, self._task = recording, inner, limits, prompts, task
        self._books = ShippedBooks()

    def propose(self, briefing: Briefing) -> Proposal:
        self._listen(briefing, "propose", lambda planner: planner.propose(briefing))
        return self._inner.propose(briefing)

    def write_baseline(
        self, briefing: Briefing, about: Hypothesis, edits: tuple[FileEdit, ...], evidence: str
    ) -> Draft:
        return self._inner.write_baseline(briefing, about, edits, evidence)

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
            except _CapturedQuestion as heard:
                asks[prompt.name] = heard.ask.shorten(self._limits.answer_tokens)
                checks = Checks.model_validate_json(heard.ask.checks)
        if asks:
            point = Point(recording=self._recording, round=briefing.round, kind=kind, attempt=attempt)
            self.situations.append(Situation(point=point, asks=asks, checks=checks))


class TaskReader(BriefedReader):
    """With the read-only files of the task that ships: a recording has no repository."""

    def __init__(self, briefing: Briefing, task: Parts) -> None:
        super().__init__(briefing)
        self._task = task

    @cached_property
    def _files(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        for folder in self._task:
            for path in folder.rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts:
                    with suppress(UnicodeDecodeError):
                        texts[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8")
        return {**texts, ".gitignore": "build/\n"}

    def paths(self, commit: str) -> tuple[str, ...]:
        return tuple(sorted({*self._files, *super().paths(commit)})) if commit == self._commit else ()

    def text(self, commit: str, path: str) -> str | None:
        text = super().text(commit, path)
        return self._files.get(path) if text is None and commit == self._commit else text


def situations(path: Path, prompts: Sequence[Prompt]) -> tuple[Situation, ...]:
    """Every decision point of a recording, in order. Raises UserError for a folder that cannot be played."""
    folder = Folder(path)
    request, tape, lines = folder.request(), Tape(folder.file(TAPE), mode="replay"), folder.lines()
    answering = {name: tape_port(name, None, tape) for name in PROTOCOLS}
    planner = ListeningPlanner(
        folder.name, answering["planner"], request.limits, prompts, task=task_of(request.contract)
    )
    git = ToldWorkspace(play_tape(Tape(folder.file(WORKSPACE), mode="replay")))
    with tempfile.TemporaryDirectory(prefix="ridgeline-asking-") as scratch:
        ledger = Path(scratch) / LEDGER
        perform(request, wire_recorded({**answering, "planner": planner}, git, lines, ledger), ledger)
    return tuple(planner.situations)


# Answers that were given to decision points: kept in one file, taken up from pages that somebody answered by hand.

FILE = "answers.jsonl"
REQUESTS = "requests"
MARK = "<!-- question "
"""Ends a page, before the question's sha256: an answer belongs to the page that was read, not to that of today."""


class RecordedAnswer(Value):
    """One answer."""

    point: Point
    prompt: str
    """Name of the wording that asked."""
    model: str
    question: str
    """sha256 of the question: another one today means that the prompt, or what it is given, has changed since."""
    text: str
    tokens: int
    dollars: float | None = None
    """None where the price is unknown."""
    seconds: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.prompt, self.model, self.point.name)


class Answers:
    """`answers.jsonl` of a folder: one line an answer; the last of a key counts."""

    def __init__(self, folder: Path) -> None:
        """Raises UserError for a line that is no answer."""
        self.folder = folder
        self._path = folder / FILE
        self._by_key: dict[tuple[str, str, str], RecordedAnswer] = {}
        for number, line in enumerate(self._lines(), start=1):
            try:
                answer = RecordedAnswer.model_validate_json(line)
            except ValidationError as error:
                where = ".".join(map(str, error.errors()[0]["loc"])) or "the line"
                why = error.errors()[0]["msg"]
                raise UserError(
                    f"{self._path}: line {number}: {where}: {why}; restore it, or remove the line"
                ) from error
            self._by_key[answer.key] = answer

    def find(self, prompt: str, model: str, point: Point) -> RecordedAnswer | None:
        """A contestant's answer at a decision point; None where nobody answered yet."""
        return self._by_key.get((prompt, model, point.name))

    @property
    def models(self) -> tuple[str, ...]:
        """Names of all contestants who answered."""
        return tuple(dict.fromkeys(answer.model for answer in self._by_key.values()))

    @property
    def prompts(self) -> tuple[str, ...]:
        """Names of all wordings that were answered."""
        return tuple(dict.fromkeys(answer.prompt for answer in self._by_key.values()))

    def add(self, answers: Iterable[RecordedAnswer]) -> int:
        """Writes new answers of models to the contest's file, on the disk before it returns; how many were new."""
        new = [answer for answer in answers if self._by_key.get(answer.key) != answer]
        if new:
            self.folder.mkdir(parents=True, exist_ok=True)
            append_whole(self._path, b"".join(answer.model_dump_json().encode() + b"\n" for answer in new))
            self._by_key.update({answer.key: answer for answer in new})
        return len(new)

    def _lines(self) -> Sequence[bytes]:
        return self._path.read_bytes().splitlines() if self._path.is_file() else ()


def page_of(answers: Answers, prompt: str, situation: Situation) -> Path:
    """Where the page of a question lies; its answer belongs beside it, as `NAME.answer.md`."""
    return answers.folder / REQUESTS / prompt / f"{situation.point.name}.request.md"


def write_request(answers: Answers, prompt: str, situation: Situation) -> Path:
    """The page of a question, for somebody who knows nothing else."""
    path, ask = page_of(answers, prompt, situation), situation.asks[prompt]
    path.parent.mkdir(parents=True, exist_ok=True)
    question = "\n\n".join(message.text for message in ask.messages)
    form = "one JSON object" if ask.answer_schema else "your answer as plain text"
    head = f"Write {form}, and nothing else, into `{path.name.replace('.request.', '.answer.')}` beside this page."
    path.write_text(f"# {situation.point.name}\n\n{head}\n\n{question}\n\n{MARK}{ask.digest} -->\n", encoding="utf-8")
    return path


def taken_up(
    answers: Answers, prompt: str, situations: Iterable[Situation], *, model: str
) -> tuple[RecordedAnswer, ...]:
    """A contestant's answers that lie beside the pages of this prompt. An empty file is no answer yet."""
    answers_read: list[RecordedAnswer] = []
    for situation in situations:
        path = page_of(answers, prompt, situation)
        answer = path.with_name(path.name.replace(".request.", ".answer."))
        if prompt in situation.asks and answer.is_file() and (text := answer.read_text(encoding="utf-8").strip()):
            ask = situation.asks[prompt]
            record = RecordedAnswer(
                point=situation.point,
                prompt=prompt,
                model=model,
                question=_question_of(path),
                text=text,
                tokens=_tokens(ask, text),
            )
            answers_read.append(record)
    return tuple(answers_read)


def _question_of(page: Path) -> str:
    """The digest of a decision point's question that stands in a page; empty where the page is gone."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return text.rpartition(MARK)[2][:64] if MARK in text else ""


def _tokens(ask: Ask, text: str) -> int:
    """Tokens of a contestant's answer by size: whoever answered by hand counted nothing."""
    return sum(estimate_tokens(message.text) for message in ask.messages) + estimate_tokens(text)


KINDS = ("propose", "draft", "repair")


@dataclass(frozen=True, kw_only=True)
class DecisionPoint:
    """One decision point, with what was known of it later."""

    situation: Situation
    decision: Decision

    @property
    def point(self) -> Point:
        return self.situation.point


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One wording, answered by one model."""

    prompt: str
    model: str

    def __str__(self) -> str:
        return f"{self.prompt} by {self.model}"


@dataclass(frozen=True, kw_only=True)
class ContestantScores:
    """A contestant at every point that it answered."""

    contestant: Contestant
    scores: Mapping[Point, Score]
    unanswered: tuple[Point, ...]
    stale: int
    """Answers to a question that this wording would put otherwise today."""
    answers: Mapping[Point, RecordedAnswer]

    def of(self, kind: str) -> Summary | None:
        """All scores of one kind of decision; None without any."""
        scores = [score for point, score in self.scores.items() if point.kind == kind]
        return summary(scores) if scores else None


def gather_points(
    recordings: Sequence[Path], prompts: Sequence[Prompt], kinds: Sequence[str]
) -> tuple[DecisionPoint, ...]:
    """The decision points of these kinds. Raises UserError for what is no recording."""
    points: list[DecisionPoint] = []
    for path in recordings:
        decision_by_place = {(entry.round, entry.kind, entry.attempt): entry for entry in decisions(path)}
        for situation in situations(path, prompts):
            point = situation.point
            decision = decision_by_place.get((point.round, point.kind, 1)) or decision_by_place.get(
                (point.round, "propose", 1)
            )
            if point.kind in kinds and decision is not None:
                points.append(
                    DecisionPoint(situation=situation, decision=decision.model_copy(update={"kind": point.kind}))
                )
    return tuple(points)


def repeat_points(points: Sequence[DecisionPoint], times: int) -> tuple[DecisionPoint, ...]:
    """The same decision points so many times over, each under a recording of its own: for measuring what scoring takes."""
    return tuple(_rename_recording(point, number) if number else point for number in range(times) for point in points)


def _rename_recording(request: DecisionPoint, number: int) -> DecisionPoint:
    point = request.point.model_copy(update={"recording": f"{request.point.recording}+{number}"})
    return replace(request, situation=replace(request.situation, point=point))


def score_contestant(
    points: Sequence[DecisionPoint], contestant: Contestant, answers: Answers, *, line: Line, try_here: bool = False
) -> ContestantScores:
    """Every answer of a contestant that is kept, by what was known later; `try_here`: built and tested too."""
    scores: dict[Point, Score] = {}
    answer_at: dict[Point, RecordedAnswer] = {}
    missing: list[Point] = []
    stale = 0
    for case in points:
        ask = case.situation.asks.get(contestant.prompt)
        if ask is None:
            continue
        answer = answers.find(contestant.prompt, contestant.model, case.point)
        if answer is None:
            missing.append(case.point)
            continue
        stale += answer.question != ask.digest
        checks = case.situation.checks
        result = score(case.decision, answer.text, tokens=answer.tokens, line=line, checks=checks)
        if try_here and result.applies:
            ran = try_answer(case.decision, answer.text, checks)
            result = result.model_copy(update={"compiles": ran.compiles, "correct": ran.correct})
        scores[case.point] = result
        answer_at[case.point] = answer
    return ContestantScores(
        contestant=contestant, scores=scores, unanswered=tuple(missing), stale=stale, answers=answer_at
    )


def compare_scores(
    reference: ContestantScores, contender: ContestantScores, kinds: Sequence[str] = KINDS
) -> tuple[ContestantComparison, ...]:
    """Contestants at the decision points that both answered, one comparison a kind of question."""
    names = str(reference.contestant), str(contender.contestant)
    both = [point for point in reference.scores if point in contender.scores]
    comparisons: list[ContestantComparison] = []
    for kind in kinds:
        pairs = {
            (point.recording, point.name): (reference.scores[point], contender.scores[point])
            for point in both
            if point.kind == kind
        }
        if comparison := compare(*names, kind, pairs):
            comparisons.append(comparison)
    return tuple(comparisons)


# Builds drafted edits here where the campaign's task ships: tested on a processor, ahead of time for a GPU.

AT = "2026-01-01T00:00:00Z"
"""Commits of a trial carry no real time, so that the same edits are the same commit."""

TARGET = "sm_90"
COMPILE_S = 120.0


class EditTrial(Value):
    """What became of edits. None: not tried, because it cannot be here."""

    compiles: bool | None = None
    correct: bool | None = None
    detail: str = ""


def try_answer(decision: Decision, answer: str, checks: Checks) -> EditTrial:
    """Apply a contestant's edits to the version it was asked about, build it, test it. Candidate code runs confined."""
    task = task_of(decision.contract)
    if task is None or decision.kind == "propose":
        return EditTrial(detail="" if task else "the task does not ship")
    texts = dict(checks.texts) if checks.texts else dict(decision.sources)
    application = apply_answer(answer, texts, decision.contract)
    if isinstance(application, Wrong):
        return EditTrial(detail=application.why)
    changed = {**texts, **{edit.path: edit.text for edit in application.edits if edit.text is not None}}
    return _run(task, json.dumps(changed, sort_keys=True))


@lru_cache(maxsize=512)
def _run(task: Parts, files: str) -> EditTrial:
    """Build and test a contestant's answer; the same version is built once, whoever drafted it."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-try-") as scratch:
        return _verdict(Path(scratch), task, json.loads(files))


def _verdict(scratch: Path, task: Parts, files: Mapping[str, str]) -> EditTrial:
    repository = compose(task[0].name, task, scratch / "task")
    contract = load(repository).contract
    if contract.target_gpu != "cpu":
        return _ahead(repository, files)
    workspace = GitWorkspace(
        repo_root=repository,
        contract_dir=PurePosixPath("."),
        campaign_dir=scratch / "campaign",
        contract=contract,
        artifacts=ArtifactStore(scratch / "campaign"),
    )
    base = workspace.open("none")
    edits = tuple(FileEdit(path=path, text=text) for path, text in files.items())
    applied = workspace.apply(round=2, parent=base.commit, edits=edits, at=AT)
    if not isinstance(applied, CandidateCommit):
        return EditTrial(compiles=False, correct=False, detail=str(applied))
    commands = Commands(contract=contract, trees=Trees(workspace), judge=judge_of(contract))
    builder = ContractBuilder(commands)
    built = builder.build(applied.commit)
    if not built.ok:
        return EditTrial(compiles=False, correct=False, detail=built.exit.output if built.exit else "")
    tested = ContractChecker(commands, builder).check(applied.commit, purpose="try")
    return EditTrial(compiles=True, correct=tested.passed, detail=tested.detail)


def _ahead(folder: Path, files: Mapping[str, str]) -> EditTrial:
    """A contestant's answer compiled ahead of time for `TARGET` as the task's own call launches it; no card tests it."""
    if find_spec("triton") is None:
        return EditTrial(detail="its task needs a GPU, and there is no Triton here to compile it ahead of time")
    for path, text in files.items():
        (folder / path).write_text(text, encoding="utf-8")
    calls = {target["call"] for target in tomllib.loads((folder / "isa.toml").read_text(encoding="utf-8")).values()}
    try:
        for call in sorted(calls):
            request = InspectionRequest(file=folder / "kernel.py", call=call, target=TARGET, timeout=COMPILE_S)
            for kernel in inspect_kernels(request):
                for refusal in kernel.refused:
                    return EditTrial(compiles=False, detail=refusal.why)
    except NotCompiled as error:
        return EditTrial(compiles=False, detail=str(error))
    except (UserError, CompilerMissing) as error:
        return EditTrial(detail=f"could not be compiled ahead of time: {error}")
    return EditTrial(compiles=True, detail=f"compiled for {TARGET}; its task needs a GPU")
