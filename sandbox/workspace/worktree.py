"""Candidates as commits, made beside the user's checkout, and the minimal project of a version; only accepted ones reach
the campaign's branch."""

import ast
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path, PurePosixPath

from ridgeline.graph.contract import Argv, Contract
from ridgeline.graph.errors import BranchTaken, NoSuchBase
from ridgeline.graph.finding import Finding
from ridgeline.graph.ports import Artifacts, Base, CandidateCommit, EditRefusal
from ridgeline.graph.record import MinimalVersion
from ridgeline.graph.values import Artifact, FileEdit
from ridgeline.sandbox.audit.examine import find_added
from ridgeline.sandbox.audit.shared import C_LIKE, INCLUDE, find_shared, native, nearest
from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.store.json_file import read_model
from ridgeline.sandbox.workspace.edits import CONTRACT_FILE, LINK, MODULE, refusal
from ridgeline.sandbox.workspace.git import DIFF_WORDS, Change, Entry, Git, Holdings, NewCommit
from ridgeline.sandbox.workspace.globs import matches
from ridgeline.sandbox.workspace.repository import Repository, find_repository, mirror_of

logger = logging.getLogger(__name__)

__all__ = ["GitWorkspace", "find_repository"]

MINIMAL = "+minimal"
"""Marks the name of a version's minimal project."""
EXTRACTED_AT = "2000-01-01T00:00:00+00:00"
"""Date of the commit that holds a minimal project: the same files are the same commit."""
NO_BRANCH = "none"
NEW_FILE = "100644"


class GitWorkspace:
    """Port `Workspace`. Works in the campaign's mirror, so that it goes on without the user's repository."""

    def __init__(
        self, repo_root: Path, contract_dir: PurePosixPath, campaign_dir: Path, contract: Contract, artifacts: Artifacts
    ) -> None:
        self._user = Repository(repo_root)
        self._folder = str(contract_dir)
        self._campaign_dir = campaign_dir
        self._contract = contract
        self._artifacts = artifacts
        self._opened: Base | None = None
        self._mirror: Git | None = None
        self._sources_by_commit: dict[str, tuple[FileEdit, ...]] = {}
        """Sources by commit: what a commit holds never changes, and every planner call is told them."""
        self._holdings = Holdings(contract_dir)

    @property
    def contract_dir(self) -> PurePosixPath:
        """The contract's folder, from the repository's root."""
        return PurePosixPath(self._folder)

    @property
    def contract(self) -> Contract:
        """What a candidate may edit, and what must stay as it is."""
        return self._contract

    @property
    def user_root(self) -> Path:
        """The user's own git checkout."""
        return self._user.root

    @property
    def campaign_dir(self) -> Path:
        """The folder of the campaign that the git workspace belongs to."""
        return self._campaign_dir

    def repository(self) -> Git:
        """The campaign's mirror: it has every commit of the campaign, also where the user's repository is not.

        Raises NoSuchBase before `open`, or when base and mirror are both lost.
        """
        if self._mirror is None or not self._mirror.git_dir.is_dir():
            base = self._base()
            branch = base.branch if self._publishes(base) else None
            folder = self._campaign_dir / "mirror.git"
            self._mirror = mirror_of(folder, base=base.commit, user=self._user, branch=branch)
        return self._mirror

    def open(self, branch: str) -> Base:
        """Fix where the campaign stands, once; later calls answer the same, whatever the checkout looks like by then.

        Raises NotAGitRepository, DetachedHead, DirtyTree, BranchTaken, each with its mend.
        """
        if not self._record.exists():
            commit = self._user.require_clean(self._contract, self._folder)
            if branch != NO_BRANCH:
                self._user.require_free(branch)
            base = Base(
                commit=commit,
                tree=self._user.git.tree(commit),
                branch=branch,
                repository=self._user.root.resolve().name,
                contract_path=str(self.contract_dir / CONTRACT_FILE),
            )
            write_whole(self._record, base.model_dump_json(indent=1).encode())
        base = self._base()
        mirror = self.repository()
        if self._user.exists():
            self._user.exclude_campaigns()
        if self._publishes(base):
            ref = f"refs/heads/{base.branch}"
            tip = mirror.tip(ref)
            if tip is None:
                mirror.move(ref, new=base.commit, old=None)
            self._publish(mirror, base, tip or base.commit)
        return base

    def tree(self, commit: str) -> str:
        """The tree of a commit, by git's name for it. Raises NoSuchBase for an unknown commit."""
        return self._holdings.tree(self.repository(), commit)

    def files(self, commit: str) -> dict[str, Entry]:
        """The contract's files at a commit, by their paths below its folder. Raises NoSuchBase likewise."""
        return self._holdings.files(self.repository(), commit)

    def sources(self, commit: str) -> tuple[FileEdit, ...]:
        """Text of every editable file at a commit; binary files, links and submodules are left out."""
        if commit not in self._sources_by_commit:
            self._sources_by_commit = {commit: self._sources(commit)}  # the best version's: one at a time is enough
        return self._sources_by_commit[commit]

    def _sources(self, commit: str) -> tuple[FileEdit, ...]:
        chosen = [(path, entry) for path, entry in self.files(commit).items() if self._editable(path, entry)]
        contents = self._holdings.contents(self.repository(), tuple(entry.oid for _, entry in chosen))
        texts = ((path, _decode(data)) for (path, _), data in zip(chosen, contents, strict=True))
        return tuple(FileEdit(path=path, text=text) for path, text in texts if text is not None)

    def snapshot(self, commit: str) -> tuple[Artifact, ...]:
        """The kernel's files and the flags file of a commit, stored and named by their paths."""
        flags = (self._contract.flags_file,) if self._contract.flags_file else ()
        globs = (*self._contract.kernel_source, *flags)
        chosen = [(p, e) for p, e in self.files(commit).items() if matches(p, globs) and e.mode != MODULE]
        contents = self._holdings.contents(self.repository(), tuple(entry.oid for _, entry in chosen))
        return tuple(self._artifacts.put(path, data) for (path, _), data in zip(chosen, contents, strict=True))

    def apply(self, *, round: int, parent: str, edits: tuple[FileEdit, ...], at: str) -> CandidateCommit | EditRefusal:
        """Commit edits on top of `parent`, touching no checkout; the same arguments give the same commit.

        The commit is kept under `refs/ridgeline/<campaign>/`. Raises NoSuchBase when the parent is not known.
        """
        mirror = self.repository()
        present = self.files(parent)
        if problem := refusal(edits, self._contract, present):
            return EditRefusal(detail=problem)
        changes = {edit.path: _change(edit, present.get(edit.path)) for edit in edits}
        new = self._grown(mirror, present, changes, round=round, parent=parent, at=at)
        files = self.files(new.commit)
        return CandidateCommit(
            commit=new.commit,
            tree=new.tree,
            diff=self._artifacts.put("candidate.diff", mirror.run("diff", *DIFF_WORDS, parent, new.commit)),
            snapshot=self.snapshot(new.commit),
            changed=tuple(sorted(path for path in {**present, **files} if present.get(path) != files.get(path))),
            audit=self._audit(parent, edits),
        )

    def extract(self, commit: str) -> MinimalVersion:
        """The minimal project of a version, as a commit of its own; nothing of the user's repository changes.

        Only files below the contract's folder are looked at. The same version gives the same answer.
        """
        files, mirror = self.files(commit), self.repository()
        plain = [path for path, entry in files.items() if entry.mode not in (LINK, MODULE)]

        def read(path: str) -> str:
            return _decode(self._holdings.contents(mirror, (files[path].oid,))[0]) or ""

        groups = find_minimal_project(plain, self._contract, read)
        taken = {self._holdings.at_root(path) for paths in groups.values() for path in paths}
        dropped = {entry.path: None for entry in mirror.entries(commit, ".") if entry.path not in taken}
        digest = sha256(repr((commit, sorted(taken))).encode(errors="surrogateescape")).hexdigest()
        message, ref = f"minimal project of {commit}\n", self._ref("minimal", digest)
        new = mirror.grow(dropped, parent=commit, ref=ref, message=message, at=EXTRACTED_AT)

        def store(group: str) -> tuple[Artifact, ...]:
            contents = self._holdings.contents(mirror, tuple(files[path].oid for path in groups[group]))
            return tuple(self._artifacts.put(path, data) for path, data in zip(groups[group], contents, strict=True))

        return MinimalVersion(
            commit=f"{new.commit}{MINIMAL}",
            upstream=commit,
            src=store("src"),
            tests=store("tests"),
            bench=store("bench"),
        )

    def select_core(self, edits: tuple[FileEdit, ...]) -> tuple[FileEdit, ...]:
        """Edits of `kernel_source` and `flags_file`; what else was editable stays in the git workspace."""
        flags = (self._contract.flags_file,) if self._contract.flags_file else ()
        return tuple(edit for edit in edits if matches(edit.path, (*self._contract.kernel_source, *flags)))

    def _grown(
        self, mirror: Git, present: dict[str, Entry], changes: dict[str, Change], *, round: int, parent: str, at: str
    ) -> NewCommit:
        """Commit the changes, held by a reference, so that git never throws them away."""
        digest = sha256(repr((parent, at, sorted(changes.items()))).encode(errors="surrogateescape")).hexdigest()
        rooted = {self._holdings.at_root(path): change for path, change in changes.items()}
        message, ref = f"candidate round-{round}\n", self._ref(f"round-{round}", digest)
        new = mirror.grow(rooted, parent=parent, ref=ref, message=message, at=at)
        files, contents = dict(present), {}
        for path, change in changes.items():
            if change is None:
                del files[path]
                continue
            oid = new.blobs[self._holdings.at_root(path)]
            files[path] = Entry(mode=change[0], oid=oid, path=self._holdings.at_root(path))
            contents[oid] = change[1]
        self._holdings.add_commit(new, files, contents)
        return new

    def _audit(self, parent: str, edits: tuple[FileEdit, ...]) -> tuple[Finding, ...]:
        """What reading a candidate's edits finds that the parent's files do not have."""
        before = {edit.path: edit.text or "" for edit in self.sources(parent)}
        after = {edit.path: edit.text for edit in edits}
        protected = self._list_protected(parent) if any(map(native, {**before, **after})) else {}
        findings = find_added(before, after, dtype=self._contract.dtype, protected=protected)
        return (*findings, *find_shared(before, after, protected))

    def _list_protected(self, commit: str) -> dict[str, str]:
        """Text of the C sources at a commit that a candidate may not change, the nearest ones."""
        files = [(path, file) for path, file in self.files(commit).items() if native(path)]
        chosen = nearest([(path, file) for path, file in files if not self._editable(path, file)])
        contents = self._holdings.contents(self.repository(), tuple(entry.oid for _, entry in chosen))
        texts = ((path, _decode(data)) for (path, _), data in zip(chosen, contents, strict=True))
        return {path: text for path, text in texts if text is not None}

    def accept(self, *, parent: str, tree: str, message: str, at: str) -> str:
        """Commit an accepted tree and move the campaign's branch to it; idempotent.

        Where the contract wants no commits (`git_commit`, `git_branch: none`) only the mirror keeps it.
        Raises BranchTaken when somebody else moved the branch.
        """
        base, mirror = self._base(), self.repository()
        commit = mirror.commit(tree, parent=parent, message=message, at=at)
        self._holdings.same(commit, tree)
        if not self._publishes(base):
            mirror.hold(self._ref("accepted", commit), commit)
            return commit
        ref = f"refs/heads/{base.branch}"
        tip = commit
        if not mirror.try_move(ref, new=commit, old=parent):  # done before, or not where it should be
            current = mirror.tip(ref)
            tip = current if current is not None and mirror.contains(commit, tip=current) else commit
            if tip != current:
                mirror.move(ref, new=tip, old=current)
        self._publish(mirror, base, tip, before=parent)
        return commit

    def reset(self, commit: str) -> None:
        """Point the campaign's branch back at one of its own commits; forward moves are refused.

        Raises BranchTaken when `commit` is not on the branch, or when somebody else moved it.
        """
        base, mirror = self._base(), self.repository()
        if not self._publishes(base):
            return
        ref = f"refs/heads/{base.branch}"
        tip = mirror.tip(ref)
        if tip != commit:
            if tip is not None and not mirror.contains(commit, tip=tip):
                raise BranchTaken(f"{base.branch}: {commit} is not one of its commits, so it cannot be reset to it")
            mirror.move(ref, new=commit, old=tip)
        self._publish(mirror, base, commit)

    @property
    def _record(self) -> Path:
        return self._campaign_dir / "base.json"

    def _base(self) -> Base:
        if self._opened is None:
            if not self._record.exists():
                raise NoSuchBase(
                    f"{self._record}: is missing; the campaign was never opened, or its folder is not whole"
                )
            self._opened = read_model(self._record, Base)
        return self._opened

    def _publishes(self, base: Base) -> bool:
        return self._contract.git_commit and base.branch != NO_BRANCH

    def _publish(self, mirror: Git, base: Base, tip: str, *, before: str | None = None) -> None:
        """Bring the branch in the user's repository to `tip`, where it is in the mirror, moving nobody else's work.

        `before`: a commit of this campaign that the branch is likely at; from there nothing needs to be asked.
        """
        ref = f"refs/heads/{base.branch}"
        user = self._user.git if self._user.exists() else None
        present, looked_at = user.branch(ref) if user else (None, False)
        if present == tip:
            return
        is_at_parent = present is not None and present == before
        if user is None or not (is_at_parent or user.has(base.commit)):
            logger.info("%s: not here; the branch is kept in %s", self._user.root, mirror.git_dir)
            return
        if present is not None and not (is_at_parent or mirror.has(present)):
            raise BranchTaken(
                f"{base.branch}: points at {present}, which this campaign did not make; move those commits"
                f" to another branch and run git branch -f {base.branch} {base.commit}"
            )
        if looked_at:
            logger.warning("%s is checked out and stays where it is; it is brought up to date later", base.branch)
            return
        user.unpack(mirror.pack(tip, beyond=before if before and is_at_parent else base.commit))
        user.move(ref, new=tip, old=present)

    def _ref(self, name: str, digest: str) -> str:
        """Holds a commit that is on no branch, so that git never throws it away."""
        campaign = re.sub(r"[^A-Za-z0-9_-]+", "-", self._campaign_dir.name)
        return f"refs/ridgeline/{campaign}/{name}-{digest[:10]}"

    def _editable(self, path: str, entry: Entry) -> bool:
        guarded = (*self._contract.protected, CONTRACT_FILE)
        plain = entry.mode not in (LINK, MODULE) and path.isprintable()
        return plain and matches(path, self._contract.editable_globs) and not matches(path, guarded)


def _change(edit: FileEdit, present: Entry | None) -> Change:
    """What an edit does to the tree: the file's mode stays as it was."""
    if edit.text is None:
        return None
    return (present.mode if present else NEW_FILE, edit.text.encode())


def _decode(data: bytes) -> str | None:
    """In the workspace: text of a file, or None when it is not text."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


# Workspace mode: which files make the minimal project of a version, found by what sources and commands name.

Read = Callable[[str], str]
"""Text of a file by its path from the contract's folder."""
WORD = re.compile(r"[^\s\"'`$(){}<>|&;=,]+")
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
PYTEST_FILES = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
LARGEST_SCRIPT = 400_000
"""Characters of a file that is read for the names of others."""


def find_minimal_project(paths: Iterable[str], contract: Contract, read: Read) -> Mapping[str, tuple[str, ...]]:
    """Files of the kernel and what it needs (`src`), of the test (`tests`) and of the benchmarks (`bench`), sorted.

    What test and benchmark share stands in both; what the kernel needs in `src` alone. What the contract names under
    `workspace` is added to what is found.
    """
    present, extra = frozenset(paths), contract.workspace
    flags = (contract.flags_file,) if contract.flags_file else ()
    rebuild = contract.local_rebuild
    build = (rebuild.command,) if rebuild.required and rebuild.command else ()
    benches = (contract.benchmark_command, contract.quick_command, contract.paired_command)
    profile = contract.profile.command if contract.profile else None
    roots: dict[str, tuple[tuple[str, ...], tuple[Argv | None, ...]]] = {
        "src": ((*contract.kernel_source, *flags, *extra.src), build),
        "tests": (extra.tests, (contract.test_command,)),
        "bench": (extra.bench, (*benches, profile)),
    }
    groups: dict[str, tuple[str, ...]] = {}
    sources: set[str] = set()
    for group, (globs, commands) in roots.items():
        start = {path for path in present if matches(path, globs)}
        start.update(path for argv in commands if argv for path in find_named_files(argv, present))
        reached = _follow(start, present, read)
        groups[group] = tuple(sorted(reached - sources))
        sources = sources or reached
    return groups


def find_named_files(argv: Argv, present: frozenset[str]) -> Iterator[str]:
    """Files that a command names: as a word, as a module after `-m`, as make's own file, as pytest's settings."""
    for position, word in enumerate(argv):
        plain = _plain(word.split("::")[0])
        if plain in present:
            yield plain
        elif argv[position - 1 : position] == ("-m",):
            yield from _modules(word, PurePosixPath("."), present)
    program = PurePosixPath(argv[0]).name
    if program in ("make", "gmake"):
        folder = next((argv[at + 1] for at, word in enumerate(argv[:-1]) if word == "-C"), ".")
        yield from (path for name in MAKEFILES if (path := _plain(f"{folder}/{name}")) in present)
    if "pytest" in (program, *argv[1:3]):
        yield from (name for name in PYTEST_FILES if name in present)
        for word in argv[1:]:
            test = PurePosixPath(_plain(word.split("::")[0]))
            if str(test) in present:
                yield from (name for above in test.parents if (name := _plain(f"{above}/conftest.py")) in present)


def _follow(start: Iterable[str], present: frozenset[str], read: Read) -> set[str]:
    """These files and all that they name, directly or through others."""
    reached: set[str] = set()
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting += _find_dependencies(path, read(path)[:LARGEST_SCRIPT], present)
    return reached


def _find_dependencies(path: str, text: str, present: frozenset[str]) -> Iterator[str]:
    """What one file of a minimal project includes, imports or, where it is a script, settings or a build file, names."""
    folder = PurePosixPath(path).parent
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in C_LIKE:
        for name in INCLUDE.findall(text):
            yield from _find_file(name, folder, present)
        return
    if suffix == ".py":
        yield from _read_python(text, folder, present)
        return
    if suffix in (".md", ".rst", ".txt", ".csv"):
        return  # prose and data name files that nothing opens
    for word in WORD.findall(text):
        yield from _find_file(word, folder, present)


def _read_python(text: str, folder: PurePosixPath, present: frozenset[str]) -> Iterator[str]:
    """Modules of the project that a Python source imports, and files that its plain strings name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # a candidate may be broken: its build or test says so
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(alias.name, folder, present)
        elif isinstance(node, ast.ImportFrom):
            above = folder
            for _ in range(node.level - 1):
                above = above.parent
            start = above if node.level else None
            base = node.module or ""
            for name in (base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)):
                yield from _modules(name, start or folder, present)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 300:
            yield from _find_file(node.value, folder, present)


def _modules(name: str, folder: PurePosixPath, present: frozenset[str]) -> Iterator[str]:
    """Files of a Python module for a minimal project, with its packages, from the importing file's folder or the project's."""
    parts = [part for part in name.split(".") if part]
    for base in dict.fromkeys((folder, PurePosixPath("."))):
        for depth in range(1, len(parts) + 1):
            stem = "/".join(parts[:depth])
            for file in (f"{base}/{stem}.py", f"{base}/{stem}/__init__.py"):
                if (path := _plain(file)) in present:
                    yield path


def _find_file(name: str, folder: PurePosixPath, present: frozenset[str]) -> Iterator[str]:
    """The file of that name beside the one that names it, else below the contract's folder."""
    for candidate in (f"{folder}/{name}", name):
        if (path := _plain(candidate)) in present:
            yield path
            return


def _plain(path: str) -> str:
    """A path of a minimal project without `.` and `..`; one that leads out of the folder is no file of it."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
