"""One fresh process that must write a CSV: under the lease, pinned, and read only after it has ended (rules 11.13)."""

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from ridgeline.graph.contract import Argv
from ridgeline.graph.evidence import BenchmarkFailed, Exit
from ridgeline.sandbox.devices.gate import Bound
from ridgeline.sandbox.isolation.directory_pool import fresh_folder
from ridgeline.sandbox.isolation.environment import passed
from ridgeline.sandbox.timing.conditions.core_watch import CoreWatch
from ridgeline.sandbox.timing.conditions.smi import CardWatch, smi_of
from ridgeline.sandbox.timing.conditions.values import Conditions
from ridgeline.sandbox.timing.csv_schema import Problem
from ridgeline.sandbox.workspace.commands import Commands, fill, pinned_core, said

Reason = Literal["crash", "timeout", "tampered"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one timed process left behind."""

    exit: Exit
    data: bytes | None
    """The CSV, None when none was written."""
    tampered: tuple[str, ...]
    conditions: Conditions

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
        contract = self.commands.contract
        core = CoreWatch(pinned_core() if contract.threads == 1 else None)
        with fresh_folder() as folder:
            path = folder / f"{secrets.token_hex(8)}.csv"  # the folder may serve again, the name never
            with self.commands.device(wait_s=self.wait_s) as bound, self._watching(bound) as card:
                ran = _watched(self.commands, core).guarded(
                    field,
                    fill(argv, {"csv": str(path), **values}),
                    commits=commits,
                    cwd=cwd,
                    timeout_s=contract.timeouts.benchmark_s,
                    timed=True,
                )
            data = path.read_bytes() if path.is_file() else None
        return Run(exit=ran.exit, data=data, tampered=ran.tampered, conditions=_seen(core, card))

    @contextlib.contextmanager
    def _watching(self, bound: Bound | None) -> Iterator[CardWatch | None]:
        environment = passed(self.commands.contract.pass_environment)
        smi = smi_of(self.commands.kind, environment, card=bound.card if bound else None)
        if smi is None:
            yield None
            return
        card = CardWatch(smi)
        with card.around():
            yield card


@dataclass(frozen=True, kw_only=True)
class _Watched(Commands):
    """Commands of which one is watched while its process runs, and not while its tree is looked after."""

    watch: CoreWatch

    def plain(
        self,
        field: str,
        argv: tuple[str, ...],
        *,
        cwd: Path,
        timeout_s: float,
        timed: bool = False,
        extra: Mapping[str, str] | None = None,
        profiler: bool = False,
    ) -> Exit:
        with self.watch:
            return super().plain(field, argv, cwd=cwd, timeout_s=timeout_s, timed=timed, extra=extra, profiler=profiler)


def _watched(commands: Commands, watch: CoreWatch) -> Commands:
    same = {field.name: getattr(commands, field.name) for field in fields(commands)}
    return _Watched(**same, watch=watch)


def _seen(core: CoreWatch, card: CardWatch | None) -> Conditions:
    seen = core.seen()
    if card is None:
        return seen
    of_card, notes = card.seen(seen.load.began_us, seen.load.ended_us)
    return seen.model_copy(update={"card": of_card, "notes": (*seen.notes, *notes)})


def unusable(problem: Problem, commit: str, *, who: str, seconds: float) -> BenchmarkFailed:
    """A CSV that cannot be used, as the measurement's failure."""
    return BenchmarkFailed(commit=commit, reason=problem.reason, detail=f"{who}: {problem.detail}", seconds=seconds)
