"""In-memory ports. Each passes the same suite in `tests/contract` as the adapter that it stands for."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from ridgeline.graph.approval import Steering
from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import ArtifactLost, BranchTaken, FilesConflict, NoSuchBase
from ridgeline.graph.judgment import JudgeFailed, Judgment, QuestionAnswer, SizeTime, TimedCall
from ridgeline.graph.ports import Base, CandidateCommit, EditRefusal
from ridgeline.graph.record import Body, Line, MinimalVersion, key
from ridgeline.graph.task import Task
from ridgeline.graph.values import Artifact, FileEdit
from ridgeline.sandbox.audit.examine import find_added
from ridgeline.sandbox.judge.task_file import TaskError, load_task
from ridgeline.sandbox.store.ledger import FIRST, seal_line
from ridgeline.sandbox.workspace.edits import CONTRACT_FILE, refusal
from ridgeline.sandbox.workspace.git import Entry
from ridgeline.sandbox.workspace.globs import matches
from ridgeline.sandbox.workspace.worktree import find_minimal_project
from tests.builders import make_contract

BASE_AT = "2026-01-01T00:00:00Z"


class FakeArtifacts:
    """Port `Artifacts`, in a dict."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> Artifact:
        artifact = Artifact(sha256=hashlib.sha256(data).hexdigest(), name=name, size=len(data))
        self.blobs[artifact.sha256] = data
        return artifact

    def get(self, artifact: Artifact) -> bytes:
        if artifact.sha256 not in self.blobs:
            raise ArtifactLost(f"{artifact.name} is missing")
        return self.blobs[artifact.sha256]


class FakeLedger:
    """Port `Ledger`, in a list."""

    def __init__(self) -> None:
        self._lines: tuple[Line, ...] = ()

    def append(self, *bodies: Body) -> None:
        for body in bodies:
            if all(line.key != key(body) for line in self._lines):
                prev = self._lines[-1].sha256 if self._lines else FIRST
                self._lines = (*self._lines, seal_line(body, seq=len(self._lines), prev=prev))

    def lines(self) -> tuple[Line, ...]:
        return self._lines


class FakeFiles:
    """Port `Files`, in dicts. Artifacts are kept as they are, stored or not."""

    def __init__(self) -> None:
        self._files: dict[str, str | Artifact] = {}
        self._tips: dict[tuple[str, str, str], str] = {}

    def write(self, files: Mapping[str, str | Artifact]) -> None:
        for name, content in files.items():
            if name.startswith("/") or ".." in name.split("/"):
                raise FilesConflict(f"{name!r}: leads out of the campaign's folder")
            present = self._files.get(name)
            if name.startswith("logs/") and isinstance(present, str) and isinstance(content, str):
                if present.startswith(content):
                    continue
                if not content.startswith(present):
                    self._files[f"{name}.edited-1"] = present
            self._files[name] = content

    def tips(self, gpu: str, op: str, backend: str) -> str | None:
        return self._tips.get((gpu, op, backend.lower()))

    def add_tip(self, gpu: str, op: str, backend: str, entry: str) -> None:
        place = (gpu, op, backend.lower())
        known = self._tips.get(place, "")
        if entry.strip() not in known:
            self._tips[place] = f"{known}\n{entry.strip()}\n" if known else f"{entry.strip()}\n"

    def read(self, name: str) -> str:
        """Text of a written file; KeyError when there is none."""
        content = self._files[name]
        return content if isinstance(content, str) else f"artifact {content.sha256}"

    def texts(self) -> dict[str, str]:
        """Every file by name."""
        return {name: self.read(name) for name in sorted(self._files)}


class FakeWorkspace:
    """Port `Workspace`, in dicts: commits are named by what they contain, as git's are."""

    def __init__(self, *, files: Mapping[str, str], contract: Contract | None = None) -> None:
        self._contract = contract or make_contract()
        self._artifacts = FakeArtifacts()
        self._trees: dict[str, dict[str, str]] = {}
        self._commits: dict[str, tuple[str, str | None]] = {}
        """Commit -> its tree and its parent."""
        self._opened: Base | None = None
        self._tip: str | None = None
        self._base = self._commit(self._tree(dict(files)), parent=None, message="base", at=BASE_AT)

    def open(self, branch: str) -> Base:
        if self._opened is None:
            self._opened = Base(
                commit=self._base,
                tree=self._commits[self._base][0],
                branch=branch,
                repository="kernels",
                contract_path=CONTRACT_FILE,
            )
            self._tip = self._base if self._contract.git_commit and branch != "none" else None
        return self._opened

    def sources(self, commit: str) -> tuple[FileEdit, ...]:
        guarded = (*self._contract.protected, CONTRACT_FILE)
        globs = self._contract.editable_globs
        named = [(p, t) for p, t in self._files(commit).items() if matches(p, globs) and not matches(p, guarded)]
        return tuple(FileEdit(path=path, text=text) for path, text in named)

    def snapshot(self, commit: str) -> tuple[Artifact, ...]:
        flags = (self._contract.flags_file,) if self._contract.flags_file else ()
        globs = (*self._contract.kernel_source, *flags)
        named = [(path, text) for path, text in self._files(commit).items() if matches(path, globs)]
        return tuple(self._artifacts.put(path, text.encode()) for path, text in named)

    def apply(self, *, round: int, parent: str, edits: tuple[FileEdit, ...], at: str) -> CandidateCommit | EditRefusal:
        before = self._files(parent)
        present = {path: Entry(mode="100644", oid="", path=path) for path in before}
        if problem := refusal(edits, self._contract, present):
            return EditRefusal(detail=problem)
        after = {**before, **{edit.path: edit.text for edit in edits if edit.text is not None}}
        after = {path: text for path, text in after.items() if FileEdit(path=path, text=None) not in edits}
        tree = self._tree(after)
        commit = self._commit(tree, parent=parent, message=f"candidate round-{round}\n", at=at)
        changed = tuple(sorted(p for p in {*before, *after} if before.get(p) != after.get(p)))
        diff = "".join(f"--- {p}\n-{before.get(p)}\n+{after.get(p)}\n" for p in changed)
        return CandidateCommit(
            commit=commit,
            tree=tree,
            diff=self._artifacts.put("candidate.diff", diff.encode()),
            snapshot=self.snapshot(commit),
            changed=changed,
            audit=find_added(before, {edit.path: edit.text for edit in edits}, dtype=self._contract.dtype),
        )

    def extract(self, commit: str) -> MinimalVersion:
        groups = find_minimal_project(self._files(commit), self._contract, lambda path: self._files(commit)[path])
        taken = {path: self._files(commit)[path] for paths in groups.values() for path in paths}
        minimal = self._commit(self._tree(taken), parent=commit, message="minimal", at=BASE_AT)
        stored = {
            group: tuple(self._artifacts.put(path, taken[path].encode()) for path in paths)
            for group, paths in groups.items()
        }
        return MinimalVersion(commit=minimal, upstream=commit, **stored)

    def select_core(self, edits: tuple[FileEdit, ...]) -> tuple[FileEdit, ...]:
        flags = (self._contract.flags_file,) if self._contract.flags_file else ()
        return tuple(edit for edit in edits if matches(edit.path, (*self._contract.kernel_source, *flags)))

    def accept(self, *, parent: str, tree: str, message: str, at: str) -> str:
        commit = self._commit(tree, parent=parent, message=message, at=at)
        if self._tip is not None and commit not in self._line(self._tip):
            self._tip = commit
        return commit

    def reset(self, commit: str) -> None:
        if self._tip is None:
            return
        if commit not in self._line(self._tip):
            raise BranchTaken(f"{commit} is not on the branch")
        self._tip = commit

    def branch_log(self) -> list[str]:
        """The campaign's own commits on its branch, newest first."""
        return [] if self._tip is None else self._line(self._tip)[:-1]

    def _line(self, tip: str) -> list[str]:
        found: list[str] = []
        at: str | None = tip
        while at is not None:
            found.append(at)
            at = self._commits[at][1]
        return found

    def _files(self, commit: str) -> dict[str, str]:
        if commit not in self._commits:
            raise NoSuchBase(f"no commit {commit}")
        return self._trees[self._commits[commit][0]]

    def _tree(self, files: dict[str, str]) -> str:
        ordered = dict(sorted(files.items()))
        name = hashlib.sha1(json.dumps(ordered).encode()).hexdigest()
        self._trees[name] = ordered
        return name

    def _commit(self, tree: str, *, parent: str | None, message: str, at: str) -> str:
        name = hashlib.sha1(json.dumps([tree, parent, message, at]).encode()).hexdigest()
        self._commits[name] = (tree, parent)
        return name


class ScriptedClock:
    """Port `Clock`: the given instants in order; it fails when they run out."""

    def __init__(self, instants: Iterable[str]) -> None:
        self._instants = iter(instants)

    def now(self, moment: str) -> str:
        return next(self._instants)

    def worked_s(self, moment: str) -> float:
        return 0.0


class FakeSignals:
    """Port `Signals`: a stop asked for after a round, or never."""

    def __init__(self, stop_after: int | None = None) -> None:
        self._stop_after = stop_after

    def stop_requested(self, after_round: int) -> bool:
        return self._stop_after is not None and after_round >= self._stop_after

    def steering(self, after_round: int, later_events: int = 0) -> Steering:
        return Steering()


class FakeJudge:
    """Port `Judge`: a version is what the comments of its first source say, `/* wrong */`, `/* borrowed */`, `/* slow */`.

    `questions` are the calls that were asked, by name and labels.
    """

    def __init__(self) -> None:
        self.questions: list[tuple[str, tuple[str, ...]]] = []

    def warm_up(self, task_file: Path) -> None:
        pass

    def read_compiled(self, task_file: Path, version: Path) -> bytes:
        return b""

    def check(self, task_file: Path, version: Path, *, timeout_s: float) -> Judgment | JudgeFailed:
        self.questions.append(("check", ()))
        read = self._read(task_file, (version,), timeout_s)
        if isinstance(read, JudgeFailed):
            return read
        task, (text,) = read
        wrong = "/* wrong */" in text
        return Judgment(
            task=task.name,
            candidate={task.source[0]: hashlib.sha256(text.encode()).hexdigest()},
            correct=QuestionAnswer(answer="no", evidence=("y: is wrong",)) if wrong else QuestionAnswer(answer="yes"),
            faster=QuestionAnswer(answer="unverified"),
            own_work=QuestionAnswer(answer="unverified" if wrong else "no" if "/* borrowed */" in text else "yes"),
            accepted=False,
            calls=1,
            isolation="namespaces",
            own_work_required=task.library == "forbidden",
        )

    def benchmark(
        self, task_file: Path, version: Path, *, shapes: tuple[str, ...], timeout_s: float
    ) -> tuple[SizeTime, ...] | JudgeFailed:
        self.questions.append(("benchmark", shapes))
        calls = self._timed(task_file, (version, version), shapes, 1, timeout_s)
        if isinstance(calls, JudgeFailed):
            return calls
        task, _ = load_task(task_file)
        times = {call.label: call.time_us / 1e3 for call in calls}
        return tuple(
            SizeTime(label=one.label, dims=dict(one.dims), config_class=one.config_class, time_ms=times[one.label])
            for one in task.timed
            if one.label in times
        )

    def compare(
        self, task_file: Path, a: Path, b: Path, *, shapes: tuple[str, ...], blocks: int, timeout_s: float
    ) -> tuple[TimedCall, ...] | JudgeFailed:
        self.questions.append(("compare", shapes))
        return self._timed(task_file, (a, b), shapes, blocks, timeout_s)

    def _timed(
        self, task_file: Path, versions: tuple[Path, Path], shapes: tuple[str, ...], blocks: int, timeout_s: float
    ) -> tuple[TimedCall, ...] | JudgeFailed:
        read = self._read(task_file, versions, timeout_s)
        if isinstance(read, JudgeFailed):
            return read
        task, texts = read
        labels = [shape.label for shape in task.timed]
        if unknown := [label for label in shapes if label not in labels]:
            return JudgeFailed(reason="unusable", detail=f"--shapes: {', '.join(unknown)}: no timed size of the task")
        for side, text in zip("ab", texts, strict=True):
            if "/* wrong */" in text:
                return JudgeFailed(reason="refused", detail="timed: y: is wrong", side=side)
        time_us = {side: 40.0 if "/* slow */" in text else 10.0 for side, text in zip("ab", texts, strict=True)}
        places = [
            (label, block, slot, side)
            for label in shapes or labels
            for block in range(blocks)
            for slot, side in enumerate("abba" if block % 2 else "baab")
        ]
        return tuple(
            TimedCall(
                label=label,
                block=block,
                slot=slot,
                side=side,
                time_us=time_us[side],
                claimed_us=None,
                at_us=time.monotonic() * 1e6 + number,
            )
            for number, (label, block, slot, side) in enumerate(places)
        )

    def _read(
        self, task_file: Path, versions: tuple[Path, ...], timeout_s: float
    ) -> tuple[Task, tuple[str, ...]] | JudgeFailed:
        if timeout_s <= 0:
            return JudgeFailed(reason="timeout", detail="the time allowed for it is over")
        try:
            task, _ = load_task(task_file)
            return task, tuple((folder / task.source[0]).read_text(encoding="utf-8") for folder in versions)
        except (TaskError, OSError) as error:
            return JudgeFailed(reason="unusable", detail=str(error))
