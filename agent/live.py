"""What a running campaign shows of itself: `status.json` for other terminals, progress for this one."""

import json
import os
import time
from pathlib import Path
from typing import Any

from agent.progress import Progress
from graph.ports import Ports
from graph.state import State
from graph.trial import Drafted, find, proposed
from sandbox.durable import overwrite

CLOSING = frozenset(
    {"recall", "baseline", "calibrate", "accept", "rollback", "canary", "review", "restart", "conclude"}
)
"""Nodes that append to the ledger."""

INSTANT = frozenset({"check_stop", "recall", "baseline", "judge", "draft", "format", "revalidate"})
"""Nodes that are over before anybody has read their name."""


class Live:
    """A view, overwritten at every phase; nothing decides by it."""

    def __init__(self, campaign_dir: Path, ports: Ports, progress: Progress) -> None:
        self._path = campaign_dir / "status.json"
        self._ports = ports
        self._progress = progress
        self._seen = 0
        self._now: dict[str, Any] = {"phase": "start", "round": 0, "detail": ""}
        self._tell()  # a resumed campaign first says what has been

    def entered(self, node: str, state: State) -> None:
        """A node begins."""
        number, detail = _about(state)
        self._now = {"phase": node, "round": number or self._rounds(), "detail": detail}
        if node not in INSTANT:
            self._write("running")
            self._progress.phase(node, self._now["round"], detail)

    def left(self, node: str) -> None:
        """A node ended."""
        if node in CLOSING:
            self._tell()

    def _tell(self) -> None:
        lines = self._ports.ledger.lines()
        for line in lines[self._seen :]:
            self._progress.closed(line.body)
        self._seen = len(lines)

    def ended(self, status: str, *, problem: str = "") -> None:
        """The last state that other terminals see."""
        self._write(status, problem=problem)

    def _rounds(self) -> int:
        return sum(1 for line in self._ports.ledger.lines() if line.key.startswith("round-"))

    def _write(self, status: str, *, problem: str = "") -> None:
        view = {"status": status, **self._now, "pid": os.getpid(), "updated": time.time(), "problem": problem}
        overwrite(self._path, json.dumps(view).encode())


class Unseen(Live):
    """A campaign that nobody watches."""

    def __init__(self) -> None:
        pass

    def entered(self, node: str, state: State) -> None:
        """Nothing is shown."""

    def left(self, node: str) -> None:
        """Nothing is shown."""


def _about(state: State) -> tuple[int, str]:
    """Round and hypothesis of the open trial."""
    trial = state.get("trial")
    if trial is None:
        seen = state.get("analysis")
        return (seen.round if seen else 0), ""
    first = proposed(trial)
    drafted = find(trial, Drafted)
    repairs = f" (repair {len(drafted.repairs)})" if drafted and drafted.repairs else ""
    return first.round, first.hypothesis.change + repairs
