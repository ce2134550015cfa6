"""What a running campaign shows of itself: `status.json` for other terminals, progress for this one."""

import json
import os
import time
from pathlib import Path
from typing import Any

from ridgeline.agent.notify import hook
from ridgeline.agent.outcome import Status
from ridgeline.agent.progress import Progress
from ridgeline.agent.served import link
from ridgeline.agent.wanted import question_of, wanted
from ridgeline.graph.documents.result import accepted_line, notice
from ridgeline.graph.policy.history import fold
from ridgeline.graph.policy.result import result
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import Body, Concluded, RoundClosed
from ridgeline.graph.state import State
from ridgeline.graph.trial import Drafted, find, proposed
from ridgeline.sandbox.store.durable import overwrite

CLOSING = frozenset(
    {"recall", "baseline", "calibrate", "accept", "rollback", "canary", "review", "restart", "conclude"}
)
"""Nodes that append to the ledger."""

INSTANT = frozenset({"check_stop", "recall", "baseline", "judge", "draft", "format", "revalidate"})
"""Nodes that are over before anybody has read their name."""


class Live:
    """A view, overwritten at every phase; nothing decides by it."""

    def __init__(self, campaign_dir: Path, ports: Ports, progress: Progress) -> None:
        self._folder = campaign_dir
        self._ports = ports
        self._progress = progress
        self._hook = hook(campaign_dir)
        self._seen = 0
        self._now: dict[str, Any] = {"phase": "start", "round": 0, "detail": ""}
        self._tell()  # a resumed campaign first says what has been, and notifies nobody of it
        self._begun = self._seen

    def entered(self, node: str, state: State) -> None:
        """A node begins."""
        number, detail = _about(state)
        self._now = {"phase": node, "round": number or self._rounds(), "detail": detail}
        if node not in INSTANT:
            self._write("running")
            self._progress.phase(node, self._now["round"], detail)

    def left(self, node: str) -> None:
        """A node ended."""
        for body in self._tell() if node in CLOSING else ():
            if isinstance(body, RoundClosed) and body.accepted:
                verdict = body.judged.verdict
                change = proposed(body.judged).hypothesis.change
                about = {"round": body.round, "change": change, "link": link(self._folder, round=body.round)}
                self._hook.tell("accepted", **about, said=accepted_line(body), gain=verdict.gain)

    def _tell(self) -> list[Body]:
        """What the ledger has gained."""
        lines = self._ports.ledger.lines()
        fresh = [line.body for line in lines[self._seen :]]
        for body in fresh:
            self._progress.closed(body)
        self._seen = len(lines)
        return fresh

    def ended(self, status: Status, *, problem: str = "") -> None:
        """The last state that other terminals see. `problem`: why it did not conclude, or what it waits for."""
        self._write(status, problem=problem if status == "stopped" else "")
        about = {"round": self._now["round"], "change": self._now["detail"], "said": problem}
        about |= {"next": f"ridgeline resume {self._folder}"}
        if status == "stopped":
            self._hook.tell("stopped", **about)
        elif status == "waiting":
            page = wanted(self._folder)
            self._hook.tell("waiting", **about, request=page, link=link(self._folder, question=question_of(page)))
        elif status == "concluded" and self._seen > self._begun:
            self._concluded()

    def _concluded(self) -> None:
        """Of this run; a campaign that had concluded before has been told of."""
        done = self._ports.ledger.lines()[-1].body
        if isinstance(done, Concluded):
            about = {"round": self._now["round"], "next": f"ridgeline report {self._folder}"}
            known = fold(self._ports.ledger.lines())
            assert known is not None
            self._hook.tell("concluded", **about, said=notice(result(known)), speedup=done.speedup)

    def _rounds(self) -> int:
        return sum(1 for line in self._ports.ledger.lines() if line.key.startswith("round-"))

    def _write(self, status: Status, *, problem: str = "") -> None:
        view = {"status": status, **self._now, "pid": os.getpid(), "updated": time.time(), "problem": problem}
        overwrite(self._folder / "status.json", json.dumps(view).encode())


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
