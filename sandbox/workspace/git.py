"""Git as a function: one repository, commands that must work, and the plumbing that commits without a checkout."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

from ridgeline.graph.errors import GitFailed, NoSuchBase
from ridgeline.sandbox.isolation.process import Captured, capture
from ridgeline.sandbox.workspace.stream import Change, Grown, grown, stream

TIMEOUT_S = 600
NAME, EMAIL = "Ridgeline", "ridgeline@localhost"
OVERRIDES = {
    "user.name": NAME,
    "user.email": EMAIL,
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.version": "2",
}
"""Stronger than the repository's own settings: no hook of a project runs because Ridgeline commits."""

SETTINGS = tuple(word for name, value in OVERRIDES.items() for word in ("-c", f"{name}={value}"))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file of a tree: mode such as `100644`, object id, path from the repository's root."""

    mode: str
    oid: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Git:
    """A repository. `git_dir` is named outright, so that a missing one can never mean the one above it."""

    git_dir: Path
    work_tree: Path | None = None

    def run(self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        """Standard output of a git command. Raises GitFailed with git's own last line when it fails."""
        done = self.attempt(*words, stdin=stdin, env=env)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise GitFailed(f"{self.git_dir}: git {words[0]} failed: {said[-1]}")
        return done.stdout

    def attempt(self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> Captured:
        """A git command that may fail."""
        place = [f"--git-dir={self.git_dir}"]
        if self.work_tree is not None:
            place.append(f"--work-tree={self.work_tree}")
        cwd = self.work_tree or self.git_dir
        return git(*place, *words, cwd=cwd, stdin=stdin, env=env)

    def line(self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> str:
        """The one line that a git command prints."""
        return self.run(*words, stdin=stdin, env=env).decode().strip()

    def has(self, commit: str) -> bool:
        """Whether the commit is here."""
        return self.git_dir.is_dir() and self.attempt("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0

    def tree(self, commit: str) -> str:
        """The tree of a commit. Raises NoSuchBase when the commit is not here."""
        done = self.attempt("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
        if done.returncode != 0:
            raise _unknown(self.git_dir, commit)
        return done.stdout.decode().strip()

    def tip(self, ref: str) -> str | None:
        """The commit a full reference name points at, or None."""
        done = self.attempt("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def branch(self, ref: str) -> tuple[str | None, bool]:
        """The commit that a branch, by its full name, points at (None: no such), and whether some checkout is on it."""
        told = self.run("for-each-ref", "--format=%(refname)%00%(objectname)%00%(worktreepath)", ref)
        for row in told.decode(errors="replace").splitlines():
            name, _, about = row.partition("\0")
            if name == ref:
                commit, _, place = about.partition("\0")
                return commit, bool(place)
        return None, False

    def contains(self, ancestor: str, *, tip: str) -> bool:
        """Whether `ancestor` is `tip` or lies before it."""
        return self.attempt("merge-base", "--is-ancestor", ancestor, tip).returncode == 0

    def entries(self, commit: str, folder: str) -> tuple[Entry, ...]:
        """Every file of a commit below a folder (`.` for all). Raises NoSuchBase when the commit is not here."""
        where = () if folder == "." else ("--", f"{folder}/")
        done = self.attempt("ls-tree", "-r", "-z", "--full-tree", f"{commit}^{{tree}}", *where)
        if done.returncode != 0:
            raise _unknown(self.git_dir, commit)
        found: list[Entry] = []
        for row in done.stdout.decode(errors="surrogateescape").split("\0")[:-1]:
            about, path = row.split("\t", 1)
            mode, _, oid = about.split(" ")
            found.append(Entry(mode=mode, oid=oid, path=path))
        return tuple(found)

    def blobs(self, oids: tuple[str, ...]) -> tuple[bytes, ...]:
        """Contents of objects, in order."""
        if not oids:
            return ()
        out = self.run("cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in oids).encode())
        found: list[bytes] = []
        at = 0
        for _ in oids:
            end = out.index(b"\n", at)
            size = int(out[at:end].split()[2])
            found.append(out[end + 1 : end + 1 + size])
            at = end + 1 + size + 1
        return tuple(found)

    def grow(self, changes: Mapping[str, Change], *, parent: str, ref: str, message: str, at: str) -> Grown:
        """Commit files (path from the root -> mode and content; None deletes) on top of `parent`, named by `ref`.

        No checkout is touched; the same arguments give the same commit. `at` is ISO-8601 with an offset or Z.
        """
        author = f"{NAME} <{EMAIL}> {_moment(at)}"
        words = stream(changes, parent=parent, ref=ref, author=author, message=message)
        return grown(self.run("fast-import", "--quiet", "--done", stdin=words), changes)

    def commit(self, tree: str, *, parent: str, message: str, at: str) -> str:
        """A commit object: the same arguments give the same id. `at` is ISO-8601 with an offset or Z."""
        moment = f"@{_moment(at)}"
        env = {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
        return self.line("commit-tree", tree, "-p", parent, stdin=message.encode(), env=env)

    def pack(self, tip: str, *, beyond: str) -> bytes:
        """Every object that `tip` needs and `beyond` does not have, as a pack."""
        return self.run("pack-objects", "--revs", "--stdout", "-q", stdin=f"{tip}\n^{beyond}\n".encode())

    def unpack(self, pack: bytes) -> None:
        """Store the objects of a pack."""
        self.run("unpack-objects", "-q", stdin=pack)

    def moved(self, ref: str, *, new: str, old: str) -> bool:
        """Point a full reference name at `new`, if it still is at `old`; whether it was."""
        return self.attempt("update-ref", ref, new, old).returncode == 0

    def move(self, ref: str, *, new: str, old: str | None) -> None:
        """Point a full reference name at `new`, if it still is at `old` (None: does not exist)."""
        self.run("update-ref", ref, new, old or "0" * len(new))


def _moment(at: str) -> str:
    """Seconds since 1970 and an offset, as git writes them."""
    return f"{int(datetime.fromisoformat(at).timestamp())} +0000"


def _unknown(folder: Path, commit: str) -> NoSuchBase:
    return NoSuchBase(f"{folder}: has no commit {commit}; restore the campaign's folder from a copy")


def git(*words: str, cwd: Path, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> Captured:
    """Run git with our settings and none of the user's. Raises ProgramMissing when there is no git."""
    return capture(
        ("git", *SETTINGS, *words), cwd=cwd, timeout_s=TIMEOUT_S, stdin=stdin, env={**_fixed(), **(env or {})}
    )


@cache
def _fixed() -> Mapping[str, str]:
    return {
        "GIT_CONFIG_GLOBAL": str(files("ridgeline.sandbox").joinpath("harness", "gitconfig")),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",  # status must not rewrite the user's index
        "GIT_TERMINAL_PROMPT": "0",
    }
