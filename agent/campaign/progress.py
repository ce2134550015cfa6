"""How a campaign stands when `run` or `resume` returns: the one JSON object those commands print."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import Field

from ridgeline.agent.campaign.approvals import find_open_page, question_of
from ridgeline.agent.campaign.folders import LEDGER, is_at_work, link, name_process, read_status
from ridgeline.agent.campaign.notify import find_hook
from ridgeline.agent.console import defuse, note
from ridgeline.graph.errors import DiskFull
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import (
    BaselineClosed,
    Body,
    Calibrated,
    Concluded,
    Opened,
    Restarted,
    Reviewed,
    Rooflined,
    RoundClosed,
    Steered,
)
from ridgeline.graph.reports.machine import seen_noise
from ridgeline.graph.reports.readme import describe_steering
from ridgeline.graph.reports.result import accepted_line, best_in_short, notice
from ridgeline.graph.rules.cost import elapsed_minutes
from ridgeline.graph.rules.history import fold_ledger, steer_opened
from ridgeline.graph.rules.result import Result, compute_result
from ridgeline.graph.standing import History
from ridgeline.graph.state import State, writes_first_kernel
from ridgeline.graph.trial import Drafted, Judged, find, find_proposal
from ridgeline.graph.values import Cost, Value, is_empty
from ridgeline.sandbox.store.campaign_folder import WorkClock
from ridgeline.sandbox.store.durable import overwrite
from ridgeline.sandbox.store.ledger import JsonlLedger, verify

Status = Literal["running", "stopped", "concluded", "waiting", "decided", "interrupted", "no_device"]
"""decided: a person answered what it waited for, and nobody has resumed it."""


class Resolution(Value):
    """What the campaign's measurements can tell apart."""

    sigma: float
    """Standard deviation of one process pair of identical versions, as a share."""
    visible_gain: float
    """Smallest gain, as a share, that is kept nine times in ten."""
    pairs: int
    engine: str
    alarms: int
    """How often the noise was found changed, and measured again."""


class Outcome(Value):
    """Everything about the gain is of `result`, from the final test alone."""

    campaign: str
    dir: str
    """Campaign directory, absolute."""
    status: Status
    stop_reason: str
    """Empty while the campaign has not concluded."""
    rounds: int
    """Closed rounds after the baseline."""
    accepted: int
    rolled_back: int
    metric: str
    speedup: float | None
    """Time of the original / time of the best version, from the final test; None when there was none."""
    speedup_lower: float | None
    """Lower confidence bound of `speedup`."""
    best_commit: str | None
    branch: str
    cost: Cost
    result: Result | None
    """What was kept, how sure that is, what is not settled, and how to merge it; None before the first event."""
    report: str
    """Path of the final report."""
    noise: Resolution | None
    """None where identical versions were not timed against each other."""
    preset: str
    planner: str
    request: str | None = None
    """The open request that a waiting campaign wants answered."""
    problem: str = ""
    """Why a campaign without an idle device could not go on."""
    unsourced: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Hardware numbers in the files of a concluded campaign that have no source, each with its place: preset `router`."""


# What a running campaign tells whoever watches it. No decision reads it.


class Progress(Protocol):
    """Called by the campaign runner, in order, from one thread; must not raise and must not block."""

    def phase(self, name: str, round: int, detail: str = "") -> None:
        """Show that a phase of the loop began, for example `("measure", 4, "unroll the inner loop")`."""
        ...

    def show_closed(self, body: Body) -> None:
        """Show a line that reached the campaign's ledger. The first is always `Opened`."""
        ...

    def show_outcome(self, outcome: Outcome) -> None:
        """Show how the campaign ended before the command returns; called once, also after an interruption."""
        ...

    def close(self) -> None:
        """Give back the terminal that shows a campaign's progress; may be called twice."""
        ...


class SilentProgress:
    """Nobody is watching."""

    def phase(self, name: str, round: int, detail: str = "") -> None:
        """Shows nothing of a campaign's phase."""

    def show_closed(self, body: Body) -> None:
        """Shows nothing of a line in the campaign's ledger."""

    def show_outcome(self, outcome: Outcome) -> None:
        """Shows nothing of a campaign's outcome."""

    def close(self) -> None:
        """A silent campaign has no terminal to give back."""


# What a running campaign shows of itself: `status.json` for other terminals, progress for this one.

CLOSING = frozenset(
    {"recall", "baseline", "calibrate", "accept", "rollback", "canary", "review", "restart", "conclude"}
)
"""Nodes that append to the ledger."""

INSTANT = frozenset({"check_stop", "recall", "baseline", "judge", "draft", "line_up", "format", "revalidate"})
"""Nodes that are over before anybody has read their name."""


FIRST_KERNEL = (
    "Stage 1: the planner writes a first kernel in place of PyTorch; the ledger, and with it every page, begins when its"
    " test passes"
)
"""What a campaign is at before it has anything on record."""


class StatusView:
    """A view, overwritten at every phase; nothing decides by it."""

    def __init__(self, campaign_dir: Path, ports: Ports, progress: Progress) -> None:
        self._folder = campaign_dir
        self._ports = ports
        self._progress = progress
        self._hook = find_hook(campaign_dir)
        self._process = name_process(os.getpid())
        self._line_count = 0
        self.measured = ""
        """The verdict of the open round, once it has one; its line in the ledger is yet to come."""
        self._now: dict[str, Any] = {"phase": "start", "round": 0, "detail": ""}
        self._tell()  # a resumed campaign first says what has been, and notifies nobody of it
        self._lines_at_start = self._line_count

    def enter_node(self, node: str, state: State) -> None:
        """Write to `status.json` that a node of the loop begins."""
        number, detail = _about(state)
        trial = state.get("trial")
        self.measured = trial.verdict.sentence if isinstance(trial, Judged) else ""
        if node == "write_baseline" and writes_first_kernel(state["request"]):
            detail = FIRST_KERNEL
        self._now = {"phase": node, "round": number or self._rounds(), "detail": detail}
        if node not in INSTANT:
            self._write("running")
            self._progress.phase(node, self._now["round"], detail)

    def leave_node(self, node: str) -> None:
        """Write to `status.json` that a node of the loop ended."""
        for body in self._tell() if node in CLOSING else ():
            if isinstance(body, RoundClosed) and body.accepted:
                verdict = body.judged.verdict
                change = find_proposal(body.judged).hypothesis.change
                about = {"round": body.round, "change": change, "link": link(self._folder, round=body.round)}
                self._hook.tell("accepted", **about, said=accepted_line(body), gain=verdict.gain)

    def _tell(self) -> list[Body]:
        """Show and notify what the campaign's ledger has gained."""
        lines = self._ports.ledger.lines()
        fresh = [line.body for line in lines[self._line_count :]]
        for body in fresh:
            self._progress.show_closed(body)
            self.measured = "" if isinstance(body, RoundClosed) else self.measured
        self._line_count = len(lines)
        return fresh

    def end(self, status: Status, *, problem: str = "") -> None:
        """The last campaign state that other terminals see. `problem`: why it did not conclude, or what it waits for."""
        with contextlib.suppress(DiskFull):  # what ended the campaign is told by its own line
            self._write(status, problem=problem if status == "stopped" else "")
        about = {"round": self._now["round"], "change": self._now["detail"], "said": problem}
        about |= {"next": f"ridgeline resume {self._folder}"}
        if status == "stopped":
            self._hook.tell("stopped", **about)
        elif status == "waiting":
            page = find_open_page(self._folder)
            self._hook.tell("waiting", **about, request=page, link=link(self._folder, question=question_of(page)))
        elif status == "concluded" and self._line_count > self._lines_at_start:
            self._notify_conclusion()

    def _notify_conclusion(self) -> None:
        """Notify of a campaign that concluded in this run; one that had concluded before has been told of."""
        conclusion = self._ports.ledger.lines()[-1].body
        if isinstance(conclusion, Concluded):
            about = {"round": self._now["round"], "next": f"ridgeline report {self._folder}"}
            history = fold_ledger(self._ports.ledger.lines())
            assert history is not None
            self._hook.tell("concluded", **about, said=notice(compute_result(history)), speedup=conclusion.speedup)

    def _rounds(self) -> int:
        """Closed rounds in the campaign's ledger."""
        return sum(1 for line in self._ports.ledger.lines() if line.key.startswith("round-"))

    def _write(self, status: Status, *, problem: str = "") -> None:
        """Overwrite the campaign's `status.json` with what is known now."""
        view = {"status": status, **self._now, "pid": os.getpid(), "updated": time.time(), "problem": problem}
        if self._process:
            view["process"] = self._process
        if self.measured:
            view["measured"] = self.measured
        overwrite(self._folder / "status.json", json.dumps(view).encode())
        WorkClock(self._folder).touch()


def show_pair(folder: Path, text: str) -> None:
    """Add to `status.json` which pair is being timed; gone with the next phase. Silent where no campaign is shown."""
    now = read_status(folder)
    if now.get("pid") == os.getpid():
        with contextlib.suppress(DiskFull):
            since = datetime.now(UTC).isoformat(timespec="seconds")
            view = {**now, "pair": f"{text}, since {since}", "updated": time.time()}
            overwrite(folder / "status.json", json.dumps(view).encode())


class NoView(StatusView):
    """A campaign that nobody watches."""

    def __init__(self) -> None:
        self.measured = ""

    def enter_node(self, node: str, state: State) -> None:
        """Nothing is shown of a node of the loop that begins."""

    def leave_node(self, node: str) -> None:
        """Nothing is shown of a node of the loop that ended."""


def _about(state: State) -> tuple[int, str]:
    """Round and hypothesis of the open trial, for the campaign's progress line."""
    trial = state.get("trial")
    if trial is None:
        analysis = state.get("analysis")
        return (analysis.round if analysis else 0), ""
    proposal = find_proposal(trial)
    drafted = find(trial, Drafted)
    repairs = f" (repair {len(drafted.repairs)})" if drafted and drafted.repairs else ""
    return proposal.round, proposal.hypothesis.change + repairs


# The spectators of a running campaign: a live line on a terminal, plain lines anywhere else.

if TYPE_CHECKING:
    from rich.live import Live

QUIET_S = 10.0
"""Plain output repeats a phase only when nothing was said for this long."""


class Course:
    """What the bodies of a ledger amount to for somebody who watches: best so far, counts, time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, before_s: float = 0.0) -> None:
        """Follows a campaign's progress. `clock`: seconds since anything; `before_s`: seconds that it had worked before."""
        self._clock = clock
        self._began = clock() - before_s
        self._history: History | None = None
        self._best = "best so far 1x"

    def take(self, body: Body) -> str:
        """Fold one body of the ledger into a campaign's progress; the line worth showing for it."""
        self._history = _with(self._history, body)
        self._best = best_in_short(compute_result(self._history))  # once an event: a live line asks four times a second
        match body:
            case Opened():
                return f"campaign {body.target.campaign} on {body.machine.name}: preset {body.limits.preset}"
            case Rooflined():
                return f"ceilings: {', '.join(_describe_measured_ceilings(body)) or body.note or 'none measured here'}"
            case BaselineClosed():
                return f"baseline: {len(body.project.rows)} shapes measured, bottleneck: {body.bottleneck}"
            case Calibrated():
                return seen_noise(body, self._history)
            case RoundClosed():
                return f"{accepted_line(body)} [{self.best}]"
            case Reviewed():
                # a direction begins with its kind; the reasons are in the report
                kinds = ", ".join(direction.partition(":")[0] for direction in body.directions)
                return f"review after round {body.after_round} ({body.trigger}), next: {kinds}"
            case Steered():
                return f"a person changed the campaign: {'; '.join(describe_steering(body)) or 'all of it taken back'}"
            case Restarted():
                return f"partial restart after round {body.after_round}: {len(body.masked)} memories masked"
            case Concluded():
                return f"concluded: {body.stop_reason} [{self.best}]"

    def pass_over(self, body: Body) -> None:
        """Fold one body of the ledger into a campaign's progress that nobody is shown a line of."""
        self._history = _with(self._history, body)

    @property
    def best(self) -> str:
        """The best version against the original: the final test's number, before it the product of paired gains."""
        return self._best

    @property
    def elapsed(self) -> str:
        """Minutes and seconds that the campaign has been worked on."""
        return _minutes(self._clock() - self._began)

    @property
    def left(self) -> str:
        """Time left for a campaign, where it has a time limit."""
        allowed = self._history.limits.max_minutes if self._history else None
        if allowed is None or self._history is None:
            return ""
        spent_s = self._clock() - self._began
        return f", {_minutes(max(0.0, allowed * 60 - spent_s))} left"

    @property
    def summary(self) -> str:
        """A campaign's progress in one phrase: best so far, counts and time."""
        rounds = self._history.rounds if self._history else ()
        accepted_count = sum(closed.accepted for closed in rounds)
        return f"{self.best}, {accepted_count} kept, {len(rounds) - accepted_count} rolled back{self.left}"


class PlainProgress:
    """Lines for a log file or a pipe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, before_s: float = 0.0) -> None:
        self._course = Course(clock, before_s=before_s)
        self._clock = clock
        self._last_line_s = -QUIET_S
        self._round = -1

    def phase(self, name: str, round: int, detail: str = "") -> None:
        """A campaign's phase in plain lines: at the start of a round, and later when nothing was said for a while."""
        now = self._clock()
        if round == self._round and now - self._last_line_s < QUIET_S:
            return
        self._round = round
        self._line(f"round {round}: {name}" + (f": {detail}" if detail else ""))

    def show_closed(self, body: Body) -> None:
        """A plain line for what reached the campaign's ledger, always."""
        self._line(self._course.take(body))

    def show_outcome(self, outcome: Outcome) -> None:
        """The last plain line of a campaign: how it ended."""
        self._line(f"{outcome.status}: {self._course.summary}")

    def close(self) -> None:
        """A campaign's plain lines hold no terminal to give back."""

    def _line(self, text: str) -> None:
        """Print one progress line of a campaign after the time that has passed."""
        self._last_line_s = self._clock()
        note(f"[{self._course.elapsed}] {text}")


class ConsoleProgress:
    """A live line at the bottom of a terminal; what has closed scrolls above it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, before_s: float = 0.0) -> None:
        self._course = Course(clock, before_s=before_s)
        self._now = ("starting", 0, "")
        self._live: Live | None = None

    def phase(self, name: str, round: int, detail: str = "") -> None:
        """Shows a campaign's phase in the live line until the next one."""
        self._now = (name, round, detail)
        if self._live is None:
            self._live = _live(self._render_line)

    def show_closed(self, body: Body) -> None:
        """Prints what reached the campaign's ledger above the live line."""
        line = f"[{self._course.elapsed}] {self._course.take(body)}"
        if self._live is None:
            note(line)
        else:
            self._live.console.print(defuse(line, sys.stderr), markup=False, highlight=False)

    def show_outcome(self, outcome: Outcome) -> None:
        """Give the terminal back and say the campaign's last line."""
        self.close()
        note(f"[{self._course.elapsed}] {outcome.status}: {self._course.summary}")

    def close(self) -> None:
        """Give back the terminal that showed the campaign's live line."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _render_line(self) -> Any:
        from rich.text import Text

        name, number, detail = self._now
        # what a narrow terminal cuts off is the detail, never the standing
        text = f"[{self._course.elapsed}] round {number}: {name} ({self._course.summary})"
        text = defuse(text + (f" {detail}" if detail else ""), sys.stderr)
        return Text(text, style="cyan", no_wrap=True, overflow="ellipsis")


def progress(*, before_s: float = 0.0) -> PlainProgress | ConsoleProgress:
    """The display of a campaign that fits standard error. `before_s`: seconds that it had worked when this watching began."""
    return ConsoleProgress(before_s=before_s) if sys.stderr.isatty() else PlainProgress(before_s=before_s)


def worked_s(history: History) -> float:
    """Seconds that count towards the campaign's `max_minutes` by its ledger alone: its sessions' at its end, else since its
    first round, less waits for people."""
    if history.concluded is not None and history.concluded.worked_s is not None:
        return history.concluded.worked_s
    if history.baseline is None:
        return 0.0
    end = history.concluded.closed_at if history.concluded else datetime.now(UTC).isoformat()
    return 60 * elapsed_minutes(history.baseline.opened_at, end, history.rounds)


def read_worked_s(campaign: Path) -> float:
    """Seconds that count towards a campaign's `max_minutes`, for whoever looks on or goes on: those that processes worked on it.

    A damaged ledger counts as none.
    """
    ledger = campaign / LEDGER
    history = fold_ledger(JsonlLedger(ledger).lines()) if verify(ledger).ok else None
    ended = history is not None and history.concluded is not None
    if history is not None and (ended or not history.opened.counts_work):
        return worked_s(history)
    clock = WorkClock(campaign)
    seconds = clock.worked_s("now") if is_at_work(read_status(campaign)) else clock.seen_s()
    return seconds or (worked_s(history) if history else 0.0)


def _live(render: Callable[[], Any]) -> "Live":
    from rich.console import Console
    from rich.live import Live

    live = Live(get_renderable=render, console=Console(stderr=True), refresh_per_second=4, transient=True)
    live.start()
    return live


def _describe_measured_ceilings(body: Rooflined) -> list[str]:
    """Ceilings that the campaign measured, in a progress line; what the system reports is in the report."""
    return [
        f"{spec.metric} {spec.value:.3g} {spec.unit}"
        for spec in body.specs
        if spec.value is not None and spec.source.startswith("measured")
    ]


def _minutes(seconds: float) -> str:
    """In a campaign's progress: seconds as minutes and seconds."""
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _with(history: History | None, body: Body) -> History:
    """The campaign's history with one event more."""
    if isinstance(body, Opened):
        return History(opened=body)
    assert history is not None
    match body:
        case Rooflined():
            return history.model_copy(update={"roofline": body})
        case BaselineClosed():
            return history.model_copy(update={"baseline": body, "roofline": body.roofline or history.roofline})
        case Calibrated():
            return history.model_copy(update={"calibrations": (*history.calibrations, body)})
        case RoundClosed():
            return history.model_copy(update={"rounds": (*history.rounds, body)})
        case Steered():
            steered = (*history.steered, body)
            return history.model_copy(update={"steered": steered, "opened": steer_opened(history.opened, body)})
        case Concluded():
            return history.model_copy(update={"concluded": body})
        case _:
            return history
