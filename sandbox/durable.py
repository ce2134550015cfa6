"""Writes that survive a crash: whole or not at all, and on the disk before the call returns."""

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from sandbox.errors import DiskFull

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def write_whole(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Replace the file by `data`, atomically; missing folders are made. Raises DiskFull; then the old file stands.

    Not `synced`, it may be the old file again after the power failed: for what is only shown, or can be made again.
    """
    with full_disk_named(path):
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            with fresh.open("wb") as file:
                file.write(data)
                if synced:
                    file.flush()
                    os.fsync(file.fileno())
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise


def overwrite(path: Path, data: bytes, *, room: int = 1024) -> None:
    """Put one line in the place of the file's one line, for what is only shown: fast, and no new file each time.

    Padded with spaces to `room` bytes, so that a shorter line leaves nothing of a longer one. Raises DiskFull.
    """
    line = data.ljust(room - 1) + b"\n"
    if len(line) > room or not path.exists() or path.stat().st_size != room:
        write_whole(path, line, synced=False)
        return
    handle = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(handle, line, 0)
    finally:
        os.close(handle)


def append_whole(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Add `data` at the end, in one write. Raises DiskFull; then the file is as long as it was before.

    Not `synced`, the end may be missing after the power failed; a killed process loses nothing either way.
    """
    with full_disk_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        with path.open("ab", buffering=0) as file:
            before = file.seek(0, os.SEEK_END)
            try:
                if file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if synced:
                    os.fsync(file.fileno())
            except OSError:
                file.truncate(before)
                raise
        if new and synced:
            sync_folder(path.parent)


class Unsynced:
    """Files that were written and may still be on their way to the disk: all are there when `sync` returns.

    Together, before the ledger's line that rests on them, they cost about what one of them costs alone.
    """

    def __init__(self) -> None:
        self._paths: dict[Path, None] = {}

    def add(self, path: Path) -> None:
        """Something was written to that file."""
        self._paths[path] = None

    def sync(self) -> None:
        """Bring them to the disk. Raises DiskFull; a file that is gone is nobody's loss."""
        folders: dict[Path, None] = {}
        for path in tuple(self._paths):
            with full_disk_named(path), contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                os.fsync(file.fileno())
            folders[path.parent] = None
            del self._paths[path]
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                sync_folder(folder)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's lock against other processes; the file is made when missing."""
    with full_disk_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sync_folder(folder: Path) -> None:
    """Make a new name in the folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Turn "no space left" into DiskFull naming `path`; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(str(path)) from error
        raise
