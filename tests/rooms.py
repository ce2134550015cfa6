"""A real repository, its workspace, trees and adapters, for tests of the hands that build, check and time."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ridgeline.graph.contract import Contract
from ridgeline.graph.evidence import Machine
from ridgeline.graph.ports import CandidateCommit, Judge
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.devices.machine import LocalDevice
from ridgeline.sandbox.profiles.profilers.cpu import CpuProfiler
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.timing.timer import ContractTimer
from ridgeline.sandbox.workspace.builder import ContractBuilder
from ridgeline.sandbox.workspace.checker import ContractChecker
from ridgeline.sandbox.workspace.checkouts import Trees
from ridgeline.sandbox.workspace.commands import Commands, judge_of
from ridgeline.sandbox.workspace.worktree import GitWorkspace
from tests.builders import make_contract

OUTSIDE = "TEST_CACHE_DIR"
"""Variable of a declared build cache: the one folder outside its checkout that a command may change."""
COLUMNS = ("label", "n", "Check", "GFLOPS", "GFLOPS_stddev", "Time (ms)")
HEADER = ",".join(COLUMNS)


def script_contract(**fields) -> Contract:
    """A contract whose commands are the shell scripts of the repository."""
    default = {
        "kernel_source": ("kernel.sh",),
        "test_command": ("./test.sh",),
        "benchmark_command": ("./bench.sh", "{csv}"),
        "quick_command": ("./bench.sh", "{csv}", "--shapes", "{shapes}"),
        "benchmark_output": {"columns": COLUMNS},
        "scoring": {"primary_metric": "GFLOPS", "time_ms": "Time (ms)"},
        "work": {},
    }
    return make_contract(**{**default, **fields})


class StillDevice:
    """A device that is always the same: fingerprints in tests are not this machine's."""

    def machine(self) -> Machine:
        return Machine(kind="cpu", name="Test CPU", arch="x86_64", fingerprint="f" * 64, l3_bytes=32 * 1024 * 1024)

    def ceilings(self, dtype: str) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Room:
    workspace: GitWorkspace
    trees: Trees
    artifacts: ArtifactStore
    commands: Commands
    builder: ContractBuilder
    checker: ContractChecker
    timer: ContractTimer
    base: str
    pairs_shown: list[str]
    """What the timer told of pairs that began."""

    def candidate(self, files: Mapping[str, str]) -> str:
        """A commit with these edits on top of the base."""
        edits = tuple(FileEdit(path=path, text=text) for path, text in files.items())
        applied = self.workspace.apply(round=2, parent=self.base, edits=edits, at="2026-11-21T10:00:00Z")
        assert isinstance(applied, CandidateCommit), applied
        return applied.commit

    def profiler(self) -> CpuProfiler:
        device = LocalDevice(self.commands.contract)
        return CpuProfiler(self.commands, self.builder, artifacts=self.artifacts, device=device)


def open_room(repository: Path, campaign: Path, contract: Contract, judge: Judge | None = None) -> Room:
    """`judge`: default our own, where the contract is a task's."""
    artifacts = ArtifactStore(campaign / "artifacts")
    workspace = GitWorkspace(repository, PurePosixPath("."), campaign, contract, artifacts)
    base = workspace.open("none")
    trees = Trees(workspace)
    commands = Commands(contract=contract, trees=trees, judge=judge or judge_of(contract))
    builder = ContractBuilder(commands)
    pairs_shown: list[str] = []
    return Room(
        workspace=workspace,
        trees=trees,
        artifacts=artifacts,
        commands=commands,
        builder=builder,
        checker=ContractChecker(commands, builder),
        timer=ContractTimer(
            commands, builder, artifacts=artifacts, device=StillDevice(), wait_s=120, show_pair=pairs_shown.append
        ),
        base=base.commit,
        pairs_shown=pairs_shown,
    )
