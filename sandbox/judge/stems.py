"""Processes that have imported a framework, of which workers are copies: seconds less for every one of them."""

import atexit
import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ridgeline.sandbox.harness.isolate.plan import Plan, packed
from ridgeline.sandbox.harness.isolate.stem import LONGEST
from ridgeline.sandbox.harness.isolate.watch import status_of

logger = logging.getLogger(__name__)
_HARNESS = Path(__file__).parents[1] / "harness"
FLAGS = ("-I", "-S", "-X", "faulthandler=0")
"""Of the interpreter, in workers and in what they are copies of."""
IMPORT_S = 300.0
"""Importing PyTorch from a cold disk takes a minute."""
COPY_S = 20.0


def program(module: str) -> str:
    """Python's words for running one of `harness/isolate`, found by its place: without `site` no package is known."""
    return f"import sys; sys.path.append({str(_HARNESS)!r}); from isolate import {module}; {module}.main()"


@dataclass(frozen=True, kw_only=True)
class Warm:
    """What a worker needs that takes long to import, and what it runs then."""

    modules: tuple[str, ...]
    paths: tuple[str, ...]
    """Folders of installed packages."""
    script: tuple[str, ...]
    """A Python program and its words."""

    @property
    def argv(self) -> tuple[str, ...]:
        """What starts the worker where no copy can be made."""
        return (sys.executable, *FLAGS, *self.script)


class Copy:
    """The outer process of a worker that a stem has copied: no child of this one, but waited for and killed alike."""

    def __init__(self, over: int, said: int) -> None:
        """`over`: a descriptor of the process, from here on this object's. `said`: the file of `watch.HEAD`."""
        self._over, self._said = over, said
        self._forget = weakref.finalize(self, os.close, over)
        self.returncode: int | None = None

    def ended_within(self, timeout_s: float | None) -> bool:
        """Wait so long at most, or for ever."""
        if self.returncode is not None:
            return True
        poller = select.poll()
        poller.register(self._over, select.POLLIN)
        return bool(poller.poll(None if timeout_s is None else max(timeout_s, 0) * 1000))

    def wait(self, timeout_s: float | None = None) -> int:
        """Its exit code, or the negative number of the signal that ended it. Raises subprocess.TimeoutExpired."""
        if not self.ended_within(timeout_s):
            raise subprocess.TimeoutExpired("a worker", timeout_s or 0.0)
        if self.returncode is None:
            status = status_of(self._said)
            self.returncode = -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
            self._forget()
        return self.returncode

    def kill(self) -> None:
        """At once; what it holds dies with it."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._over, signal.SIGKILL)


class Stem:
    """One such process. It ends with this one."""

    def __init__(self, warm: Warm, environment: Mapping[str, str]) -> None:
        """Start it and wait until it has imported what it shall. Raises OSError; TimeoutError where it does not."""
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        words = (str(theirs.fileno()), str(os.getpid()), ",".join(warm.modules), *warm.paths)
        with theirs:
            self._process = subprocess.Popen(
                (sys.executable, *FLAGS, "-c", program("stem"), *words),
                cwd="/",
                env={"LC_ALL": "C.UTF-8", **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # what fails here fails again, and is told, in workers started alone
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        self._wire.settimeout(IMPORT_S)
        try:
            said = self._wire.recv(64)
        except OSError:
            self.close()
            raise
        if said != b"ready":
            self.close()
            raise OSError(f"no copies can be made: {said.decode(errors='replace') or 'it ended'}")
        self._wire.settimeout(COPY_S)
        self._wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LONGEST)

    def copied(self, plan: Plan) -> Copy:
        """A copy that carries out the plan. Raises OSError."""
        with self._lock:
            try:
                socket.send_fds(self._wire, [packed(plan).encode()], [plan.report, plan.line, plan.said, *plan.keep])
                word, given, _, _ = socket.recv_fds(self._wire, 64, 1)
            except OSError:
                self._wire.close()  # a late answer must reach nobody who asks after this
                raise
        if not given:
            raise OSError("no descriptor is left here" if word else "it ended")
        return Copy(given[0], plan.said)

    def close(self) -> None:
        """Let it end."""
        self._wire.close()
        self._process.kill()
        self._process.wait()


_stems: dict[tuple[object, ...], Stem | None] = {}
_finding = threading.Lock()


def stem(warm: Warm, environment: Mapping[str, str]) -> Stem | None:
    """The one for these modules in this environment, started when it is first asked for; None where there cannot be."""
    key = (os.getpid(), warm.modules, warm.paths, *sorted(environment.items()))
    with _finding:
        if key not in _stems:
            began = time.monotonic()
            try:
                _stems[key] = Stem(warm, environment)
                logger.info("%s imported once for all workers, in %.1f s", warm.modules, time.monotonic() - began)
            except OSError as error:
                logger.info("workers import %s each for itself: %s", warm.modules, error)
                _stems[key] = None
        return _stems[key]


@atexit.register
def _end() -> None:
    for key, one in _stems.items():
        if one is not None and key[0] == os.getpid():
            one.close()


def forget(gone: Stem) -> None:
    """It answers no more: workers are started each for itself from here on."""
    with _finding:
        for key in [key for key, one in _stems.items() if one is gone]:
            _stems[key] = None
    gone.close()
