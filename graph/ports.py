"""What the loop asks of the world. Adapters live in `sandbox` and `agent`; fakes live in `tests`.

Every call names itself: the same arguments are the same question and get the same answer, which is what makes a
re-run after a crash, the tape and replay one mechanism.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ridgeline.graph.approval import ApprovalRequest, Decision, Steering
from ridgeline.graph.briefing import Briefing, Draft, Proposal, Review
from ridgeline.graph.deep import DeepWork
from ridgeline.graph.evidence import (
    Benchmark,
    BenchmarkFailed,
    BuildResult,
    Ceilings,
    Comparison,
    Level,
    Machine,
    Profiled,
    TestResult,
)
from ridgeline.graph.finding import Finding, KeyTerm, Simulation
from ridgeline.graph.judgment import JudgeFailed, Judgment, SizeTime, TimedCall
from ridgeline.graph.record import Body, Line, MinimalVersion, Reflection
from ridgeline.graph.stats.noise import KnownNoise
from ridgeline.graph.trial import Broken, Built, Judged, Proposed
from ridgeline.graph.values import Artifact, FileEdit, Hypothesis, Value, WebSearch


class CandidateCommit(Value):
    """What a commit of edits produced."""

    commit: str
    tree: str
    diff: Artifact
    snapshot: tuple[Artifact, ...]
    changed: tuple[str, ...]
    audit: tuple[Finding, ...] = ()
    """What reading the edits found, beyond what the parent's files have."""


class EditRefusal(Value):
    """Edits that may not be applied, and why."""

    detail: str


class Base(Value):
    """The start of the campaign's branch."""

    commit: str
    tree: str
    branch: str
    repository: str
    contract_path: str


class Formatting(Value):
    """What the formatter did to the changed files; no edits when it changed nothing."""

    edits: tuple[FileEdit, ...]
    detail: str = ""


class Planner(Protocol):
    """Who proposes. Raises `ridgeline.agent.errors.Waiting` when an answer must come from outside first."""

    def write_baseline(
        self, briefing: Briefing, about: Hypothesis, edits: tuple[FileEdit, ...], evidence: str
    ) -> Draft:
        """Port: Stage 1: a first kernel of the backend in place of PyTorch; `edits` so far and what was wrong with them."""
        ...

    def propose(self, briefing: Briefing) -> Proposal: ...
    def draft(self, briefing: Briefing, proposal: Proposal) -> Draft: ...
    def repair(self, briefing: Briefing, broken: Broken | Built, attempt: int) -> Draft: ...
    def split(self, briefing: Briefing, judged: Judged) -> Draft: ...
    def review(self, briefing: Briefing, trigger: str) -> Review: ...
    def reflect(self, briefing: Briefing, judged: Judged) -> Reflection: ...


class Worker(Protocol):
    """Who works in the tree of a deep round. Raises as `Planner` where an answer must come from outside first."""

    def work(self, briefing: Briefing, about: Proposed) -> DeepWork:
        """Port: edits of the best version, made and tried in a deep round's many steps, as the budget allows."""
        ...


class Workspace(Protocol):
    """Git: commits are made beside the user's checkout; only accepted ones reach the campaign's branch."""

    def open(self, branch: str) -> Base: ...
    def sources(self, commit: str) -> tuple[FileEdit, ...]: ...
    def snapshot(self, commit: str) -> tuple[Artifact, ...]: ...
    def apply(
        self, *, round: int, parent: str, edits: tuple[FileEdit, ...], at: str
    ) -> CandidateCommit | EditRefusal: ...
    def extract(self, commit: str) -> MinimalVersion:
        """Port: the minimal project of a version: kernel, direct dependencies, test and benchmark, and nothing else."""
        ...

    def select_core(self, edits: tuple[FileEdit, ...]) -> tuple[FileEdit, ...]:
        """Port: the edits of the kernel's own files: what a workspace syncs back, leaving scaffolding behind."""
        ...

    def accept(self, *, parent: str, tree: str, message: str, at: str) -> str: ...
    def reset(self, commit: str) -> None: ...


class Builder(Protocol):
    def build(self, commit: str) -> BuildResult: ...
    def format(self, commit: str, changed: tuple[str, ...]) -> Formatting: ...


class Checker(Protocol):
    def check(self, commit: str, *, purpose: str) -> TestResult: ...
    def suite(self, commit: str) -> TestResult | None: ...
    def simulate_cache(self, commit: str, key: tuple[KeyTerm, ...]) -> Simulation:
        """Port: a cache's key over eight training steps with fresh tensors, the weight changed in place after each."""
        ...


class Preparer(Protocol):
    """Who answers builder and checker ahead, where several candidates wait for both. Nothing of it is on the tape."""

    def prepare(self, commits: tuple[str, ...], purposes: tuple[str, ...]) -> None:
        """Port: build these versions and test those that build, side by side; `purposes`: of their tests, in that order.

        Returns when none runs any more, before anything is timed. What could not be answered is left to be asked.
        """
        ...


class Timer(Protocol):
    def benchmark(
        self, commit: str, *, level: Level, source: str, shapes: tuple[str, ...], repeat: int, purpose: str
    ) -> Benchmark | BenchmarkFailed: ...

    def compare(
        self,
        *,
        best: str,
        candidate: str,
        shapes: tuple[str, ...],
        first_pair: int,
        pairs: int,
        blocks: int,
        purpose: str,
    ) -> Comparison | BenchmarkFailed: ...

    def calibrate(
        self,
        commit: str,
        *,
        shapes: tuple[str, ...],
        pairs: int,
        blocks: int,
        budget_s: float,
        fresh: bool,
        purpose: str,
        known: KnownNoise | None = None,
    ) -> Comparison | BenchmarkFailed:
        """Port: time that commit against itself from two checkouts (A/A); fewer pairs, at least two, when `budget_s` is over.

        `known` says when fewer are enough.

        `fresh=False` may answer with what this machine measured of the same content, commands and shapes before.
        """
        ...


class Judge(Protocol):
    """Ridgeline's own judge of a task's candidates, whose code runs in other processes on values it could not know.

    Checker and timer ask it where the contract is a task's. `task_file` is a task.yaml, versions are folders with the
    task's sources. What a candidate, the task or the time allowed brings about is a value; a machine that cannot shut
    candidates in raises WorldError.
    """

    def warm_up(self, task_file: Path) -> None:
        """Port: have the judge begin with what takes long to start, where there is such a thing; nothing is answered."""
        ...

    def check(self, task_file: Path, version: Path, *, timeout_s: float) -> Judgment | JudgeFailed:
        """Port: is the candidate right, and its own work? Nothing is timed."""
        ...

    def benchmark(
        self, task_file: Path, version: Path, *, shapes: tuple[str, ...], timeout_s: float
    ) -> tuple[SizeTime, ...] | JudgeFailed:
        """Port: median time of each size with these labels (none: of all), in the task's order."""
        ...

    def compare(
        self, task_file: Path, a: Path, b: Path, *, shapes: tuple[str, ...], blocks: int, timeout_s: float
    ) -> tuple[TimedCall, ...] | JudgeFailed:
        """Port: one process pair: `blocks` blocks A B B A or B A A B of each size, in the order in which calls ran."""
        ...

    def read_compiled(self, task_file: Path, version: Path) -> bytes:
        """Port: what that version had compiled when this judge last ran it, packed; nothing where it did not, or did elsewhere."""
        ...


class Profiler(Protocol):
    def profile(self, commit: str, *, purpose: str) -> Profiled | None: ...

    def inspect(self, commit: str, *, purpose: str) -> Profiled | None:
        """Port: what the compiler made of that commit, without running it; None where the contract profiles nothing."""
        ...


class Searcher(Protocol):
    """The user's own search of the public web."""

    def search(self, query: str, *, purpose: str) -> WebSearch | None:
        """Port: what the user's web search printed, or why nothing was; None where the user named no command."""
        ...


class Approvals(Protocol):
    """People who decide. The request is kept where they find it."""

    def decision(self, request: ApprovalRequest) -> Decision | None:
        """Port: what was decided, by a person or by the time-out's policy; None as long as nobody has."""
        ...


class Device(Protocol):
    def machine(self) -> Machine: ...
    def ceilings(self, dtype: str, *, fresh: bool = False) -> Ceilings | None:
        """Port: peaks of the machine for work in `dtype`; `fresh` measures them now, whatever was kept."""
        ...


class Clock(Protocol):
    def now(self, moment: str) -> str:
        """Port: ISO-8601 UTC; `moment` names the instant, so that a replay reads the recorded one."""
        ...

    def worked_s(self, moment: str) -> float:
        """Port: wall seconds that processes have run this campaign until that instant, from the start of the first."""
        ...


class Signals(Protocol):
    def stop_requested(self, after_round: int, later_events: int = 0) -> bool:
        """Port: whether a person asked to stop; `later_events`: reviews and restarts since that round; each asks anew."""
        ...

    def steering(self, after_round: int, later_events: int = 0) -> Steering:
        """Port: what a person changed of the campaign so far, all of it."""
        ...


class Ledger(Protocol):
    def append(self, *bodies: Body) -> None:
        """Port: append bodies to the ledger, each once; several in one write, so that no kill comes between them."""
        ...

    def lines(self) -> tuple[Line, ...]: ...


class Files(Protocol):
    def write(self, files: Mapping[str, str | Artifact]) -> None:
        """Port: path in the campaign's folder -> text, or a stored artifact. `logs/` only ever grow."""
        ...

    def tips(self, gpu: str, op: str, backend: str) -> str | None: ...
    def add_tip(self, gpu: str, op: str, backend: str, entry: str) -> None: ...


class Artifacts(Protocol):
    def put(self, name: str, data: bytes) -> Artifact: ...
    def get(self, artifact: Artifact) -> bytes: ...


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Run-scoped dependencies, handed to nodes as LangGraph runtime context."""

    planner: Planner
    worker: Worker | None = None
    """None where nobody can work in a tree: the catalog has no steps."""
    searcher: Searcher | None = None
    workspace: Workspace
    builder: Builder
    checker: Checker
    preparer: Preparer | None = None
    """None where candidates are built and tested as they are asked about."""
    timer: Timer
    profiler: Profiler
    device: Device
    approvals: Approvals
    clock: Clock
    signals: Signals
    ledger: Ledger
    files: Files
