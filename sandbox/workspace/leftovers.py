"""What stood in a checkout when it was sealed; whatever a run adds to that is taken away before the next one."""

import contextlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ridgeline.sandbox.store.durable import write_whole
from ridgeline.sandbox.workspace.signatures import SETTLED_NS

Folder = frozenset[str]
"""Names in one folder."""
Signs = tuple[int, int]
"""Inode and change time in ns of a folder: an entry that comes or goes moves the second, which no process can set."""


class Standing:
    """The names below one folder, by the folder they are in; the top is the empty path."""

    def __init__(self, top: Path, folders: Mapping[str, Folder]) -> None:
        self._top = str(top)
        self._folders = dict(folders)
        self._quiet: dict[str, Signs] = {}
        """Folders that held nothing else, by the signs they had."""

    @classmethod
    def of(cls, top: Path) -> "Standing":
        """What stands there now."""
        folders: dict[str, Folder] = {}
        start = len(f"{top}/")
        for folder, inside, names in os.walk(top):
            folders[folder[start:]] = frozenset((*inside, *names))
        return cls(top, folders)

    @classmethod
    def read(cls, top: Path, kept: Path, *, content: str) -> "Standing | None":
        """What was kept there for that content; None when nothing was, or for another."""
        try:
            found = json.loads(kept.read_text(encoding="utf-8"))
            folders = {str(folder): frozenset(map(str, names)) for folder, names in found["folders"].items()}
            return cls(top, folders) if found["content"] == content else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def keep(self, kept: Path, *, content: str) -> None:
        """Write it down for a later process."""
        folders = {folder: sorted(names) for folder, names in self._folders.items()}
        write_whole(kept, json.dumps({"content": content, "folders": folders}).encode(), synced=False)

    def clear(self) -> tuple[str, ...]:
        """Remove what did not stand there; its paths, sorted. What was removed as a folder is named as one.

        Raises OSError when something cannot be removed.
        """
        gone: list[str] = []
        for folder, names in self._folders.items():
            place = f"{self._top}/{folder}" if folder else self._top
            signs = _signs(place)
            if signs is None:
                gone += [folder] if _is_instead(place) else []
            elif self._quiet.get(folder) != signs:
                strays = [name for name in os.listdir(place) if name not in names]  # noqa: PTH208 (names are all)
                for name in strays:
                    _remove(f"{place}/{name}")
                if not strays and time.time_ns() - signs[1] > SETTLED_NS:
                    self._quiet[folder] = signs
                gone += [f"{folder}/{name}" if folder else name for name in strays]
        return tuple(sorted(gone))


def _is_instead(place: str) -> bool:
    """Whether something that is no folder took a folder's place. It is removed; the seal misses the files."""
    if not os.path.lexists(place):
        return False
    os.unlink(place)  # noqa: PTH108 (a path as text)
    return True


def _signs(place: str) -> Signs | None:
    try:
        status = os.lstat(place)
    except OSError:
        return None
    return (status.st_ino, status.st_ctime_ns) if stat.S_ISDIR(status.st_mode) else None


def _remove(place: str) -> None:
    """Raises OSError when somebody else's rights forbid it."""
    if stat.S_ISDIR(os.lstat(place).st_mode):
        shutil.rmtree(place, onerror=_opened)
    else:
        os.unlink(place)  # noqa: PTH108 (a path as text)


def _opened(again: Callable[[str], object], place: str, _: object) -> None:
    """A folder that its owner may not write in keeps what is in it until he may."""
    for folder in (os.path.dirname(place), place):  # noqa: PTH120 (a path as text)
        with contextlib.suppress(OSError):
            if not stat.S_ISLNK(os.lstat(folder).st_mode):
                os.chmod(folder, 0o700)  # noqa: PTH101 (a path as text)
    shutil.rmtree(place) if stat.S_ISDIR(os.lstat(place).st_mode) else again(place)
