"""Drives the real graph on ports that only answer: no model, machine or repository; only a ledger is written."""

import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from ridgeline.agent.campaign import drive
from ridgeline.agent.errors import UserError
from ridgeline.agent.live import Unseen
from ridgeline.agent.tape import TapeMiss
from ridgeline.graph.approval import ApprovalRequest, Decision
from ridgeline.graph.build import CHECKPOINTED
from ridgeline.graph.ports import Ports, Workspace
from ridgeline.graph.record import Line, Opened, RoundClosed
from ridgeline.graph.state import Request
from ridgeline.graph.values import Artifact
from ridgeline.sandbox.store.durable import Unsynced
from ridgeline.sandbox.store.ledger import JsonlLedger


class NoFiles:
    """Port `Files`: what people read is a view of the ledger, so a replay writes none of it."""

    def __init__(self, tips: str | None) -> None:
        """`tips`: text of the tips file as the campaign read it before round 1."""
        self._tips = tips

    def write(self, files: Mapping[str, str | Artifact]) -> None:
        """Nothing is kept."""

    def tips(self, gpu: str, op: str, backend: str) -> str | None:
        """The recorded text."""
        return self._tips

    def add_tip(self, gpu: str, op: str, backend: str, entry: str) -> None:
        """Nothing is kept."""


class Decided:
    """Port `Approvals`: what people decided stands in the ledger, in the order in which they were asked."""

    def __init__(self, lines: Sequence[Line]) -> None:
        bodies = [line.body for line in lines if isinstance(line.body, Opened | RoundClosed)]
        self._left = [decision for body in bodies for decision in body.decisions]

    def decision(self, request: ApprovalRequest) -> Decision | None:
        """The next one, for what is asked now; None when nobody had decided any more."""
        return self._left.pop(0).model_copy(update={"key": request.key}) if self._left else None


def wired(answering: Mapping[str, Any], workspace: Workspace, recorded: Sequence[Line], ledger: Path) -> Ports:
    """Ports that only answer: `answering` by name, people and tips from the recorded ledger, a new ledger to write."""
    opened = recorded[0].body
    tips = opened.tips if isinstance(opened, Opened) else None
    return Ports(
        **{"approvals": Decided(recorded), **answering},
        workspace=workspace,
        ledger=JsonlLedger(ledger, rests_on=Unsynced()),
        files=NoFiles(tips),
    )


@dataclass(frozen=True, kw_only=True)
class Played:
    """What came of a performance."""

    lines: tuple[bytes, ...]
    """Of the ledger that was written, each with its newline."""
    stopped: str
    """The question that had no answer; empty when the campaign ran to its end."""


def perform(request: Request, ports: Ports, ledger: Path) -> Played:
    """Run the campaign from its beginning until it concludes or asks something that nobody answers.

    `ports.ledger` writes to `ledger`. Raises UserError where an answer leads to numbers that the graph cannot use.
    """
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    stopped = ""
    try:
        saver = SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=CHECKPOINTED))
        with _quiet():
            drive(saver, request, ports, Unseen())
    except TapeMiss as miss:
        stopped = str(miss)
    except ValueError as error:
        raise UserError(f"the recorded answers cannot be played: {error}; restore the tape from a copy") from error
    finally:
        connection.close()
    written = ledger.read_bytes() if ledger.exists() else b""
    return Played(lines=tuple(written.splitlines(keepends=True)), stopped=stopped)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings that were for the people who ran the campaign."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
