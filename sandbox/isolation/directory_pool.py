"""Folders for one use. One that was left as it had been made serves again.

On a journaling file system removing a folder takes milliseconds, more than many of the commands that it is made for.
"""

import atexit
import contextlib
import os
import stat
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

Shape = tuple[str, tuple[str, ...]]
"""Where temporary files lie, and the folders that are wanted inside."""
Signs = tuple[tuple[int, int, int], ...]
"""Inode, mode and owner of a folder and of those in it."""

_idle: dict[Shape, dict[Path, Signs]] = defaultdict(dict)
_lent: set[Path] = set()


os.register_at_fork(after_in_child=_idle.clear)  # they are the other process's, which lends them out again


@contextlib.contextmanager
def fresh_folder(*inside: str) -> Iterator[Path]:
    """A folder of this user's own that holds nothing but the empty folders `inside`; what is put there goes with it."""
    shape = (tempfile.gettempdir(), inside)
    folder, signs = _take(shape)
    _lent.add(folder)
    try:
        yield folder
    finally:
        _lent.discard(folder)
        if _clean(folder, inside, signs):
            _idle[shape][folder] = signs
        else:
            discard_tree(folder)


def list_lent() -> tuple[Path, ...]:
    """Folders for one use that this process has in use now."""
    return tuple(_lent)


def _take(shape: Shape) -> tuple[Path, Signs]:
    idle = _idle[shape]
    while idle:
        folder, signs = idle.popitem()
        if _clean(folder, shape[1], signs):  # somebody may have been there meanwhile
            return folder, signs
        discard_tree(folder)
    folder = Path(tempfile.mkdtemp(prefix="ridgeline-"))
    for name in shape[1]:
        (folder / name).mkdir()
    return folder, _signs(folder, shape[1])


def _clean(folder: Path, inside: tuple[str, ...], signs: Signs) -> bool:
    """Whether a folder for one use is, without the plain files directly in it, as it was made."""
    try:
        if _signs(folder, inside) != signs:
            return False
        with os.scandir(folder) as entries:
            left = [entry for entry in entries if entry.name not in inside]
        for entry in left:
            os.unlink(entry.path)  # noqa: PTH108 (twice for every process; refuses a folder)
        return all(_empty(f"{folder}/{name}") for name in inside)
    except OSError:
        return False


def _empty(folder: str) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def _signs(folder: Path, inside: tuple[str, ...]) -> Signs:
    """Signs of a folder for one use. Raises OSError where one of them is missing or is no folder."""
    statuses = [os.lstat(folder), *(os.lstat(f"{folder}/{name}") for name in inside)]
    if not all(stat.S_ISDIR(status.st_mode) for status in statuses):
        raise NotADirectoryError(folder)
    return tuple((status.st_ino, status.st_mode, status.st_uid) for status in statuses)


@atexit.register
def _forget() -> None:
    for idle in _idle.values():
        for folder in idle:
            discard_tree(folder)


def discard_tree(folder: Path) -> None:
    """Remove a tree as `remove_tree` does; what cannot be removed stays."""
    with contextlib.suppress(OSError):
        remove_tree(folder)


# Removing what code that nobody has read left behind, however it is nested, named and locked.


def remove_tree(place: Path | str) -> None:
    """Remove a file, a link, or a folder with all that is in it; nothing where nothing is.

    Folders inside are moved up to the top one before they are emptied, so that no depth, no length of a path and no missing
    permission of the owner stops it. Raises OSError where somebody else's rights do.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(place).st_mode):
            os.unlink(place)  # noqa: PTH108 (a path as text)
            return
        _empty_folder(place)
        os.rmdir(place)  # noqa: PTH106


def _empty_folder(place: Path | str) -> None:
    os.chmod(place, 0o700)  # noqa: PTH101
    top = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        waiting = _take_out(top, None, 0)
        number = len(waiting)
        while waiting:
            name = waiting.pop()
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            try:
                entries = _take_out(folder, top, number)
            finally:
                os.close(folder)
            number += len(entries)
            waiting += entries
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _take_out(folder: int, top: int | None, number: int) -> list[str]:
    """Empty a folder for one use: remove its files and move its folders to `top`, under numbered names; these names."""
    with os.scandir(folder) as entries:
        kinds = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    names: list[str] = []
    for name, is_folder in kinds:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            continue
        os.chmod(name, 0o700, dir_fd=folder)
        fresh = name
        if top is not None:
            fresh = f".ridgeline-removes-{number + len(names)}"
            os.rename(name, fresh, src_dir_fd=folder, dst_dir_fd=top)
        names.append(fresh)
    return names


DEEPEST = 100
"""Folders within folders: no build nests so many, and functions that call themselves for each fail at ten times as many."""


def walk_tree(
    top: Path | str, *, leave_out: frozenset[str] = frozenset()
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each folder of a tree by its path below `top`, with the names of its folders and of everything else; links are not followed.

    What is nested deeper than `DEEPEST` is removed on the way. Names in `leave_out` are passed over. What cannot be read is empty.
    """
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        place = f"{top}/{folder}" if folder else str(top)
        folders: list[str] = []
        files: list[str] = []
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if entry.name not in leave_out:
                    (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
        if folder.count("/") >= DEEPEST:
            for name in folders:
                remove_tree(f"{place}/{name}")
            folders = []
        yield folder, folders, files
        waiting += [f"{folder}/{name}" if folder else name for name in folders]


def list_files(top: Path) -> list[Path]:
    """Every plain file below a folder, in order of their paths; links are left out."""
    places = (top / folder / name for folder, _, names in walk_tree(top) for name in names)
    return sorted(place for place in places if stat.S_ISREG(os.lstat(place).st_mode))


MOST_READ = 1 << 28
"""Bytes: a longer file is no table and no report."""


def read_left(place: Path) -> bytes | None:
    """What is in a plain file that a command left; None for anything else, such as a link, which may lead anywhere."""
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_READ:
            return None
        return b"".join(iter(lambda: os.read(handle, 1 << 20), b""))
    finally:
        os.close(handle)
