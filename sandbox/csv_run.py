"""One fresh process that must write a CSV: under the lease, pinned, and read only after it has ended (rules 11.13)."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graph.contract import Argv
from graph.evidence import BenchmarkFailed, Exit
from sandbox.commands import Commands, fill, pinned_core, said
from sandbox.csv_schema import Problem
from sandbox.lease import lease
from sandbox.load import Load, between, sample

Reason = Literal["crash", "timeout", "tampered"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one timed process left behind."""

    exit: Exit
    data: bytes | None
    """The CSV, None when none was written."""
    tampered: tuple[str, ...]
    load: Load

    def failed(self, commit: str, *, who: str, tolerated: int | None = None) -> BenchmarkFailed | None:
        """Why the process counts for nothing; None when it ended well. `tolerated`: an exit code that may pass too."""
        reason: Reason
        if self.tampered:
            reason, detail = (
                "tampered",
                f"files that no run may change were changed by this one: {', '.join(self.tampered)}",
            )
        elif self.exit.timed_out:
            reason, detail = "timeout", said(self.exit)
        elif self.exit.ok or self.exit.returncode == tolerated:
            return None
        else:
            reason, detail = "crash", said(self.exit)
        return BenchmarkFailed(commit=commit, reason=reason, detail=f"{who}: {detail}", seconds=self.exit.seconds)


@dataclass(frozen=True, kw_only=True)
class Stopwatch:
    """Runs the contract's timed commands, one at a time on this machine."""

    commands: Commands
    wait_s: float
    """How long to wait for others who hold the device, in seconds."""

    def run(self, field: str, argv: Argv, *, values: Mapping[str, str], commits: tuple[str, ...], cwd: Path) -> Run:
        """One process with `{csv}` in a new folder outside every tree, so that no older file can be read for its own.

        Raises `DeviceBusy` when the lease does not come, `ProgramMissing` when the command does not exist.
        """
        core = pinned_core() if self.commands.contract.threads == 1 else None
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            path = Path(folder) / "out.csv"
            with lease(self.commands.kind, wait_s=self.wait_s):
                before = sample(core)
                ran = self.commands.guarded(
                    field,
                    fill(argv, {"csv": str(path), **values}),
                    commits=commits,
                    cwd=cwd,
                    timeout_s=self.commands.contract.timeouts.benchmark_s,
                    timed=True,
                )
                load = between(before, sample(core), core)
            data = path.read_bytes() if path.is_file() else None
        return Run(exit=ran.exit, data=data, tampered=ran.tampered, load=load)


def unusable(problem: Problem, commit: str, *, who: str, seconds: float) -> BenchmarkFailed:
    """A CSV that cannot be used, as the measurement's failure."""
    return BenchmarkFailed(commit=commit, reason=problem.reason, detail=f"{who}: {problem.detail}", seconds=seconds)
