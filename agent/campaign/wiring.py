"""The one place that knows which adapter plays which port."""

import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from ridgeline.agent.campaign.approvals import ApprovalFiles
from ridgeline.agent.campaign.device_host import REMOTE, DeviceHost, find_hosts
from ridgeline.agent.campaign.progress import show_pair
from ridgeline.agent.campaign.side_by_side import Lane, LocalLanes, SideBySide, prepare_port
from ridgeline.agent.campaign.tape import Tape, TapedPreparer, tape_port
from ridgeline.agent.console import note
from ridgeline.agent.contract_file import LoadedContract
from ridgeline.agent.errors import UserError
from ridgeline.agent.planner.scope import Files
from ridgeline.agent.providers.choice import Choice
from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import DiskFull
from ridgeline.graph.evidence import BenchmarkFailed, BuildResult, TestResult
from ridgeline.graph.limits import Limits
from ridgeline.graph.ports import (
    Builder,
    Checker,
    Device,
    Formatting,
    Planner,
    Ports,
    Preparer,
    Profiler,
    Searcher,
    Timer,
    Worker,
)
from ridgeline.graph.record import BaselineClosed
from ridgeline.graph.values import Value
from ridgeline.sandbox.devices.gate import CardGate, gate_of
from ridgeline.sandbox.devices.lease import telling
from ridgeline.sandbox.devices.machine import LocalDevice
from ridgeline.sandbox.isolation.commands import has_own_table
from ridgeline.sandbox.isolation.directory_pool import discard_tree
from ridgeline.sandbox.isolation.environment import conceal_secrets
from ridgeline.sandbox.isolation.process import HangWatchdog
from ridgeline.sandbox.isolation.stopping import StepEnded
from ridgeline.sandbox.profiles.profilers.cpu import CpuProfiler
from ridgeline.sandbox.store.campaign_folder import ArtifactStore, CampaignFiles, StopFile, WorkClock
from ridgeline.sandbox.store.durable import PROBE_BYTES, UNWRITABLE, UnsyncedFiles, require_room, write_whole
from ridgeline.sandbox.store.ledger import JsonlLedger, LedgerHead
from ridgeline.sandbox.timing.observation import TOTAL_S, list_busy_processes
from ridgeline.sandbox.timing.timer import BusyMachineRule, ContractTimer
from ridgeline.sandbox.workspace.builder import ContractBuilder
from ridgeline.sandbox.workspace.checker import ContractChecker
from ridgeline.sandbox.workspace.checkouts import Trees
from ridgeline.sandbox.workspace.commands import Commands, judge_of
from ridgeline.sandbox.workspace.git import git
from ridgeline.sandbox.workspace.worktree import GitWorkspace, find_repository

if TYPE_CHECKING:
    from ridgeline.agent.planner.model import ModelPlanner

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


def _catalog(contract: Contract, files: Files | None = None) -> Planner:
    """The planner without a model for a campaign; `files` say which function is timed."""
    from ridgeline.agent.planner.catalog import CatalogPlanner

    return CatalogPlanner(files=files)


PLANNERS: dict[str, Callable[[Contract], Planner]] = {"catalog": _catalog}


def connect(
    place: Place, contract: Contract, planner: str, limits: Limits | None = None, *, model: Choice | None = None
) -> Ports:
    """The real adapters of a campaign's ports, with everything asked of the outside world on the tape. `limits`: default the preset's.

    `model` thinks instead of a planner of `PLANNERS`.
    """
    conceal_secrets()
    limits = limits or Limits()
    if planner not in PLANNERS and model is None and place.recording is None:
        raise UserError(f"--planner: {planner!r} is unknown; known: {', '.join(sorted(PLANNERS))}")
    folder, later = place.campaign_dir, UnsyncedFiles()
    artifacts = ArtifactStore(folder, later=later)
    workspace = GitWorkspace(
        repo_root=place.repository,
        contract_dir=place.contract_dir,
        campaign_dir=folder,
        contract=contract,
        artifacts=artifacts,
    )
    addresses = find_hosts(contract) if place.recording is None else ()
    if addresses:
        hosts = [DeviceHost(address, workspace, limits, artifacts) for address in addresses]
        builder, checker, timer, profiler, device, preparer = _connect_hosts(hosts, folder)
    else:
        builder, checker, timer, profiler, device, preparer = connect_devices(
            place, contract, limits, workspace=workspace, artifacts=artifacts
        )
    thinker = _open_thinker(model, workspace, place=place, artifacts=artifacts, limits=limits)
    live = Ports(
        planner=thinker[0] if thinker else _planner(planner, workspace, artifacts),
        workspace=workspace,
        builder=builder,
        checker=checker,
        preparer=preparer if place.recording is None else None,
        timer=timer,
        profiler=profiler,
        searcher=_open_search(os.environ) if thinker else None,
        device=device,
        approvals=ApprovalFiles(folder, artifacts),
        clock=WorkClock(folder),
        signals=StopFile(folder),
        ledger=_ledger(folder / "ledger.jsonl", later),
        files=CampaignFiles(folder, tips_root=place.repository / TIPS),
    )
    make_worker = (lambda ports: _worker(thinker[1], ports, folder)) if thinker else None
    return on_tape(live, place, later, make_worker=make_worker)


Connected = tuple[Builder, Checker, Timer, Profiler, Device, Preparer]


def _connect_hosts(hosts: Sequence[DeviceHost], folder: Path) -> Connected:
    """The adapters of device hosts: the first answers everything, all of them build and test candidates of one round.

    One alone prepares candidates itself, on the cards that it has.
    """
    builder, checker, timer, profiler = (end_steps(hosts[0].port(name), folder) for name in REMOTE[:4])
    device = hosts[0].port("device")
    if len(hosts) == 1:
        return builder, checker, timer, profiler, device, hosts[0].port("preparer")
    lanes = [
        Lane(
            builder=end_steps(host.port("builder"), folder),
            checker=end_steps(host.port("checker"), folder),
            spare=host.address if host is not hosts[0] else "",
        )
        for host in hosts
    ]
    ahead = SideBySide(lambda count: nullcontext(lanes))
    return prepare_port(builder, ahead), prepare_port(checker, ahead), timer, profiler, device, ahead


def connect_devices(
    place: Place, contract: Contract, limits: Limits, *, workspace: GitWorkspace, artifacts: ArtifactStore
) -> Connected:
    """The adapters of a campaign's ports whose work is done on the machine with the device, not on the tape."""
    folder = place.campaign_dir
    gate = _gate(contract, limits, StopFile(folder))
    judge, task = judge_of(contract, gate), place.repository / place.contract_dir / (contract.task_file or "")
    if place.recording is None and judge is not None and task.is_file():
        judge.warm_up(task)
    commands = Commands(
        contract=contract,
        trees=Trees(workspace, candidates=limits.candidates),
        gate=gate,
        patience=_patience(limits),
        judge=judge,
    )
    builder = ContractBuilder(commands)
    device = LocalDevice(contract, wait_s=limits.gpu_max_wait_s, root=place.repository / place.contract_dir, gate=gate)
    show = partial(show_pair, place.campaign_dir)
    timer = _timer(commands, builder, artifacts=artifacts, device=device, limits=limits, show=show)

    def check_disk(port: Port) -> Port:
        return DiskChecked(port, commands, folder)  # type: ignore[return-value]

    def make_checker(gate: CardGate | None, number: int) -> Checker:
        own = replace(commands, gate=gate, judge=judge_of(contract, gate, number=number))
        return check_disk(meter_port(end_steps(ContractChecker(own, ContractBuilder(own)), folder), gate))

    checker = make_checker(gate, 0)
    lanes = LocalLanes(
        contract,
        turn=commands.turn,
        builder=check_disk(end_steps(ContractBuilder(replace(commands, gate=None)), folder)),
        checker=checker,
        gate=gate,
        make_gate=lambda: _gate(contract, limits, StopFile(folder)),
        make_checker=make_checker,
    )
    ahead = SideBySide(lanes.open)
    return (
        prepare_port(check_disk(end_steps(builder, folder)), ahead),
        prepare_port(checker, ahead),
        check_disk(meter_port(end_steps(timer, folder), gate)),
        meter_port(end_steps(_profiler(commands, builder, artifacts=artifacts, device=device), folder), gate),
        device,
        ahead,
    )


def _ledger(path: Path, later: UnsyncedFiles) -> JsonlLedger:
    """The campaign's ledger; where commands can reach the campaign's folder, its head is kept elsewhere too."""
    head = None if has_own_table() else LedgerHead.of(path)
    return JsonlLedger(path, rests_on=later, alone=True, head=head)


def _gate(contract: Contract, limits: Limits, signals: StopFile) -> CardGate | None:
    """The adapter that waits for an idle card of the contract's kind; a request to stop ends its waits too."""
    return gate_of(
        contract,
        retry_s=min(limits.gpu_retry_interval_s, limits.poll_max_s),
        max_s=limits.gpu_max_wait_s,
        say=note,
        stopped=lambda: signals.stop_requested(0),
    )


def _patience(limits: Limits) -> HangWatchdog:
    """The watchdog for polls of the machine that hang, by the campaign's limits."""
    return HangWatchdog(window_s=limits.poll_max_s, windows=limits.poll_stuck_windows)


def _timer(
    commands: Commands,
    builder: ContractBuilder,
    *,
    artifacts: ArtifactStore,
    device: LocalDevice,
    limits: Limits,
    show: Callable[[str], None],
) -> ContractTimer:
    """The port's timer on the contract's own commands."""
    return ContractTimer(
        commands,
        builder,
        artifacts=artifacts,
        device=device,
        wait_s=limits.gpu_max_wait_s,
        bearing=BusyMachineRule(dropped_limit=limits.dropped_blocks_limit, quiet_s=quiet_s(os.environ)),
        show_pair=show,
    )


def quiet_s(environment: Mapping[str, str]) -> float:
    """The campaign's setting `RIDGELINE_QUIET_S`: how long a comparison waits for a disturbed core to rest, seconds. Raises UserError."""
    text = environment.get("RIDGELINE_QUIET_S", "")
    try:
        seconds = float(text or TOTAL_S)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise UserError(f"RIDGELINE_QUIET_S: is {text!r}; give seconds, 0 never waits")
    return seconds


def _profiler(
    commands: Commands, builder: ContractBuilder, *, artifacts: ArtifactStore, device: LocalDevice
) -> Profiler:
    """The port's profiler by the kind of the contract's device: CPU counters, or a GPU's tools."""
    if commands.kind == "cpu":
        return CpuProfiler(commands, builder, artifacts=artifacts, device=device)
    from ridgeline.sandbox.profiles.profilers.gpu_fallback import GpuProfiler

    return GpuProfiler(commands, builder, artifacts=artifacts, device=device)


def _planner(name: str, workspace: GitWorkspace, artifacts: ArtifactStore) -> Planner:
    """The planner of that name, which asks no model; in a replay nobody is asked at all."""
    from ridgeline.agent.planner.tools import TreeReader

    make = PLANNERS.get(name, _catalog)
    files = TreeReader(workspace, artifacts)
    return _catalog(workspace.contract, files) if make is _catalog else make(workspace.contract)


def _open_thinker(
    model: Choice | None, workspace: GitWorkspace, *, place: Place, artifacts: ArtifactStore, limits: Limits
) -> "tuple[Planner, ModelPlanner] | None":
    """The planner that asks a model, and what it asks by; None where none thinks, or a recording answers.

    Raises KeyMissing where the model cannot be asked.
    """
    if model is None or place.recording:
        return None
    from ridgeline.agent.knowledge_folders import require_readable, roots
    from ridgeline.agent.planner.model import FrugalPlanner, ModelPlanner
    from ridgeline.agent.planner.tools import ReferenceProject, ShippedBooks, TreeReader
    from ridgeline.agent.providers.budget import open_model
    from ridgeline.agent.providers.recorded import are_drafts_together
    from ridgeline.sandbox.store.durable import cache_folder

    wikis = require_readable(roots(workspace.contract, place.repository / place.contract_dir), "knowledge.wiki")
    metered_model = open_model(model, campaign=workspace.campaign_dir, limits=limits)
    named = workspace.contract.knowledge.reference_project
    project = ReferenceProject(place.repository / place.contract_dir / named) if named else None
    books = ShippedBooks(wikis=wikis, cache=cache_folder("knowledge"), project=project)
    reader = TreeReader(workspace, artifacts)
    together = are_drafts_together(model.recording, workspace.campaign_dir) if model.recording else None
    inner = ModelPlanner(metered_model, limits=limits, reader=reader, books=books, drafts_together=together)
    return FrugalPlanner(inner, cost_so_far=lambda: metered_model.answers_cost), inner


def _open_search(environment: Mapping[str, str]) -> Searcher | None:
    """The user's own search of the public web, by `RIDGELINE_SEARCH`; None without. Raises UserError."""
    from ridgeline.agent.planner.tools import SEARCH, SearchCommand

    text = environment.get(SEARCH, "")
    return SearchCommand.parse(text) if text.strip() else None


def _worker(planner: "ModelPlanner", ports: Ports, campaign: Path) -> Worker:
    """Who works in the tree of a deep round, for whoever answers the planner's questions."""
    if planner.model.tools:
        from ridgeline.agent.deep.worker import ModelWorker

        return ModelWorker(planner, ports, campaign)
    from ridgeline.agent.deep.hands import HandsWorker

    return HandsWorker(planner, ports, campaign)


def on_tape(
    live: Ports, place: Place, later: UnsyncedFiles, *, make_worker: Callable[[Ports], Worker] | None = None
) -> Ports:
    """A campaign's ports, asking its own tape first, or only the recording's.

    `make_worker`: from ports on that tape. What a deep round runs is on it step by step, so that one that was killed
    goes on where it was; what the round came to is one more answer.
    """
    recorded = place.recording
    if recorded:
        _lend_artifacts(recorded / "artifacts", place.campaign_dir / "artifacts")
    tape = (
        Tape(recorded / "tape.jsonl", mode="replay")
        if recorded
        else Tape(place.campaign_dir / "tape.jsonl", machine=place.moved_to, later=later)
    )
    taped = replace(
        live,
        planner=tape_port("planner", live.planner, tape),
        builder=tape_port("builder", live.builder, tape),
        checker=tape_port("checker", live.checker, tape),
        timer=tape_port("timer", live.timer, tape),
        profiler=tape_port("profiler", live.profiler, tape),
        searcher=tape_port("searcher", live.searcher, tape),
        device=tape_port("device", live.device, tape),
        approvals=tape_port("approvals", live.approvals, tape),
        clock=tape_port("clock", live.clock, tape),
        signals=tape_port("signals", live.signals, tape),
    )
    if isinstance(live.preparer, SideBySide):
        taped = replace(taped, preparer=TapedPreparer(live.preparer, taped.builder, taped.checker, tape))
    if make_worker is None and recorded is None:
        return taped
    return replace(taped, worker=tape_port("worker", make_worker(taped) if make_worker else None, tape))


def _lend_artifacts(theirs: Path, ours: Path) -> None:
    """What recorded answers refer to; a blob is named by its content, so one that is there is the same."""
    for blob in theirs.glob("*/*"):
        target = ours / blob.parent.name / blob.name
        if not target.exists():
            write_whole(target, blob.read_bytes())


@contextmanager
def measuring(loaded: LoadedContract) -> Iterator[tuple[Ports, str]]:
    """Ports on a throwaway campaign of a contract, and the commit that is checked out now."""
    with throwaway_ports(loaded) as ports:
        yield ports, ports.workspace.open("none").commit


@contextmanager
def throwaway_ports(loaded: LoadedContract) -> Iterator[Ports]:
    """Ports on a campaign that is removed afterwards: for commands that measure without keeping anything."""
    with throwaway_place(loaded) as place:
        yield connect(place, loaded.contract, "catalog")


@contextmanager
def throwaway_place(loaded: LoadedContract) -> Iterator[Place]:
    """A campaign's folder that is removed afterwards, with the trees that were checked out in it."""
    repository = find_repository(loaded.root)
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-check-"))
    place = Place(
        repository=repository,
        contract_dir=PurePosixPath(loaded.root.relative_to(repository.resolve()).as_posix()),
        campaign_dir=folder,
    )
    try:
        with telling(note):
            yield place
    finally:
        discard_tree(folder)
        # the checked-out trees are gone: let git forget them too
        git("worktree", "prune", cwd=repository)


def unusable(loaded: LoadedContract, failed: BenchmarkFailed) -> UserError:
    """One line of a command for a benchmark whose numbers cannot be used; its detail begins with the command's field.

    A machine that others kept busy is no mistake of the user's: exit code 4, and who they are.
    """
    detail = " | ".join(line.strip() for line in failed.detail.splitlines() if line.strip())
    if failed.reason == "unstable":
        return UserError(f"{loaded.path.name}: {detail}; {describe_load()}", exit_code=4)
    return UserError(
        f"{loaded.path.name}: {_shorten_middle(detail)} ({failed.reason}); correct the benchmark or the contract"
    )


def describe_load() -> str:
    """Who keeps this machine busy now, and what helps."""
    busy = list_busy_processes()
    who = f"busy now: {', '.join(busy)}" if busy else "nobody is busy just now"
    return f"{who}; try again when it is quiet"


def _shorten_middle(text: str) -> str:
    """A failed command's output, shortened in the middle: the first words name the command, the last ones the reason."""
    return text if len(text) <= 600 else f"{text[:200]} ... {text[-400:]}"


# A failure on a disk without room says nothing about a candidate.

AMPLE_BYTES = 1 << 30
"""Who used up so much more than was free before did it alone: that is a failure of its own."""
NEEDED_BYTES = 1 << 26
"""Room for a command that says that there was none."""
DISK_WORDS = re.compile("|".join(re.escape(os.strerror(code)) for code in UNWRITABLE))


class DiskChecked:
    """A port whose failures are answers only where its file systems have room.

    Otherwise DiskFull is raised, which nobody records: the round stays open. A failure that speaks of the disk, where
    there is room now, is asked for once more.
    """

    def __init__(self, inner: Any, commands: Commands, campaign_dir: Path) -> None:
        self._inner = inner
        self._commands = commands
        self._folders = (Path(tempfile.gettempdir()), campaign_dir)

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._inner, method)

        def ask(*args: Any, **kwargs: Any) -> Any:
            answer = call(*args, **kwargs)
            if not _is_failure(answer):
                return answer
            blames_disk = bool(DISK_WORDS.search(answer.model_dump_json()))
            if self._has_room(answer.commit, NEEDED_BYTES if blames_disk else PROBE_BYTES) and blames_disk:
                answer = call(*args, **kwargs)
                if _is_failure(answer):
                    self._has_room(answer.commit, NEEDED_BYTES)
            return answer

        return ask

    def _has_room(self, commit: str, size: int) -> bool:
        """Whether the disk has room for a campaign's step; a commit's own commands may have filled it. Raises DiskFull."""
        try:
            require_room(*self._folders, size=size)
        except DiskFull:
            self._commands.trees.clear(commit)
            if min(shutil.disk_usage(folder).free for folder in self._folders) < AMPLE_BYTES:
                raise
            require_room(*self._folders, size=size)  # a quota does not show in what is free
            return False
        return True


def _is_failure(answer: object) -> bool:
    """Whether a campaign's build, test or timing failed, for whatever reason."""
    match answer:
        case BuildResult():
            return not answer.ok
        case TestResult():
            return not answer.passed
        case _:
            return isinstance(answer, BenchmarkFailed)


# How long a card was held for each answer of a port: written into the evidence, where the costs are added up.

Port = TypeVar("Port")


class MeteredPort:
    """A port whose answers say the seconds that the gate's leases were held meanwhile."""

    def __init__(self, inner: Any, gate: CardGate) -> None:
        self._inner = inner
        self._gate = gate

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._inner, method)

        def ask(*args: Any, **kwargs: Any) -> Any:
            before = self._gate.held_s
            answer = call(*args, **kwargs)
            if isinstance(answer, Value) and "gpu_s" in type(answer).model_fields:
                return answer.model_copy(update={"gpu_s": round(self._gate.held_s - before, 3)})
            return answer

        return ask


class EndedSteps:
    """A port whose step, where it is ended because the campaign shall stop, answers with a value that says so.

    Before the campaign's baseline is closed there is nothing to conclude: then StepEnded goes on to the runner.
    """

    def __init__(self, inner: Any, campaign_dir: Path) -> None:
        self._inner = inner
        self._ledger = campaign_dir / "ledger.jsonl"

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._inner, method)

        def ask(*args: Any, **kwargs: Any) -> Any:
            began = time.monotonic()
            try:
                return call(*args, **kwargs)
            except StepEnded as ended:
                if not any(isinstance(line.body, BaselineClosed) for line in JsonlLedger(self._ledger).lines()):
                    raise
                commit = str(args[0] if args else kwargs.get("candidate", ""))
                return _describe_ended_step(method, commit, str(ended), time.monotonic() - began)

        return ask


def _describe_ended_step(method: str, commit: str, why: str, seconds: float) -> Value | None:
    """What the port's method answers where its step was ended."""
    match method:
        case "build":
            return BuildResult(ok=False, commit=commit, exit=None, stopped=why)
        case "format":
            return Formatting(edits=(), detail=why)
        case "check" | "suite":
            return TestResult(passed=False, kind="stopped", commit=commit, detail=why, seconds=seconds)
        case "benchmark" | "compare" | "calibrate":
            return BenchmarkFailed(commit=commit, reason="stopped", detail=why, seconds=seconds)
        case _:  # a profile that nobody waits for
            return None


def end_steps(port: Port, campaign_dir: Path) -> Port:
    """A campaign's port whose steps may be ended."""
    return EndedSteps(port, campaign_dir)  # type: ignore[return-value]


def meter_port(port: Port, gate: CardGate | None) -> Port:
    """A campaign's port with its time on the device metered; on a processor, where nothing is leased for long, the port itself."""
    return port if gate is None else MeteredPort(port, gate)  # type: ignore[return-value]
