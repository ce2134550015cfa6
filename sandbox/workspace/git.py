"""Git as a function: one repository, commands that must work, and the plumbing that commits without a checkout."""

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath

from ridgeline.graph.errors import GitFailed, NoSuchBase
from ridgeline.sandbox.isolation.directory_pool import read_left, remove_tree
from ridgeline.sandbox.isolation.process import CapturedOutput, capture
from ridgeline.sandbox.store.durable import require_room, sync_folder, write_whole

logger = logging.getLogger(__name__)

# One commit with its files, folders and reference, in the words of `git fast-import`: one process instead of seven.

Change = tuple[str, bytes] | None
"""Mode and content of a file; None deletes it."""


@dataclass(frozen=True, kw_only=True)
class NewCommit:
    """What git made of a stream: names of the commit, of its tree, and of the new contents by their paths."""

    commit: str
    tree: str
    blobs: dict[str, str]


def stream(changes: Mapping[str, Change], *, parent: str, ref: str, author: str, message: str) -> bytes:
    """The commands that commit `changes` on top of `parent` and point `ref` at the commit, and ask for the names.

    `author` with a date as git writes it: `Name <address> seconds +0000`.
    """
    written = [(path, change) for path, change in changes.items() if change is not None]
    parts = [_blob(mark, change[1]) for mark, (_, change) in enumerate(written, start=1)]
    commit_mark = len(written) + 1
    parts.append(f"commit {ref}\nmark :{commit_mark}\nauthor {author}\ncommitter {author}\n".encode())
    parts.append(_data(message.encode()) + f"from {parent}\n".encode())
    parts += [_quote("D", path) for path, change in changes.items() if change is None]
    parts += [_quote(f"M {change[0]} :{mark}", path) for mark, (path, change) in enumerate(written, start=1)]
    parts.append(f'\nget-mark :{commit_mark}\nls :{commit_mark} ""\n'.encode())
    parts += [f"get-mark :{mark}\n".encode() for mark in range(1, commit_mark)]
    return b"".join([*parts, b"done\n"])


def parse_new_commit(answers: bytes, changes: Mapping[str, Change]) -> NewCommit:
    """What git answered to the stream of changes that makes a commit."""
    commit, tree, *blobs = answers.decode().splitlines()
    paths = (path for path, change in changes.items() if change is not None)
    return NewCommit(commit=commit, tree=tree.split()[2], blobs=dict(zip(paths, blobs, strict=True)))


def _blob(mark: int, content: bytes) -> bytes:
    return f"blob\nmark :{mark}\n".encode() + _data(content)


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _quote(command: str, path: str) -> bytes:
    safe = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{command} "{safe}"\n'.encode(errors="surrogateescape")


TIMEOUT_S = 600
TICK_NS = 20_000_000
"""The kernel's file times move in ticks of up to 10 ms."""
NAME, EMAIL = "Ridgeline", "ridgeline@localhost"
OVERRIDES = {
    "user.name": NAME,
    "user.email": EMAIL,
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "core.fsync": "committed,reference",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.version": "2",
}
"""Stronger than the repository's own settings: no hook of a project runs because Ridgeline commits."""

DIFF_WORDS = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
"""How a change is shown, whatever the repository's own settings are: the same change is the same text."""
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
    own_repository: Path | None = None
    """The campaign's own repository, where this is it or one of its work trees: its settings are made ours before each command."""
    sha256: bool = False
    """Of `own_repository`: the kind of its object names."""

    def run(self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        """Standard output of a git command. Raises GitFailed with git's own last line when it fails, DiskFull when there is no room."""
        process = self.attempt(*words, stdin=stdin, env=env)
        if process.returncode != 0:
            require_room(self.git_dir, *([self.work_tree] if self.work_tree else []))
            raise GitFailed(f"{self.git_dir}: git {words[0]} failed: {_explain(process)}")
        return process.stdout

    def attempt(self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> CapturedOutput:
        """Run a git command that may fail."""
        place = [f"--git-dir={self.git_dir.absolute()}"]  # git is started elsewhere
        if self.work_tree is not None:
            place.append(f"--work-tree={self.work_tree.absolute()}")
        if self.own_repository is not None and self.own_repository.is_dir():
            restore_settings(self.own_repository, sha256=self.sha256)
            env = {**(env or {}), "GIT_COMMON_DIR": str(self.own_repository.absolute())}
        cwd = self.work_tree or self.git_dir
        return git(*place, *words, cwd=cwd, stdin=stdin, env=env)

    def line(self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> str:
        """The one line that a git command prints."""
        return self.run(*words, stdin=stdin, env=env).decode().strip()

    def has(self, commit: str) -> bool:
        """Whether the commit is in the git repository."""
        return self.git_dir.is_dir() and self.attempt("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0

    def tree(self, commit: str) -> str:
        """The tree of a commit. Raises NoSuchBase when the commit is not here."""
        process = self.attempt("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
        if process.returncode != 0:
            raise _unknown(self.git_dir, commit)
        return process.stdout.decode().strip()

    def tip(self, ref: str) -> str | None:
        """The commit a full reference name points at, or None."""
        process = self.attempt("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        return process.stdout.decode().strip() if process.returncode == 0 else None

    def branch(self, ref: str) -> tuple[str | None, bool]:
        """The commit that a branch, by its full name, points at (None: no such), and whether some checkout is on it."""
        rows = self.run("for-each-ref", "--format=%(refname)%00%(objectname)%00%(worktreepath)", ref)
        for row in rows.decode(errors="replace").splitlines():
            name, _, about = row.partition("\0")
            if name == ref:
                commit, _, place = about.partition("\0")
                return commit, bool(place)
        return None, False

    def contains(self, ancestor: str, *, tip: str) -> bool:
        """In git: whether commit `ancestor` is `tip` or lies before it."""
        return self.attempt("merge-base", "--is-ancestor", ancestor, tip).returncode == 0

    def entries(self, commit: str, folder: str) -> tuple[Entry, ...]:
        """Every file of a commit below a folder (`.` for all). Raises NoSuchBase when the commit is not here."""
        where = () if folder == "." else ("--", f"{folder}/")
        process = self.attempt("ls-tree", "-r", "-z", "--full-tree", f"{commit}^{{tree}}", *where)
        if process.returncode != 0:
            raise _unknown(self.git_dir, commit)
        entries: list[Entry] = []
        for row in process.stdout.decode(errors="surrogateescape").split("\0")[:-1]:
            about, path = row.split("\t", 1)
            mode, _, oid = about.split(" ")
            entries.append(Entry(mode=mode, oid=oid, path=path))
        return tuple(entries)

    def blobs(self, oids: tuple[str, ...]) -> tuple[bytes, ...]:
        """Contents of git's objects, in order."""
        if not oids:
            return ()
        output = self.run("cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in oids).encode())
        contents: list[bytes] = []
        at = 0
        for _ in oids:
            end = output.index(b"\n", at)
            size = int(output[at:end].split()[2])
            contents.append(output[end + 1 : end + 1 + size])
            at = end + 1 + size + 1
        return tuple(contents)

    def grow(self, changes: Mapping[str, Change], *, parent: str, ref: str, message: str, at: str) -> NewCommit:
        """Commit files to git (path from the root -> mode and content; None deletes) on top of `parent`, named by `ref`.

        No checkout is touched; the same arguments give the same commit. `at` is ISO-8601 with an offset or Z.
        """
        author = f"{NAME} <{EMAIL}> {_moment(at)}"
        words = stream(changes, parent=parent, ref=ref, author=author, message=message)
        with self._names_synced(ref):
            return parse_new_commit(self.run("fast-import", "--quiet", "--done", stdin=words), changes)

    def commit(self, tree: str, *, parent: str, message: str, at: str) -> str:
        """A commit object: the same arguments give the same id. `at` is ISO-8601 with an offset or Z."""
        moment = f"@{_moment(at)}"
        env = {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
        with self._names_synced():
            return self.line("commit-tree", tree, "-p", parent, stdin=message.encode(), env=env)

    def pack(self, tip: str, *, beyond: str) -> bytes:
        """Every object that `tip` needs and `beyond` does not have, as a pack."""
        return self.run("pack-objects", "--revs", "--stdout", "-q", stdin=f"{tip}\n^{beyond}\n".encode())

    def unpack(self, pack: bytes) -> None:
        """In git: store the objects of a pack."""
        with self._names_synced():
            self.run("unpack-objects", "-q", stdin=pack)

    def try_move(self, ref: str, *, new: str, old: str) -> bool:
        """Point a full reference name at `new`, if it still is at `old`; whether it was."""
        with self._names_synced(ref):
            return self.attempt("update-ref", ref, new, old).returncode == 0

    def hold(self, ref: str, commit: str) -> None:
        """Point a full git reference name at a commit, wherever it pointed before."""
        with self._names_synced(ref):
            self.run("update-ref", ref, commit)

    def move(self, ref: str, *, new: str, old: str | None) -> None:
        """Point a full reference name at `new`, if it still is at `old` (None: does not exist)."""
        with self._names_synced(ref):
            self.run("update-ref", ref, new, old or "0" * len(new))

    @contextmanager
    def _names_synced(self, ref: str = "") -> Iterator[None]:
        """What git writes in the block is on the disk after it, by its name too: git itself syncs contents alone."""
        began_ns = time.time_ns() - TICK_NS
        yield
        common = self._common_dir()
        objects = common / "objects"
        folders = [objects, common / "reftable", *(Path(entry.path) for entry in os.scandir(objects) if entry.is_dir())]
        if ref:
            folders += [place for place in (common / ref).parents if place != common and common in place.parents]
        for folder in folders:
            with suppress(FileNotFoundError):  # git removes folders that are empty
                if folder.stat().st_mtime_ns >= began_ns:
                    sync_folder(folder)

    def _common_dir(self) -> Path:
        """Where objects and branches are: elsewhere, for a checkout beside another."""
        if self.own_repository is not None:
            return self.own_repository
        pointer = read_left(self.git_dir / "commondir")
        return self.git_dir if pointer is None else (self.git_dir / os.fsdecode(pointer.strip())).resolve()


LOCKED = re.compile(r"Unable to create '(.+\.lock)': File exists")
MISSING = re.compile(r"^(?:.*: )?([\w./-]+): (?:command )?not found$", re.M)
"""What a shell says of a filter whose program is gone, as of git-lfs where the checkout was made with it."""


def _explain(process: CapturedOutput) -> str:
    """Why git failed, in a line; of a lock which file it is and since when, for git ends on advice."""
    lines = process.stderr.strip().splitlines() or [f"exit code {process.returncode}"]
    locked = LOCKED.search(process.stderr)
    if missing := MISSING.search(process.stderr):
        return f"its settings name the program {missing[1]}, which is not here; install it, or take it out of them"
    if locked is None:
        return next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
    try:
        since = datetime.fromtimestamp(os.lstat(locked[1]).st_mtime, UTC).isoformat(sep=" ", timespec="seconds")
    except OSError:
        since = "a moment ago, and gone now"
    return f"{locked[1]} is there since {since}: another git works here, or was killed; remove the file if none runs"


def _moment(at: str) -> str:
    """Seconds since 1970 and an offset, as git writes them."""
    return f"{int(datetime.fromisoformat(at).timestamp())} +0000"


def _unknown(folder: Path, commit: str) -> NoSuchBase:
    return NoSuchBase(f"{folder}: has no commit {commit}; restore the campaign's folder from a copy")


def git(*words: str, cwd: Path, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> CapturedOutput:
    """Run git with our settings and none of the user's. Raises ProgramMissing when there is no git."""
    return capture(
        ("git", *SETTINGS, *words),
        cwd=cwd,
        timeout_s=TIMEOUT_S,
        stdin=stdin,
        env={**_fixed_environment(), **(env or {})},
    )


@cache
def _fixed_environment() -> Mapping[str, str]:
    return {
        "GIT_CONFIG_GLOBAL": str(files("ridgeline.sandbox").joinpath("harness", "gitconfig")),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",  # status must not rewrite the user's index
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
    }


ATTRIBUTES = "* -text -filter -ident -working-tree-encoding !eol !diff\n"
"""Files are checked out byte for byte, whatever the project's attributes say, so that hashes can be compared."""


def restore_settings(folder: Path, *, sha256: bool) -> None:
    """Put back what decides what git does in a bare repository of ours: settings, attributes, and no objects from elsewhere.

    Another program that ran here as this user may have had git run a filter, in our name, outside of every room.
    """
    version, extension = ("1", "[extensions]\n\tobjectformat = sha256\n") if sha256 else ("0", "")
    core = f"[core]\n\trepositoryformatversion = {version}\n\tfilemode = {{}}\n\tbare = true\n"
    settings = tuple(f"{core.format(filemode)}{extension}".encode() for filemode in ("true", "false"))
    for path, contents in ((folder / "config", settings), (folder / "info" / "attributes", (ATTRIBUTES.encode(),))):
        if read_left(path) not in contents:
            logger.info("%s: made what Ridgeline wrote", path)
            remove_tree(path)
            write_whole(path, contents[0], synced=False)
    for name in ("config.worktree", "objects/info/alternates", "commondir"):
        if os.path.lexists(folder / name):
            logger.warning("%s/%s: is not Ridgeline's; removed", folder, name)
            remove_tree(folder / name)


# What versions hold, as far as it was asked or written here: git's names never change their meaning.

KEPT = 3
"""Trees whose lists of files are remembered: the best version's, a candidate's, and its formatted form's."""
KEPT_BYTES = 16_000_000
"""Of contents; beyond it they are forgotten, and asked for again when they are needed."""


class Holdings:
    """Trees, files and contents of a mirror's commits, below the contract's folder."""

    def __init__(self, folder: PurePosixPath) -> None:
        self._folder = str(folder)
        self._trees: dict[str, str] = {}
        self._files: dict[str, dict[str, Entry]] = {}
        self._contents: dict[str, bytes] = {}

    def tree(self, mirror: Git, commit: str) -> str:
        """The tree of a commit. Raises NoSuchBase when the mirror has no such commit."""
        if commit not in self._trees:
            self._trees[commit] = mirror.tree(commit)
        return self._trees[commit]

    def files(self, mirror: Git, commit: str) -> dict[str, Entry]:
        """The contract's files at a commit, by their paths below its folder. Raises NoSuchBase likewise."""
        tree = self.tree(mirror, commit)
        if tree not in self._files:
            entries = mirror.entries(commit, self._folder)
            self._remember(tree, {self.below(entry.path): entry for entry in entries})
        return self._files[tree]

    def contents(self, mirror: Git, oids: tuple[str, ...]) -> tuple[bytes, ...]:
        """In git: contents of objects, in order."""
        missing = tuple(dict.fromkeys(oid for oid in oids if oid not in self._contents))
        from_mirror = dict(zip(missing, mirror.blobs(missing), strict=True))
        by_oid = {oid: from_mirror[oid] if oid in from_mirror else self._contents[oid] for oid in oids}
        self._keep(from_mirror)
        return tuple(by_oid[oid] for oid in oids)

    def same(self, commit: str, tree: str) -> None:
        """Note that a commit was made here of that tree."""
        self._trees[commit] = tree

    def add_commit(self, new: NewCommit, files: dict[str, Entry], contents: dict[str, bytes]) -> None:
        """Note that a commit was made here: its files, and its new contents by git's names for them."""
        self._trees[new.commit] = new.tree
        self._remember(new.tree, files)
        self._keep(contents)

    def at_root(self, path: str) -> str:
        """A path of the contract from the git repository's root."""
        return path if self._folder == "." else f"{self._folder}/{path}"

    def below(self, path: str) -> str:
        """A path of the git repository from the contract's folder."""
        return path if self._folder == "." else path.removeprefix(f"{self._folder}/")

    def _remember(self, tree: str, files: dict[str, Entry]) -> None:
        recent = [(name, entries) for name, entries in self._files.items() if name != tree][-KEPT:]
        self._files = {**dict(recent), tree: files}

    def _keep(self, contents: dict[str, bytes]) -> None:
        self._contents |= contents
        if sum(map(len, self._contents.values())) > KEPT_BYTES:
            self._contents.clear()
