"""Checked-out commits to build and run in: the best version, each candidate, and one to spare, so that none is lost."""

import functools
import hashlib
import json
import os
import platform
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import WorldError
from ridgeline.sandbox.isolation.directory_pool import discard_tree, fresh_folder, remove_tree, walk_tree
from ridgeline.sandbox.store.campaign_folder import RecordFiles
from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.workspace import pointers
from ridgeline.sandbox.workspace.edits import LINK, MODULE
from ridgeline.sandbox.workspace.git import Entry, Git
from ridgeline.sandbox.workspace.globs import matches
from ridgeline.sandbox.workspace.signatures import SETTLED_NS, Signs, contents, is_folder, is_settled, signs_of
from ridgeline.sandbox.workspace.worktree import MINIMAL, GitWorkspace

SLOTS = ("a", "b", "c")
MORE_SLOTS = ("e", "f", "g", "h", "i", "j", "k")
"""One for each further candidate that is tried side by side: timed in turn, none is built twice."""
TWIN_SLOT = "d"
"""Apart from the others, so that comparing a version with itself costs no other version its build."""
TWIN = "+twin"
"""Marks the name of a commit's second checkout."""
MINIMAL_SLOTS = ("m", "n")
"""Apart from the others likewise: what is tried in the minimal project costs the project itself no build."""
ALL_SLOTS = (*SLOTS, TWIN_SLOT, *MORE_SLOTS, *MINIMAL_SLOTS)


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
    inputs: str = ""
    """Digest of the files that the build reads, where the contract names them."""


class Trees:
    """Slots of the campaign's folder, the one used longest ago replaced first. One process at a time."""

    def __init__(self, workspace: GitWorkspace, *, candidates: int = 1) -> None:
        """`candidates`: how many may be tried side by side."""
        self._workspace = workspace
        self._slots = (*SLOTS, *MORE_SLOTS[: candidates - 1])
        self._dir = workspace.campaign_dir / "trees"
        self._evaluation_files: dict[str, dict[str, Entry]] = {}
        """Evaluation files by tree: what a tree holds never changes, and this is asked around every run."""
        self._tree_of: dict[str, str] = {}
        self._stamps: dict[str, Stamp] = {}
        self._pristine: dict[Path, Pristine] = {}
        """By folder, for as long as what is checked out there stays."""
        self._standing: dict[str, FolderNames] = {}
        """What stood in a slot when its version was sealed."""
        self._folders: dict[str, Path] = {}
        self.in_use: set[str] = set()
        """Contents of which a command runs in another thread: nothing in their slots is looked at or taken away."""
        self.record = RecordFiles(workspace.campaign_dir)
        """What no command may change, looked after around each."""
        self._here = f"{platform.node()}:{self._dir.resolve()}"

    @staticmethod
    def twin(commit: str) -> str:
        """A second name for the commit: everything here, and what is built and sealed, is kept apart under it."""
        return f"{commit.removesuffix(TWIN)}{TWIN}"

    def tree(self, commit: str) -> str:
        """The content of a commit, by git's name for it. Raises NoSuchBase for an unknown commit."""
        if commit not in self._tree_of:
            tree = self._workspace.tree(_real(commit))
            self._tree_of[commit] = f"{tree}{commit.removeprefix(_real(commit))}"
        return self._tree_of[commit]

    def content(self, commit: str) -> str:
        """The contract's folder at a commit, by git's name for it: the rest of the repository does not count."""
        folder = self._workspace.contract_dir
        if str(folder) == ".":
            return self.tree(_real(commit))
        return self._workspace.repository().line("rev-parse", "--verify", "--quiet", f"{_real(commit)}:{folder}")

    def is_committed(self, commit: str, path: str) -> bool:
        """Whether a version has that file, from the contract's folder."""
        return path in self._workspace.files(_real(commit))

    def top(self, commit: str) -> Path:
        """The whole checkout of that commit. Raises NoSuchBase for an unknown one."""
        self.at(commit)
        return self._dir / (self._holding(commit) or self._list_slots(commit)[0])

    @property
    def hidden(self) -> tuple[Path, ...]:
        """What no command may reach but its own checkout: the campaign, and the user's repository."""
        return self._workspace.campaign_dir.absolute(), self._workspace.user_root.absolute()

    @property
    def git_dir(self) -> Path:
        """What git needs to answer in a checkout."""
        return self._workspace.repository().git_dir.absolute()

    def around(self, folder: Path) -> Path | None:
        """The checkout that a folder lies in; None for one elsewhere."""
        inside = folder.absolute()
        return next((self._dir / name for name in ALL_SLOTS if inside.is_relative_to(self._dir / name)), None)

    def at(self, commit: str) -> Path:
        """The contract's folder of a checkout of that commit; built or not. Raises NoSuchBase for an unknown one."""
        slot = self._holding(commit)
        slots = self._list_slots(commit)
        if slot is None:
            free = [name for name in slots if self._stamp(name).tree not in self.in_use]
            slot = min(free, key=lambda name: self._stamp(name).used)
            self._check_out(slot, commit)
        stamp = self._stamp(slot)
        newest = max(self._stamp(name).used for name in slots)
        if stamp.used < newest or newest == 0:
            # not worth a write to the disk around every run: forgotten in a restart, it costs at most a build
            self._stamps[slot] = replace(stamp, used=newest + 1)
        return self._folder(slot)

    def pair(self, a: str, b: str) -> tuple[Path, Path]:
        """Checkouts of two commits, both standing; the same folder twice when they are the same commit."""
        tree_a, tree_b = self.at(a), self.at(b)
        return tree_a, tree_b

    def built(self, commit: str) -> bool:
        """Whether the commit is checked out and its build was marked as done there."""
        slot = self._holding(commit)
        return slot is not None and self._stamp(slot).built

    def mark_built(self, commit: str, *, touched: tuple[str, ...] = (), inputs: str = "") -> None:
        """Remember that the commit's build is in its slot, until the slot is used for another commit.

        `touched`: evaluation files that the build changed, and may have built from.
        """
        slot = self._holding(commit)
        if slot is not None:
            self._write(slot, replace(self._stamp(slot), built=True, touched=touched, inputs=inputs))

    def digest_inputs(self, commit: str) -> str:
        """Digest of the files that the contract's build reads, at a commit; empty where the contract does not say."""
        globs = self._workspace.contract.rebuild.files
        if not globs or _real(commit) != commit:
            return ""
        files = self._workspace.files(commit)
        lines = sorted(f"{entry.mode} {entry.oid} {path}" for path, entry in files.items() if matches(path, globs))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def adopt_build(self, commit: str, inputs: str, *, is_sound: Callable[[str, Path], bool]) -> bool:
        """Copy what a build of the same files left in another checkout into the commit's; whether there was one.

        `is_sound`: whether a version, by its content, is in its folder what it was when it was built.
        """
        slot, mirror = self._holding(commit), self._workspace.repository()
        if slot is None or not inputs or pointers.has_some(mirror):  # what is built inside a submodule is not seen
            return False
        self.tidy()
        for name in SLOTS:
            stamp = self._stamp(name)
            if name == slot or stamp.inputs != inputs or not stamp.built or not self._stands(name):
                continue
            if stamp.tree in self.in_use:
                continue
            outputs = self._list_outputs(mirror, name) if is_sound(stamp.tree, self._folder(name)) else None
            if outputs is None or any(_is_taken(self._dir / slot, path) for path in outputs):
                continue
            for path in outputs:
                _copy_output(self._dir / name / path, self._dir / slot / path)
            self.mark_built(commit, touched=stamp.touched, inputs=inputs)
            return True
        return False

    def _list_outputs(self, mirror: Git, slot: str) -> tuple[str, ...] | None:
        """What the build added to a checkout; None where it changed a committed file too, or an output cannot be moved."""
        worktree = replace(mirror, git_dir=mirror.git_dir / "worktrees" / slot, work_tree=self._dir / slot)
        if worktree.run("status", "--porcelain", "--untracked-files=no"):
            return None
        paths = tuple(os.fsdecode(path) for path in worktree.run("ls-files", "-z", "--others").split(b"\0") if path)
        places = [self._dir / slot / path for path in paths]
        movable = all(
            place.is_file() and not (place.is_symlink() and place.readlink().is_absolute()) for place in places
        )
        return paths if movable else None

    def list_touched(self, commit: str) -> tuple[str, ...]:
        """Evaluation files that the build which stands in the commit's slot changed."""
        slot = self._holding(commit)
        return () if slot is None else tuple(self._stamp(slot).touched)

    def settle(self, commit: str, *, just_built: bool) -> None:
        """From now on `tidy` takes away what a run adds to the commit's checkout.

        `just_built`: it was. Otherwise what an earlier process wrote down of that content holds, if it did.
        """
        slot, content = self._holding(commit), self.tree(commit)
        if slot is None:
            return
        top, file = self._dir / slot, self._dir / f"{slot}.files"
        standing = None if just_built else FolderNames.load(top, file, content=content)
        if standing is None:
            standing = FolderNames.of(top)
            standing.keep(file, content=content)
        self._standing[slot] = standing

    def tidy(self) -> dict[str, tuple[Path, tuple[str, ...]]]:
        """Remove what runs added to every settled checkout: by content its contract folder, and what was removed."""
        removals: dict[str, tuple[Path, tuple[str, ...]]] = {}
        for slot, standing in self._standing.items():
            if self._stamp(slot).tree in self.in_use or not self._stands(slot):  # not given up
                continue
            try:
                removals[self._stamp(slot).tree] = self._folder(slot), standing.clear()
            except OSError as error:
                raise WorldError(
                    f"{error.filename}: what a run left there cannot be removed; remove it by hand"
                ) from error
        return removals

    def restore(self, commit: str) -> tuple[str, ...]:
        """Put back every committed file that a candidate may not edit; the paths that had to be, sorted.

        Contents are compared by hash, kinds and execute bits too. What was found right is compared again as soon as
        its change time moves, which no process can set, so a forged time stamp hides nothing.
        """
        place = self.at(commit)
        if place not in self._pristine:
            self._pristine[place] = Pristine(place, self._evaluation(commit))
        return self._pristine[place].restore(self._workspace.repository)

    def clear(self, commit: str) -> None:
        """Give back the room that the commit's checkout takes; it is checked out afresh at its next use."""
        self.tidy()
        if (slot := self._holding(commit)) is not None:
            self._pristine.pop(self._folder(slot), None)
            self._standing.pop(slot, None)
            discard_tree(self._dir / slot)

    def _evaluation(self, commit: str) -> dict[str, Entry]:
        tree = self.tree(commit)
        if tree not in self._evaluation_files:
            contract, files = self._workspace.contract, self._workspace.files(_real(commit))
            mirror = self._workspace.repository()
            if pointers.has_some(mirror):
                below = (
                    len(self._workspace.contract_dir.as_posix()) + 1 if str(self._workspace.contract_dir) != "." else 0
                )
                files = {**files, **{e.path[below:]: e for e in pointers.list_files(mirror, (*files.values(),))}}
            paths = ((path, entry) for path, entry in files.items() if entry.mode != MODULE)
            self._evaluation_files[tree] = {path: entry for path, entry in paths if not _may_change(path, contract)}
        return self._evaluation_files[tree]

    def _holding(self, commit: str) -> str | None:
        tree = self.tree(commit)
        for name in self._list_slots(commit):
            if self._stamp(name).tree == tree and self._stands(name):
                return name
        return None

    def _list_slots(self, commit: str) -> tuple[str, ...]:
        """Where a commit, or its twin, may stand checked out."""
        if commit.endswith(TWIN):
            return (TWIN_SLOT,)
        return MINIMAL_SLOTS if commit.endswith(MINIMAL) else self._slots

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
        if not (stands and self._reuse(mirror, slot, commit)):
            self._make(mirror, slot, commit)
        if pointers.has_some(mirror):
            pointers.lay_out(mirror, self._dir / slot, _real(commit))
        self._write(slot, Stamp(tree=tree, used=stamp.used, home=self._home(slot)))

    def _reuse(self, mirror: Git, slot: str, commit: str) -> bool:
        """Bring a standing checkout to the commit; False when it is damaged, for example by a candidate."""
        git_dir = mirror.git_dir / "worktrees" / slot
        worktree = replace(mirror, git_dir=git_dir, work_tree=self._dir / slot)
        if not worktree.git_dir.is_dir():
            return False
        # a candidate can point this file, which build scripts' own git calls follow, at the user's repository
        write_whole(self._dir / slot / ".git", f"gitdir: {worktree.git_dir.resolve()}\n".encode(), synced=False)
        # nor may a branch move, wherever this slot's HEAD was pointed at: it is made to name a commit, as a new file
        write_whole(worktree.git_dir / "HEAD", f"{_real(commit)}\n".encode(), synced=False)
        steps = (("clean", "-q", "-ffdx"), ("reset", "-q", "--hard"))
        return all(worktree.attempt(*step).returncode == 0 for step in steps)

    def _make(self, mirror: Git, slot: str, commit: str) -> None:
        place = self._dir / slot
        for old in (place, mirror.git_dir / "worktrees" / slot):
            remove_tree(old)
        self._dir.mkdir(parents=True, exist_ok=True)
        mirror.run("worktree", "add", "-q", "--detach", "--force", str(place.resolve()), _real(commit))

    def _home(self, slot: str) -> str:
        return f"{self._here}/{slot}"

    def _stamp(self, slot: str) -> Stamp:
        """The note of what a checkout holds, read once: this process is the only one that writes it."""
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


def _is_taken(top: Path, path: str) -> bool:
    """Whether something stands at a path of a checkout already, or a link would lead elsewhere on the way to it."""
    return os.path.lexists(top / path) or any((top / parent).is_symlink() for parent in _parents(path))


def _copy_output(source: Path, target: Path) -> None:
    """Copy one file or link that a build made into another checkout, with its times."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
    else:
        _copy(str(source), str(target))


def _real(commit: str) -> str:
    """The commit's id without our mark of a twin or of a minimal project."""
    return commit.removesuffix(TWIN).removesuffix(MINIMAL)


def _may_change(path: str, contract: Contract) -> bool:
    return matches(path, contract.editable_globs) and not matches(path, contract.protected)


# What stood in a checkout when it was sealed; whatever a run adds to that is taken away before the next one.

Folder = frozenset[str]
"""Names in one folder."""
FolderSigns = tuple[int, int]
"""Inode and change time in ns of a folder: an entry that comes or goes moves the second, which no process can set."""


class FolderNames:
    """The names below one folder, by the folder they are in; the top is the empty path."""

    def __init__(self, top: Path, folders: Mapping[str, Folder]) -> None:
        self._top = str(top)
        self._folders = dict(folders)
        self._quiet: dict[str, FolderSigns] = {}
        """Folders that held nothing else, by the signs they had."""

    @classmethod
    def of(cls, top: Path) -> "FolderNames":
        """Names that stand in a checkout's folders now."""
        folders: dict[str, Folder] = {}
        for folder, inside, names in walk_tree(top):
            folders[folder] = frozenset((*inside, *names))
        return cls(top, folders)

    @classmethod
    def load(cls, top: Path, file: Path, *, content: str) -> "FolderNames | None":
        """Names kept of a checkout's folders for that content; None when nothing was, or for another."""
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            folders = {str(folder): frozenset(map(str, names)) for folder, names in record["folders"].items()}
            return cls(top, folders) if record["content"] == content else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def keep(self, file: Path, *, content: str) -> None:
        """Write down the names of a checkout's folders for a later process."""
        folders = {folder: sorted(names) for folder, names in self._folders.items()}
        write_whole(file, json.dumps({"content": content, "folders": folders}).encode(), synced=False)

    def clear(self) -> tuple[str, ...]:
        """Remove from a checkout what did not stand there; its paths, sorted. What was removed as a folder is named as one.

        Raises OSError when something cannot be removed.
        """
        removals: list[str] = []
        for folder, names in self._folders.items():
            place = f"{self._top}/{folder}" if folder else self._top
            signs = _signs(place)
            if signs is None:
                removals += [folder] if _is_instead(place) else []
            elif self._quiet.get(folder) != signs:
                strays = [name for name in os.listdir(place) if name not in names]  # noqa: PTH208 (names are all)
                for name in strays:
                    remove_tree(f"{place}/{name}")
                if not strays and time.time_ns() - signs[1] > SETTLED_NS:
                    self._quiet[folder] = signs
                removals += [f"{folder}/{name}" if folder else name for name in strays]
        return tuple(sorted(removals))


def _is_instead(place: str) -> bool:
    """Whether something that is no folder took a folder's place. It is removed; the seal misses the files."""
    if not os.path.lexists(place):
        return False
    os.unlink(place)  # noqa: PTH108 (a path as text)
    return True


def _signs(place: str) -> FolderSigns | None:
    try:
        status = os.lstat(place)
    except OSError:
        return None
    return (status.st_ino, status.st_ctime_ns) if stat.S_ISDIR(status.st_mode) else None


# Puts committed files back, byte for byte, wherever a run left something else.

EXECUTABLE = "100755"


class Pristine:
    """The committed files of one checkout. One that was found right is not read again until its signs change."""

    def __init__(self, root: Path, committed: Mapping[str, Entry]) -> None:
        self._root = root
        self._committed = committed
        self._places = {path: f"{root}/{path}" for path in committed}
        self._folders = tuple({f"{root}/{folder}" for path in committed for folder in _parents(path)})
        self._right: dict[str, Signs] = {}

    def restore(self, repository: Callable[[], Git]) -> tuple[str, ...]:
        """Make a checkout's files what the repository says; the paths that were not, sorted."""
        straight = all(is_folder(folder) for folder in self._folders)
        changed = sorted(
            path
            for path in self._committed
            if not ((straight and self._is_untouched(path)) or self._check_contents(path))
        )
        if not changed:
            return ()
        contents = repository().blobs(tuple(self._committed[path].oid for path in changed))
        for path, data in zip(changed, contents, strict=True):
            _put(self._root, path, self._committed[path], data)
        return tuple(changed)

    def _is_untouched(self, path: str) -> bool:
        signs = self._right.get(path)
        return signs is not None and signs_of(self._places[path]) == signs

    def _check_contents(self, path: str) -> bool:
        """Whether the file's contents are right; then its signs are remembered, if they can be relied on."""
        self._right.pop(path, None)
        signs = signs_of(self._places[path])
        straight = all(is_folder(f"{self._root}/{folder}") for folder in _parents(path))
        right = straight and _same(self._places[path], self._committed[path])
        if right and signs is not None and is_settled(signs):
            self._right[path] = signs
        return right


def _same(place: str, entry: Entry) -> bool:
    """Whether this very file of a checkout, whose folders are known to be folders, is the committed one."""
    try:
        kind = os.lstat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISLNK(kind):
        return entry.mode == LINK and _oid(os.fsencode(Path(place).readlink()), entry) == entry.oid
    if not stat.S_ISREG(kind) or entry.mode == LINK:
        return False
    return bool(kind & 0o100) == (entry.mode == EXECUTABLE) and _oid(contents(place), entry) == entry.oid


def _put(root: Path, path: str, entry: Entry, data: bytes) -> None:
    for parent in _parents(path):
        folder = root / parent
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            folder.unlink()
        folder.mkdir(exist_ok=True)
    place = root / path
    remove_tree(place)  # a hard link elsewhere keeps its own contents
    if entry.mode == LINK:
        place.symlink_to(os.fsdecode(data))
        return
    place.write_bytes(data)
    place.chmod(0o755 if entry.mode == EXECUTABLE else 0o644)


@functools.lru_cache(maxsize=4096)
def _parents(path: str) -> tuple[str, ...]:
    """The folders above a path of a checkout, outermost first."""
    return tuple(str(parent) for parent in reversed(PurePosixPath(path).parents) if str(parent) != ".")


def _oid(data: bytes, entry: Entry) -> str:
    """Git's name for a blob, in the repository's own kind of hash."""
    kind = hashlib.sha256 if len(entry.oid) == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(data) + data).hexdigest()


# A throw-away copy of a checked-out tree, for what must not touch the tree itself: formatting, extra builds.


@contextmanager
def scratch_copy(tree: Path) -> Iterator[Path]:
    """The copy of `tree`, inside a copy of its whole checkout: tools look for their settings in parent folders.

    Git's own files are left out, so that nothing run there reaches the repository.
    """
    root = next((folder for folder in (tree, *tree.parents) if (folder / ".git").exists()), tree)
    with fresh_folder() as folder:
        copy = folder / "tree"
        shutil.copytree(root, copy, symlinks=True, ignore=_git_own, copy_function=_copy)
        yield copy / tree.relative_to(root)


def _git_own(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == ".git"]


def _copy(source: str, target: str) -> None:
    """Contents, permissions and times of a checkout's file: what a build looks at. Other attributes cost more than the copy."""
    status = os.stat(source)  # noqa: PTH116 (for every file of a tree, as the next)
    if not stat.S_ISREG(status.st_mode):
        return  # reading a pipe that a build left would wait for ever
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        data = memoryview(contents(source))
        while data:
            data = data[os.write(handle, data) :]
        os.fchmod(handle, stat.S_IMODE(status.st_mode))
        os.utime(handle, ns=(status.st_atime_ns, status.st_mtime_ns))
    finally:
        os.close(handle)
