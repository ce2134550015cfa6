"""The spectators of a running campaign: a live line on a terminal, plain lines anywhere else."""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ridgeline.agent.console import note
from ridgeline.agent.outcome import Outcome
from ridgeline.graph.documents.noise import seen_noise
from ridgeline.graph.documents.result import accepted_line, best_in_short
from ridgeline.graph.policy.result import result
from ridgeline.graph.policy.spent import elapsed_minutes
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
)
from ridgeline.graph.standing import History

if TYPE_CHECKING:
    from rich.live import Live

QUIET_S = 10.0
"""Plain output repeats a phase only when nothing was said for this long."""


class Course:
    """What the bodies of a ledger amount to for somebody who watches: best so far, counts, time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, before_s: float = 0.0) -> None:
        """`clock`: seconds since anything; `before_s`: seconds that the campaign had worked when this watching began."""
        self._clock = clock
        self._began = clock() - before_s
        self._history: History | None = None
        self._best = "best so far 1x"

    def take(self, body: Body) -> str:
        """Fold one body; the line worth showing for it."""
        self._history = _with(self._history, body)
        self._best = best_in_short(result(self._history))  # once an event: a live line asks four times a second
        match body:
            case Opened():
                return f"campaign {body.target.campaign} on {body.machine.name}: preset {body.limits.preset}"
            case Rooflined():
                return f"ceilings: {', '.join(_measured(body)) or body.note or 'none measured here'}"
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
            case Restarted():
                return f"partial restart after round {body.after_round}: {len(body.masked)} memories masked"
            case Concluded():
                return f"concluded: {body.stop_reason}"

    def pass_over(self, body: Body) -> None:
        """Fold one body that nobody is shown a line of."""
        self._history = _with(self._history, body)

    @property
    def best(self) -> str:
        """The best version against the original: the final test's number, before it the product of paired gains."""
        return self._best

    @property
    def elapsed(self) -> str:
        """Minutes and seconds since the campaign or, where it is resumed, the command began."""
        return _minutes(self._clock() - self._began)

    @property
    def left(self) -> str:
        """Time left, where the campaign has a time limit."""
        allowed = self._history.limits.max_minutes if self._history else None
        if allowed is None or self._history is None:
            return ""
        spent_s = worked_s(self._history) if self._history.baseline else self._clock() - self._began
        return f", {_minutes(max(0.0, allowed * 60 - spent_s))} left"

    @property
    def summary(self) -> str:
        """Best so far, counts and time in one phrase."""
        rounds = self._history.rounds if self._history else ()
        kept = sum(closed.accepted for closed in rounds)
        return f"{self.best}, {kept} kept, {len(rounds) - kept} rolled back{self.left}"


class PlainProgress:
    """Lines for a log file or a pipe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, before_s: float = 0.0) -> None:
        self._course = Course(clock, before_s=before_s)
        self._clock = clock
        self._said = -QUIET_S
        self._round = -1

    def phase(self, name: str, round: int, detail: str = "") -> None:
        """Said at the start of a round, and later when nothing was said for a while."""
        now = self._clock()
        if round == self._round and now - self._said < QUIET_S:
            return
        self._round = round
        self._line(f"round {round}: {name}" + (f": {detail}" if detail else ""))

    def closed(self, body: Body) -> None:
        """Always said."""
        self._line(self._course.take(body))

    def finished(self, outcome: Outcome) -> None:
        """The last line."""
        self._line(f"{outcome.status}: {self._course.summary}")

    def close(self) -> None:
        """Nothing to give back."""

    def _line(self, text: str) -> None:
        self._said = self._clock()
        note(f"[{self._course.elapsed}] {text}")


class ConsoleProgress:
    """A live line at the bottom of a terminal; what has closed scrolls above it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, before_s: float = 0.0) -> None:
        self._course = Course(clock, before_s=before_s)
        self._now = ("starting", 0, "")
        self._live: Live | None = None

    def phase(self, name: str, round: int, detail: str = "") -> None:
        """Shown until the next one."""
        self._now = (name, round, detail)
        if self._live is None:
            self._live = _live(self._rendered)

    def closed(self, body: Body) -> None:
        """Printed above the live line."""
        line = f"[{self._course.elapsed}] {self._course.take(body)}"
        if self._live is None:
            note(line)
        else:
            self._live.console.print(line, markup=False, highlight=False)

    def finished(self, outcome: Outcome) -> None:
        """Give the terminal back and say the last line."""
        self.close()
        note(f"[{self._course.elapsed}] {outcome.status}: {self._course.summary}")

    def close(self) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _rendered(self) -> Any:
        from rich.text import Text

        name, number, detail = self._now
        # what a narrow terminal cuts off is the detail, never the standing
        text = f"[{self._course.elapsed}] round {number}: {name} ({self._course.summary})"
        return Text(text + (f" {detail}" if detail else ""), style="cyan", no_wrap=True, overflow="ellipsis")


def progress(*, before_s: float = 0.0) -> PlainProgress | ConsoleProgress:
    """The one that fits standard error. `before_s`: seconds that the campaign had worked when this watching began."""
    return ConsoleProgress(before_s=before_s) if sys.stderr.isatty() else PlainProgress(before_s=before_s)


def worked_s(history: History) -> float:
    """Seconds that count towards the campaign's `max_minutes`, until now or its end; 0 before its first round."""
    if history.baseline is None:
        return 0.0
    end = history.concluded.closed_at if history.concluded else datetime.now(UTC).isoformat()
    return 60 * elapsed_minutes(history.baseline.opened_at, end, history.rounds)


def _live(render: Callable[[], Any]) -> "Live":
    from rich.console import Console
    from rich.live import Live

    live = Live(get_renderable=render, console=Console(stderr=True), refresh_per_second=4, transient=True)
    live.start()
    return live


def _measured(body: Rooflined) -> list[str]:
    """What was measured here; what the system reports is in the report."""
    return [
        f"{spec.metric} {spec.value:.3g} {spec.unit}"
        for spec in body.specs
        if spec.value is not None and spec.source.startswith("measured")
    ]


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _with(history: History | None, body: Body) -> History:
    """The history one event later."""
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
        case Concluded():
            return history.model_copy(update={"concluded": body})
        case _:
            return history
