"""Checked-out commits to build and run in: the best version, a candidate, and one to spare, so that neither is lost."""

import json
import platform
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import WorldError
from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.workspace.edits import MODULE
from ridgeline.sandbox.workspace.git import Entry, Git
from ridgeline.sandbox.workspace.globs import matches
from ridgeline.sandbox.workspace.leftovers import Standing
from ridgeline.sandbox.workspace.pristine import Pristine
from ridgeline.sandbox.workspace.signatures import is_folder, signs_of
from ridgeline.sandbox.workspace.worktree import GitWorkspace

SLOTS = ("a", "b", "c")
TWIN_SLOT = "d"
"""Apart from the others, so that comparing a version with itself costs no other version its build."""
TWIN = "+twin"
"""Marks the name of a commit's second checkout."""


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What a slot holds; kept beside it, where cleaning does not reach."""

    tree: str = ""
    """What is checked out, by content: a version that was accepted under another commit needs no second build."""
    built: bool = False
    used: int = 0
    """Larger is more recent."""
    home: str = ""
    """Where and on which machine it was made: a copied slot has dead links and another machine's builds."""
    touched: tuple[str, ...] = ()
    """Evaluation files that the build changed before they were restored."""


class Trees:
    """Slots of the campaign's folder, the one used longest ago replaced first. One process at a time."""

    def __init__(self, workspace: GitWorkspace) -> None:
        self._workspace = workspace
        self._dir = workspace.campaign_dir / "trees"
        self._known: dict[str, dict[str, Entry]] = {}
        """Evaluation files by tree: what a tree holds never changes, and this is asked around every run."""
        self._tree_of: dict[str, str] = {}
        self._stamps: dict[str, Stamp] = {}
        self._pristine: dict[Path, Pristine] = {}
        """By folder, for as long as what is checked out there stays."""
        self._standing: dict[str, Standing] = {}
        """What stood in a slot when its version was sealed."""
        self._folders: dict[str, Path] = {}
        self._here = f"{platform.node()}:{self._dir.resolve()}"

    @staticmethod
    def twin(commit: str) -> str:
        """A second name for the commit: everything here, and what is built and sealed, is kept apart under it."""
        return f"{commit.removesuffix(TWIN)}{TWIN}"

    def tree(self, commit: str) -> str:
        """The content of a commit, by git's name for it. Raises NoSuchBase for an unknown commit."""
        if commit not in self._tree_of:
            tree = self._workspace.tree(_real(commit))
            self._tree_of[commit] = tree if commit == _real(commit) else f"{tree}{TWIN}"
        return self._tree_of[commit]

    def content(self, commit: str) -> str:
        """The contract's folder at a commit, by git's name for it: the rest of the repository does not count."""
        folder = self._workspace.contract_dir
        if str(folder) == ".":
            return self.tree(_real(commit))
        return self._workspace.repository().line("rev-parse", "--verify", "--quiet", f"{_real(commit)}:{folder}")

    def at(self, commit: str) -> Path:
        """The contract's folder of a checkout of that commit; built or not. Raises NoSuchBase for an unknown one."""
        slot = self._holding(commit)
        slots = _slots(commit)
        if slot is None:
            slot = min(slots, key=lambda name: self._stamp(name).used)
            self._check_out(slot, commit)
        stamp = self._stamp(slot)
        newest = max(self._stamp(name).used for name in slots)
        if stamp.used < newest or newest == 0:
            # not worth a write to the disk around every run: forgotten in a restart, it costs at most a build
            self._stamps[slot] = replace(stamp, used=newest + 1)
        return self._folder(slot)

    def pair(self, a: str, b: str) -> tuple[Path, Path]:
        """Checkouts of two commits, both standing; the same folder twice when they are the same commit."""
        first, second = self.at(a), self.at(b)
        return first, second

    def built(self, commit: str) -> bool:
        """Whether the commit is checked out and its build was marked as done there."""
        slot = self._holding(commit)
        return slot is not None and self._stamp(slot).built

    def mark_built(self, commit: str, *, touched: tuple[str, ...] = ()) -> None:
        """Remember that the commit's build is in its slot, until the slot is used for another commit.

        `touched`: evaluation files that the build changed, and may have built from.
        """
        slot = self._holding(commit)
        if slot is not None:
            self._write(slot, replace(self._stamp(slot), built=True, touched=touched))

    def touched(self, commit: str) -> tuple[str, ...]:
        """Evaluation files that the build which stands in the commit's slot changed."""
        slot = self._holding(commit)
        return () if slot is None else tuple(self._stamp(slot).touched)

    def settle(self, commit: str, *, made: bool) -> None:
        """From now on `tidied` takes away what a run adds to the commit's checkout.

        `made`: it was built just now. Otherwise what an earlier process wrote down of that content holds, if it did.
        """
        slot, content = self._holding(commit), self.tree(commit)
        if slot is None:
            return
        top, kept = self._dir / slot, self._dir / f"{slot}.files"
        known = None if made else Standing.read(top, kept, content=content)
        if known is None:
            known = Standing.of(top)
            known.keep(kept, content=content)
        self._standing[slot] = known

    def tidied(self) -> dict[str, tuple[Path, tuple[str, ...]]]:
        """Remove what runs added to every settled checkout: by content its contract folder, and what was removed."""
        found: dict[str, tuple[Path, tuple[str, ...]]] = {}
        for slot, standing in self._standing.items():
            if not self._stands(slot):  # given up
                continue
            try:
                found[self._stamp(slot).tree] = self._folder(slot), standing.clear()
            except OSError as error:
                raise WorldError(
                    f"{error.filename}: what a run left there cannot be removed; remove it by hand"
                ) from error
        return found

    def restore(self, commit: str) -> tuple[str, ...]:
        """Put back every committed file that a candidate may not edit; the paths that had to be, sorted.

        Contents are compared by hash, kinds and execute bits too. What was found right is compared again as soon as
        its change time moves, which no process can set, so a forged time stamp hides nothing.
        """
        place = self.at(commit)
        if place not in self._pristine:
            self._pristine[place] = Pristine(place, self._evaluation(commit))
        return self._pristine[place].restore(self._workspace.repository)

    def _evaluation(self, commit: str) -> dict[str, Entry]:
        tree = self.tree(commit)
        if tree not in self._known:
            contract, files = self._workspace.contract, self._workspace.files(_real(commit))
            paths = ((path, entry) for path, entry in files.items() if entry.mode != MODULE)
            self._known[tree] = {path: entry for path, entry in paths if not _may_change(path, contract)}
        return self._known[tree]

    def _holding(self, commit: str) -> str | None:
        tree = self.tree(commit)
        for name in _slots(commit):
            if self._stamp(name).tree == tree and self._stands(name):
                return name
        return None

    def _folder(self, slot: str) -> Path:
        if slot not in self._folders:
            self._folders[slot] = self._dir / slot / self._workspace.contract_dir
        return self._folders[slot]

    def _stands(self, slot: str) -> bool:
        """Whether the slot is a checkout made here, and not a copy, a link or a ruin."""
        place = f"{self._dir}/{slot}"
        made_here = self._stamp(slot).home == self._home(slot)
        return made_here and is_folder(place) and signs_of(f"{place}/.git") is not None

    def _check_out(self, slot: str, commit: str) -> None:
        mirror = self._workspace.repository()
        tree = self.tree(commit)  # an unknown commit must not cost a slot its contents
        stamp, stands = self._stamp(slot), self._stands(slot)
        self._pristine.pop(self._folder(slot), None)
        self._standing.pop(slot, None)
        self._write(slot, Stamp(used=stamp.used))  # a crash from here on leaves a slot that holds nothing
        if not (stands and self._reused(mirror, slot, commit)):
            self._made(mirror, slot, commit)
        self._write(slot, Stamp(tree=tree, used=stamp.used, home=self._home(slot)))

    def _reused(self, mirror: Git, slot: str, commit: str) -> bool:
        """Bring a standing slot to the commit; False when it is damaged, for example by a candidate."""
        here = Git(git_dir=mirror.git_dir / "worktrees" / slot, work_tree=self._dir / slot)
        if not here.git_dir.is_dir():
            return False
        # a candidate can point this file, which build scripts' own git calls follow, at the user's repository
        (self._dir / slot / ".git").write_text(f"gitdir: {here.git_dir.resolve()}\n", encoding="utf-8")
        # nor may a branch move, wherever this slot's HEAD was pointed at: it is made to name a commit, as a new file
        write_whole(here.git_dir / "HEAD", f"{_real(commit)}\n".encode(), synced=False)
        steps = (("clean", "-q", "-ffdx"), ("reset", "-q", "--hard"))
        return all(here.attempt(*step).returncode == 0 for step in steps)

    def _made(self, mirror: Git, slot: str, commit: str) -> None:
        place = self._dir / slot
        if place.is_symlink():
            place.unlink()
        for old in (place, mirror.git_dir / "worktrees" / slot):
            if old.exists():
                shutil.rmtree(old)
        self._dir.mkdir(parents=True, exist_ok=True)
        mirror.run("worktree", "add", "-q", "--detach", "--force", str(place.resolve()), _real(commit))

    def _home(self, slot: str) -> str:
        return f"{self._here}/{slot}"

    def _stamp(self, slot: str) -> Stamp:
        """Read once: this process is the only one that writes it."""
        if slot not in self._stamps:
            path = self._dir / f"{slot}.stamp"
            try:
                self._stamps[slot] = Stamp(**json.loads(path.read_text(encoding="utf-8")))
            except (FileNotFoundError, ValueError, TypeError):  # absent or not ours: the slot holds nothing we know
                self._stamps[slot] = Stamp()
        return self._stamps[slot]

    def _write(self, slot: str, stamp: Stamp) -> None:
        self._stamps.pop(slot, None)  # a write that fails leaves the file to be read again
        # a power failure may make it forget what it holds, but not that it no longer holds what it held before
        write_whole(self._dir / f"{slot}.stamp", json.dumps(asdict(stamp)).encode(), synced=not stamp.tree)
        self._stamps[slot] = stamp


def _real(commit: str) -> str:
    """The commit that git knows."""
    return commit.removesuffix(TWIN)


def _slots(commit: str) -> tuple[str, ...]:
    """Where a commit, or its twin, may stand."""
    return (TWIN_SLOT,) if commit.endswith(TWIN) else SLOTS


def _may_change(path: str, contract: Contract) -> bool:
    return matches(path, contract.editable_globs) and not matches(path, contract.protected)
