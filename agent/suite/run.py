"""Takes every problem of a folder through every arm: makes it a task, runs a campaign or judges an answer, notes the row.

Each attempt is a command of its own (`ridgeline run`, `resume` or `judge candidate`), so that none outlives its budget and
a suite that was killed goes on where it was: rows are lines of a file, campaigns resume.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from ridgeline.agent.attempts import (
    WAITING_CODES,
    Command,
    Ended,
    append_row,
    end_commands,
    list_run_options,
    read_object,
    read_rows,
    run_command,
)
from ridgeline.agent.campaign.approvals import find_open_page
from ridgeline.agent.campaign.folders import WORKSPACE
from ridgeline.agent.console import Progress, silent
from ridgeline.agent.errors import UserError
from ridgeline.agent.formats.reading import Source, list_sources, open_problem_of
from ridgeline.agent.providers.choice import RECORDED
from ridgeline.agent.scaffold.contract import compose
from ridgeline.agent.scaffold.pytorch import Request as TaskRequest
from ridgeline.agent.scaffold.pytorch import write
from ridgeline.agent.suite.table import FINAL, Row, Table, render_sides, summarize_rows
from ridgeline.graph.errors import RidgelineError
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.gate import share_cards
from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.store.json_file import read_model

SETTINGS_FILE = "suite.json"
TASKS, REPOSITORIES, CAMPAIGNS, TIMES = "tasks", "repositories", "campaigns", "times"
"""A campaign lies in its repository, so that a copied suite goes on in the copy; `campaigns` of suites begun before that."""
ANSWERS = "answers"
"""Name of an arm's setting: the folder with its answers."""
SLACK_S = 600.0
"""Beyond its minutes an attempt may validate, report and end; then it is ended."""
BAD_INPUT = 2
"""Exit code of a command whose input is what is wrong: it would be so again."""
INTERRUPTED = (129, 130, 143)
"""Exit codes of a command that SIGHUP, Ctrl-C or SIGTERM ended."""
POLL_S = 1.0
"""An interruption is heard so soon."""


class Arm(Value):
    """An agent, or a folder of answers."""

    name: str
    settings: dict[str, str] = {}

    @property
    def answers(self) -> Path | None:
        """The folder of answers of a suite's arm; None for an agent."""
        return Path(self.settings[ANSWERS]) if ANSWERS in self.settings else None

    @property
    def recorded(self) -> Path | None:
        """The folder with recorded answers of each problem that an agent of a suite gives again; None for others."""
        model = self.settings.get("model", "")
        return Path(model.removeprefix(RECORDED)) if model.startswith(RECORDED) else None

    @property
    def anywhere(self) -> "Arm":
        """A suite's arm with the name of its folder in place of where that lies."""
        if self.answers:
            return self.model_copy(update={"settings": {**self.settings, ANSWERS: self.answers.name}})
        if self.recorded:
            return self.model_copy(update={"settings": {**self.settings, "model": f"{RECORDED}{self.recorded.name}"}})
        return self


class SuiteSettings(Value):
    """What makes two runs the same suite. Folders may lie elsewhere, under their names: a suite is copied between machines."""

    source: str
    arms: tuple[Arm, ...]
    processor: bool = False
    minutes_each: float | None = None
    """For one attempt of a campaign; None: until it ends by itself."""
    max_rounds: int | None = None

    @property
    def anywhere(self) -> "SuiteSettings":
        """A suite's settings with the names of folders in place of where they lie."""
        return self.model_copy(
            update={"source": Path(self.source).name, "arms": tuple(arm.anywhere for arm in self.arms)}
        )


@dataclass(kw_only=True)
class Suite:
    """A suite in its folder. Raises UserError for settings that are not those the folder was begun with."""

    folder: Path
    settings: SuiteSettings
    progress: Progress = silent
    command: Command = run_command
    clock: Callable[[], float] = time.monotonic
    only: str = ""
    """Problems whose name holds this text; all for none."""
    baselines: tuple[str, ...] = ()
    """Beside whom each champion is timed when its campaign has ended: eager, compile, max_autotune, start, rival."""
    rivals: Path | None = None
    """Folder with somebody's kernel for each problem, in a folder of its name."""
    rival_name: str = ""
    rival_source: str = ""
    beside: int = 1
    """Attempts at a time: as many campaigns as there are cards, each on idle ones of its own where there are as many."""
    share: Callable[[int], Sequence[Mapping[str, str]]] = share_cards
    rows: list[Row] = field(default_factory=list)
    _attempts: list[Future[None]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _shares: list[Mapping[str, str]] = field(default_factory=list)
    """Environments with cards of their own that no attempt has now."""

    def __post_init__(self) -> None:
        sources = list_sources(Path(self.settings.source))
        self.sources = [source for source in sources if self.only in source.name]
        if not self.sources:
            raise UserError(f"--only: no problem of {self.settings.source} has {self.only!r} in its name")
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / SETTINGS_FILE
        if path.exists() and read_model(path, SuiteSettings).anywhere != self.settings.anywhere:
            raise UserError(f"{path}: this suite was begun with other settings; give the same again, or another --out")
        self.rows += read_rows(self.folder, Row)
        if unknown := sorted({row.problem for row in self.rows} - {source.name for source in sources}):
            raise UserError(
                f"{self.settings.source}: has no {unknown[0]}, which {path.parent} began with; give the same problems"
            )
        write_whole(path, self.settings.model_dump_json(indent=1).encode() + b"\n")

    def run(self, max_minutes: float | None = None) -> Table:
        """Take every attempt of the suite that is not at its end and that the budget allows; then the table."""
        until = self.clock() + 60 * max_minutes if max_minutes is not None else None
        self._shares = [*self.share(self.beside)] if self.beside > 1 else []
        with ThreadPoolExecutor(self.beside, thread_name_prefix="attempt") as threads:
            try:
                for number, source in enumerate(self.sources, 1):
                    waiting = [arm for arm in self._order(number) if not self._is_ended(source, arm)]
                    if not waiting:
                        continue
                    self._wait_for_room()
                    if (
                        until is not None
                        and self.clock() + 60 * (self.settings.minutes_each or 0) * len(waiting) > until
                    ):
                        self.progress.tell(
                            f"{source.name}: left for another run: the budget does not reach for every arm"
                        )
                        break
                    self._begin(number, source, waiting, threads)
                self._wait_for_room(0)
            except BaseException:
                end_commands()
                raise
        return self.table()

    def _begin(self, number: int, source: Source, waiting: Sequence[Arm], threads: ThreadPoolExecutor) -> None:
        """Make a suite's problem a task, and hand its attempts to threads."""
        try:
            task = self._prepare(source)
        except (RidgelineError, UserError) as error:
            for arm in waiting:
                self._note(Row(problem=source.name, arm=arm.name, result="refused", detail=_first_line(str(error))))
            return
        for arm in waiting:
            if self.beside == 1:
                self._attempt(number, source, arm, task)
                continue
            self._wait_for_room()
            self._attempts.append(threads.submit(self._attempt, number, source, arm, task))

    def _wait_for_room(self, most: int | None = None) -> None:
        """Until fewer attempts of the suite than may be are under way, or none of `most` 0. Raises what one raised."""
        room = self.beside - 1 if most is None else most
        while sum(not attempt.done() for attempt in self._attempts) > room:
            wait(self._attempts, return_when=FIRST_COMPLETED, timeout=POLL_S)
            self._forget_done()
        self._forget_done()

    def _forget_done(self) -> None:
        for attempt in [each for each in self._attempts if each.done()]:
            self._attempts.remove(attempt)
            attempt.result()

    def _attempt(self, number: int, source: Source, arm: Arm, task: Path) -> None:
        """One attempt of a suite, from its first word to its row."""
        self.progress.tell(f"[{number}/{len(self.sources)}] {source.name}, {arm.name}")
        row = self._find_final(source, arm)
        if row is None:
            began = self.clock()
            row = self._judge(source, arm, task) if arm.answers else self._campaign(source, arm, task)
            row = row.model_copy(update={"seconds": self.clock() - began})
            self._note(row)
        if waits := self._list_untimed(row, arm):
            began = self.clock()
            row = self._time(source, arm, task, row, waits)
            self._note(row.model_copy(update={"seconds": self.clock() - began}))

    def table(self) -> Table:
        """What is known of the suite so far."""
        names = {source.name for source in self.sources}
        arms = [arm.name for arm in self.settings.arms]
        rows = [self._with_open_page(row) for row in self.rows if row.problem in names]
        return summarize_rows(rows, arms, attempts=len(names) * len(arms))

    def _with_open_page(self, row: Row) -> Row:
        """A suite's row that waits, with the page that waits now: the one it had may be answered since."""
        known = self.folder / row.page
        if row.result != "waiting" or not row.page or not known.is_file():
            return row
        page = find_open_page(known.parents[1])
        if page is None:
            return row.model_copy(update={"page": "", "detail": "answered: the same command goes on"})
        return row.model_copy(update={"page": str(Path(page).resolve().relative_to(self.folder.resolve()))})

    def _order(self, number: int) -> tuple[Arm, ...]:
        """The suite's arms take turns at being first: what warms up or wears out meets each of them."""
        arms = self.settings.arms
        start = number % len(arms)
        return (*arms[start:], *arms[:start])

    def _is_ended(self, source: Source, arm: Arm) -> bool:
        row = self._find_final(source, arm)
        return row is not None and not self._list_untimed(row, arm)

    def _find_final(self, source: Source, arm: Arm) -> Row | None:
        """The suite's last row of an attempt that is at its end; None while it is not."""
        mine = (row for row in reversed(self.rows) if row.problem == source.name and row.arm == arm.name)
        return next((row for row in mine if row.result in FINAL), None)

    def _list_untimed(self, row: Row, arm: Arm) -> tuple[str, ...]:
        """Beside whom the champion of a suite's campaign is still to be timed; a judged answer has no champion."""
        if row.result != "faster" or arm.answers:
            return ()
        return tuple(
            name
            for name in self.baselines
            if name not in row.asked and (name != "rival" or find_folder(self.rivals, row.problem) is not None)
        )

    def _time(self, source: Source, arm: Arm, task: Path, row: Row, names: Sequence[str]) -> Row:
        """The row with what the champion of a suite's campaign is beside others, all timed in one run where it was not cut."""
        keep = self.folder / TIMES / arm.name / f"{source.name}.json"
        keep.parent.mkdir(parents=True, exist_ok=True)
        champion = self._place_campaign(source, arm)
        words = ["judge", "baselines", str(task / "task.yaml"), "--candidate", str(champion.resolve())]
        words += ["--only", ",".join(names), "--keep", str(keep), "--json"]
        rival = find_folder(self.rivals, source.name) if "rival" in names else None
        if rival is not None:
            words += ["--rival", str(rival), "--rival-name", self.rival_name, "--rival-source", self.rival_source]
        ended = self._run_command(source, arm, words, None)
        return read_times(row, ended, names)

    def _note(self, row: Row) -> None:
        with self._lock:
            append_row(self.folder, row)
            self.rows.append(row)
        gain = f" {row.speedup:.3f}x" if row.speedup and row.result == "faster" else ""
        detail = str(self.folder / row.page) if row.page else row.detail or render_sides(row)
        self.progress.tell(f"{row.problem}, {row.arm}: {row.result}{gain}{f': {detail}' if detail else ''}")

    def _prepare(self, source: Source) -> Path:
        """A suite's problem as a task: a repository with one commit. Raises RidgelineError for one that cannot be a task."""
        task = self.folder / TASKS / source.name
        if (task / ".git").is_dir():
            return task
        task.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="new-", dir=task.parent) as place:
            made = Path(place) / "task"
            if source.format is None:
                compose(source.path.parent.name, (source.path.parent,), made)
            else:
                problem, file = open_problem_of(source)
                drafted = Path(place) / "draft"
                request = TaskRequest(processor=self.settings.processor, progress=self.progress)
                written = write(drafted, problem, request, file=file)
                if written.wrong:
                    raise UserError(f"a wrong kernel may be called right there: {written.wrong[0]}")
                compose(source.name, (drafted,), made)
            made.rename(task)
        return task

    def _run_settings(self, source: Source, arm: Arm) -> dict[str, str]:
        """Settings of a suite's campaign: the arm's own win over those of the suite; recorded answers are those of the problem."""
        words: dict[str, str] = {}
        if self.settings.max_rounds is not None:
            words["max_rounds"] = str(self.settings.max_rounds)
        if self.settings.minutes_each is not None:
            words["max_minutes"] = f"{self.settings.minutes_each:g}"
        recorded = {"model": f"{RECORDED}{find_folder(arm.recorded, source.name)}"} if arm.recorded else {}
        return {**words, **arm.settings, **recorded}

    def _copy_of(self, task: Path, arm: Arm, source: Source) -> Path:
        """A suite's arm has its own repository: campaigns commit on a branch of the same name."""
        repository = self.folder / REPOSITORIES / arm.name / source.name
        if not repository.exists():
            repository.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="new-", dir=repository.parent) as place:
                shutil.copytree(task, Path(place) / "task", symlinks=True).rename(repository)
        return repository

    def _judge(self, source: Source, arm: Arm, task: Path) -> Row:
        """A suite's given answer, judged against the task's own version."""
        row = Row(problem=source.name, arm=arm.name, result="missing")
        answer = find_answer(arm.answers or Path(), source.name)
        if answer is None:
            return row.model_copy(update={"detail": f"no {source.name}.py, .json or folder in {arm.answers}"})
        words = ["judge", "candidate", str(task / "task.yaml"), "--candidate", str(answer), "--json"]
        return read_judgment(row, self._run_command(source, arm, words, None))

    def _run_command(self, source: Source, arm: Arm, words: Sequence[str], limit_s: float | None) -> Ended:
        """A command of a suite's attempt; of several at once, each line says whose it is."""
        if self.beside == 1:
            return self.command(words, limit_s)
        with self._lock:
            share = self._shares.pop() if self._shares else None
        try:
            return self.command(words, limit_s, name=f"{source.name}, {arm.name}", environment=share)
        finally:
            if share is not None:
                with self._lock:
                    self._shares.append(share)

    def _place_campaign(self, source: Source, arm: Arm) -> Path:
        """Where the campaign of a suite's attempt lies, or will."""
        earlier = self.folder / CAMPAIGNS / arm.name / source.name
        if earlier.exists():
            return earlier
        return self.folder / REPOSITORIES / arm.name / source.name / WORKSPACE / source.name.rpartition("/")[2]

    def _campaign(self, source: Source, arm: Arm, task: Path) -> Row:
        """A suite's campaign on the task, gone on with where it was stopped."""
        if arm.recorded and find_folder(arm.recorded, source.name) is None:
            where = arm.recorded / source.name.rpartition("/")[2]
            why = f"no folder {where}; recorded answers lie in a folder of the problem's name"
            return Row(problem=source.name, arm=arm.name, result="missing", detail=why)
        repository = self._copy_of(task, arm, source)
        campaign = self._place_campaign(source, arm)
        campaign.parent.mkdir(parents=True, exist_ok=True)
        minutes = self.settings.minutes_each
        words = ["resume", str(campaign.resolve())]
        if not campaign.exists():
            words = [
                "run",
                str(repository),
                "--dir",
                str(campaign.resolve()),
                *list_run_options(self._run_settings(source, arm)),
            ]
        limit_s = None if minutes is None else 60 * minutes + SLACK_S
        row = Row(problem=source.name, arm=arm.name, result="failed", detail=str(campaign))
        row = read_outcome(row, self._run_command(source, arm, [*words, "--json"], limit_s))
        page = str(Path(row.page).relative_to(self.folder.resolve())) if row.page else ""
        return row.model_copy(update={"page": page})


def find_answer(folder: Path, name: str) -> Path | None:
    """The answer to a suite's problem: a file or folder of its name, with or without the folders of that name."""
    for stem in (name, name.rpartition("/")[2]):
        for path in (folder / f"{stem}.py", folder / f"{stem}.json", folder / stem):
            if path.exists():
                return path
    return None


def find_folder(folder: Path | None, name: str) -> Path | None:
    """What lies there for a suite's problem: a folder of its name, with or without the folders of that name."""
    places = (folder / name, folder / name.rpartition("/")[2]) if folder else ()
    return next((place for place in places if place.is_dir()), None)


def read_outcome(row: Row, ended: Ended) -> Row:
    """The suite's row of a campaign, from what its command printed. Raises KeyboardInterrupt where it was interrupted."""
    if ended.code in INTERRUPTED:
        raise KeyboardInterrupt
    fields = read_object(ended.output)
    if ended.code in WAITING_CODES:
        why = _first_line(str(fields.get("problem") or ""))
        return row.model_copy(update={"result": "waiting", "detail": why, "page": fields.get("request") or ""})
    if fields.get("status") != "concluded":
        why = fields.get("error") or f"status {fields.get('status', 'unknown')}, exit code {ended.code}"
        return row.model_copy(update={"result": "failed", "detail": _first_line(str(why))})
    speedup, lower = fields.get("speedup"), fields.get("speedup_lower")
    if speedup is None or lower is None or lower <= 1:
        return row.model_copy(update={"result": "not_faster"})
    return row.model_copy(update={"result": "faster", "speedup": speedup, "speedup_lower": lower})


def read_times(row: Row, ended: Ended, names: Sequence[str]) -> Row:
    """The suite's row with what `judge baselines` printed. Raises KeyboardInterrupt where it was interrupted.

    A command that failed is tried again; whom it could not time, and said why, is not, nor what can never be timed so.
    """
    if ended.code in INTERRUPTED:
        raise KeyboardInterrupt
    fields = read_object(ended.output)
    asked = tuple(dict.fromkeys((*row.asked, *names)))
    if "speedup" not in fields:
        why = fields.get("error") or f"exit code {ended.code}"
        detail = _first_line(f"not timed beside others: {why}")
        return row.model_copy(update={"detail": detail, "asked": asked if ended.code == BAD_INPUT else row.asked})
    update = {"asked": asked, "over": fields["speedup"], "over_lower": fields["lower"], "detail": ""}
    update["undecided"] = tuple(fields.get("undecided", ()))
    return row.model_copy(update=update)


def read_judgment(row: Row, ended: Ended) -> Row:
    """The suite's row of an answer, from what the judge printed. Raises KeyboardInterrupt where it was interrupted."""
    if ended.code in INTERRUPTED:
        raise KeyboardInterrupt
    fields = read_object(ended.output)
    if "correct" not in fields:
        is_input = ended.code == BAD_INPUT
        why = fields.get("error") or f"exit code {ended.code}"
        return row.model_copy(update={"result": "wrong" if is_input else "failed", "detail": _first_line(str(why))})
    correct, faster, own = (fields[name] for name in ("correct", "faster", "own_work"))
    if correct["answer"] != "yes":
        return row.model_copy(update={"result": "wrong", "detail": _first_and_last_line(_join(correct))})
    if not fields["accepted"]:
        why = own if faster["answer"] == "yes" else faster
        return row.model_copy(update={"result": "not_faster", "detail": _first_line(_join(why))})
    update = {"result": "faster", "speedup": fields["speedup"], "speedup_lower": fields["speedup_lower"], "detail": ""}
    return row.model_copy(update=update)


def _join(answer: Mapping[str, Any]) -> str:
    return "; ".join(answer.get("evidence") or [str(answer.get("answer"))])


def _first_and_last_line(text: str) -> str:
    """What ended a worker of a suite's answer stands last in what it printed."""
    lines = [line for line in text.splitlines() if line.strip()]
    return f"{_first_line(text)}; {_first_line(lines[-1])}" if len(lines) > 1 else _first_line(text)


def _first_line(text: str) -> str:
    return " ".join((text.splitlines() or [""])[0].split())[:300]
