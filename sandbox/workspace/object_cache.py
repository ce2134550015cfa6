"""What versions hold, as far as it was asked or written here: git's names never change their meaning."""

from pathlib import PurePosixPath

from ridgeline.sandbox.workspace.git import Entry, Git
from ridgeline.sandbox.workspace.stream import Grown

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
            found = mirror.entries(commit, self._folder)
            self._remember(tree, {self.below(entry.path): entry for entry in found})
        return self._files[tree]

    def contents(self, mirror: Git, oids: tuple[str, ...]) -> tuple[bytes, ...]:
        """Contents of objects, in order."""
        missing = tuple(dict.fromkeys(oid for oid in oids if oid not in self._contents))
        found = dict(zip(missing, mirror.blobs(missing), strict=True))
        known = {oid: found[oid] if oid in found else self._contents[oid] for oid in oids}
        self._keep(found)
        return tuple(known[oid] for oid in oids)

    def same(self, commit: str, tree: str) -> None:
        """That commit was made here of that tree."""
        self._trees[commit] = tree

    def made(self, new: Grown, files: dict[str, Entry], contents: dict[str, bytes]) -> None:
        """That commit was made here: its files, and its new contents by git's names for them."""
        self._trees[new.commit] = new.tree
        self._remember(new.tree, files)
        self._keep(contents)

    def at_root(self, path: str) -> str:
        """A path of the contract from the repository's root."""
        return path if self._folder == "." else f"{self._folder}/{path}"

    def below(self, path: str) -> str:
        """A path of the repository from the contract's folder."""
        return path if self._folder == "." else path.removeprefix(f"{self._folder}/")

    def _remember(self, tree: str, files: dict[str, Entry]) -> None:
        kept = [(name, one) for name, one in self._files.items() if name != tree][-KEPT:]
        self._files = {**dict(kept), tree: files}

    def _keep(self, contents: dict[str, bytes]) -> None:
        self._contents |= contents
        if sum(map(len, self._contents.values())) > KEPT_BYTES:
            self._contents.clear()
