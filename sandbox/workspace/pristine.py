"""Puts committed files back, byte for byte, wherever a run left something else."""

import functools
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from ridgeline.sandbox.workspace.edits import LINK
from ridgeline.sandbox.workspace.git import Entry, Git
from ridgeline.sandbox.workspace.signatures import Signs, contents, is_folder, settled, signs_of

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
        """Make the files what the repository says; the paths that were not, sorted."""
        straight = all(is_folder(folder) for folder in self._folders)
        changed = sorted(
            path for path in self._committed if not ((straight and self._untouched(path)) or self._read(path))
        )
        if not changed:
            return ()
        contents = repository().blobs(tuple(self._committed[path].oid for path in changed))
        for path, data in zip(changed, contents, strict=True):
            _put(self._root, path, self._committed[path], data)
        return tuple(changed)

    def _untouched(self, path: str) -> bool:
        known = self._right.get(path)
        return known is not None and signs_of(self._places[path]) == known

    def _read(self, path: str) -> bool:
        """Whether the file's contents are right; then its signs are remembered, if they can be relied on."""
        self._right.pop(path, None)
        signs = signs_of(self._places[path])
        straight = all(is_folder(f"{self._root}/{folder}") for folder in _parents(path))
        right = straight and _same(self._places[path], self._committed[path])
        if right and signs is not None and settled(signs):
            self._right[path] = signs
        return right


def _same(place: str, entry: Entry) -> bool:
    """Whether this very file, whose folders are known to be folders, is the committed one."""
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
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)  # a hard link elsewhere keeps its own contents
    if entry.mode == LINK:
        place.symlink_to(os.fsdecode(data))
        return
    place.write_bytes(data)
    place.chmod(0o755 if entry.mode == EXECUTABLE else 0o644)


@functools.lru_cache(maxsize=4096)
def _parents(path: str) -> tuple[str, ...]:
    """The folders above a path, outermost first."""
    return tuple(str(parent) for parent in reversed(PurePosixPath(path).parents) if str(parent) != ".")


def _oid(data: bytes, entry: Entry) -> str:
    """Git's name for a blob, in the repository's own kind of hash."""
    kind = hashlib.sha256 if len(entry.oid) == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(data) + data).hexdigest()
