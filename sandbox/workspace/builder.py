"""Builds a commit in its own tree, once; formats changed files in a scratch copy."""

import logging
import re
from pathlib import Path

from ridgeline.graph.contract import Argv
from ridgeline.graph.evidence import TOUCHED, BuildResult, Exit
from ridgeline.graph.ports import Formatting
from ridgeline.graph.values import FileEdit
from ridgeline.sandbox.isolation.directory_pool import read_left
from ridgeline.sandbox.workspace.checkouts import scratch_copy
from ridgeline.sandbox.workspace.commands import Commands, summarize_exit
from ridgeline.sandbox.workspace.worktree import MINIMAL

logger = logging.getLogger(__name__)

WARNING = re.compile(r"\bwarning:", re.IGNORECASE)
MAX_WARNINGS = 20


class BuildBroken(Exception):
    """A commit that a test or a measurement needs does not build; they turn it into their own kind of failure."""

    def __init__(self, result: BuildResult) -> None:
        self.result = result
        how = summarize_exit(result.exit) if result.exit else "no build command ran"
        super().__init__(f"commit {result.commit[:12]} does not build: {how}")


class ContractBuilder:
    """`ports.Builder`: the contract's build command, only when the contract says that a rebuild is needed."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def build(self, commit: str) -> BuildResult:
        """Build `commit` unless its tree, or what its build reads, is built already, or nothing needs it; then exit is None.

        A tree that somebody changed since it was built is checked out and built again.
        """
        trees, contract = self._commands.trees, self._commands.contract
        rebuild = contract.local_rebuild if commit.endswith(MINIMAL) else contract.rebuild
        if rebuild.required and not trees.built(commit):  # its slot went to another commit, and its binaries with it
            self._commands.seals.open(trees.tree(commit))
        if broken := self._commands.broken(commit):
            logger.warning("%s: changed since it was built, so it is made anew: %s", commit[:12], ", ".join(broken))
        trees.at(commit)
        if not rebuild.required or rebuild.command is None or trees.built(commit):
            if not self._commands.seals.holds(trees.tree(commit)):  # built by an earlier process: not known since
                self._commands.seal(commit, everything=False)
            return BuildResult(ok=True, commit=commit, exit=None, tampered=trees.list_touched(commit))
        inputs = trees.digest_inputs(commit)
        if trees.adopt_build(commit, inputs, is_sound=self._commands.is_sound):
            self._commands.seal(commit, everything=True)
            return BuildResult(ok=True, commit=commit, exit=None, tampered=trees.list_touched(commit))
        return self._built(commit, rebuild.command, inputs)

    def _built(self, commit: str, command: Argv, inputs: str) -> BuildResult:
        commands = self._commands
        commands.seals.open(commands.trees.tree(commit))
        ran = commands.run_guarded(
            "rebuild.command",
            command,
            commits=(commit,),
            cwd=commands.trees.at(commit),
            timeout_s=commands.contract.timeouts.build_s,
        )
        if ran.exit.ok:
            commands.trees.mark_built(commit, touched=ran.tampered, inputs=inputs)
            commands.seal(commit, everything=True)
        warnings = (*(f"{TOUCHED}{path}" for path in ran.tampered), *_warnings(ran.exit))
        return BuildResult(ok=ran.exit.ok, commit=commit, exit=ran.exit, warnings=warnings, tampered=ran.tampered)

    def ensure_built(self, commit: str) -> Path:
        """The folder of `commit`, checked out and built. Raises `BuildBroken` when it does not build."""
        result = self.build(commit)
        if not result.ok:
            raise BuildBroken(result)
        return self._commands.trees.at(commit)

    def format(self, commit: str, changed: tuple[str, ...]) -> Formatting:
        """Edits that the contract's formatter makes to the `changed` files; other files are none of its business.

        Those files were admitted when the change was applied, so a formatter cannot reach anything protected.
        """
        command = self._commands.contract.format_command
        tree = self._commands.trees.at(commit)
        present = tuple(path for path in changed if (tree / path).is_file() and not (tree / path).is_symlink())
        if command is None or not present:
            return Formatting(edits=())
        with scratch_copy(tree) as copy:
            timeout_s = self._commands.contract.timeouts.format_s
            ended = self._commands.plain("format_command", (*command, *present), cwd=copy, timeout_s=timeout_s)
            if not ended.ok:
                return Formatting(
                    edits=(), detail=f"the formatter failed, so nothing was formatted: {summarize_exit(ended)}"
                )
            edits = [_edit(tree, copy, path) for path in present]
        return Formatting(edits=tuple(edit for edit in edits if edit is not None))


def _edit(tree: Path, copy: Path, path: str) -> FileEdit | None:
    """What the formatter made of one file of a checkout; None where it left the file alone or removed it."""
    after = read_left(copy / path)
    if after is None:
        return None
    return None if after == (tree / path).read_bytes() else FileEdit(path=path, text=after.decode("utf-8"))


def _warnings(exit: Exit) -> tuple[str, ...]:
    lines = [line.strip() for line in exit.output.splitlines() if WARNING.search(line)]
    return tuple(dict.fromkeys(lines))[:MAX_WARNINGS]
