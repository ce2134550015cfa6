"""Whole campaigns on the scripted world: the real graph, ledger, tape and checkpoints around fake effects."""

import sqlite3
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.agent.campaign.checkpoints import Checkpoints
from ridgeline.agent.campaign.progress import NoView
from ridgeline.agent.campaign.runner import drive
from ridgeline.agent.campaign.side_by_side import Lane, SideBySide, prepare_port
from ridgeline.agent.campaign.tape import PROTOCOLS, Tape, TapedPreparer, tape_port
from ridgeline.graph.limits import Limits
from ridgeline.graph.loop.build import CHECKPOINTED
from ridgeline.graph.loop.context import restore_files
from ridgeline.graph.ports import Ports
from ridgeline.graph.rules.history import fold_ledger
from ridgeline.graph.standing import History
from ridgeline.graph.state import Request
from ridgeline.sandbox.store.ledger import JsonlLedger
from tests.builders import make_contract, make_limits
from tests.fakes import FakeFiles, FakeWorkspace
from tests.world import (
    KERNEL,
    Quiet,
    ScriptedPlanner,
    StepClock,
    TestDevice,
    TextBuilder,
    TextChecker,
    TextProfiler,
    TextTimer,
)

CONFIG = {"configurable": {"thread_id": "campaign"}, "recursion_limit": 20_000}


@dataclass
class Campaign:
    """One campaign that can be driven, crashed and driven again."""

    ports: Ports
    request: Request
    saver: SqliteSaver
    files: FakeFiles
    workspace: FakeWorkspace
    ahead: SideBySide

    def forget_prepared(self) -> None:
        """As a process does that ends: what the next one knows is on the tape."""
        self.ahead.prepare((), ())

    def drive(self) -> None:
        """Begin, or go on after a crash."""
        restore_files(self.ports)
        drive(Checkpoints(saver=self.saver), self.request, self.ports, NoView())

    def history(self) -> History:
        found = fold_ledger(self.ports.ledger.lines())
        assert found is not None
        return found

    def verdicts(self) -> list[str]:
        return [body.judged.verdict.reason for body in self.history().rounds]


def saver(path: Path | None = None) -> SqliteSaver:
    connection = sqlite3.connect(path or ":memory:", check_same_thread=False)
    return SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=CHECKPOINTED))


def make_campaign(
    tmp_path: Path,
    *scripts: str | list[str] | None,
    limits: Limits | None = None,
    tape: Tape | None = None,
    kernel: str = "speed 100",
    planner: object | None = None,
    **contract,
) -> Campaign:
    """A campaign whose round N plays the N-th script (see `tests.world`)."""
    declared = make_contract(**contract)
    workspace = FakeWorkspace(files={KERNEL: kernel + "\n", "bench.c": "the benchmark\n"}, contract=declared)
    files = FakeFiles()

    def read(commit: str) -> str:
        return next(file.text or "" for file in workspace.sources(commit) if file.path == KERNEL)

    timer, builder, checker = TextTimer(read), TextBuilder(read), TextChecker(read)
    ahead = SideBySide(lambda _: nullcontext([Lane(builder=builder, checker=checker)] * 2))
    ports = Ports(
        planner=planner or ScriptedPlanner(*scripts),
        workspace=workspace,
        builder=prepare_port(builder, ahead),
        checker=prepare_port(checker, ahead),
        preparer=ahead,
        timer=timer,
        profiler=TextProfiler(timer),
        device=TestDevice(),
        approvals=ApprovalFiles(tmp_path),
        clock=StepClock(),
        signals=Quiet(),
        ledger=JsonlLedger(tmp_path / "ledger.jsonl"),
        files=files,
    )
    if tape is not None:
        ports = replace(ports, **{name: tape_port(name, getattr(ports, name), tape) for name in PROTOCOLS})
        ports = replace(ports, preparer=TapedPreparer(ahead, ports.builder, ports.checker, tape))
    request = Request(
        contract=declared,
        contract_path="ridgeline.yaml",
        instruction="",
        overrides=(),
        limits=limits or make_limits(target_peak_fraction=None),
        planner="scripted",
        created="2026-11-21 10:00",
        version="0",
        drafts_first=True,
    )
    return Campaign(ports=ports, request=request, saver=saver(), files=files, workspace=workspace, ahead=ahead)


def wrapped(ports: Ports, wrap) -> Ports:
    """The same ports, each that is there through `wrap(name, port)`."""
    there = {field.name: port for field in fields(ports) if (port := getattr(ports, field.name)) is not None}
    return replace(ports, **{name: wrap(name, port) for name, port in there.items()})
