"""One timed command per device at a time, among all campaigns of this user on this machine."""

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ridgeline.graph.errors import DeviceBusy
from ridgeline.sandbox.store.durable import full_disk_named

STEP_S = 0.05
HOLDER_BYTES = 32
"""The holder's process id, padded: a number that is overwritten needs no truncation, which journals wait for."""


@contextlib.contextmanager
def lease(device: str, *, wait_s: float, folder: Path | None = None) -> Iterator[None]:
    """Hold the device for the `with` block. Not re-entrant; released by the kernel when the holder dies.

    Raises DeviceBusy, naming the holder's process id, when it could not be had within `wait_s` seconds.
    """
    place = folder or _folder()
    path = place / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', device)}.lock"
    with full_disk_named(path):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _try_lock(handle, until=time.monotonic() + wait_s):
            holder = os.pread(handle, HOLDER_BYTES, 0).decode(errors="replace").strip() or "unknown"
            raise DeviceBusy(
                f"{device}: process {holder} holds the lease and did not give it back within {wait_s:g} s;"
                " wait for it, stop it, or allow a longer wait"
            )
        os.pwrite(handle, f"{os.getpid():<{HOLDER_BYTES - 1}}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int, *, until: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(STEP_S)
        else:
            return True


def _folder() -> Path:
    """The user's own runtime folder; children are never told of it, so a candidate cannot hold the lease."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "ridgeline"
    return Path(tempfile.gettempdir()) / f"ridgeline-{os.getuid()}"
