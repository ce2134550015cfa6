"""Start a campaign, or go on with one after any stop."""

import gc
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from langgraph.errors import GraphRecursionError
from langgraph.graph.state import CompiledStateGraph

from ridgeline.agent.campaign.approvals import find_open_page
from ridgeline.agent.campaign.checkpoints import Checkpoints, open_checkpoints
from ridgeline.agent.campaign.device_host import machine_of
from ridgeline.agent.campaign.notify import FILE as NOTIFIED
from ridgeline.agent.campaign.notify import store_command
from ridgeline.agent.campaign.progress import NoView, Outcome, Progress, Resolution, Status, StatusView
from ridgeline.agent.campaign.state_files import BASE, Manifest, read_manifest, require_whole, write_manifest
from ridgeline.agent.campaign.tape import Tape, TapeMiss, tape_port
from ridgeline.agent.campaign.wiring import Place, connect
from ridgeline.agent.console import Process, note
from ridgeline.agent.contract_file import LoadedContract, load
from ridgeline.agent.errors import UserError, Waiting, is_interruption
from ridgeline.agent.knowledge_folders import roots
from ridgeline.agent.providers.choice import Choice, elsewhere
from ridgeline.agent.version import VERSION
from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import (
    BranchTaken,
    CampaignError,
    DetachedHead,
    DeviceBusy,
    DirtyTree,
    DiskFull,
    NeedsAnswer,
    NotAGitRepository,
    ProgramMissing,
    SchemaMismatch,
    StateDamaged,
)
from ridgeline.graph.evidence import Machine
from ridgeline.graph.limits import Limits
from ridgeline.graph.loop.build import build_loop
from ridgeline.graph.loop.context import reopen_round, restore_files
from ridgeline.graph.ports import Base, Files, Ports
from ridgeline.graph.record import BaselineClosed, Champion, Concluded, Opened, RoundClosed, Spec, StopCheck
from ridgeline.graph.reports.logs import performance
from ridgeline.graph.rules.calibration import list_alarms
from ridgeline.graph.rules.cost import final_validation_s
from ridgeline.graph.rules.define import Questions, resolve_target, state_precision
from ridgeline.graph.rules.history import accepted_rounds, fold_ledger, rolled_back_rounds
from ridgeline.graph.rules.history import noise as folded_noise
from ridgeline.graph.rules.result import compute_result
from ridgeline.graph.standing import History
from ridgeline.graph.state import BRANCHES, Request, State, initial
from ridgeline.graph.stats.sequential import smallest_visible_gain
from ridgeline.graph.target import Target
from ridgeline.graph.values import SCHEMA, Artifact, Cost
from ridgeline.prompts.render import render
from ridgeline.sandbox.devices.lease import lease, telling
from ridgeline.sandbox.isolation.directory_pool import discard_tree
from ridgeline.sandbox.isolation.leftovers import remove_abandoned_folders, remove_campaign_leftovers
from ridgeline.sandbox.isolation.stopping import StepEnded, Stopping, listening
from ridgeline.sandbox.profiles.profilers.cpu import is_profiled
from ridgeline.sandbox.store.campaign_folder import ArtifactStore, StopFile, WorkClock, make_folders
from ridgeline.sandbox.store.durable import UNWRITABLE, make_folder, name_full_disk, write_whole
from ridgeline.sandbox.store.json_file import read_model
from ridgeline.sandbox.store.ledger import JsonlLedger
from ridgeline.sandbox.workspace.repository import Repository, find_repository, release_stale_locks
from ridgeline.sandbox.workspace.worktree import NO_BRANCH

if TYPE_CHECKING:
    from ridgeline.sandbox.workspace.worktree import GitWorkspace

# A start that is refused before anything was measured leaves nothing behind: no folder, no branch.

REFUSALS = (
    UserError,
    CampaignError,
    NotAGitRepository,
    DetachedHead,
    DirtyTree,
    BranchTaken,
    ProgramMissing,
    StepEnded,
)
"""What a person mends in the contract or the repository; a later start begins from the mended state."""


@contextmanager
def undo_refused_start(campaign_dir: Path, repository: Path) -> Iterator[None]:
    """Around the whole of a campaign's first run: takes back what a refusal leaves, until the baseline is in the ledger.

    Every error goes on to the caller; a disk that is full before anything was recorded becomes a `UserError`.
    """
    new_folders = [folder for folder in (campaign_dir, *campaign_dir.parents) if not folder.exists()]
    try:
        yield
    except Exception as error:
        recorded = (campaign_dir / "ledger.jsonl").exists() or isinstance(error, DeviceBusy | Waiting)  # can be resumed
        if not recorded or (isinstance(error, REFUSALS) and not _has_baseline(campaign_dir)):
            _take_back(campaign_dir, repository, new_folders)
        full = error if isinstance(error, DiskFull) else None
        if isinstance(error, OSError) and error.errno in UNWRITABLE:
            full = name_full_disk(Path(error.filename or campaign_dir), error.errno)
        if full and not recorded:
            raise UserError(f"{campaign_dir.name}: has not begun: {full}") from error
        raise


def _has_baseline(campaign_dir: Path) -> bool:
    """Whether the campaign's ledger holds a closed baseline."""
    return any(isinstance(line.body, BaselineClosed) for line in JsonlLedger(campaign_dir / "ledger.jsonl").lines())


def _take_back(campaign_dir: Path, repository: Path, new_folders: list[Path]) -> None:
    """Remove the campaign's branch, its files and those of `new_folders` that are empty then."""
    with suppress(OSError, StateDamaged):  # a disk that takes no change keeps what is there
        if base := _read_base(campaign_dir):
            release_stale_locks(campaign_dir / "mirror.git", user=repository, branch=base.branch)
            # only while it still points where the campaign put it
            Repository(repository).git.attempt("update-ref", "-d", f"refs/heads/{base.branch}", base.commit)
    for inside in [*campaign_dir.iterdir()] if campaign_dir.is_dir() else []:
        if inside.is_dir() and not inside.is_symlink():
            discard_tree(inside)
        else:
            with suppress(OSError):  # a disk that takes no change keeps what is there
                inside.unlink(missing_ok=True)
    for folder in new_folders:
        if folder.is_dir() and not any(folder.iterdir()):
            with suppress(OSError):
                folder.rmdir()


def _read_base(campaign_dir: Path) -> Base | None:
    """Where the campaign's branch begins: known before git makes it, and before the ledger. None before that, and for no branch."""
    try:
        base = read_model(campaign_dir / BASE, Base)
    except FileNotFoundError:
        return None
    return base if base.branch != NO_BRANCH else None


# May a campaign go on here, with what it began with? Asked once, when it is resumed.

logger = logging.getLogger(__name__)


def check_machine(campaign_dir: Path, request: Request, contract_file: Path) -> str | None:
    """Fingerprint of this machine when the campaign began on another one; None when it began here.

    Raises UserError when request and ledger disagree, or when this machine's times would be compared with recorded
    ones of the other: only preset `evidence`, which times both versions side by side, can go on elsewhere.
    """
    lines = JsonlLedger(campaign_dir / "ledger.jsonl").lines()
    history = fold_ledger(lines)
    if history is None or history.concluded is not None:
        return None
    opened = lines[0].body
    if isinstance(opened, Opened) and (opened.contract, opened.limits) != (request.contract, request.limits):
        raise UserError(
            f"{campaign_dir / 'request.json'}: request: differs from what the ledger says the campaign began with;"
            " restore it from a copy, or start a new campaign"
        )
    tell_of_edits(contract_file, request)
    here = machine_of(request.contract)
    if here.fingerprint == history.opened.machine.fingerprint:
        return None
    if why := _find_machine_bond(history):
        raise UserError(
            f"{campaign_dir.name}: began on {history.opened.machine.name} ({history.opened.machine.fingerprint[:12]}), this"
            f" is {here.name} ({here.fingerprint[:12]}): {why}; resume it there, or start a new campaign here"
        )
    logger.warning(
        "%s: began on another machine (%s); the open round is measured afresh here",
        campaign_dir.name,
        history.opened.machine.name,
    )
    return here.fingerprint


def _find_machine_bond(history: History) -> str:
    """Why the campaign is bound to the machine it began on; empty when it is not."""
    if history.baseline is None:
        return "its baseline is half measured"
    if history.limits.preset != "evidence":
        return f"preset {history.limits.preset} would compare new times with times that were recorded on the other"
    return ""


def tell_of_edits(contract_file: Path, request: Request) -> None:
    """Log a warning where the contract is no longer what the campaign began with, which is what it keeps to."""
    if not contract_file.is_file():
        return
    try:
        now, then = load(contract_file).contract, request.contract
        now = state_precision(now, instruction=request.instruction, overrides=dict(request.overrides))
        # folders that `run --wiki` attached come after the file's own
        own_wikis = then.knowledge.wiki[: len(now.knowledge.wiki)]
        same = then.model_copy(update={"knowledge": then.knowledge.model_copy(update={"wiki": own_wikis})}) == now
    except UserError:
        same = False
    if not same:
        logger.warning(
            "%s: was changed after the campaign began, which goes on with the contract it began with;"
            " start a new campaign for the new one",
            contract_file,
        )


# What the command line asks of the campaign runner.

__all__ = ["Outcome", "StartRequest"]


@dataclass(frozen=True, kw_only=True)
class StartRequest:
    """A campaign to start. `limits` are resolved; `overrides` are parameters of the target that win over all else."""

    contract: LoadedContract
    instruction: str
    """Free text of the user; empty when there is none."""
    limits: Limits
    planner: str
    """Name of the planner, for example `catalog`."""
    model: Choice | None = None
    """The language model that thinks instead of a planner that needs none."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    progress: Progress
    notify: tuple[str, ...] = ()
    """Command that is told of events, its program as a path; empty for none."""
    memory: tuple[Path, ...] = ()
    """Folders with more campaigns whose best versions are tried first; the repository's own are looked at anyway."""
    campaign_dir: Path | None = None
    """Where to keep the campaign; None means `<repository>/agent/workspace/<campaign>`."""


REQUEST = "request.json"
NAMING_S = 60.0
"""So long a start waits for others that find their names in the same repository."""
FUSE = 20_000
"""Steps that the loop may take in which no round is closed; then the campaign ends, with its report."""


def start(start_request: StartRequest, *, recording: Path | None = None) -> Outcome:
    """Run a campaign to its end. Raises errors with an `exit_code` and a one-line message."""
    began = Process.began or time.time()
    repository = find_repository(start_request.contract.path.parent)
    inside = PurePosixPath(start_request.contract.path.parent.resolve().relative_to(repository).as_posix())
    created = _read_request(recording).created if recording else datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    request = _request(start_request, created, str(inside / start_request.contract.path.name))
    specs = (
        _read_request(recording).specs
        if recording
        else _documented_specs(request.contract, start_request.contract.root)
    )
    with ExitStack() as undoing:
        # a name is found and taken by one process at a time, so that two starts make two campaigns
        with lease(f"start-{hashlib.sha256(os.fsencode(repository)).hexdigest()[:16]}", wait_s=NAMING_S):
            place = Place(
                repository=repository,
                contract_dir=inside,
                campaign_dir=start_request.campaign_dir
                or repository / "agent" / "workspace" / _derive_name(start_request, request, repository),
                recording=recording.resolve() if recording else None,
            )
            original = _read_request(recording) if recording else None
            champions = original.champions if original else _list_past_champions(start_request, request, repository)
            request = request.model_copy(
                update={
                    "champions": champions,
                    "campaign": place.campaign_dir.name,
                    "specs": specs,
                    "counts_work": original.counts_work if original else True,
                    "steerable": original.steerable if original else True,
                    "stamps_edits": original.stamps_edits if original else True,
                    "drafts_first": original.drafts_first if original else True,
                }
            )
            _require_empty(place.campaign_dir)
            undoing.enter_context(undo_refused_start(place.campaign_dir, repository))
            _write_request(place, request, start_request)
        with lease("running", wait_s=0, folder=place.campaign_dir):
            WorkClock(place.campaign_dir).begin(began)
            ports = connect(place, request.contract, request.planner, request.limits, model=start_request.model)
            return _run(place, request, ports, start_request.progress)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a campaign's folder says of how it began."""

    place: Place
    request: Request
    contract_file: Path
    model: Choice | None


def read_campaign(campaign_dir: Path) -> Origin:
    """What a campaign was opened with. Raises UserError, StateDamaged or SchemaMismatch where the folder is not one to go on with."""
    manifest = read_manifest(campaign_dir)
    return Origin(
        place=Place(
            repository=_find_repository(campaign_dir, Path(manifest.repository)),
            contract_dir=PurePosixPath(manifest.contract_dir),
            campaign_dir=campaign_dir,
            recording=Path(manifest.recording) if manifest.recording else None,
        ),
        request=manifest.request,
        contract_file=Path(manifest.contract_file),
        model=manifest.model,
    )


def resume(campaign_dir: Path, progress: Progress) -> Outcome:
    """Go on where the campaign stopped. A concluded one is only summed up."""
    began = Process.began or time.time()
    require_whole(campaign_dir)
    origin = read_campaign(campaign_dir)
    place, request = origin.place, origin.request
    # before the tape is opened: its torn end may be another process in the middle of a write
    with lease("running", wait_s=0, folder=campaign_dir):
        if place.recording is None:
            place = replace(place, moved_to=check_machine(campaign_dir, request, origin.contract_file))
        remove_campaign_leftovers(campaign_dir)
        remove_abandoned_folders()
        WorkClock(campaign_dir).begin(began)
        model = elsewhere(origin.model, os.environ) if origin.model else None
        ports = connect(place, request.contract, request.planner, request.limits, model=model)
        return _run(place, request, ports, progress)


def _run(place: Place, request: Request, ports: Ports, progress: Progress) -> Outcome:
    """Drive the campaign's loop, with its lease held, and say how it ended. Raises what stopped it."""
    live = StatusView(place.campaign_dir, ports, progress)
    with open_checkpoints(place.campaign_dir) as saved, telling(note):
        try:
            base = _read_base(place.campaign_dir)
            branch = base.branch if base else None
            release_stale_locks(place.campaign_dir / "mirror.git", user=place.repository, branch=branch)
            restore_files(ports)
            if place.moved_to:
                # the open round holds times of the other machine; what the ledger holds is closed
                saved.delete()
            clock = WorkClock(place.campaign_dir)
            stopping = Stopping(
                requests=lambda: StopFile(place.campaign_dir).requests,
                worked_s=None if place.recording else lambda: clock.worked_s("now"),
            )
            with listening(stopping):
                drive(saved, request, ports, live, stopping)
        except BaseException as stop:
            person = is_interruption(stop)
            ended: Status = "waiting" if isinstance(stop, Waiting) else "interrupted" if person else "stopped"
            live.end(ended, problem=str(stop))
            progress.close()
            if ended == "waiting" and live.measured:
                note(f"measured, and counted once the question about it is answered: {live.measured}")
            if isinstance(stop, DeviceBusy):
                add_stop_summary(ports, str(stop))
                return _report_end(without_device(place, request, ports, str(stop)), progress)
            if not any(isinstance(line.body, BaselineClosed) for line in ports.ledger.lines()):
                raise
            reached = outcome(place, ports, status=ended)
            progress.show_outcome(reached)
            if ended != "waiting":
                raise
            return reached
    live.end("concluded")
    return _report_end(outcome(place, ports, status="concluded"), progress)


def _report_end(ended: Outcome, progress: Progress) -> Outcome:
    """Show the campaign's outcome and pass it on."""
    progress.show_outcome(ended)
    return ended


def drive(
    checkpoints: Checkpoints, request: Request, ports: Ports, live: StatusView, stopping: Stopping | None = None
) -> None:
    """Drive a campaign's loop from the beginning, from the saved checkpoint, or from what ledger and tape hold, to the end.

    `stopping` is told how long steps may last, and when the final validation begins.
    """
    graph = _build_once().copy({"checkpointer": checkpoints.saver})
    gc.collect()
    gc.freeze()  # modules and schemas stay for good; walking them again and again is a tenth of a round's own time
    gc.set_threshold(100_000, 20, 20)
    config: Any = {"configurable": {"thread_id": checkpoints.thread}, "recursion_limit": FUSE}
    graph_input: State | None = initial(request)
    saved = graph.get_state(config)
    if saved.values:
        if saved.values.get("schema") != SCHEMA:
            raise SchemaMismatch(f"checkpoints: schema {saved.values.get('schema')}, expected {SCHEMA}")
        graph_input = None if saved.next else initial(request)
    if graph_input is not None:
        ports = reopen_round(ports)
    # saved when it stops in order; after a kill the ledger says where the campaign is, and the tape what was answered
    while True:
        rounds = _count_rounds(ports)
        try:
            asks = _drive_steps(graph, graph_input, config, checkpoints, request, ports, live, stopping)
            break
        except GraphRecursionError:
            graph_input = None
            if _count_rounds(ports) == rounds:
                _end_without_progress(graph, config)
    if asks:
        raise Waiting(_describe_interrupt(asks[0]))


@cache
def _build_once() -> CompiledStateGraph[State, Ports, State, State]:
    """A campaign's loop without checkpoints, the same for all campaigns of a process: LangGraph takes a while to build one."""
    return build_loop()


def _drive_steps(
    graph: Any,
    graph_input: State | None,
    config: Any,
    checkpoints: Checkpoints,
    request: Request,
    ports: Ports,
    live: StatusView,
    stopping: Stopping | None,
) -> Sequence[Any]:
    """Drive at most `FUSE` steps of the loop, each shown; the questions at which it waits. Raises GraphRecursionError after them."""
    asks: Sequence[Any] = ()
    stream = graph.stream(graph_input, config, context=ports, stream_mode="tasks", durability="exit")
    for number, event in enumerate(stream):
        if number == 0:
            checkpoints.delete()  # it has been read, and must not be gone on from once the ledger is beyond it
        if not isinstance(event, dict):
            continue
        asks = event.get("interrupts") or asks
        if "input" in event:
            live.enter_node(event["name"], event["input"])
            if stopping is not None:
                _allow_time(stopping, event["name"], request, ports)
        else:
            live.leave_node(event["name"])
    return asks


def _count_rounds(ports: Ports) -> int:
    """Rounds that are closed: the campaign's progress."""
    return sum(isinstance(line.body, RoundClosed) for line in ports.ledger.lines())


def _end_without_progress(graph: Any, config: Any) -> None:
    """Have the stop check end the campaign, whatever round is open: it closes none any more."""
    why = f"the loop took {FUSE} steps and closed no round"
    closed = {"trial": None, "proposal": None, "alternatives": (), "decisions": (), "queue": (), "rivals": ()}
    state = {**closed, "exhausted": why}
    graph.update_state(config, state, as_node="calibrate")


def _allow_time(stopping: Stopping, node: str, request: Request, ports: Ports) -> None:
    """How long the steps of a node may last: until the campaign's limit, less what the final validation needs."""
    if node == "final_test":
        stopping.begin_final()
    if request.limits.max_minutes is None or not request.counts_work:
        return
    history = fold_ledger(ports.ledger.lines())
    stopping.until_s = 60 * request.limits.max_minutes
    stopping.rounds_until_s = stopping.until_s - (final_validation_s(history) if history else 0.0)


def _describe_interrupt(interrupt: Any) -> str:
    """What an interrupt of the graph wants to know, and how to tell it."""
    question = interrupt["value"] if isinstance(interrupt, dict) else interrupt.value
    place = "" if question["gate"] == "target" else f" of round {question['round']}"
    return f"waits for a person: {question['gate']}{place}: {question['title']}; see `ridgeline queue`, then `ridgeline approve`"


def _request(request: StartRequest, created: str, contract_path: str) -> Request:
    """What a campaign is opened with (`request.json`), as it is kept for a resume."""
    return Request(
        contract=state_precision(
            request.contract.contract, instruction=request.instruction, overrides=request.overrides
        ),
        contract_path=contract_path,
        instruction=request.instruction,
        overrides=tuple(sorted(request.overrides.items())),
        limits=request.limits,
        planner=request.planner,
        created=created,
        version=VERSION,
    )


def _list_past_champions(start_request: StartRequest, request: Request, repository: Path) -> tuple[Champion, ...]:
    """Champions of earlier campaigns for a warm start, each described in a line; none without one."""
    if not request.limits.warm_start:
        return ()
    from ridgeline.agent.campaign.champions import find_champions

    root = start_request.contract.root
    champions, problems = find_champions(
        *_resolve_target(start_request, request),
        root=root,
        repository=repository,
        memory=(*roots(request.contract, root), *start_request.memory),
    )
    for problem in problems:
        note(f"warm start: {problem}")
    for champion in champions:
        fate = f"is shown as text alone: {champion.mismatch}" if champion.mismatch else "judged again here"
        note(f"warm start: champion of {champion.campaign} ({champion.speedup:.2f}x there), {fate}")
    return champions


def _resolve_target(start_request: StartRequest, request: Request) -> tuple[Target, Machine]:
    """What a new campaign optimizes, and the machine. Raises NeedsAnswer with all that is missing or contradictory."""
    machine = machine_of(request.contract)
    target = resolve_target(
        request.contract,
        instruction=request.instruction,
        created=request.created,
        contract_path=request.contract_path,
        machine=machine,
        overrides=dict(start_request.overrides),
        branch_prefix=BRANCHES.get(request.limits.preset, "optimize"),
    )
    if isinstance(target, Questions):
        flag_names = {name: f"--target {name}" for name in start_request.overrides}
        where = f"{start_request.contract.path.name}: "
        raise NeedsAnswer(
            "\n".join(f"{flag_names.get(q.field, where + q.field)}: {q.message}" for q in target.questions)
        )
    return target, machine


def _derive_name(start_request: StartRequest, request: Request, repository: Path) -> str:
    """The campaign's derived name, made unique by a number. Questions are asked before anything is made."""
    target, _ = _resolve_target(start_request, request)
    names = (target.campaign if n == 1 else f"{target.campaign}_{n}" for n in range(1, 10_000))
    git, workspace = Repository(repository).git, repository / "agent" / "workspace"

    def free(name: str) -> bool:
        """Whether neither a folder nor a branch has the name."""
        branch = target.git_branch.replace(target.campaign, name)
        return not (workspace / name).exists() and (
            target.campaign not in target.git_branch or git.tip(f"refs/heads/{branch}") is None
        )

    return next(name for name in names if free(name))


def _documented_specs(contract: Contract, root: Path) -> tuple[Spec, ...]:
    """What documents say of the GPU that the contract runs on; nothing of a processor, whose ceilings are measured."""
    from ridgeline.agent.analysis.roofline import of_machine
    from ridgeline.sandbox.devices.values import device_kind

    if device_kind(contract) == "cpu":
        return ()
    return of_machine(machine_of(contract), contract, roots(contract, root))


def _require_empty(folder: Path) -> None:
    """A campaign's folder is wholly its own: refused starts clear it, so nobody's files may lie in it."""
    if any((folder / name).exists() for name in (REQUEST, "ledger.jsonl", BASE)):
        raise UserError(f"--dir: {folder}: holds a campaign already; `ridgeline resume` it or give another folder")
    if folder.exists() and (not folder.is_dir() or any(path.name != NOTIFIED for path in folder.iterdir())):
        raise UserError(f"--dir: {folder}: is not an empty folder; name one that does not exist yet")


def _write_request(place: Place, request: Request, start_request: StartRequest) -> None:
    """Make the campaign's folder with what a resume needs: the request, where it came from, who is notified."""
    make_folder(place.campaign_dir)
    make_folders(place.campaign_dir)
    store_command(place.campaign_dir, start_request.notify)
    manifest = Manifest(
        repository=str(place.repository),
        contract_dir=str(place.contract_dir),
        contract_file=str(start_request.contract.path),
        recording=str(place.recording) if place.recording else None,
        request=request,
        model=start_request.model,
    )
    write_manifest(place.campaign_dir, manifest)


def _read_request(recording: Path) -> Request:
    """The request of a recorded campaign."""
    return read_manifest(recording).request


def _find_repository(campaign_dir: Path, original: Path) -> Path:
    """The repository that the campaign's folder lies in now, if it is the campaign's; else the one it began in.

    So a repository that was copied whole, campaigns and all, is the one that its copy goes on in.
    """
    parents = campaign_dir.resolve().parents
    inside = parents[2] if len(parents) > 2 else original
    if not (inside / ".git").exists():
        return original
    try:
        base = read_model(campaign_dir / BASE, Base)
    except FileNotFoundError:
        return inside  # killed before the base was fixed: the place is all there is to go by
    return inside if Repository(inside).git.has(base.commit) else original


def write_ledger_from_tape(campaign_dir: Path) -> str:
    """Write the lines that a campaign's ledger lacks again, as far as the tape answers; the question at which it ends.

    Nothing is measured and no model is asked: what the tape does not answer ends it.
    """
    origin = read_campaign(campaign_dir)
    place = replace(origin.place, recording=campaign_dir)
    ledger = campaign_dir / "ledger.jsonl"
    present = ledger.read_bytes() if ledger.exists() else b""
    longest, longest_ends_at = present, ""
    files = PastFiles(connect(place, origin.request.contract, origin.request.planner, origin.request.limits).files)
    while True:
        write_whole(ledger, present)
        ports = connect(place, origin.request.contract, origin.request.planner, origin.request.limits)
        ends_at = ""
        try:
            with open_checkpoints(campaign_dir) as saved:
                saved.delete()
                drive(saved, origin.request, replace(ports, files=files), NoView())
        except (TapeMiss, Waiting) as stop:
            ends_at = str(stop)
        written = ledger.read_bytes()
        if len(written) > len(longest):
            longest, longest_ends_at = written, ends_at
        if "planner.propose" not in ends_at or not files.go_back():
            break
    write_whole(ledger, longest)
    return longest_ends_at


class PastFiles:
    """Port `Files` of a campaign that is played again: nothing is written, and tips are tried as they may have been.

    The tips that the campaign read before its first round stand in its ledger's first line, which every question to a
    planner names; by now its own are among them. They are tried whole, then each time without the last entry.
    """

    def __init__(self, inner: Files) -> None:
        self._inner = inner
        self._left: list[str | None] | None = None

    def write(self, files: Mapping[str, str | Artifact]) -> None:
        """Write no rendered file while a campaign is repaired: everything is rendered once, at its end."""

    def add_tip(self, gpu: str, op: str, backend: str, entry: str) -> None:
        """Add nothing while a campaign is repaired: it was when the round closed."""

    def tips(self, gpu: str, op: str, backend: str) -> str | None:
        """Commits that a repair of the campaign tries now."""
        if self._left is None:
            text = self._inner.tips(gpu, op, backend) or ""
            starts = [match.start() for match in re.finditer(r"^### ", text, re.MULTILINE)]
            self._left = [text or None, *(text[:start].removesuffix("\n") or None for start in reversed(starts))]
        return self._left[0]

    def go_back(self) -> bool:
        """Have a repair of the campaign try it without the last entry; whether there was one."""
        self._left = self._left[1:] if self._left else []
        return bool(self._left)


# The one object that `run` and `resume` end in, folded from the ledger.


def without_device(place: Place, request: Request, ports: Ports, why: str) -> Outcome:
    """How a campaign stands that found no idle device; perhaps before it had anything to write down."""
    if ports.ledger.lines():
        return outcome(place, ports, status="no_device").model_copy(update={"problem": why})
    return Outcome(
        campaign=place.campaign_dir.name,
        dir=str(place.campaign_dir),
        status="no_device",
        stop_reason="",
        rounds=0,
        accepted=0,
        rolled_back=0,
        metric=", ".join(request.contract.scoring.primary_metric),
        speedup=None,
        speedup_lower=None,
        best_commit=None,
        branch="",
        cost=Cost(),
        result=None,
        report=str(place.campaign_dir / "performance.md"),
        noise=None,
        preset=request.limits.preset,
        planner=request.planner,
        problem=why,
    )


def outcome(place: Place, ports: Ports, *, status: Status) -> Outcome:
    """How a campaign stands now: gain, rounds, how it ended, exit code."""
    history = fold_ledger(ports.ledger.lines())
    assert history is not None
    opened, result = history.opened, compute_result(history)
    final = result.final
    return Outcome(
        campaign=opened.target.campaign,
        dir=str(place.campaign_dir),
        status="concluded" if result.concluded else status,
        stop_reason=result.stop_reason,
        rounds=len(history.rounds),
        accepted=len(accepted_rounds(history)),
        rolled_back=len(rolled_back_rounds(history)),
        metric=opened.target.primary_metric,
        speedup=final.speedup if final else None,
        speedup_lower=final.lower if final else None,
        best_commit=result.best_commit if history.baseline else None,
        branch=opened.branch,
        cost=result.cost,
        result=result,
        report=str(place.campaign_dir / "final_report.md"),
        noise=_summarize_noise(history),
        preset=opened.limits.preset,
        planner=opened.planner,
        request=find_open_page(place.campaign_dir) if status == "waiting" and not result.concluded else None,
        unsourced=_list_unsourced(place) if result.concluded and opened.limits.preset == "router" else (),
    )


def _list_unsourced(place: Place) -> tuple[str, ...]:
    """Hardware numbers without a source in what a concluded campaign wrote: by design document 002 it is invalid then."""
    from ridgeline.agent.knowledge_folders import numbers, wikis_of
    from ridgeline.knowledge.library import Library

    folder = str(place.campaign_dir)
    try:
        problems = numbers(folder, Library(wikis_of(folder))).problems
    except UserError as error:  # a folder of knowledge that is gone: what it was the source of has none
        return (str(error),)
    return tuple(f"{problem.path}:{problem.line}: {problem.what}" for problem in problems)


def _summarize_noise(history: History) -> Resolution | None:
    """The measured noise as the outcome reports it; None before it is measured."""
    noise = folded_noise(history)
    if noise is None:
        return None
    return Resolution(
        sigma=noise.sd,
        visible_gain=smallest_visible_gain(noise, history.limits),
        pairs=noise.pairs,
        engine=noise.engine,
        alarms=len(list_alarms(history)),
    )


# The Stop Summary of a campaign that found no idle GPU: it is written, and the campaign can go on.


def add_stop_summary(ports: Ports, why: str) -> None:
    """Put a Stop Summary under `performance.md`.

    The ledger gets no line, since the campaign has not concluded: the next resume renders the file without it.
    """
    history, now = fold_ledger(ports.ledger.lines()), datetime.now(UTC)
    if history is None:
        text = _render_stop_summary(why, now)
    elif history.concluded is None:
        text = performance(history.model_copy(update={"concluded": _make_stop(why, now)}))
    else:
        return
    ports.files.write({"performance.md": text})


def _make_stop(why: str, now: datetime) -> Concluded:
    """The end of a campaign that found no idle device, for rendering alone."""
    return Concluded(
        stop_reason=f"T6 {why}",
        checks=(StopCheck(id="T6", description="no idle device", satisfied=True),),
        final=None,
        project=None,
        attribution=None,
        speedup=None,
        speedup_lower=None,
        closed_at=now.isoformat(),
        cost=Cost(),
    )


def _render_stop_summary(why: str, now: datetime) -> str:
    """Of a campaign that could not even measure the ceilings: there is nothing else to say of it."""
    return render(
        "stop_summary.v1.md",
        time=f"{now:%Y-%m-%d %H:%M} UTC",
        reason="no idle GPU available",
        detail=why,
        commit="none: nothing was measured yet",
        metric="-",
        aggregate="-",
        time_us="-",
        regressions=[],
    )


# Goes on with a campaign that was just answered, as far as no measuring machine is needed.
#
# A round asks several questions in a row between two measurements. Where the campaign's folder was copied away from its
# GPU to be answered, each of them would else cost a trip there and back.

MEASURING = ("builder", "checker", "timer", "profiler")
"""Ports that only the campaign's own machine can answer."""


class NeedsDevice(Exception):
    """The next step is to build, test or measure."""


class Away:
    """A port whose machine is not here."""

    def __getattr__(self, name: str) -> Any:
        def ask(*args: object, **kwargs: object) -> Any:
            raise NeedsDevice(name)

        return ask


class LedgerDevice(Away):
    """The device, as the ledger knows it."""

    def __init__(self, machine: Any) -> None:
        self.machine = lambda: machine


def plan_ahead(campaign_dir: Path) -> bool:
    """Ask what can be asked without measuring; whether a new question lies in the mailbox now.

    False, with nothing changed, while the campaign runs, before its baseline is known, and where its repository is
    not: closing a round writes to both.
    """
    origin = read_campaign(campaign_dir)
    history = fold_ledger(JsonlLedger(campaign_dir / "ledger.jsonl").lines())
    if (
        history is None
        or history.baseline is None
        or history.concluded is not None
        or not origin.place.repository.is_dir()
    ):
        return False
    try:
        with lease("running", wait_s=0, folder=campaign_dir), open_checkpoints(campaign_dir) as saved:
            drive(
                saved, origin.request, _connect_without_device(origin, LedgerDevice(history.opened.machine)), NoView()
            )
    except Waiting:
        return True
    except (NeedsDevice, DeviceBusy):
        return False
    return False


def work_at_desk(campaign_dir: Path, words: list[str]) -> str:
    """Answer of a tool to whoever edits the tree of the open deep round, while the campaign waits for their story.

    Raises UserError where no deep round is open, and DeviceBusy while the campaign runs.
    """
    from ridgeline.agent.deep.hands import open_bench
    from ridgeline.agent.planner.tools import TreeReader

    origin = read_campaign(campaign_dir)
    place, request = origin.place, origin.request
    with lease("running", wait_s=0, folder=campaign_dir), telling(note):
        WorkClock(campaign_dir).begin(Process.began or time.time())
        model = elsewhere(origin.model, os.environ) if origin.model else None
        ports = connect(place, request.contract, request.planner, request.limits, model=model)
        if not ports.ledger.lines():
            raise UserError(f"{campaign_dir.name}: has no round yet; resume it first")
        workspace = cast("GitWorkspace", ports.workspace)
        try:
            return open_bench(ports, TreeReader(workspace, ArtifactStore(campaign_dir)), campaign_dir).run(words)
        finally:
            WorkClock(campaign_dir).touch()


def _connect_without_device(origin: Origin, device: LedgerDevice) -> Ports:
    """The campaign's ports; those that measure answer from the tape or raise NeedsDevice."""
    model = elsewhere(origin.model, os.environ) if origin.model else None
    ports = connect(origin.place, origin.request.contract, origin.request.planner, origin.request.limits, model=model)
    tape = Tape(origin.place.campaign_dir / "tape.jsonl")
    profiled = is_profiled(origin.request.contract)  # else there is nothing that a profiler would have to look at
    away = {name: tape_port(name, Away(), tape) for name in MEASURING if profiled or name != "profiler"}
    return replace(ports, device=device, preparer=None, **away)  # which would build and test beside the ports
