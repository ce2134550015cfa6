"""Runs a contract's commands inside a checked-out commit, with its evaluation files known to be the committed ones."""

import contextlib
import os
import re
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.graph.contract import OURSELVES, Contract, takes_csv
from ridgeline.graph.errors import WorldError
from ridgeline.graph.evidence import Exit
from ridgeline.graph.ports import Judge
from ridgeline.sandbox.devices.gate import CardGate, LeasedCard
from ridgeline.sandbox.devices.idle import unbound
from ridgeline.sandbox.devices.lease import lease
from ridgeline.sandbox.devices.values import Kind, device_kind
from ridgeline.sandbox.isolation.directory_pool import fresh_folder, list_lent, read_left, remove_tree
from ridgeline.sandbox.isolation.environment import select_variables
from ridgeline.sandbox.isolation.process import OUTPUT_BYTES, HangWatchdog, run
from ridgeline.sandbox.isolation.rooms import Room
from ridgeline.sandbox.workspace.checkouts import Trees
from ridgeline.sandbox.workspace.globs import matches
from ridgeline.sandbox.workspace.signatures import Seals, discard

HARNESS = Path(__file__).parents[1] / "harness"
"""Programs of ours that profilers have a command start with."""
BUILD_LINES = 8
"""Of a failed build, that one line shows: the compiler's error stands above what make says of it."""
PLACEHOLDER = re.compile(r"\{(csv|shapes|a|b|blocks|seed)\}")
COMPILED_NOWHERE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Python leaves no compiled modules beside the sources, where another run would take them for the sources."""
TAIL = 4000
"""Characters of a command's output that are quoted as evidence."""


class Turn:
    """One thread at a time works on the checkouts and what is known of them; while its command runs, another does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = threading.local()

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Have the turn on the checkouts for the block. Not re-entrant."""
        with self._lock:
            self._thread.has_it = True
            try:
                yield
            finally:
                self._thread.has_it = False

    @property
    def is_mine(self) -> bool:
        """Whether this thread has the turn on the checkouts; False in every thread where there is only one."""
        return getattr(self._thread, "has_it", False)

    @contextlib.contextmanager
    def lend(self) -> Iterator[None]:
        """Give the turn on the checkouts to others for the block; nothing where this thread does not have it."""
        if not self.is_mine:
            yield
            return
        self._thread.has_it = False
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
            self._thread.has_it = True


@dataclass(frozen=True, kw_only=True)
class GuardedRun:
    """One command's exit, and which files it may not touch were not what they had been when it had ended."""

    exit: Exit
    tampered: tuple[str, ...]
    """Evaluation files that are not the committed ones; sources and binaries that are not those that were built."""
    csv: bytes | None = None
    """What it left where it was to write its CSV; None where nothing is."""


@dataclass(kw_only=True)
class Guard:
    """What was found when the guarded block had ended."""

    tampered: tuple[str, ...] = ()
    """As in `Ran`."""


@dataclass(frozen=True, kw_only=True)
class Commands:
    """What builder, checker, timer and profiler share: the contract and the trees its commands run in."""

    contract: Contract
    trees: Trees
    seals: Seals = field(default_factory=Seals)
    gate: CardGate | None = None
    """Chooses an idle card; None on a processor."""
    patience: HangWatchdog | None = None
    """When a command that does nothing is given up; None: at its time limit."""
    turn: Turn = field(default_factory=Turn)
    """Of threads that use the same trees and seals."""
    judge: Judge | None = None
    """Asked in place of the commands of a task's contract (`Contract.task_file`); None: they are run as written."""

    @contextlib.contextmanager
    def device(self, *, wait_s: float) -> Iterator[LeasedCard | None]:
        """The device for a project's commands for the block: the processor's lease, or an idle card that they are bound to.

        `wait_s`: for the lease, where there is no gate, which has its own patience. Raises DeviceBusy.
        """
        if self.gate is not None:
            with self.gate.hold() as bound:
                yield bound
            return
        with lease(self.kind, wait_s=wait_s):
            yield None

    def run_guarded(
        self,
        field: str,
        argv: tuple[str, ...],
        *,
        commits: tuple[str, ...],
        cwd: Path,
        timeout_s: float,
        timed: bool = False,
        profiler: bool = False,
        csv: Path | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> GuardedRun:
        """Run the contract's command `field` with the evaluation files of all `commits` restored before it.

        After it they are compared and restored; a tree whose sealed files were changed is made anew at its next use.
        Files that earlier runs added are gone before it. Nothing may be changed in, or added to, the checkouts of
        other versions. Raises what `ridgeline.sandbox.isolation.process.run` raises: `ProgramMissing` and other broken-world errors.
        """
        with self.guard(commits) as guard:
            ended = self.plain(
                field, argv, cwd=cwd, timeout_s=timeout_s, timed=timed, profiler=profiler, commits=commits, extra=extra
            )
            data = read_left(csv) if csv else None  # here: what a run adds to its checkout is taken away from it
        return GuardedRun(exit=ended, tampered=guard.tampered, csv=data)

    @contextlib.contextmanager
    def place_csv(self, argv: tuple[str, ...], *, commit: str, cwd: Path) -> Iterator[Path]:
        """Where a command writes its CSV, free of what an earlier run left; nothing is there after the block.

        A new name in a new folder, or what a command without `{csv}` writes. Raises WorldError where that is committed.
        """
        fixed = None if takes_csv(argv) else self.contract.fixed_file
        if fixed is None:
            with fresh_folder() as folder:
                yield folder / f"{secrets.token_hex(8)}.csv"  # the folder may serve again, the name never
            return
        if self.trees.is_committed(commit, fixed):
            raise WorldError(
                f"project_output.file: {fixed} is committed; take it out of git: a run must be seen to write it"
            )
        remove_tree(cwd / fixed)
        yield cwd / fixed
        remove_tree(cwd / fixed)

    @contextlib.contextmanager
    def guard(self, commits: tuple[str, ...]) -> Iterator["Guard"]:
        """Around whatever runs code of these versions: files are restored and looked after as `run_guarded` says."""
        self.trees.tidy()
        for commit in commits:
            self.trees.restore(commit)
        self.trees.record.remember()
        guard = Guard()
        yield guard
        record = {f"{name} (of the campaign)" for name in self.trees.record.restore()}
        touched = {path for commit in commits for path in (*self.trees.restore(commit), *self.broken(commit))}
        guard.tampered = tuple(sorted(touched | record | self._elsewhere(commits)))

    def _elsewhere(self, commits: tuple[str, ...]) -> set[str]:
        """What a project's command changed in, or added to, the checkouts of others; all is made good again."""
        contents = {self.trees.tree(commit) for commit in commits}
        changes: set[str] = set()
        for content, (tree, added) in self.trees.tidy().items():
            if content not in contents:
                changes |= {f"{path} (of another version)" for path in (*added, *self._discard_broken(content, tree))}
        return changes

    def broken(self, commit: str) -> tuple[str, ...]:
        """Sealed files of the commit's tree that are not as sealed; then the tree is given up with its seal."""
        tree = self.trees.at(commit)
        return self._discard_broken(self.trees.tree(commit), tree)

    def is_sound(self, content: str, tree: Path) -> bool:
        """Whether a version, by its content, stands as it was when this process sealed it; else it is given up."""
        return self.seals.holds(content) and not self._discard_broken(content, tree)

    def _discard_broken(self, content: str, tree: Path) -> tuple[str, ...]:
        broken = self.seals.broken(content, tree)
        if broken:
            self.seals.open(content)
            discard(tree)
        return broken

    def seal(self, commit: str, *, everything: bool) -> None:
        """From now on no run may change the sources of the commit's tree, or `everything` in it, built just now.

        What a run adds to it goes before the next run.
        """
        self.trees.settle(commit, just_built=everything)
        globs = self.contract.editable_globs
        self.seals.close(
            self.trees.tree(commit), self.trees.at(commit), covers=lambda path: everything or matches(path, globs)
        )

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
        commits: tuple[str, ...] = (),
        output_bytes: int = OUTPUT_BYTES,
    ) -> Exit:
        """Run one command of the project, which may change the checkouts of `commits` and the one it runs in.

        `timed` pins it when the contract is single-threaded, `extra` adds to its environment.

        A `profiler` talks to the program over sockets of this machine and writes numbers as the C locale does.
        """
        room = None if argv[:1] == (OURSELVES,) else self._room(argv, cwd, commits)  # the judge has rooms of its own
        with self.lend_turn(commits):
            return run(
                itself(argv),
                cwd=cwd,
                timeout_s=timeout_s,
                env={
                    **COMPILED_NOWHERE,
                    **environment_of(self.contract, self.gate),
                    **(extra or {}),
                    **({"LC_ALL": "C"} if profiler else {}),
                },
                network=profiler,
                memory_mb=self._memory_mb(argv),
                cpu=pinned_core() if timed and self.contract.threads == 1 else None,
                field=field,
                patience=self.patience,
                output_bytes=output_bytes,
                room=room,
            )

    @contextlib.contextmanager
    def lend_turn(self, commits: tuple[str, ...]) -> Iterator[None]:
        """While code of these versions runs, other threads work on the checkouts, and leave these alone."""
        contents = {self.trees.tree(commit) for commit in commits} if self.turn.is_mine else set[str]()
        self.trees.in_use |= contents
        try:
            with self.turn.lend():
                yield
        finally:
            self.trees.in_use -= contents

    def _room(self, argv: tuple[str, ...], cwd: Path, commits: tuple[str, ...]) -> Room:
        """What a project's command may change: its own checkouts, and folders for one use; the rest is hidden or only read."""
        lent = (folder for folder in list_lent() if any(str(folder) in word for word in (str(cwd), *argv)))
        checkouts = (*(self.trees.top(commit) for commit in commits), self.trees.around(cwd))
        writable = (*lent, *(folder.absolute() for folder in checkouts if folder is not None))
        return Room(
            writable=tuple(dict.fromkeys(writable)) or (cwd.absolute(),),
            readable=(HARNESS, self.trees.git_dir),
            hidden=self.trees.hidden,
            card=self.kind != "cpu",
        )

    def _memory_mb(self, argv: tuple[str, ...]) -> int | None:
        """None on a GPU, where CUDA reserves more than there is, and for the judge, who limits candidates itself."""
        return None if self.kind != "cpu" or argv[:1] == (OURSELVES,) else self.contract.memory_limit_mb

    @property
    def kind(self) -> Kind:
        """Which kind of device the contract's kernel runs on."""
        return device_kind(self.contract)


def environment_of(contract: Contract, gate: CardGate | None) -> dict[str, str]:
    """What the contract lets through of the environment to its commands; which card is the gate's to say while it holds one."""
    variables = select_variables(contract.pass_environment)
    card_variables = gate.environment if gate else {}
    return {**unbound(variables), **card_variables} if card_variables else variables


def judge_of(contract: Contract, gate: CardGate | None = None, *, number: int = 0) -> Judge | None:
    """Our own judge, where the contract is a task's; what it starts is told of the card that is bound then.

    `number`: of those that are asked at once, on a card each.
    """
    if contract.task_file is None:
        return None
    from ridgeline.sandbox.judge.task_judge import TaskJudge  # NumPy and more, which other contracts do not need

    return TaskJudge(environment=lambda: environment_of(contract, gate), number=number)


def itself(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A project's command that begins with `ridgeline`, as this very installation, wherever PATH leads."""
    return (sys.executable, "-P", "-B", "-m", "ridgeline", *argv[1:]) if argv[:1] == (OURSELVES,) else argv


def pinned_core() -> int:
    """The core for a project's commands, the highest that may be used: interrupts and other people's work tend to the low ones."""
    return max(os.sched_getaffinity(0))


@contextlib.contextmanager
def pinned_to(core: int | None) -> Iterator[None]:
    """This thread, and what it starts, keep to that core for the block; None: to those that they had."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def fill(argv: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    """A project's command with its placeholders filled; braces that are no placeholder stay as they are.

    Where the value is empty, a word that is only the placeholder is left out together with the option before it, so
    that `bench --csv {csv} --shapes {shapes}` without labels is `bench --csv out.csv`: every shape.
    """
    words: list[str] = []
    for word in argv:
        placeholder = PLACEHOLDER.fullmatch(word)
        if placeholder and values.get(placeholder[1]) == "":
            if words and words[-1].startswith("-") and "=" not in words[-1]:
                words.pop()
            continue
        words.append(PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), word))
    return tuple(words)


def tail(text: str, limit: int = TAIL) -> str:
    """The end of a project's command's output, with what was left out stated."""
    return text if len(text) <= limit else f"... {len(text) - limit} characters left out ...\n{text[-limit:]}"


def summarize_exit(exit: Exit) -> str:
    """One line on how a project's command ended, then the end of what it printed."""
    how = f"timed out after {exit.seconds:.1f} s" if exit.timed_out else f"exit code {exit.returncode}"
    return f"{' '.join(exit.argv)}: {how}\n{tail(exit.output)}".rstrip()


def in_a_line(exit: Exit, last_lines: int = 1) -> str:
    """How a project's command ended and its last printed lines, on one line: of a build some more, a reason is there."""
    summary, *rest = (line.strip() for line in summarize_exit(exit).splitlines() if line.strip())
    return " | ".join((summary, *rest[-last_lines:]))
