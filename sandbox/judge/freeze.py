"""A version's sources as they are judged: copied once, read-only, each file's digest noted."""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from ridgeline.graph.errors import WorldError
from ridgeline.graph.task import Task

MOST_BYTES = 16 << 20
"""Of one source file."""
BINARY = (".so", ".a", ".o", ".pyc", ".cubin", ".hsaco")
FILE, FOLDER = 0o444, 0o555


class NotFrozen(WorldError):
    """A file that the task names as source is not one that can be judged. The text names file and reason."""

    exit_code = 2


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """A read-only copy of a version's sources, from which workers load."""

    folder: Path
    files: tuple[Path, ...]
    """In the task's order: the first holds the entry function."""
    sha256: Mapping[str, str]
    """By name relative to the folder."""

    def list_changed(self) -> tuple[str, ...]:
        """For the judge: names of files whose sha256 is not the one when they were frozen; empty unless somebody wrote there."""
        return tuple(name for name, digest in self.sha256.items() if _digest(self.folder / name) != digest)


@contextmanager
def freeze_sources(task: Task, folder: Path) -> Iterator[Frozen]:
    """Copy the sources to judge out of `folder`; the copy goes when the block ends.

    Raises NotFrozen for a file that is missing, outside the folder, no regular file, a link or behind one, or larger than 16 MiB.
    """
    place = Path(tempfile.mkdtemp(prefix="ridgeline-frozen-"))
    try:
        digests = {name: _copy(folder, name, place) for name in task.source}
        for path in (*(entry for entry in place.rglob("*") if entry.is_dir()), place):
            path.chmod(FOLDER)
        files = tuple(place / name for name in task.source)
        yield Frozen(folder=place, files=files, sha256=MappingProxyType(digests))
    finally:
        _remove_folder(place)


def add_built_file(folder: Path, name: str, data: bytes) -> Path:
    """Add a file that was made from frozen sources to judge, such as a library, to their folder; read-only like them."""
    folder.chmod(0o755)
    try:
        path, part = folder / name, folder / f".{name}"
        part.write_bytes(data)
        part.chmod(FOLDER)
        part.replace(path)
    finally:
        folder.chmod(FOLDER)
    return path


def _copy(folder: Path, name: str, place: Path) -> str:
    """Copies one file of the candidate to judge. Its sha256."""
    words = PurePosixPath(name)
    if words.is_absolute() or ".." in words.parts:
        raise NotFrozen(f"source: {name} is outside the task's folder; name a file in it")
    if words.suffix in BINARY:
        raise NotFrozen(f"source: {name} is a built file, which nobody can read; name its source")
    data = _read_bytes(folder, words)
    target = place / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(FILE)
    return hashlib.sha256(data).hexdigest()


def _open_below(folder: Path, name: PurePosixPath) -> int:
    """A descriptor of a candidate's file; no folder on the way from its own may be a link, nor the file. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for number, part in enumerate(name.parts, 1):
        kind = os.O_DIRECTORY if number < len(name.parts) else os.O_NONBLOCK
        try:
            inner = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | kind, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def _read_bytes(folder: Path, name: PurePosixPath) -> bytes:
    """Contents of a file to judge, read from the descriptor that was checked."""
    try:
        handle = _open_below(folder, name)
    except OSError as error:
        raise NotFrozen(f"source: {name} cannot be read ({error.strerror})") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotFrozen(f"source: {name} is no regular file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(MOST_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > MOST_BYTES:
        raise NotFrozen(f"source: {name} is larger than {MOST_BYTES >> 20} MiB")
    return data


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _remove_folder(place: Path) -> None:
    for path in (place, *place.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(place, ignore_errors=True)
