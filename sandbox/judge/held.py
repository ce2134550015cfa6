"""A worker's process between calls: stopped, so that nothing of a candidate runs unless the judge's clock does."""

import contextlib
import os
import signal
import time
from pathlib import Path

from ridgeline.sandbox.judge.lost import Lost

STOPPED_S = 5.0
"""A process that was told to stop and has not by then is lost."""
GONE = b"ZX"
"""States of /proc of one that has ended."""
STATE, THREADS = 0, 17
"""Fields of /proc/PID/stat, counted behind the name."""


class Held:
    """Stops and continues one process with all its threads.

    A thread that waits for the next inputs, to work on them before it is asked, finds that it does not run while they
    are written; one that goes on after the answer does not run while it is copied.
    """

    def __init__(self, pid: int) -> None:
        """Raises Lost when there is no such process. Ask before it runs what is not trusted: ids are given anew."""
        try:
            self.process = os.pidfd_open(pid)
            self._stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        except OSError as error:
            raise Lost("crash", f"the worker ended at its start ({error.strerror})") from error
        self._tasks = Path(f"/proc/{pid}/task")
        self._space = _space(str(pid))
        self._first = self._inside() if self._space not in (None, _space("self")) else None
        self.works = True
        """False where this process may not stop that one."""

    def stop(self) -> None:
        """Tell it to stop; `settled` says when it has."""
        self._tell(signal.SIGSTOP)

    def go(self) -> None:
        """Let it run."""
        self._tell(signal.SIGCONT)

    def settled(self) -> None:
        """Wait until each of its threads stands still, or it has ended. Raises Lost when one does not."""
        until = time.monotonic() + STOPPED_S
        while self.works and not self._still():
            if time.monotonic() > until:
                raise Lost("timeout", f"the worker could not be stopped within {STOPPED_S:g} s")
            os.sched_yield()  # on a busy machine it may be waiting for this very processor

    def threads(self) -> int | None:
        """Its threads now; None when it has ended."""
        fields = self._fields()
        return int(fields[THREADS]) if fields and fields[STATE] not in GONE else None

    def others(self) -> frozenset[int] | None:
        """Processes that have come beside it since this was made; None where no namespace sets them apart.

        They are not held: one of them may run while inputs are written.
        """
        return None if self._first is None else self._inside() - self._first

    def close(self) -> None:
        """Forget it. It is not ended by that."""
        os.close(self.process)
        os.close(self._stat)

    def _inside(self) -> frozenset[int]:
        """Ids of all processes of its namespace. Takes a millisecond: every process of the machine is asked."""
        with os.scandir("/proc") as found:
            names = [entry.name for entry in found if entry.name.isdigit()]
        return frozenset(int(name) for name in names if _space(name) == self._space)

    def _tell(self, number: signal.Signals) -> None:
        if not self.works:
            return
        try:
            signal.pidfd_send_signal(self.process, number)
        except ProcessLookupError:
            return  # the channel says so too, with the reason
        except PermissionError:
            self.works = False

    def _still(self) -> bool:
        fields = self._fields()
        if not fields or fields[STATE] in GONE:
            return True
        if fields[STATE] != b"T":
            return False
        return fields[THREADS] == b"1" or all(state in b"TXZ" for state in self._states())

    def _states(self) -> list[bytes]:
        found: list[bytes] = []
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in self._tasks.iterdir():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    found.append((task / "stat").read_bytes().rpartition(b") ")[2][:1])
        return found

    def _fields(self) -> list[bytes]:
        """The first fields behind the name, which may hold anything; empty when the process is gone."""
        try:
            return os.pread(self._stat, 1024, 0).rpartition(b") ")[2].split(b" ", THREADS + 1)
        except ProcessLookupError:
            return []


def _space(process: str) -> int | None:
    """Number of the process's id namespace; None where that cannot be seen."""
    try:
        return os.stat(f"/proc/{process}/ns/pid").st_ino  # noqa: PTH116 (asked of every process of the machine)
    except OSError:
        return None
