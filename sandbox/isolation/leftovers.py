"""What killed processes left behind: removed where it is surely ours, and old."""

import logging
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from ridgeline.sandbox.isolation.directory_pool import discard_tree

logger = logging.getLogger(__name__)

OLD_S = 60.0
"""Of a file in a campaign's folder that nobody works on: what is younger may be of a command that runs beside."""
ABANDONED_S = 24 * 3600.0
"""Of a temporary folder: on a machine that shares them with another, that one's processes are not seen."""
TWIN = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")
"""A file that was to take the place of another, see `write_whole`."""
GIT_PARTS = re.compile(r"tmp_(obj|pack|idx|rev|mtimes)_\w+|\.tmp-\d+-pack-\w+\..+|fast_import_crash_\d+")
"""What git writes before it gives it its name."""
TEMPORARY = re.compile(r"ridgeline-(?:[a-z]+-)?[a-z0-9_]{8}")
"""Folders that Python's `tempfile` named for us."""


def remove_campaign_leftovers(campaign: Path) -> tuple[Path, ...]:
    """Unfinished files in a campaign's folder and its mirror, a minute old; the paths that were removed.

    Only to be called while its lease is held.
    """
    leftovers = [path for path in _walk(campaign) if _is_older(path, OLD_S)]
    for path in leftovers:
        discard_tree(path)
    if leftovers:
        logger.info("%s: %d unfinished files of a killed process were removed", campaign.name, len(leftovers))
    return tuple(leftovers)


def _walk(campaign: Path) -> Iterator[Path]:
    """Leftovers of killed processes: twins in the campaign's own folders, git's parts in the mirror, an unfinished mirror."""
    for folder, inside, names in os.walk(campaign):
        place = Path(folder)
        if place == campaign:
            inside[:] = [name for name in inside if name != "trees"]
            yield from (place / name for name in inside if name == "mirror.git.new")
        mirror = place.is_relative_to(campaign / "mirror.git")
        yield from (place / name for name in names if (GIT_PARTS if mirror else TWIN).fullmatch(name))


def _is_older(path: Path, seconds: float) -> bool:
    """Whether nobody has written to a leftover for so long; False for what is gone."""
    try:
        return time.time() - os.lstat(path).st_mtime > seconds
    except OSError:
        return False


def remove_abandoned_folders() -> tuple[Path, ...]:
    """Temporary folders of processes of this user that have ended, a day old; the paths that were removed.

    A folder is kept while any Python process of this user lives that began before the folder was last written to: it may
    be its own.
    """
    began = _first_python_start()
    removed = [path for path in _list_temporary_folders() if _changed_s(path) < min(began, time.time() - ABANDONED_S)]
    for path in removed:
        discard_tree(path)
    if removed:
        logger.info("%d temporary folders of ended processes were removed", len(removed))
    return tuple(removed)


def _list_temporary_folders() -> Iterator[Path]:
    """Folders of this user in the temporary directory that bear a name of ours."""
    lease_folder = f"ridgeline-{os.getuid()}"  # where leases lie
    try:
        entries = [*os.scandir(tempfile.gettempdir())]
    except OSError:
        return
    for entry in entries:
        if entry.name == lease_folder or not TEMPORARY.fullmatch(entry.name):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
            yield Path(entry.path)


def _changed_s(path: Path) -> float:
    """When something in a leftover folder came or went, in seconds since 1970; now where it is gone."""
    try:
        status = os.lstat(path)
    except OSError:
        return time.time()
    return max(status.st_mtime, status.st_ctime)


def _first_python_start() -> float:
    """When the oldest Python process of this user that lives began, this one left out; seconds since 1970."""
    starts = [time.time()]
    for process in psutil.process_iter(["pid", "uids", "name", "create_time"]):
        about = process.info
        is_ours = about["uids"] is not None and about["uids"].real == os.getuid()
        if (
            is_ours
            and about["pid"] != os.getpid()
            and re.match(r"(python|ridgeline|pypy|uvicorn)", about["name"] or "")
        ):
            starts.append(about["create_time"])
    return min(starts)
