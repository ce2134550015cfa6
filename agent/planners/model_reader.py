"""What a planner may read of a campaign: files of the contract's folder at a commit, and stored artifacts."""

from functools import lru_cache

from ridgeline.graph.values import Artifact
from ridgeline.sandbox.artifacts import ArtifactStore
from ridgeline.sandbox.edits import LINK, MODULE
from ridgeline.sandbox.errors import ArtifactLost
from ridgeline.sandbox.git import Entry
from ridgeline.sandbox.worktree import GitWorkspace

LARGEST = 1 << 20
"""Bytes of a file that is still shown."""


class TreeReader:
    """`model_tools.Reader` on the campaign's own repository and store. Links and submodules are not followed."""

    def __init__(self, workspace: GitWorkspace, artifacts: ArtifactStore) -> None:
        self._workspace = workspace
        self._artifacts = artifacts
        self._entries = lru_cache(maxsize=2)(self._listed)

    def paths(self, commit: str) -> tuple[str, ...]:
        """Files at a commit, relative to the contract's folder. Raises NoSuchBase when the commit is not known."""
        return tuple(self._entries(commit))

    def text(self, commit: str, path: str) -> str | None:
        """Text of a file; None when there is none, when it is not text, or when it is very large."""
        entry = self._entries(commit).get(path)
        return None if entry is None else _text(self._workspace.repository().blobs((entry.oid,))[0])

    def search(self, commit: str, text: str) -> tuple[str, ...]:
        """Lines that hold a text, whatever its case, as `path:line: text`."""
        folder = self._folder()
        words = ("-z", "-n", "-I", "-i", "-F", "--full-name", "-e", text, commit, "--", folder or ".")
        done = self._workspace.repository().attempt("grep", *words)
        known = self._entries(commit)
        found: list[str] = []
        for row in done.stdout.decode(errors="replace").splitlines():
            place, _, rest = row.partition("\0")
            number, _, line = rest.partition("\0")
            path = place.removeprefix(f"{commit}:").removeprefix(folder)
            if path in known:
                found.append(f"{path}:{number}: {line.strip()}")
        return tuple(found)

    def stored(self, artifact: Artifact) -> str | None:
        """Text of a stored artifact; None when it is gone or is not text."""
        try:
            return _text(self._artifacts.get(artifact))
        except ArtifactLost:
            return None

    def _folder(self) -> str:
        folder = str(self._workspace.contract_dir)
        return "" if folder == "." else f"{folder}/"

    def _listed(self, commit: str) -> dict[str, Entry]:
        folder = self._folder()
        found = self._workspace.repository().entries(commit, folder.rstrip("/") or ".")
        return {
            entry.path.removeprefix(folder): entry
            for entry in found
            if entry.mode not in (LINK, MODULE) and entry.path.isprintable()
        }


def _text(data: bytes) -> str | None:
    if b"\0" in data or len(data) > LARGEST:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
