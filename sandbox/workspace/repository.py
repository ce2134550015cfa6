"""The user's own repository: looked at before a campaign, and then given one branch and nothing else."""

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.graph.contract import Contract
from ridgeline.graph.errors import BranchTaken, DetachedHead, DirtyTree, NotAGitRepository
from ridgeline.sandbox.workspace.git import Git, git
from ridgeline.sandbox.workspace.globs import matches
from ridgeline.sandbox.workspace.signatures import signs_of

logger = logging.getLogger(__name__)

EXCLUDED = ("/agent/workspace/", "/agent/historical_experience/")
"""Where campaigns and tips lie by default; kept out of `git status` through info/exclude, not through .gitignore."""
SHOWN = 3


@dataclass(frozen=True)
class Repository:
    """A git repository with a checkout in which a person works."""

    root: Path
    _known: list["_Place"] = field(default_factory=list, compare=False, repr=False)

    @property
    def git(self) -> Git:
        """The repository for reading and for moving the campaign's branch. Raises NotAGitRepository."""
        return Git(git_dir=self._found().inside, work_tree=self.root)

    def exists(self) -> bool:
        """Whether the root is the top of a git checkout."""
        try:
            return self._found().top == self.root.resolve()
        except NotAGitRepository:
            return False

    def _found(self) -> "_Place":
        """Where git is, asked once as long as the same `.git` stands there."""
        for known in self._known:
            if known.signs == _signs(self.root / ".git", known.inside):
                return known
        self._known.clear()
        top, inside = find_repository(self.root), _git_dir(self.root)
        self._known.append(_Place(top=top, inside=inside, signs=_signs(self.root / ".git", inside)))
        return self._known[0]

    def require_clean(self, contract: Contract, contract_dir: str) -> str:
        """The commit that a campaign may stand on.

        Raises:
            NotAGitRepository: there is none, or it has no commit.
            DetachedHead: HEAD is on no branch.
            DirtyTree: tracked files differ from HEAD, or a file of the contract is not committed.
        """
        if not self.exists():
            raise NotAGitRepository(f"{self.root}: is not a git repository; run git init and commit the kernel first")
        here = self.git
        if here.attempt("symbolic-ref", "--quiet", "HEAD").returncode != 0:
            raise DetachedHead(f"{self.root}: HEAD is on no branch; run git switch to a branch first")
        head = here.tip("HEAD")
        if head is None:
            raise NotAGitRepository(f"{self.root}: has no commit yet; commit the kernel first")
        self._require_committed(here)
        self._require_tracked(here, contract, contract_dir)
        return head

    def exclude_campaigns(self) -> None:
        """Hide campaign folders from `git status`, once, in the repository's own info/exclude."""
        told = self.git.line("rev-parse", "--git-path", "info/exclude")
        path = self.root / told
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

    def _require_committed(self, here: Git) -> None:
        out = here.run("status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames")
        changed = [row[3:] for row in out.decode(errors="replace").split("\0") if row]
        if changed:
            raise DirtyTree(
                f"{self.root}: {_some(changed)} changed since the last commit; commit or stash first,"
                " so that every number names what was measured"
            )

    def _require_tracked(self, here: Git, contract: Contract, contract_dir: str) -> None:
        where = ("--", f":(literal){contract_dir}") if contract_dir != "." else ()
        start = "" if contract_dir == "." else f"{contract_dir}/"
        out = here.run("ls-files", "-z", "--others", "--exclude-standard", *where)
        untracked = [row.removeprefix(start) for row in out.decode(errors="replace").split("\0") if row]
        surface = (*contract.kernel_source, *contract.editable_globs, *contract.protected)
        if stray := [path for path in untracked if matches(path, surface)]:
            raise DirtyTree(
                f"{self.root / contract_dir}: {_some(stray)} belongs to the contract but is not tracked;"
                " git add and commit it, or ignore it"
            )
        tracked = [entry.path.removeprefix(start) for entry in here.entries("HEAD", contract_dir)]
        for glob in contract.kernel_source:
            if not any(matches(path, (glob,)) for path in tracked):
                raise DirtyTree(f"kernel_source: {glob!r} matches no committed file; git add and commit the kernel")


@dataclass(frozen=True, kw_only=True)
class _Place:
    """What git said of a folder: top of the checkout, git's own folder; and the signs of both when it was asked."""

    top: Path
    inside: Path
    signs: tuple[object, ...]


def _signs(*places: Path) -> tuple[object, ...]:
    """By what another repository in the same place is seen. Times of a folder are not told: every ref moves them."""
    found: list[object] = []
    for place in places:
        try:
            status = os.lstat(place)
        except OSError:  # gone: the question is asked again, and git says so
            return (place, None)
        found.append((status.st_dev, status.st_ino, status.st_mode))
        found.append(signs_of(place))
    return tuple(found)


def _git_dir(root: Path) -> Path:
    done = git("rev-parse", "--absolute-git-dir", cwd=root)
    if done.returncode != 0:
        raise NotAGitRepository(f"{root}: is not a git repository; run git init and commit the kernel first")
    return Path(os.fsdecode(done.stdout.rstrip(b"\n")))


def find_repository(folder: Path) -> Path:
    """Root of the git checkout that a folder is in, with links resolved. Raises NotAGitRepository."""
    done = git("rev-parse", "--show-toplevel", cwd=folder) if folder.is_dir() else None
    top = os.fsdecode(done.stdout.rstrip(b"\n")) if done and done.returncode == 0 else ""
    if not top:
        raise NotAGitRepository(f"{folder}: is not inside a git repository; run git init there and commit the kernel")
    return Path(top).resolve()


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more
