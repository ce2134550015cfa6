"""A trusted helper process that answers requests over two pipes.

Each message is an unsigned 64-bit length, little-endian, and so many bytes.
"""

import contextlib
import fcntl
import math
import os
import secrets
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ridgeline.sandbox.isolation.confinement import confining_words
from ridgeline.sandbox.isolation.directory_pool import fresh_folder
from ridgeline.sandbox.isolation.environment import build_environment, card_variables
from ridgeline.sandbox.isolation.kill_tree import end_session
from ridgeline.sandbox.isolation.process import PRIVATE, head_and_tail

LENGTH = struct.Struct("<Q")
LONGEST = 1 << 36
"""Bytes of one message; a longer one is no array of any task."""
TAIL_BYTES = 2000
TAIL_CHARS = 300
"""Characters of what a child printed last that are told."""
PIPE_BYTES = 1 << 20
SLEEPY_THREADS = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", "OPENBLAS_THREAD_TIMEOUT": "4"}
"""Threads sleep at once when they are done, so that none of them disturbs a timed call."""
REUSED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "268435456"}
"""Memory is used again instead of being given back: taking it anew costs small arrays more than the arithmetic."""


class ChildLost(Exception):
    """The child process ended, hung or sent an invalid message. The text gives the reason and the end of its output."""


@dataclass(frozen=True, kw_only=True)
class ChildLimits:
    """Resource limits of a child: address space and largest file in MiB; None: unlimited, for drivers that reserve more than they use."""

    python: str = sys.executable
    memory_mb: int | None = 65_536
    file_mb: int = 1024
    card: bool = False
    """Whether it works on a card: then it is told which."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it is told besides."""


class Child:
    """One running helper. Its folder is private; it has no network, and dies with this process."""

    def __init__(self, host: Path, limits: ChildLimits) -> None:
        """Start the judge's helper `host` with its two ends of the pipes as arguments. Raises ChildLost."""
        self._folders = contextlib.ExitStack()
        private = self._folders.enter_context(fresh_folder(*PRIVATE))
        self._output_path = private / "output"
        theirs_in, self._to = os.pipe()
        self._back, theirs_out = os.pipe()
        os.set_blocking(self._to, False)
        _widen(self._to, self._back)
        try:
            self._process = self._popen(host, limits, private, (theirs_in, theirs_out))
        except OSError as error:
            self._release()
            raise ChildLost(f"{limits.python} cannot be started ({error.strerror})") from None
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def _popen(self, host: Path, limits: ChildLimits, private: Path, ends: tuple[int, int]) -> subprocess.Popen[bytes]:
        words = confining_words(memory_mb=limits.memory_mb, file_mb=limits.file_mb, cpu=None, network=False)
        variables = {
            **SLEEPY_THREADS,
            **REUSED_MEMORY,
            **(card_variables() if limits.card else {}),
            **limits.environment,
        }
        with self._output_path.open("wb") as out:
            return subprocess.Popen(
                (*words, limits.python, "-P", str(host), *map(str, ends)),
                cwd=private,
                env=build_environment(private, mark=secrets.token_hex(16), extra=variables),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=ends,
                start_new_session=True,
            )

    def ask(self, messages: Iterable[bytes | memoryview], *, timeout_s: float) -> "Answer":
        """Send messages to the judge's helper; the answer is read from what this returns. Raises ChildLost, and the child is ended."""
        until = time.monotonic() + timeout_s
        answer = Answer(self, until=until, timeout_s=timeout_s)
        with answer.watch():
            for body in messages:
                _send(self._to, body, until)
        return answer

    def receive(self, until: float) -> bytearray:
        """One message of the judge's helper. Raises TimeoutError, EOFError, or ValueError for a length that no message has."""
        (length,) = LENGTH.unpack(_read_exactly(self._back, LENGTH.size, until))
        if length > LONGEST:
            raise ValueError(f"a message of {length} bytes")
        return _read_exactly(self._back, length, until)

    def explain_loss(self, why: str) -> ChildLost:
        """End the judge's helper; the error tells `why`, or its exit code or signal, and the end of its output."""
        tail = self.read_tail()
        self.close()
        code = self._process.returncode
        reason = why or (f"its process was killed by signal {-code}" if code < 0 else f"its process ended with {code}")
        return ChildLost(f"{reason}{f': {tail}' if tail else ''}")

    def read_tail(self) -> str:
        """The end of what the judge's helper printed, in one line; empty where it printed nothing."""
        return " ".join(head_and_tail(self._output_path, TAIL_BYTES).split())[-TAIL_CHARS:]

    def close(self) -> None:
        """End the judge's helper and everything that it started. May be called twice."""
        end_session(self._process, politely=False)
        self._release()

    def _release(self) -> None:
        for pipe in {self._to, self._back} - {-1}:
            os.close(pipe)
        self._to = self._back = -1
        self._folders.close()


class Answer:
    """A child's reply to one request, read message by message."""

    def __init__(self, child: Child, *, until: float, timeout_s: float) -> None:
        self._child, self._until, self._timeout_s = child, until, timeout_s

    def message(self) -> bytearray:
        """The next message of the judge's helper. Raises ChildLost, and the child is ended."""
        with self.watch():
            return self._child.receive(self._until)

    def array(self, dtype: str, shape: Sequence[int]) -> NDArray[np.generic]:
        """The next message of the judge's helper as numbers of that type. Raises ChildLost where it is something else."""
        with self.watch():
            kind, body = np.dtype(dtype), self._child.receive(self._until)
            if kind.kind not in "biuf" or len(body) != math.prod(shape) * kind.itemsize:
                raise ValueError(f"{len(body)} bytes as {dtype}{list(shape)}")
            return np.ndarray(tuple(shape), kind, body)

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """For the judge: turn timeouts, closed pipes and invalid messages into ChildLost."""
        try:
            yield
        except TimeoutError:
            raise self._child.explain_loss(f"no answer in {self._timeout_s:g} s") from None
        except (BrokenPipeError, EOFError):
            raise self._child.explain_loss("") from None
        except ValueError as error:
            raise self._child.explain_loss(f"it sent {error}") from None


def _widen(*pipes: int) -> None:
    """Enlarge the pipe buffers of the judge's helper to PIPE_BYTES, so that a large message needs fewer switches."""
    with contextlib.suppress(OSError):  # a limit of this machine: then it takes longer
        for pipe in pipes:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _send(pipe: int, body: bytes | memoryview, until: float) -> None:
    """Send to the judge's helper. Raises TimeoutError, or BrokenPipeError where nobody reads."""
    for part in (LENGTH.pack(len(body)), body):
        rest = memoryview(part)
        while rest:
            _wait_ready(pipe, select.POLLOUT, until)
            try:
                rest = rest[os.write(pipe, rest[:PIPE_BYTES]) :]
            except BlockingIOError:
                continue


def _read_exactly(pipe: int, count: int, until: float) -> bytearray:
    body = bytearray()
    while len(body) < count:
        _wait_ready(pipe, select.POLLIN, until)
        part = os.read(pipe, min(count - len(body), PIPE_BYTES))
        if not part:
            raise EOFError
        body += part
    return body


def _wait_ready(pipe: int, event: int, until: float) -> None:
    poller = select.poll()
    poller.register(pipe, event)
    left = until - time.monotonic()
    if left <= 0 or not poller.poll(left * 1000):
        raise TimeoutError
