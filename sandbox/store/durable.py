"""Writes that survive a crash: whole or not at all, and on the disk before the call returns."""

import contextlib
import errno
import fcntl
import functools
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ridgeline.graph.errors import DiskFull

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

UNWRITABLE = {
    errno.ENOSPC: ("no space left", "free some"),
    errno.EDQUOT: ("the quota is used up", "free some"),
    errno.EROFS: ("is read-only", "make it writable or name another place"),
    errno.EIO: ("reading or writing fails (input/output error)", "mend the disk"),
}
"""Errors of a file system itself, never of who writes: what is wrong, and the mend."""
SYNCING = 8
"""Files that are brought to the disk at a time."""


def write_whole(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Replace the file by `data`, atomically; missing folders are made. Raises DiskFull; then the old file stands.

    Not `synced`, it may be the old file again after the power failed: for what is only shown, or can be made again.
    """
    with full_disk_named(path):
        folder, name = os.path.split(path)
        fresh = f"{folder or '.'}/.{name}.{secrets.token_hex(4)}.tmp"
        try:
            with _open(fresh, path) as file:
                file.write(data)
                if synced:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(fresh, path)  # noqa: PTH105 (dozens of times a round, and the name was just made)
            if synced:
                sync_folder(folder or ".")
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise


def _open(fresh: str, path: Path) -> BinaryIO:
    """A new file beside `path`; its folder is made where it is missing."""
    try:
        return open(fresh, "wb")  # noqa: PTH123 (as above)
    except FileNotFoundError:
        make_folder(path.parent)
        return open(fresh, "wb")  # noqa: PTH123


def make_folder(folder: Path) -> None:
    """Make a folder durably, and those above it that are missing; their names are on the disk when this returns."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        sync_folder(place.parent)


def overwrite(path: Path, data: bytes, *, room: int = 1024) -> None:
    """Put one line in the place of the file's one line, for what is only shown: fast, and no new file each time.

    Padded with spaces to `room` bytes, so that a shorter line leaves nothing of a longer one. Raises DiskFull.
    """
    line = data.ljust(room - 1) + b"\n"
    with full_disk_named(path):
        handle = _of_size(path, room) if len(line) == room else None
        if handle is None:
            write_whole(path, line, synced=False)
            return
        try:
            os.pwrite(handle, line, 0)
        finally:
            os.close(handle)


def _of_size(path: Path, size: int) -> int | None:
    """The file for a durable write, open, if it is there and has that many bytes."""
    try:
        handle = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return None
    if os.fstat(handle).st_size == size:
        return handle
    os.close(handle)
    return None


def append_whole(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Add `data` at a file's end durably, in one write. Raises DiskFull; then the file is as long as it was before.

    Not `synced`, the end may be missing after the power failed; a killed process loses nothing either way.
    """
    with full_disk_named(path):
        handle, new = _end_of(path)
        try:
            before = os.fstat(handle).st_size
            try:
                if os.write(handle, data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if synced:
                    os.fsync(handle)
            except OSError:
                os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)
        if new and synced:
            sync_folder(path.parent)


def _end_of(path: Path) -> tuple[int, bool]:
    """The file for a durable append, open, and whether it was made now."""
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND), False
    except FileNotFoundError:
        make_folder(path.parent)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666), True


class UnsyncedFiles:
    """Files that were written and may still be on their way to the disk: all are there when `sync` returns.

    Together, before the ledger's line that rests on them, they cost about what one of them costs alone.
    """

    def __init__(self) -> None:
        self._paths: dict[Path, None] = {}
        self._folders: dict[Path, None] = {}
        """With names that may not be on the disk yet."""
        self._announced_paths: set[Path] = set()
        """Files that grow, whose names were given to `_folders` before."""

    def add(self, path: Path, *, grown: bool = False) -> None:
        """Note that something was written to that file and is not on the disk yet: it is new, or it has `grown`."""
        self._paths[path] = None
        if path not in self._announced_paths:
            self._folders[path.parent] = None
        if grown:
            self._announced_paths.add(path)

    def sync(self) -> None:
        """Bring noted files to the disk, all at once. Raises DiskFull; files that no longer exist are skipped."""
        places = (*self._paths, *self._folders)
        sent = [_syncing().submit(_brought, place) for place in places]
        for place, task in zip(places, sent, strict=True):
            with full_disk_named(place):
                task.result()
        self._paths.clear()
        self._folders.clear()


def _brought(place: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        sync_folder(place)


@functools.cache
def _syncing() -> "ThreadPoolExecutor":
    """Threads that wait for the disk: a journal writes down together what is asked of it together."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(SYNCING, thread_name_prefix="sync")


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold the file's lock against other processes; the file is made when missing."""
    with full_disk_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sync_tree(top: Path) -> None:
    """For the store: bring every file and folder below it to the disk, and itself."""
    for folder, _, names in os.walk(top):
        for name in names:
            sync_folder(f"{folder}/{name}")
        sync_folder(folder)


def sync_folder(folder: Path | str) -> None:
    """Make a new name in the folder durable, or what is in a file. Raises DiskFull."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with full_disk_named(Path(folder)):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Turn an error of the file system itself (`UNWRITABLE`) into DiskFull naming `path`; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in UNWRITABLE:
            raise name_full_disk(path, error.errno) from error
        raise


def name_full_disk(path: Path, code: int) -> DiskFull:
    """The error for a write at `path` that failed with a code of `UNWRITABLE`: names the file system and what is free."""
    why, mend = UNWRITABLE[code]
    place = path.absolute()
    while not (os.path.exists(place) and os.path.ismount(place)):  # noqa: PTH110 (pathlib's raise for a folder not to be read)
        place = place.parent
    try:
        files = "" if _has_names(place) else f" and {os.statvfs(place).f_favail} files"
        free = f"{shutil.disk_usage(place).free} bytes{files} free"
    except OSError as error:
        free = f"free space unknown: {error.strerror}"
    return DiskFull(str(path), why=f"file system {place} ({free}): {why}", mend=mend)


PAGE_BYTES = 1 << 12
PROBE_BYTES = 1 << 20
"""A file system that cannot take so much more has no room for a build, a test or a timing."""


PROBE_FILES = 256
"""Nor has one that cannot take so many more files: a checkout, a test and their folders."""


def _has_names(folder: Path) -> bool:
    """Whether a file system can take so many more files; one that counts none takes any number."""
    counted = os.statvfs(folder)
    return not counted.f_files or counted.f_favail >= PROBE_FILES


def require_room(*folders: Path, size: int = PROBE_BYTES) -> None:
    """Raises DiskFull where a file of `size` bytes, or another few, cannot be made in one of these folders that exist."""
    for folder in folders:
        if not folder.is_dir():
            continue
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno in UNWRITABLE:
                raise name_full_disk(folder, error.errno) from error
        if not _has_names(folder):
            raise name_full_disk(folder, errno.ENOSPC)


# Where this user keeps what can be made again at any time.


def cache_folder(part: str) -> Path | None:
    """Folder `part` of `$RIDGELINE_CACHE`, else of `ridgeline` in `$XDG_CACHE_HOME` or `~/.cache`.

    None for a user without a home.
    """
    if override := os.environ.get("RIDGELINE_CACHE"):
        return Path(override) / part
    shared = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # neither HOME nor an entry in the user database
        return None
    return root / "ridgeline" / part
