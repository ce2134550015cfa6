"""Builds drafted edits here where the campaign's task ships: tested on a processor, ahead of time for a GPU."""

import json
import tempfile
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from ridgeline.agent.contract_file import load
from ridgeline.agent.errors import UserError
from ridgeline.agent.isa.request import Asked, inspected
from ridgeline.agent.planner.checks import Checks
from ridgeline.agent.planner.conversation import Wrong
from ridgeline.agent.planner.edits import edited
from ridgeline.agent.tasks import compose
from ridgeline.evals.decisions.points import Decision
from ridgeline.evals.decisions.shipped import task_of
from ridgeline.evals.task_folders import Parts
from ridgeline.graph.ports import Applied
from ridgeline.graph.values import FileEdit, Value
from ridgeline.sandbox.profiles.isa.values import CompilerMissing, NotCompiled
from ridgeline.sandbox.store.campaign_folder import ArtifactStore
from ridgeline.sandbox.workspace.builder import ContractBuilder
from ridgeline.sandbox.workspace.checker import ContractChecker
from ridgeline.sandbox.workspace.checkouts import Trees
from ridgeline.sandbox.workspace.commands import Commands, judge_of
from ridgeline.sandbox.workspace.worktree import GitWorkspace

AT = "2026-01-01T00:00:00Z"
"""Commits of a trial carry no real time, so that the same edits are the same commit."""

TARGET = "sm_90"
COMPILE_S = 120.0


class Tried(Value):
    """What became of edits. None: not tried, because it cannot be here."""

    compiles: bool | None = None
    correct: bool | None = None
    detail: str = ""


def tried(decision: Decision, answer: str, checks: Checks) -> Tried:
    """Apply the answer's edits to the version it was asked about, build it, test it. Candidate code runs confined."""
    task = task_of(decision.contract)
    if task is None or decision.kind == "propose":
        return Tried(detail="" if task else "the task does not ship")
    texts = dict(checks.texts) if checks.texts else dict(decision.sources)
    done = edited(answer, texts, decision.contract)
    if isinstance(done, Wrong):
        return Tried(detail=done.why)
    changed = {**texts, **{edit.path: edit.text for edit in done.edits if edit.text is not None}}
    return _run(task, json.dumps(changed, sort_keys=True))


@lru_cache(maxsize=512)
def _run(task: Parts, files: str) -> Tried:
    """The same version is built once, whoever drafted it."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-try-") as scratch:
        return _verdict(Path(scratch), task, json.loads(files))


def _verdict(scratch: Path, task: Parts, files: Mapping[str, str]) -> Tried:
    repository = compose(task[0].name, task, scratch / "task")
    contract = load(repository).contract
    if contract.target_gpu != "cpu":
        return _ahead(repository, files)
    workspace = GitWorkspace(
        repo_root=repository,
        contract_dir=PurePosixPath("."),
        campaign_dir=scratch / "campaign",
        contract=contract,
        artifacts=ArtifactStore(scratch / "campaign"),
    )
    base = workspace.open("none")
    edits = tuple(FileEdit(path=path, text=text) for path, text in files.items())
    applied = workspace.apply(round=2, parent=base.commit, edits=edits, at=AT)
    if not isinstance(applied, Applied):
        return Tried(compiles=False, correct=False, detail=str(applied))
    commands = Commands(contract=contract, trees=Trees(workspace), judge=judge_of(contract))
    builder = ContractBuilder(commands)
    built = builder.build(applied.commit)
    if not built.ok:
        return Tried(compiles=False, correct=False, detail=built.exit.output if built.exit else "")
    tested = ContractChecker(commands, builder).check(applied.commit, purpose="try")
    return Tried(compiles=True, correct=tested.passed, detail=tested.detail)


def _ahead(folder: Path, files: Mapping[str, str]) -> Tried:
    """Compiled ahead of time for `TARGET` as the task's own call launches it; there is no card to test it on."""
    if find_spec("triton") is None:
        return Tried(detail="its task needs a GPU, and there is no Triton here to compile it ahead of time")
    for path, text in files.items():
        (folder / path).write_text(text, encoding="utf-8")
    calls = {told["call"] for told in tomllib.loads((folder / "isa.toml").read_text(encoding="utf-8")).values()}
    try:
        for call in sorted(calls):
            inspected(Asked(file=folder / "kernel.py", call=call, target=TARGET, timeout=COMPILE_S))
    except NotCompiled as error:
        return Tried(compiles=False, detail=str(error))
    except (UserError, CompilerMissing) as error:
        return Tried(detail=f"could not be compiled ahead of time: {error}")
    return Tried(compiles=True, detail=f"compiled for {TARGET}; its task needs a GPU")
