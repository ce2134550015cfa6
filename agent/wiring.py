"""The one place that knows which adapter plays which port."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from agent.errors import UserError
from agent.tape import Tape, taped
from graph.contract import Contract
from graph.limits import Limits
from graph.ports import Planner, Ports
from sandbox.artifacts import ArtifactStore
from sandbox.builder import ContractBuilder
from sandbox.checker import ContractChecker
from sandbox.clock import SystemClock
from sandbox.commands import Commands
from sandbox.durable import write_whole
from sandbox.files import CampaignFiles
from sandbox.ledger import JsonlLedger
from sandbox.machine import LocalDevice
from sandbox.profiler.cpu import CpuProfiler
from sandbox.signals import StopFile
from sandbox.timer import ContractTimer
from sandbox.trees import Trees
from sandbox.worktree import GitWorkspace

TIPS = PurePosixPath("agent/historical_experience")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a campaign lives."""

    repository: Path
    """Root of the user's repository; may be gone when the campaign's folder was copied elsewhere."""
    contract_dir: PurePosixPath
    """The contract's folder inside it."""
    campaign_dir: Path
    recording: Path | None = None
    """Campaign whose tape answers instead of model and machine."""
    moved_to: str | None = None
    """Fingerprint of this machine when the campaign began on another one: its recorded times are asked for again."""


def _catalog(contract: Contract) -> Planner:
    from agent.planners.catalog import CatalogPlanner

    return CatalogPlanner()


PLANNERS: dict[str, Callable[[Contract], Planner]] = {"catalog": _catalog}


def connect(place: Place, contract: Contract, planner: str, limits: Limits | None = None) -> Ports:
    """Real adapters, with everything that is asked of the outside world on the tape. `limits`: default the preset's."""
    limits = limits or Limits()
    if planner not in PLANNERS and place.recording is None:
        raise UserError(f"--planner: {planner!r} is unknown; known: {', '.join(sorted(PLANNERS))}")
    folder = place.campaign_dir
    artifacts = ArtifactStore(folder)
    workspace = GitWorkspace(
        repo_root=place.repository,
        contract_dir=place.contract_dir,
        campaign_dir=folder,
        contract=contract,
        artifacts=artifacts,
    )
    commands = Commands(contract=contract, trees=Trees(workspace))
    builder, device = ContractBuilder(commands), LocalDevice(contract)
    live = Ports(
        planner=PLANNERS.get(planner, _catalog)(contract),
        workspace=workspace,
        builder=builder,
        checker=ContractChecker(commands, builder),
        timer=ContractTimer(
            commands,
            builder,
            artifacts=artifacts,
            device=device,
            wait_s=limits.gpu_max_wait_s,
            dropped_limit=limits.dropped_blocks_limit,
        ),
        profiler=CpuProfiler(commands, builder, artifacts=artifacts, device=device),
        device=device,
        clock=SystemClock(),
        signals=StopFile(folder),
        ledger=JsonlLedger(folder / "ledger.jsonl"),
        files=CampaignFiles(folder, tips_root=place.repository / TIPS),
    )
    return on_tape(live, place)


def on_tape(live: Ports, place: Place) -> Ports:
    """The same ports, asking the campaign's own tape first, or only the recording's."""
    recorded = place.recording
    if recorded:
        _lend_artifacts(recorded / "artifacts", place.campaign_dir / "artifacts")
    tape = (
        Tape(recorded / "tape.jsonl", mode="replay")
        if recorded
        else Tape(place.campaign_dir / "tape.jsonl", machine=place.moved_to)
    )
    return replace(
        live,
        planner=taped("planner", live.planner, tape),
        builder=taped("builder", live.builder, tape),
        checker=taped("checker", live.checker, tape),
        timer=taped("timer", live.timer, tape),
        profiler=taped("profiler", live.profiler, tape),
        device=taped("device", live.device, tape),
        clock=taped("clock", live.clock, tape),
        signals=taped("signals", live.signals, tape),
    )


def _lend_artifacts(theirs: Path, ours: Path) -> None:
    """What recorded answers refer to; a blob is named by its content, so one that is there is the same."""
    for blob in theirs.glob("*/*"):
        target = ours / blob.parent.name / blob.name
        if not target.exists():
            write_whole(target, blob.read_bytes())
