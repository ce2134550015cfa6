"""Candidates as commits, made beside the user's checkout; only accepted ones reach the campaign's branch."""

import logging
import re
from pathlib import Path, PurePosixPath

from graph.contract import Contract
from graph.finding import Finding
from graph.ports import Applied, Artifacts, Base, Refused
from graph.values import Artifact, FileEdit
from sandbox.audit.examine import added
from sandbox.durable import write_whole
from sandbox.edits import CONTRACT_FILE, LINK, MODULE, refusal
from sandbox.errors import BranchTaken, NoSuchBase
from sandbox.git import Entry, Git
from sandbox.globs import matches
from sandbox.mirror import mirror_of
from sandbox.repository import Repository, find_repository

logger = logging.getLogger(__name__)

__all__ = ["GitWorkspace", "find_repository"]

NO_BRANCH = "none"
NEW_FILE = "100644"
KEPT = 3
"""Commits whose lists of files are remembered: the best version, a candidate, its formatted form, and the newest."""


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
        self._read: dict[str, tuple[FileEdit, ...]] = {}
        """Sources by commit: what a commit holds never changes, and every planner call is told them."""
        self._files: dict[str, dict[str, Entry]] = {}
        """Likewise, of the commits that were asked for last."""

    @property
    def contract_dir(self) -> PurePosixPath:
        """The contract's folder, from the repository's root."""
        return PurePosixPath(self._folder)

    @property
    def contract(self) -> Contract:
        """What may be edited, and what must stay as it is."""
        return self._contract

    @property
    def campaign_dir(self) -> Path:
        """The campaign's folder."""
        return self._campaign_dir

    def repository(self) -> Git:
        """The campaign's mirror: it has every commit of the campaign, also where the user's repository is not.

        Raises NoSuchBase before `open`, or when base and mirror are both lost.
        """
        if self._mirror is None or not self._mirror.git_dir.is_dir():
            base = self._base()
            moved = base.branch if self._publishes(base) else None
            folder = self._campaign_dir / "mirror.git"
            self._mirror = mirror_of(folder, base=base.commit, user=self._user, branch=moved)
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

    def sources(self, commit: str) -> tuple[FileEdit, ...]:
        """Text of every editable file at a commit; binary files, links and submodules are left out."""
        if commit not in self._read:
            self._read = {commit: self._sources(commit)}  # the best version's: one at a time is enough
        return self._read[commit]

    def _sources(self, commit: str) -> tuple[FileEdit, ...]:
        mirror = self.repository()
        chosen = [(path, e) for path, e in self._present(mirror, commit).items() if self._editable(path, e)]
        contents = mirror.blobs(tuple(entry.oid for _, entry in chosen))
        texts = ((path, _decoded(data)) for (path, _), data in zip(chosen, contents, strict=True))
        return tuple(FileEdit(path=path, text=text) for path, text in texts if text is not None)

    def snapshot(self, commit: str) -> tuple[Artifact, ...]:
        """The kernel's files and the flags file of a commit, stored and named by their paths."""
        return self._snapshot(self.repository(), commit)

    def apply(self, *, round: int, parent: str, edits: tuple[FileEdit, ...], at: str) -> Applied | Refused:
        """Commit edits on top of `parent`, touching no checkout; the same arguments give the same commit.

        The commit is kept under `refs/ridgeline/<campaign>/`. Raises NoSuchBase when the parent is not known.
        """
        mirror = self.repository()
        present = self._present(mirror, parent)
        if problem := refusal(edits, self._contract, present):
            return Refused(detail=problem)
        changes = {self._from_root(edit.path): _change(edit, present.get(edit.path)) for edit in edits}
        tree = mirror.edited(parent, changes)
        commit = mirror.commit(tree, parent=parent, message=f"candidate round-{round}\n", at=at)
        self._keep(mirror, f"round-{round}", commit)
        words = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", parent, commit)
        now = self._present(mirror, commit)
        return Applied(
            commit=commit,
            tree=tree,
            diff=self._artifacts.put("candidate.diff", mirror.run("diff", *words)),
            snapshot=self._snapshot(mirror, commit),
            changed=tuple(sorted(path for path in {**present, **now} if present.get(path) != now.get(path))),
            audit=self._audit(parent, edits),
        )

    def _audit(self, parent: str, edits: tuple[FileEdit, ...]) -> tuple[Finding, ...]:
        """What reading the edits finds that the parent's files do not have."""
        before = {edit.path: edit.text or "" for edit in self.sources(parent)}
        return added(before, {edit.path: edit.text for edit in edits}, dtype=self._contract.dtype)

    def accept(self, *, parent: str, tree: str, message: str, at: str) -> str:
        """Commit an accepted tree and move the campaign's branch to it; doing it twice is doing it once.

        Where the contract wants no commits (`git_commit`, `git_branch: none`) only the mirror keeps it.
        Raises BranchTaken when somebody else moved the branch.
        """
        base, mirror = self._base(), self.repository()
        commit = mirror.commit(tree, parent=parent, message=message, at=at)
        if not self._publishes(base):
            self._keep(mirror, "accepted", commit)
            return commit
        ref = f"refs/heads/{base.branch}"
        tip = mirror.tip(ref)
        if tip is None or not mirror.contains(commit, tip=tip):
            mirror.move(ref, new=commit, old=tip)
            tip = commit
        self._publish(mirror, base, tip)
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
            self._opened = Base.model_validate_json(self._record.read_bytes())
        return self._opened

    def _publishes(self, base: Base) -> bool:
        return self._contract.git_commit and base.branch != NO_BRANCH

    def _publish(self, mirror: Git, base: Base, tip: str) -> None:
        """Bring the branch in the user's repository to `tip`, where it is in the mirror, moving nobody else's work."""
        ref = f"refs/heads/{base.branch}"
        user = self._user.git if self._user.exists() else None
        present = user.tip(ref) if user else None
        if present == tip:
            return
        if user is None or not user.has(base.commit):
            logger.info("%s: not here; the branch is kept in %s", self._user.root, mirror.git_dir)
            return
        if present is not None and not mirror.has(present):
            raise BranchTaken(
                f"{base.branch}: points at {present}, which this campaign did not make; move those commits"
                f" to another branch and run git branch -f {base.branch} {base.commit}"
            )
        if self._user.checked_out(base.branch):
            logger.warning("%s is checked out and stays where it is; it is brought up to date later", base.branch)
            return
        user.unpack(mirror.pack(tip, beyond=base.commit))
        user.move(ref, new=tip, old=present)

    def _keep(self, mirror: Git, name: str, commit: str) -> None:
        """Hold a commit that is on no branch, so that git never throws it away."""
        campaign = re.sub(r"[^A-Za-z0-9_-]+", "-", self._campaign_dir.name)
        ref = f"refs/ridgeline/{campaign}/{name}-{commit[:10]}"
        mirror.run("update-ref", ref, commit)

    def _present(self, mirror: Git, commit: str) -> dict[str, Entry]:
        """The contract's files at a commit, by their paths below its folder."""
        if commit not in self._files:
            found = {self._from_contract(entry.path): entry for entry in mirror.entries(commit, self._folder)}
            kept = list(self._files.items())[-KEPT:]
            self._files = {**dict(kept), commit: found}
        return self._files[commit]

    def _snapshot(self, mirror: Git, commit: str) -> tuple[Artifact, ...]:
        flags = (self._contract.flags_file,) if self._contract.flags_file else ()
        present = self._present(mirror, commit)
        globs = (*self._contract.kernel_source, *flags)
        chosen = [(p, e) for p, e in present.items() if matches(p, globs) and e.mode != MODULE]
        contents = mirror.blobs(tuple(entry.oid for _, entry in chosen))
        return tuple(self._artifacts.put(path, data) for (path, _), data in zip(chosen, contents, strict=True))

    def _editable(self, path: str, entry: Entry) -> bool:
        guarded = (*self._contract.protected, CONTRACT_FILE)
        plain = entry.mode not in (LINK, MODULE) and path.isprintable()
        return plain and matches(path, self._contract.editable_globs) and not matches(path, guarded)

    def _from_root(self, path: str) -> str:
        return path if self._folder == "." else f"{self._folder}/{path}"

    def _from_contract(self, path: str) -> str:
        return path if self._folder == "." else path.removeprefix(f"{self._folder}/")


def _change(edit: FileEdit, present: Entry | None) -> tuple[str, bytes] | None:
    """What an edit does to the tree: the file's mode stays as it was."""
    if edit.text is None:
        return None
    return (present.mode if present else NEW_FILE, edit.text.encode())


def _decoded(data: bytes) -> str | None:
    """Text of a file, or None when it is not text."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
