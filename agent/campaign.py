"""Start a campaign, or go on with one after any stop."""

import gc
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from ridgeline.agent.checkpoints import checkpoints
from ridgeline.agent.continuation import going_on
from ridgeline.agent.contract_file import LoadedContract
from ridgeline.agent.errors import UserError, Waiting
from ridgeline.agent.live import Live
from ridgeline.agent.notify import keep
from ridgeline.agent.outcome import Outcome, Status
from ridgeline.agent.progress import Progress
from ridgeline.agent.providers.choice import Choice, elsewhere
from ridgeline.agent.refusal import nothing_left
from ridgeline.agent.request import StartRequest
from ridgeline.agent.stop_summary import add_stop_summary
from ridgeline.agent.summary import outcome, without_device
from ridgeline.agent.version import VERSION
from ridgeline.agent.wikis import roots
from ridgeline.agent.wiring import Place, connect
from ridgeline.graph.build import build
from ridgeline.graph.errors import DeviceBusy, NeedsAnswer, SchemaMismatch
from ridgeline.graph.nodes.close.publish import restore_files
from ridgeline.graph.policy.define import Questions, resolve
from ridgeline.graph.ports import Ports
from ridgeline.graph.record import BaselineClosed, Opened, Spec
from ridgeline.graph.state import BRANCHES, Request, State, initial
from ridgeline.graph.values import SCHEMA
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.workspace.repository import Repository, find_repository, release_stale_locks

REQUEST = "request.json"
THREAD = "campaign"
FUSE = 20_000
"""LangGraph's recursion limit: a fuse, not a stop rule."""


def start(asked: StartRequest, *, recording: Path | None = None) -> Outcome:
    """Run a campaign to its end. Raises errors with an `exit_code` and a one-line message."""
    repository = find_repository(asked.contract.path.parent)
    inside = PurePosixPath(asked.contract.path.parent.resolve().relative_to(repository).as_posix())
    created = _recorded(recording).created if recording else datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    request = _request(asked, created, str(inside / asked.contract.path.name))
    place = Place(
        repository=repository,
        contract_dir=inside,
        campaign_dir=asked.campaign_dir or repository / "agent" / "workspace" / _name(asked, request, repository),
        recording=recording.resolve() if recording else None,
    )
    specs = _recorded(recording).specs if recording else _stated(asked.contract)
    request = request.model_copy(update={"campaign": place.campaign_dir.name, "specs": specs})
    _require_empty(place.campaign_dir)
    with nothing_left(place.campaign_dir, repository):
        _make(place, request, asked)
        ports = connect(place, request.contract, request.planner, request.limits, model=asked.model)
        return _run(place, request, ports, asked.progress)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a campaign's folder says of how it began."""

    place: Place
    request: Request
    contract_file: Path
    model: Choice | None


def kept(campaign_dir: Path) -> Kept:
    """Raises UserError or SchemaMismatch where the folder is not one to go on with."""
    found = _read(campaign_dir)
    return Kept(
        place=Place(
            repository=_repository(campaign_dir, Path(found["repository"])),
            contract_dir=PurePosixPath(found["contract_dir"]),
            campaign_dir=campaign_dir,
            recording=Path(found["recording"]) if found["recording"] else None,
        ),
        request=Request.model_validate(found["request"]),
        contract_file=Path(found["contract_file"]),
        model=Choice.model_validate(found["model"]) if found.get("model") else None,
    )


def resume(campaign_dir: Path, progress: Progress) -> Outcome:
    """Go on where the campaign stopped. A concluded one is only summed up."""
    found = kept(campaign_dir)
    place, request = found.place, found.request
    if place.recording is None:
        place = replace(place, moved_to=going_on(campaign_dir, request, found.contract_file))
    model = elsewhere(found.model, os.environ) if found.model else None
    ports = connect(place, request.contract, request.planner, request.limits, model=model)
    return _run(place, request, ports, progress)


def _run(place: Place, request: Request, ports: Ports, progress: Progress) -> Outcome:
    live = Live(place.campaign_dir, ports, progress)
    with lease("running", wait_s=0, folder=place.campaign_dir), checkpoints(place.campaign_dir) as saver:
        try:
            release_stale_locks(place.campaign_dir / "mirror.git", user=place.repository, branch=_branch(ports))
            restore_files(ports)
            if place.moved_to:
                # the open round holds times of the other machine; what the ledger holds is closed
                saver.delete_thread(THREAD)
            drive(saver, request, ports, live)
        except BaseException as stop:
            person = isinstance(stop, KeyboardInterrupt)
            ended: Status = "waiting" if isinstance(stop, Waiting) else "interrupted" if person else "stopped"
            live.ended(ended, problem=str(stop))
            progress.close()
            if isinstance(stop, DeviceBusy):
                add_stop_summary(ports, str(stop))
                return _told(without_device(place, request, ports, str(stop)), progress)
            if not any(isinstance(line.body, BaselineClosed) for line in ports.ledger.lines()):
                raise
            reached = outcome(place, ports, status=ended)
            progress.finished(reached)
            if ended != "waiting":
                raise
            return reached
    live.ended("concluded")
    return _told(outcome(place, ports, status="concluded"), progress)


def _told(ended: Outcome, progress: Progress) -> Outcome:
    progress.finished(ended)
    return ended


def _branch(ports: Ports) -> str | None:
    """The campaign's branch, once the ledger knows it."""
    lines = ports.ledger.lines()
    return lines[0].body.branch if lines and isinstance(lines[0].body, Opened) else None


def drive(saver: SqliteSaver, request: Request, ports: Ports, live: Live) -> None:
    """From the beginning, from the saved checkpoint, or from what ledger and tape hold, to the end."""
    graph = build(saver)
    gc.collect()
    gc.freeze()  # modules and schemas stay for good; walking them again and again is a tenth of a round's own time
    gc.set_threshold(100_000, 20, 20)
    config: Any = {"configurable": {"thread_id": THREAD}, "recursion_limit": FUSE}
    given: State | None = initial(request)
    saved = graph.get_state(config)
    if saved.values:
        if saved.values.get("schema") != SCHEMA:
            raise SchemaMismatch(f"checkpoints.sqlite: schema {saved.values.get('schema')}, expected {SCHEMA}")
        given = None if saved.next else initial(request)
    # saved when it stops in order; after a kill the ledger says where the campaign is, and the tape what was answered
    stream = graph.stream(given, config, context=ports, stream_mode="tasks", durability="exit")
    asks: Sequence[Any] = ()
    for number, event in enumerate(stream):
        if number == 0:
            saver.delete_thread(THREAD)  # it has been read, and must not be gone on from once the ledger is beyond it
        if not isinstance(event, dict):
            continue
        asks = event.get("interrupts") or asks
        if "input" in event:
            live.entered(event["name"], event["input"])
        else:
            live.left(event["name"])
    if asks:
        raise Waiting(_asks(asks[0]))


def _asks(asked: Any) -> str:
    """What an interrupt of the graph wants to know, and how to tell it."""
    told = asked["value"] if isinstance(asked, dict) else asked.value
    place = "" if told["gate"] == "target" else f" of round {told['round']}"
    return (
        f"waits for a person: {told['gate']}{place}: {told['title']}; see `ridgeline queue`, then `ridgeline approve`"
    )


def _request(asked: StartRequest, created: str, contract_path: str) -> Request:
    return Request(
        contract=asked.contract.contract,
        contract_path=contract_path,
        instruction=asked.instruction,
        overrides=tuple(sorted(asked.overrides.items())),
        limits=asked.limits,
        planner=asked.planner,
        created=created,
        version=VERSION,
    )


def _name(asked: StartRequest, request: Request, repository: Path) -> str:
    """The campaign's derived name, made unique by a number. Questions are asked before anything is made."""
    from ridgeline.sandbox.devices.machine import LocalDevice

    target = resolve(
        request.contract,
        instruction=request.instruction,
        created=request.created,
        contract_path=request.contract_path,
        machine=LocalDevice(request.contract).machine(),
        overrides=dict(asked.overrides),
        branch_prefix=BRANCHES.get(request.limits.preset, "optimize"),
    )
    if isinstance(target, Questions):
        given = {name: f"--target {name}" for name in asked.overrides}
        where = f"{asked.contract.path.name}: "
        raise NeedsAnswer("\n".join(f"{given.get(q.field, where + q.field)}: {q.message}" for q in target.questions))
    names = (target.campaign if n == 1 else f"{target.campaign}_{n}" for n in range(1, 10_000))
    git, workspace = Repository(repository).git, repository / "agent" / "workspace"

    def free(name: str) -> bool:
        branch = target.git_branch.replace(target.campaign, name)
        return not (workspace / name).exists() and (
            target.campaign not in target.git_branch or git.tip(f"refs/heads/{branch}") is None
        )

    return next(name for name in names if free(name))


def _stated(loaded: LoadedContract) -> tuple[Spec, ...]:
    """What documents say of the GPU that the contract runs on; nothing of a processor, whose ceilings are measured."""
    from ridgeline.agent.roofline.roofline import of_machine
    from ridgeline.sandbox.devices.machine import LocalDevice
    from ridgeline.sandbox.devices.values import device_kind

    contract = loaded.contract
    if device_kind(contract) == "cpu":
        return ()
    return of_machine(LocalDevice(contract).machine(), contract, roots(contract, loaded.root))


def _require_empty(folder: Path) -> None:
    """A campaign's folder is wholly its own: refused starts clear it, so nobody's files may lie in it."""
    if (folder / REQUEST).exists():
        raise UserError(f"--dir: {folder}: holds a campaign already; `ridgeline resume` it or give another folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--dir: {folder}: is not an empty folder; name one that does not exist yet")


def _make(place: Place, request: Request, asked: StartRequest) -> None:
    place.campaign_dir.mkdir(parents=True, exist_ok=True)
    keep(place.campaign_dir, asked.notify)
    kept = {
        "schema": SCHEMA,
        "repository": str(place.repository),
        "contract_dir": str(place.contract_dir),
        "contract_file": str(asked.contract.path),
        "recording": str(place.recording) if place.recording else None,
        "request": request.model_dump(mode="json"),
        "model": asked.model.model_dump(mode="json") if asked.model else None,
    }
    write_whole(place.campaign_dir / REQUEST, json.dumps(kept, indent=1).encode() + b"\n")


def _read(campaign_dir: Path) -> dict[str, Any]:
    path = campaign_dir / REQUEST
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: not found; give the folder of a campaign") from error
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: is not JSON any more ({error.msg}); restore it from a copy") from error
    if not isinstance(kept, dict) or kept.get("schema") != SCHEMA:
        found = kept.get("schema") if isinstance(kept, dict) else None
        raise SchemaMismatch(
            f"{path}: schema: is {found}, this Ridgeline writes {SCHEMA}; resume with the version it was made with"
        )
    return kept


def _recorded(recording: Path) -> Request:
    return Request.model_validate(_read(recording)["request"])


def _repository(campaign_dir: Path, noted: Path) -> Path:
    """The repository that the campaign's folder lies in now, if it is the campaign's; else the one it began in.

    So a repository that was copied whole, campaigns and all, is the one that its copy goes on in.
    """
    around = campaign_dir.resolve().parents
    inside = around[2] if len(around) > 2 else noted
    if not (inside / ".git").exists():
        return noted
    try:
        base = json.loads((campaign_dir / "base.json").read_text(encoding="utf-8"))["commit"]
    except FileNotFoundError:
        return inside  # killed before the base was fixed: the place is all there is to go by
    return inside if Repository(inside).git.has(base) else noted
