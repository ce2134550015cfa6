"""Drives a fleet: begins campaigns as machines become free, notes what comes of each, begins again what was lost.

All that lasts lies in one folder: `fleet.json` (what was asked), `rows.jsonl` (a line per ended attempt), `campaigns/NAME`
(each campaign's own folder, whose ledger is the truth). A fleet that was killed is begun again with the same command:
ended campaigns are not touched, others go on from their ledgers. On several machines the folder lies on shared storage.
"""

import fcntl
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ridgeline.agent.attempts import WAITING_CODES, Ended, append_row, list_run_options, read_object, read_rows
from ridgeline.agent.campaign.folders import is_campaign
from ridgeline.agent.console import Progress, silent
from ridgeline.agent.errors import UserError
from ridgeline.agent.fleet.plan import (
    MOST_LOSSES,
    Attempt,
    Entry,
    FleetFile,
    Line,
    Needs,
    Node,
    Running,
    Standing,
    can_ever_run,
    choose_next,
    summarize_attempts,
)
from ridgeline.agent.fleet.ray_engine import AttemptLost
from ridgeline.graph.reports.text import times_at_least
from ridgeline.sandbox.isolation.directory_pool import discard_tree
from ridgeline.sandbox.store.campaign_folder import request_stop
from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.store.json_file import read_model

SETTINGS_FILE, RUNNING_FILE, LOCK_FILE = "fleet.json", "running.json", "fleet.lock"
CAMPAIGNS = "campaigns"
LOOK_S = 5.0
"""Between looks at the cluster while nothing ends."""
JOINING_S = 600.0
"""How long a fleet on which nothing runs waits for machines that join a cluster, or join it again."""


class Engine(Protocol):
    """Where attempts run."""

    def list_nodes(self) -> Sequence[Node]:
        """Machines of a fleet that are alive."""
        ...

    def begin(self, name: str, words: Sequence[str], needs: Needs) -> None:
        """Submit a fleet's `ridgeline` with these words."""
        ...

    def wait(self, seconds: float) -> Sequence[tuple[str, Ended | AttemptLost, str]]:
        """What of a fleet has ended within this time: campaign, outcome, machine."""
        ...


@dataclass(kw_only=True)
class Fleet:
    """A fleet in its folder. Raises UserError for another fleet's folder, and for contracts that are not there."""

    folder: Path
    file: FleetFile
    root: Path
    """Folder that contracts are relative to."""
    engine: Engine
    progress: Progress = silent
    clock: Callable[[], float] = time.monotonic
    look_s: float = LOOK_S
    joining_s: float = 0.0
    """How long to wait for machines while nothing runs; a cluster's come one by one, and come back."""
    attempts: list[Attempt] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        for entry in self.file.campaigns:
            if not (self.root / entry.contract).exists():
                raise UserError(f"campaigns: {entry.name}: contract: {self.root / entry.contract}: no such file")
        self.folder.mkdir(parents=True, exist_ok=True)
        path, text = self.folder / SETTINGS_FILE, self.file.model_dump_json(indent=1) + "\n"
        write_whole(path, text.encode())
        self.attempts += read_rows(self.folder, Attempt)
        self._began: dict[str, float] = {}
        self._passed: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._stopped = False
        self._idle_since: float | None = None

    def run(self) -> tuple[Line, ...]:
        """Drive the fleet until every campaign has ended, waits for somebody, or may not begin any more."""
        with _alone(self.folder):
            until = None if self.file.max_minutes is None else self.clock() + 60 * self.file.max_minutes
            waiting = [entry for entry in self.file.campaigns if not self._is_concluded(entry.name)]
            total, self._losses = len(waiting), {entry.name: 0 for entry in waiting}
            self._done = 0
            if not waiting:
                self.progress.tell("every campaign has concluded; nothing is left to do")
            while waiting or self.running:
                if until is not None and self.clock() > until and not self._stopped:
                    self._stop("the fleet's minutes are over")
                self._begin(waiting)
                if not self.running and not self._await_machines(waiting):
                    break
                for name, ended, node in self.engine.wait(self.look_s):
                    self._end(name, ended, node, waiting, total)
        return self.table()

    def table(self) -> tuple[Line, ...]:
        """What is known of the fleet so far."""
        return summarize_attempts(self.file, self.attempts, {item.entry.name: item.node for item in self.running})

    def _begin(self, waiting: list[Entry]) -> None:
        """Begin as many of the fleet's campaigns as fit now."""
        while waiting and not self._stopped and len(self.running) < self.file.max_parallel:
            choice = choose_next(
                waiting, self.running, self.engine.list_nodes(), seconds=self._group_seconds(), passed=self._passed
            )
            if choice is None:
                return
            entry, node = choice
            for other in waiting[: waiting.index(entry)]:
                self._passed[other.name] = self._passed.get(other.name, 0) + 1
            waiting.remove(entry)
            self._idle_since = None
            self.running.append(Running(entry=entry, node=node))
            self._began[entry.name] = self.clock()
            words = self._words(entry)
            self.progress.tell(f"{entry.name}: {'goes on' if words[0] == 'resume' else 'begins'}")
            self.engine.begin(entry.name, words, entry.needs)
            self._note_running()

    def _words(self, entry: Entry) -> list[str]:
        campaign = (self.folder / CAMPAIGNS / entry.name).resolve()
        if is_campaign(campaign):
            return ["resume", str(campaign), "--json"]
        discard_tree(campaign)  # of a start that was killed before it was on record
        campaign.parent.mkdir(parents=True, exist_ok=True)
        contract, options = str((self.root / entry.contract).resolve()), list_run_options(self.file.settings_of(entry))
        return ["run", contract, "--dir", str(campaign), *options, "--json"]

    def _end(self, name: str, ended: Ended | AttemptLost, node: str, waiting: list[Entry], total: int) -> None:
        item = next(item for item in self.running if item.entry.name == name)
        self.running.remove(item)
        self._note_running()
        seconds = self.clock() - self._began.pop(name)
        number = 1 + sum(attempt.name == name for attempt in self.attempts)
        attempt = read_attempt(Attempt(name=name, number=number, result="lost", node=node, seconds=seconds), ended)
        append_row(self.folder, attempt)
        self.attempts.append(attempt)
        self._seconds[item.entry.group] = self._seconds.get(item.entry.group, 0.0) + seconds
        gain = (
            ""
            if attempt.speedup is None
            else f" {attempt.speedup:.3f}x, at least {times_at_least(attempt.speedup_lower or 0)}"
        )
        if attempt.result == "lost":
            self._losses[name] += 1
            if self._losses[name] < MOST_LOSSES and not self._stopped:
                waiting.insert(0, item.entry)
        else:
            self._done += 1
        where = f" on {node}" if node else ""
        self.progress.tell(
            f"[{self._done}/{total}] {name}: {attempt.result}{gain}{where}{f': {attempt.detail}' if attempt.detail else ''}"
        )

    def _note_running(self) -> None:
        """For `ridgeline fleet table` beside this process."""
        hosts = {node.id: node.host or node.id for node in self.engine.list_nodes()} if self.running else {}
        write_whole(
            self.folder / RUNNING_FILE,
            json.dumps({item.entry.name: hosts.get(item.node, item.node) for item in self.running}).encode(),
        )

    def _stop(self, why: str) -> None:
        """Ask the fleet's running campaigns to conclude; begin nothing."""
        self._stopped = True
        self.progress.tell(f"{why}: {len(self.running)} running campaigns are asked to conclude")
        for item in self.running:
            with suppress(OSError):
                request_stop(self.folder / CAMPAIGNS / item.entry.name)

    def _group_seconds(self) -> dict[str, float]:
        seconds, now = dict(self._seconds), self.clock()
        for item in self.running:
            seconds[item.entry.group] = seconds.get(item.entry.group, 0.0) + now - self._began[item.entry.name]
        return seconds

    def _await_machines(self, waiting: Sequence[Entry]) -> bool:
        """Whether a machine may still join that one of the fleet's campaigns fits; tells of what is waited for, and of what is left."""
        now = self.clock()
        if self._idle_since is None:
            self._idle_since = now
            if self.joining_s and not self._stopped:
                self.progress.tell(
                    f"no machine of the cluster is free; waiting {self.joining_s / 60:g} minutes for one"
                )
        if not self._stopped and now - self._idle_since < self.joining_s:
            return True
        self._explain_left(waiting)
        return False

    def _is_concluded(self, name: str) -> bool:
        return any(attempt.name == name and attempt.result == "concluded" for attempt in self.attempts)

    def _explain_left(self, waiting: Sequence[Entry]) -> None:
        nodes = self.engine.list_nodes()
        for entry in waiting:
            if not can_ever_run(entry.needs, nodes):
                needs = entry.needs
                wants = f"{needs.cpus:g} processors, {needs.gpus:g} cards{f' of {needs.arch}' if needs.arch else ''}"
                self.progress.tell(f"{entry.name}: no machine of the cluster has {wants}; left")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the fleet's lock: one driver a fleet. Raises UserError where another one works on it."""
    with (folder / LOCK_FILE).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{folder}: another `ridgeline fleet` works on it; wait for it or end it") from None
        yield


def list_running(folder: Path) -> Mapping[str, str]:
    """Machine of each campaign that a driver has begun and that has not ended; none where no driver works on the fleet."""
    try:
        with _alone(folder):
            return {}
    except UserError:
        path = folder / RUNNING_FILE
        return read_object(path.read_text(encoding="utf-8")) if path.exists() else {}


def is_fleet(folder: Path) -> bool:
    """Whether a fleet was begun in the folder."""
    return (folder / SETTINGS_FILE).is_file()


def read_standing(folder: Path) -> Standing:
    """A fleet from its folder, whether a driver works on it or not. Raises UserError for another folder."""
    if not is_fleet(folder):
        raise UserError(f"{folder}: is no folder of a fleet; give the --out of `ridgeline fleet run`")
    file = read_model(folder / SETTINGS_FILE, FleetFile)
    lines = summarize_attempts(file, read_rows(folder, Attempt), list_running(folder))
    return Standing(lines=lines, max_parallel=file.max_parallel, budget_usd=file.budget_usd)


def read_attempt(blank: Attempt, ended: Ended | AttemptLost) -> Attempt:
    """What a fleet's campaign came to, from what its command printed."""
    if isinstance(ended, AttemptLost):
        return blank.model_copy(update={"detail": str(ended)})
    fields = read_object(ended.output)
    cost = fields.get("cost") or {}
    update = {name: fields[name] for name in ("rounds", "accepted", "speedup", "speedup_lower") if name in fields}
    update |= {"dollars": cost.get("dollars", 0.0), "command_seconds": ended.seconds}
    if ended.code in WAITING_CODES:
        update |= {"result": "waiting", "detail": str(fields.get("problem") or fields.get("request") or "")[:300]}
    elif fields.get("status") == "concluded":
        update |= {"result": "concluded"}
    elif ended.code < 0:
        update |= {"detail": f"ended by signal {-ended.code}"}
    else:
        update |= {"result": "failed", "detail": str(fields.get("error") or f"exit code {ended.code}")[:300]}
    return Attempt.model_validate({**blank.model_dump(), **update})
