"""Two versions of a project side by side in a throwaway repository: the user's own is only read."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ridgeline.graph.errors import NotAGitRepository
from ridgeline.sandbox.workspace.git import Git, git
from ridgeline.sandbox.workspace.mirror import ATTRIBUTES
from ridgeline.sandbox.workspace.repository import find_repository

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


def revision(word: str, here: Path) -> str | None:
    """Full name of the commit that git means by a word in this folder; None when it means none."""
    if not here.is_dir() or not word or word != "".join(word.split()):
        return None
    done = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}", cwd=here)
    return done.stdout.decode().strip() if done.returncode == 0 else None


class Gathering:
    """A repository with a checkout, in a folder of its own, that fetches versions and never pushes."""

    def __init__(self, place: Path) -> None:
        self.root = place
        self._git: Git | None = None

    def commit(self, word: str, here: Path) -> Version:
        """The commit that git knows by `word` in the folder `here`. Raises NotAGitRepository for no such commit."""
        root = find_repository(here)
        found = revision(word, here)
        if found is None:
            raise NotAGitRepository(f"{word!r}: git knows no such commit in {root}; give a commit, branch or tag")
        self._fetch(root, found)
        name = f"{word} ({found[:12]})" if not found.startswith(word) else found[:12]
        return Version(repository=root, folder=_below(here, root), commit=found, described=f"commit {name}")

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

    def changed(self, a: Version, b: Version) -> tuple[str, ...]:
        """Paths, relative to the contract's folder, of the files there that differ between two versions."""
        where = () if str(a.folder) == "." else ("--", f"{a.folder}/")
        out = self._here.run("diff", "--name-only", "--no-renames", "-z", a.commit, b.commit, *where)
        start = "" if str(a.folder) == "." else f"{a.folder}/"
        return tuple(path.removeprefix(start) for path in out.decode(errors="replace").split("\0") if path)

    def same(self, a: Version, b: Version) -> bool:
        """Whether two versions have the same content."""
        return self._here.tree(a.commit) == self._here.tree(b.commit)

    def lend(self, version: Version, to: Git) -> None:
        """Give another repository that version."""
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
        done = git("init", "-q", "--template=", f"--object-format={kind}", f"--initial-branch={BRANCH}", cwd=self.root)
        if done.returncode != 0:
            raise NotAGitRepository(f"{self.root}: cannot be made a repository: {done.stderr.strip()}")
        (self.root / ".git" / "info").mkdir(exist_ok=True)
        (self.root / ".git" / "info" / "attributes").write_text(ATTRIBUTES, encoding="utf-8")
        return Git(git_dir=self.root / ".git", work_tree=self.root)

    def _snapshot(self, root: Path, head: str) -> str:
        """A commit of everything in a checkout that git does not ignore; index and objects are written here only."""
        told = git("rev-parse", "--git-path", "info/exclude", cwd=root).stdout.decode().strip()
        exclude = self.root / ".git" / "info" / "exclude"
        if (root / told).is_file():
            shutil.copyfile(root / told, exclude)
        theirs = Git(git_dir=self.root / ".git", work_tree=root)
        env = {"GIT_INDEX_FILE": os.fspath(self.root / ".git" / "snapshot-index")}
        theirs.run("read-tree", head, env=env)
        theirs.run("add", "--all", env=env)
        made = theirs.commit(theirs.line("write-tree", env=env), parent=head, message="working state\n", at=STAMP)
        theirs.run("update-ref", f"refs/ridgeline/{made}", made)
        return made


def _below(folder: Path, root: Path) -> PurePosixPath:
    return PurePosixPath(folder.resolve().relative_to(root).as_posix())
