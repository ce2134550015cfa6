"""One timed command per device at a time, among all campaigns of this user on this machine."""

import contextlib
import errno
import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ridgeline.graph.errors import DeviceBusy, LeaseUnsafe
from ridgeline.sandbox.isolation import stopping
from ridgeline.sandbox.store.durable import full_disk_named

STEP_S = 0.05
HOLDER_BYTES = 64
"""The holder's process id and since when, padded: what is overwritten needs no truncation, which journals wait for."""


LONG_S = 1.0
"""A wait that nobody need be told of."""
TOLD_S = 30.0
"""Between two lines to whoever waits."""
_say: list[Callable[[str], None]] = []
"""Who is told of waits in this process."""
_told_s: dict[str, float] = {}
"""When that was last done, by device, on the monotonic clock: many short waits are one long one to a person."""


@contextlib.contextmanager
def telling(say: Callable[[str], None]) -> Iterator[None]:
    """Waits for a lease are told to `say` while the block lasts: at once, and every `TOLD_S`."""
    _say.append(say)
    try:
        yield
    finally:
        _say.remove(say)


def tell(text: str) -> None:
    """Send one line to whoever is told of waits for a device."""
    for say in _say:
        say(text)


@contextlib.contextmanager
def lease(device: str, *, wait_s: float, folder: Path | None = None) -> Iterator[None]:
    """Hold the device for the `with` block. Not re-entrant; released by the kernel when the holder dies.

    Raises DeviceBusy, naming the holder and since when it holds it, when it could not be had within `wait_s` seconds;
    StepEnded where this process's campaign shall stop meanwhile; LeaseUnsafe where another user could choose what is
    written to.
    """
    place = folder or _folder()
    path = place / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', device)}.lock"
    with full_disk_named(path):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder is None:
            _require_own(place)
        handle = _open(path)
    try:
        if not _wait_for_lock(handle, device, wait_s):
            what = f"{device} (campaign {folder.name})" if folder and device == "running" else device
            waited = f" and did not give it back within {wait_s:g} s" if wait_s else ""
            longer = ", or allow a longer wait with --max-wait MINUTES" if wait_s else ""
            raise DeviceBusy(
                f"{what}: {_describe_holder(handle)} holds the lease{waited}; wait for it or stop it{longer}"
            )
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        with full_disk_named(path):
            os.pwrite(handle, f"{f'{os.getpid()} since {since}':<{HOLDER_BYTES - 1}}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _require_own(place: Path) -> None:
    """Raises LeaseUnsafe for a folder that another user made, or may write to: links in it would lead our writes."""
    status = os.lstat(place)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise LeaseUnsafe(
            f"{place}: is not a folder of this user's own; remove it, or set XDG_RUNTIME_DIR to a folder that is"
        )


def _open(path: Path) -> int:
    """The lock file of a device's lease, made where it is missing; never through a link, and nothing but a plain file."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES):
            raise
        raise LeaseUnsafe(
            f"{path}: cannot be held as a lock ({error.strerror}); remove it, or make it writable"
        ) from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(handle)
        raise LeaseUnsafe(f"{path}: is no plain file with one name; remove it")
    return handle


def _wait_for_lock(handle: int, device: str, wait_s: float) -> bool:
    """Whether the lease of a device could be had in time; who waits for whom is told."""
    began_s = time.monotonic()
    while not _try_lock(handle):
        waited_s = time.monotonic() - began_s
        if waited_s >= wait_s:
            return False
        stopping.check()
        if waited_s > LONG_S and time.monotonic() - _told_s.get(device, -TOLD_S) >= TOLD_S:
            _told_s[device] = time.monotonic()
            tell(
                f"waiting for the {device}: {_describe_holder(handle)} has it;"
                f" {waited_s:.0f} s so far, at most {wait_s / 60:g} min"
            )
        time.sleep(STEP_S)
    return True


def _try_lock(handle: int) -> bool:
    """Whether the lease of a device is ours now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _describe_holder(handle: int) -> str:
    """The process that holds a device's lease: number, since when it has it, and the command line where that may be read."""
    record = os.pread(handle, HOLDER_BYTES, 0).decode(errors="replace").strip()
    number = record.partition(" ")[0]
    if not number.isdigit():
        return "process unknown"
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace").split("\0")
        folder = Path(f"/proc/{number}/cwd").readlink()
    except OSError:  # of another user, or gone
        return f"process {record}"
    command = " ".join(Path(word).name if place == 0 else word for place, word in enumerate(words) if word)
    return f"process {record} (`{command[:100]}` in {folder})"


def _folder() -> Path:
    """The user's own runtime folder; children are never told of it, so a candidate cannot hold the lease."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "ridgeline"
    return Path(tempfile.gettempdir()) / f"ridgeline-{os.getuid()}"
