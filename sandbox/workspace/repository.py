"""The user's own repository: looked at before a campaign, and then given one branch and nothing else."""

import logging
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import BranchTaken, DetachedHead, DirtyTree, NoSuchBase, NotAGitRepository
from ridgeline.sandbox.isolation.directory_pool import discard_tree, list_files
from ridgeline.sandbox.store.durable import sync_folder, sync_tree
from ridgeline.sandbox.workspace.edits import MODULE
from ridgeline.sandbox.workspace.git import ATTRIBUTES, Git, git
from ridgeline.sandbox.workspace.globs import matches
from ridgeline.sandbox.workspace.pointers import bring, list_lfs_pointers, name_some, read_contents, require_modules
from ridgeline.sandbox.workspace.signatures import signs_of

logger = logging.getLogger(__name__)

EXCLUDED = ("/agent/workspace/", "/agent/historical_experience/")
"""Where campaigns and tips lie by default; kept out of `git status` through info/exclude, not through .gitignore."""


@dataclass(frozen=True)
class Repository:
    """A git repository with a checkout in which a person works."""

    root: Path
    _places: list["_Place"] = field(default_factory=list, compare=False, repr=False)

    @property
    def git(self) -> Git:
        """The repository for reading and for moving the campaign's branch. Raises NotAGitRepository."""
        return Git(git_dir=self._find().inside, work_tree=self.root)

    def exists(self) -> bool:
        """Whether the root is the top of a git checkout."""
        try:
            return self._find().top == self.root.resolve()
        except NotAGitRepository:
            return False

    def _find(self) -> "_Place":
        """Where the user's git repository is, asked once as long as the same `.git` stands there."""
        for place in self._places:
            if place.signs == _signs(self.root / ".git", place.inside):
                return place
        self._places.clear()
        top, inside = find_repository(self.root), _git_dir(self.root)
        self._places.append(_Place(top=top, inside=inside, signs=_signs(self.root / ".git", inside)))
        return self._places[0]

    def require_clean(self, contract: Contract, contract_dir: str) -> str:
        """The commit that a campaign may stand on.

        Raises:
            NotAGitRepository: there is none, or it has no commit.
            DetachedHead: HEAD is on no branch.
            DirtyTree: tracked files differ from HEAD, or a file of the contract is not committed.
        """
        if not self.exists():
            raise NotAGitRepository(f"{self.root}: is not a git repository; run git init and commit the kernel first")
        git = self.git
        if git.attempt("symbolic-ref", "--quiet", "HEAD").returncode != 0:
            raise DetachedHead(f"{self.root}: HEAD is on no branch; run git switch to a branch first")
        head = git.tip("HEAD")
        if head is None:
            raise NotAGitRepository(f"{self.root}: has no commit yet; commit the kernel first")
        self._require_committed(git)
        self._require_tracked(git, contract, contract_dir)
        self._require_complete(git, contract, contract_dir)
        return head

    def exclude_campaigns(self) -> None:
        """Hide campaign folders from `git status`, once, in the repository's own info/exclude."""
        relative = self.git.line("rev-parse", "--git-path", "info/exclude")
        path = self.root / relative
        present = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        missing = [line for line in EXCLUDED if line not in present.splitlines()]
        if missing:
            path.parent.mkdir(parents=True, exist_ok=True)
            gap = "" if not present or present.endswith("\n") else "\n"
            with path.open("a", encoding="utf-8") as file:
                file.write(gap + "".join(f"{line}\n" for line in missing))

    def require_free(self, branch: str) -> None:
        """Raises BranchTaken when the name is no branch name, or when such a branch exists already."""
        if self.git.attempt("check-ref-format", "--branch", branch).returncode != 0:
            raise BranchTaken(f"git_branch: {branch!r} is not a name git allows for a branch; choose another")
        if self.git.tip(f"refs/heads/{branch}") is not None:
            raise BranchTaken(
                f"git_branch: {branch!r} exists and is not this campaign's; delete it with"
                f" git branch -D {branch}, or set another git_branch"
            )

    def _require_committed(self, git: Git) -> None:
        output = git.run("status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames")
        paths = [row[3:] for row in output.decode(errors="replace").split("\0") if row]
        if paths:
            raise DirtyTree(
                f"{self.root}: {name_some(paths)} changed since the last commit; commit or stash first,"
                " so that every number names what was measured"
            )

    def _require_tracked(self, git: Git, contract: Contract, contract_dir: str) -> None:
        where = ("--", f":(literal){contract_dir}") if contract_dir != "." else ()
        start = "" if contract_dir == "." else f"{contract_dir}/"
        output = git.run("ls-files", "-z", "--others", "--exclude-standard", *where)
        paths = [row.removeprefix(start) for row in output.decode(errors="replace").split("\0") if row]
        surface = (*contract.kernel_source, *contract.editable_globs, *contract.protected)
        if stray := [path for path in paths if matches(path, surface)]:
            raise DirtyTree(
                f"{self.root / contract_dir}: {name_some(stray)} belongs to the contract but is not tracked;"
                " git add and commit it, or ignore it"
            )
        tracked = [entry.path.removeprefix(start) for entry in git.entries("HEAD", contract_dir)]
        for glob in contract.kernel_source:
            if not any(matches(path, (glob,)) for path in tracked):
                raise DirtyTree(f"kernel_source: {glob!r} matches no committed file; git add and commit the kernel")

    def _require_complete(self, git: Git, contract: Contract, contract_dir: str) -> None:
        """Raises DirtyTree where what the commit only points to is not in the checkout as the contract needs it."""
        entries = git.entries("HEAD", ".")
        modules = require_modules(self.root, entries)
        start = "" if contract_dir == "." else f"{contract_dir}/"
        kernel = (*contract.kernel_source, *contract.editable_globs)
        absent: list[str] = []
        for entry, pointer in list_lfs_pointers(git, "HEAD"):
            path = entry.path.removeprefix(start) if entry.path.startswith(start) else None
            if path is not None and matches(path, kernel) and not matches(path, contract.protected):
                raise DirtyTree(
                    f"{self.root / entry.path}: kept in Git LFS, and part of the kernel; commit the file itself"
                    " (`git lfs migrate export`), so that commits hold its changes"
                )
            if read_contents(self.root, entry, pointer) is not None:
                continue
            if path is not None and matches(path, contract.protected):
                raise DirtyTree(
                    f"{self.root / entry.path}: kept in Git LFS, and not in the checkout as the pointer says; run git lfs pull"
                )
            absent.append(entry.path)
        if absent:
            logger.warning(
                "%s: kept in Git LFS and not in the checkout, so candidates have a pointer", name_some(absent)
            )
        bare = [entry.path for entry in entries if entry.mode == MODULE and entry.path not in modules]
        if bare:
            logger.warning("%s: a submodule without files, so the checkouts of candidates have none", name_some(bare))


@dataclass(frozen=True, kw_only=True)
class _Place:
    """What git said of a folder: top of the checkout, git's own folder; and the signs of both when it was asked."""

    top: Path
    inside: Path
    signs: tuple[object, ...]


def _signs(*places: Path) -> tuple[object, ...]:
    """Device, inode, mode and signature of each place, which differ for another repository in the same place.

    A folder's times are left out: writing any ref changes them.
    """
    signs: list[object] = []
    for place in places:
        try:
            status = os.lstat(place)
        except OSError:  # gone: the question is asked again, and git says so
            return (place, None)
        signs.append((status.st_dev, status.st_ino, status.st_mode))
        signs.append(signs_of(place))
    return tuple(signs)


def _git_dir(root: Path) -> Path:
    process = git("rev-parse", "--absolute-git-dir", cwd=root)
    if process.returncode != 0:
        raise NotAGitRepository(f"{root}: is not a git repository; run git init and commit the kernel first")
    return Path(os.fsdecode(process.stdout.rstrip(b"\n")))


def find_repository(folder: Path) -> Path:
    """Root of the git checkout that a folder is in, with links resolved. Raises NotAGitRepository."""
    process = git("rev-parse", "--show-toplevel", cwd=folder) if folder.is_dir() else None
    top = os.fsdecode(process.stdout.rstrip(b"\n")) if process and process.returncode == 0 else ""
    if not top:
        raise NotAGitRepository(f"{folder}: is not inside a git repository; run git init there and commit the kernel")
    return Path(top).resolve()


# The campaign's own bare repository: where candidates are committed, and all that a copied campaign needs of git.

SHA256_DIGITS = 64


def mirror_of(folder: Path, *, base: str, user: Repository, branch: str | None) -> Git:
    """The mirror in `folder`, made from the user's repository when it is not there or has lost the base commit.

    Only the base commit is fetched, without history. `branch`, where it exists, is this campaign's and comes too.
    Raises NoSuchBase when the base is in neither.
    """
    mirror = Git(git_dir=folder, own_repository=folder.absolute(), sha256=len(base) == SHA256_DIGITS)
    if mirror.has(base):
        return mirror
    if not user.exists() or not user.git.has(base):
        raise NoSuchBase(f"{user.root}: has no commit {base}, and neither has {folder}; fetch it, or copy the mirror")
    fresh = folder.with_name(folder.name + ".new")
    discard_tree(fresh)
    fresh.parent.mkdir(parents=True, exist_ok=True)
    new = _empty(fresh, user)
    new.run("fetch", "-q", "--depth=1", "--no-tags", user.root.resolve().as_uri(), base)
    tip = user.git.tip(f"refs/heads/{branch}") if branch else None
    if branch and tip is not None:
        new.unpack(user.git.pack(tip, beyond=base))
        new.move(f"refs/heads/{branch}", new=tip, old=None)
    new.move("refs/ridgeline/base", new=base, old=None)
    bring(new, user.root, user.git, base)
    sync_tree(fresh)
    discard_tree(folder)
    fresh.rename(folder)
    sync_folder(folder.parent)
    return mirror


def _empty(folder: Path, user: Repository) -> Git:
    """A bare git repository with no hooks, of the same kind of object ids as the user's."""
    kind = user.git.line("rev-parse", "--show-object-format")
    words = ("init", "-q", "--bare", "--template=", f"--object-format={kind}", "--initial-branch=ridgeline")
    process = git(*words, str(folder), cwd=folder.parent)
    if process.returncode != 0:
        raise NoSuchBase(f"{folder}: cannot be made: {process.stderr.strip()}")
    return Git(git_dir=folder, own_repository=folder.absolute(), sha256=kind == "sha256")


def release_stale_locks(folder: Path, *, user: Path, branch: str | None) -> None:
    """Remove the lock files that a killed git of this campaign left behind.

    Only to be called while nobody else drives the campaign: its mirror and its branch are then nobody else's.
    """
    for lock in (path for path in list_files(folder) if path.suffix == ".lock"):
        logger.warning("%s: left behind by a killed git; removed", lock)
        lock.unlink(missing_ok=True)
    sound = branch and ".." not in branch.split("/")
    if sound and user.is_dir() and (common := git("rev-parse", "--git-common-dir", cwd=user)).returncode == 0:
        common_dir = common.stdout.decode().strip()
        (user / common_dir / "refs" / "heads" / f"{branch}.lock").unlink(missing_ok=True)


# Two versions of a project side by side in a throwaway repository: the user's own is only read.

BRANCH = "ridgeline-bench"
STAMP = "2000-01-01T00:00:00+00:00"
"""Date of a commit that stands for a working state: the same state is the same commit."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """One side."""

    repository: Path
    """Root of the checkout it comes from."""
    folder: PurePosixPath
    """The contract's folder, from that root."""
    commit: str
    """As the throwaway repository knows it."""
    described: str
    """What was taken, for people: a commit, or a commit and how many files differ from it."""


def revision(word: str, folder: Path) -> str | None:
    """Full name of the commit that git means by a word in this folder; None when it means none."""
    if not folder.is_dir() or not word or word != "".join(word.split()):
        return None
    process = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}", cwd=folder)
    return process.stdout.decode().strip() if process.returncode == 0 else None


class GatheringRepository:
    """A repository with a checkout, in a folder of its own, that fetches versions and never pushes."""

    def __init__(self, place: Path) -> None:
        self.root = place
        self._git: Git | None = None

    def commit(self, word: str, folder: Path) -> Version:
        """The commit that git knows by `word` in `folder`. Raises NotAGitRepository for no such commit."""
        root = find_repository(folder)
        commit = revision(word, folder)
        if commit is None:
            raise NotAGitRepository(f"{word!r}: git knows no such commit in {root}; give a commit, branch or tag")
        self._fetch(root, commit)
        name = f"{word} ({commit[:12]})" if not commit.startswith(word) else commit[:12]
        return Version(repository=root, folder=_below(folder, root), commit=commit, described=f"commit {name}")

    def working(self, folder: Path) -> Version:
        """What stands in a checkout now: its commit, or that with every change and new file that git does not ignore.

        Raises NotAGitRepository for a folder in no checkout, or in one without a commit.
        """
        root = find_repository(folder)
        head = revision("HEAD", root)
        if head is None:
            raise NotAGitRepository(f"{folder}: its repository has no commit yet; commit the kernel first")
        user = git("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", cwd=root)
        changed = [row for row in user.stdout.decode(errors="replace").split("\0") if row]
        self._fetch(root, head)
        if user.returncode == 0 and not changed:
            return Version(
                repository=root, folder=_below(folder, root), commit=head, described=f"{folder} at commit {head[:12]}"
            )
        files = f"{len(changed)} file{'s' if len(changed) != 1 else ''}"
        return Version(
            repository=root,
            folder=_below(folder, root),
            commit=self._snapshot(root, head),
            described=f"{folder} as it stands: commit {head[:12]} and {files} changed since",
        )

    def check_out(self, version: Version) -> Path:
        """The contract's folder with that version in it; whatever stood there before is replaced."""
        self._here.run("checkout", "-q", "-f", "-B", BRANCH, version.commit)
        self._here.run("clean", "-q", "-ffdx")
        return self.root / version.folder

    def list_changed(self, a: Version, b: Version) -> tuple[str, ...]:
        """Paths, relative to the contract's folder, of the files there that differ between two versions."""
        where = () if str(a.folder) == "." else ("--", f"{a.folder}/")
        output = self._here.run("diff", "--name-only", "--no-renames", "-z", a.commit, b.commit, *where)
        start = "" if str(a.folder) == "." else f"{a.folder}/"
        return tuple(path.removeprefix(start) for path in output.decode(errors="replace").split("\0") if path)

    def same(self, a: Version, b: Version) -> bool:
        """Whether two git versions have the same content."""
        return self._here.tree(a.commit) == self._here.tree(b.commit)

    def lend(self, version: Version, to: Git) -> None:
        """Give another git repository a version's objects."""
        to.run("fetch", "-q", "--depth=1", "--no-tags", self.root.resolve().as_uri(), version.commit)

    @property
    def _here(self) -> Git:
        assert self._git is not None, "no version was gathered yet"
        return self._git

    def _fetch(self, root: Path, commit: str) -> None:
        if self._git is None:
            self._git = self._empty(root)
        if not self._git.has(commit):
            self._git.run("fetch", "-q", "--depth=1", "--no-tags", root.resolve().as_uri(), commit)
        self._git.run("update-ref", f"refs/ridgeline/{commit}", commit)

    def _empty(self, like: Path) -> Git:
        kind = git("rev-parse", "--show-object-format", cwd=like).stdout.decode().strip()
        self.root.mkdir(parents=True, exist_ok=True)
        process = git(
            "init", "-q", "--template=", f"--object-format={kind}", f"--initial-branch={BRANCH}", cwd=self.root
        )
        if process.returncode != 0:
            raise NotAGitRepository(f"{self.root}: cannot be made a repository: {process.stderr.strip()}")
        (self.root / ".git" / "info").mkdir(exist_ok=True)
        (self.root / ".git" / "info" / "attributes").write_text(ATTRIBUTES, encoding="utf-8")
        return Git(git_dir=self.root / ".git", work_tree=self.root)

    def _snapshot(self, root: Path, head: str) -> str:
        """A commit of everything in a checkout that git does not ignore; index and objects are written here only."""
        relative = git("rev-parse", "--git-path", "info/exclude", cwd=root).stdout.decode().strip()
        exclude = self.root / ".git" / "info" / "exclude"
        if (root / relative).is_file():
            shutil.copyfile(root / relative, exclude)
        checkout = Git(git_dir=self.root / ".git", work_tree=root)
        env = {"GIT_INDEX_FILE": os.fspath(self.root / ".git" / "snapshot-index")}
        checkout.run("read-tree", head, env=env)
        checkout.run("add", "--all", env=env)
        snapshot = checkout.commit(
            checkout.line("write-tree", env=env), parent=head, message="working state\n", at=STAMP
        )
        checkout.run("update-ref", f"refs/ridgeline/{snapshot}", snapshot)
        return snapshot


def _below(folder: Path, root: Path) -> PurePosixPath:
    return PurePosixPath(folder.resolve().relative_to(root).as_posix())
